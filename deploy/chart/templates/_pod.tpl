{{/* What both modes share: names, labels, the daemon's container, its volumes. */}}
{{- define "stalecast.name" -}}{{ printf "%s" .Release.Name | trunc 52 | trimSuffix "-" }}{{- end -}}

{{/* The tag of images is the chart's version: both have no "~", which the version of a build between two releases has. */}}
{{- define "stalecast.tag" -}}{{ .Values.image.tag | default .Chart.AppVersion }}{{- end -}}

{{- define "stalecast.isEdge" -}}{{ and (eq .Values.mode "cluster") (eq .Values.cluster.role "edge") }}{{- end -}}

{{- define "stalecast.selector" -}}
app.kubernetes.io/name: stalecast
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "stalecast.labels" -}}
{{ include "stalecast.selector" . }}
app.kubernetes.io/version: {{ include "stalecast.tag" . | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "stalecast.config" -}}
{{- if eq .Values.mode "sidecar" -}}
{{- $config := deepCopy .Values.config -}}
{{- $own := get $config "sources" | default dict -}}
{{- $allowed := concat (list "127.0.0.0/8") (get $own "allowedAddresses" | default list) | uniq -}}
{{- $sources := mergeOverwrite (deepCopy $own) (dict "scopes" (list .Values.sidecar.source) "allowedAddresses" $allowed) -}}
{{- set $config "sources" $sources | toYaml -}}
{{- else if eq .Values.mode "cluster" -}}
{{- $etcd := dict "endpoints" .Values.cluster.etcd.endpoints -}}
{{- if .Values.cluster.etcd.tlsSecret -}}
{{- $tls := "/etc/stalecast-etcd/tls" -}}
{{- $_ := merge $etcd (dict "caFile" (print $tls "/ca.crt") "certificate" (print $tls "/tls.crt") "key" (print $tls "/tls.key")) -}}
{{- end -}}
{{- if .Values.cluster.etcd.user -}}
{{- $_ := merge $etcd (dict "user" .Values.cluster.etcd.user "passwordFile" "/etc/stalecast-etcd/password/password") -}}
{{- end -}}
{{- $own := dict "store" (dict "etcd" $etcd) "cluster" (dict "name" .Values.cluster.name) -}}
{{- if eq .Values.cluster.role "edge" -}}
{{- $_ := set $own.cluster "role" "edge" -}}
{{- else -}}
{{- $_ := set $own "webhooks" (dict "keyFile" "/etc/stalecast-key/webhooks.key") -}}
{{- end -}}
{{- mergeOverwrite $own .Values.config | toYaml -}}
{{- else -}}
{{- toYaml .Values.config -}}
{{- end -}}
{{- end -}}

{{/* Secrets of cluster mode: name of the volume, the Secret, where it is mounted. */}}
{{- define "stalecast.clusterSecrets" -}}
{{- if eq .Values.mode "cluster" -}}
{{- if ne .Values.cluster.role "edge" }}
- {name: key, secret: {{ .Values.cluster.keySecret }}, path: /etc/stalecast-key}
{{- end }}
{{- with .Values.cluster.etcd.tlsSecret }}
- {name: etcd-tls, secret: {{ . }}, path: /etc/stalecast-etcd/tls}
{{- end }}
{{- with .Values.cluster.etcd.passwordSecret }}
- {name: etcd-password, secret: {{ . }}, path: /etc/stalecast-etcd/password}
{{- end }}
{{- end -}}
{{- end -}}

{{- define "stalecast.podMetadata" -}}
labels:
  {{- include "stalecast.labels" . | nindent 2 }}
annotations:
  checksum/config: {{ include "stalecast.config" . | sha256sum }}
  {{- with .Values.podAnnotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}

{{- define "stalecast.podSettings" -}}
{{- if lt (int .Values.terminationGracePeriodSeconds) (add .Values.preStopSeconds 15 | int) }}
{{- fail "terminationGracePeriodSeconds must leave preStopSeconds and the daemon's own 15 seconds" }}
{{- end -}}
{{- if and (eq (include "stalecast.isEdge" .) "true") (eq .Release.Name "stalecast") }}
{{- fail "a node is named after its pod, and the core's release is usually stalecast: give this release a name that no other of the cluster has" }}
{{- end -}}
{{- with .Values.serviceAccountName }}
serviceAccountName: {{ . }}
{{- end }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
securityContext:
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- else }}
{{- if eq .Values.mode "cluster" }}
# Several nodes on one machine would go with it.
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels: {{- include "stalecast.selector" . | nindent 14 }}
{{- end }}
{{- end }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "stalecast.container" -}}
name: stalecast
image: "{{ .Values.image.repository }}:{{ include "stalecast.tag" . }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
# Inside the pod's network nothing else can be meant: the NetworkPolicy guards Control.
args:
  - serve
  - --config=/etc/stalecast/stalecast.yaml
  - --data=/data
  - --edge=0.0.0.0:8080
  - --control=0.0.0.0:8081
  - --proxied
{{- if or .Values.control.tokenSecret .Values.extraEnv }}
env:
{{- if .Values.control.tokenSecret }}
  - {name: STALECAST_CONTROL_TOKEN_FILE, value: /etc/stalecast-token/token}
{{- end }}
{{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
ports:
  - {name: edge, containerPort: 8080}
  - {name: control, containerPort: 8081}
# Lives, though it cannot be ready: with a full disk it still answers fetches.
startupProbe:
  httpGet: {path: /healthz, port: control}
  periodSeconds: 1
  failureThreshold: 60
readinessProbe:
  httpGet: {path: /readyz, port: control}
  periodSeconds: 5
# Never readiness: a full disk must not end the streams.
livenessProbe:
  httpGet: {path: /healthz, port: control}
  periodSeconds: 10
  failureThreshold: 6
lifecycle:
  preStop:
    sleep: {seconds: {{ .Values.preStopSeconds }}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
resources: {{- toYaml .Values.resources | nindent 2 }}
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: tmp, mountPath: /tmp}
  - {name: config, mountPath: /etc/stalecast, readOnly: true}
{{- if .Values.control.tokenSecret }}
  - {name: token, mountPath: /etc/stalecast-token, readOnly: true}
{{- end }}
{{- range include "stalecast.clusterSecrets" . | fromYamlArray }}
  - {name: {{ .name }}, mountPath: {{ .path }}, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "stalecast.volumes" -}}
- name: tmp
  emptyDir: {medium: Memory, sizeLimit: 64Mi}
- name: config
  configMap: {name: {{ include "stalecast.name" . }}}
{{- if .Values.control.tokenSecret }}
- name: token
  secret:
    secretName: {{ .Values.control.tokenSecret }}
    defaultMode: 0440
    items: [{key: {{ .Values.control.tokenKey }}, path: token}]
{{- end }}
{{- range include "stalecast.clusterSecrets" . | fromYamlArray }}
- name: {{ .name }}
  secret: {secretName: {{ .secret }}, defaultMode: 0440}
{{- end }}
{{- with .Values.extraVolumes }}
{{- toYaml . | nindent 0 }}
{{- end }}
{{- end -}}

{{- define "stalecast.claimSpec" -}}
accessModes: [ReadWriteOnce]
{{- with .Values.persistence.storageClass }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests: {storage: {{ .Values.persistence.size }}}
{{- end -}}
