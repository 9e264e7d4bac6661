"""The chart and the plain file: rendered, and held against Kubernetes' schemas; no cluster runs them here."""

import subprocess

import pytest
import yaml

from harness.daemon import BINARY, REPOSITORY, environment

CHART = REPOSITORY / "deploy/chart"
SIDECAR = {
    "mode": "sidecar",
    "sidecar": {
        "container": {"name": "config", "image": "example.org/config:1.0", "ports": [{"containerPort": 9000}]},
        "source": {"scope": "demo/firebase", "kind": "http", "url": "http://127.0.0.1:9000/template.json"},
    },
}
VALUES = {
    "as it comes": {},
    "without a volume": {"persistence": {"enabled": False}, "networkPolicy": {"enabled": False}},
    "public": {
        "service": {"type": "LoadBalancer", "annotations": {"example.org/idle-timeout": "4000"}},
        "route": {"enabled": True, "parentRefs": [{"name": "gateway"}], "hostnames": ["config.example.org"]},
        "config": {"edge": {"hosts": ["config.example.org"], "maxConnections": 100000}},
    },
    "watched": {
        "control": {"tokenSecret": "stalecast-token"},
        "monitoring": {"serviceMonitor": True, "prometheusRule": True, "labels": {"release": "prometheus"}},
        "networkPolicy": {"controlFrom": [{"namespaceSelector": {"matchLabels": {"name": "monitoring"}}}]},
    },
    "a sidecar": SIDECAR,
    "a sidecar without a volume": {
        **SIDECAR, "persistence": {"enabled": False}, "config": {"log": {"format": "json"}}, "podAnnotations": {"a": "b"},
        "nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"key": "x", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "registry"}],
    },
}
CLUSTER = {
    "mode": "cluster",
    "control": {"tokenSecret": "stalecast-token"},
    "cluster": {"keySecret": "stalecast-key",
                "etcd": {"endpoints": ["http://etcd-0.etcd:2379", "http://etcd-1.etcd:2379"]}},
}
VALUES["a cluster"] = CLUSTER
VALUES["a cluster over TLS"] = {
    **CLUSTER, "config": {"cluster": {"readiness": "strict"}, "webhooks": {"httpsOnly": True}},
    "cluster": {"replicas": 5, "name": "production", "keySecret": "stalecast-key",
                "etcd": {"endpoints": ["https://etcd.example.org:2379"], "tlsSecret": "etcd-client",
                         "user": "stalecast", "passwordSecret": "etcd-password"}},
}
EDGES = {
    "mode": "cluster", "control": {"tokenSecret": "stalecast-token"}, "config": {"cluster": {"maxUnverified": "1h"}},
    "cluster": {"replicas": 2, "role": "edge",
                "etcd": {"endpoints": ["https://etcd.example.org:2379"], "user": "edge", "passwordSecret": "etcd-password"}},
}
VALUES["edges of a cluster"] = EDGES
FILES = {
    "extraVolumes": [{"name": "tls", "secret": {"secretName": "edge-tls"}},
                     {"name": "account", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}],
    "extraVolumeMounts": [{"name": "tls", "mountPath": "/etc/edge-tls", "readOnly": True},
                          {"name": "account", "mountPath": "/var/run/account", "readOnly": True}],
    "extraEnv": [{"name": "STALECAST_LOG_LEVEL", "value": "debug"}], "serviceAccountName": "stalecast",
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                                   "whenUnsatisfiable": "ScheduleAnyway"}],
}
VALUES["with files of its own"] = FILES
VALUES["a sidecar with a shared file"] = {
    **SIDECAR, "extraVolumes": [{"name": "shared", "emptyDir": {}}],
    "extraVolumeMounts": [{"name": "shared", "mountPath": "/shared", "readOnly": True}],
    "sidecar": {"source": {"scope": "demo/firebase", "kind": "file", "path": "/shared/template.json"},
                "container": {**SIDECAR["sidecar"]["container"], "volumeMounts": [{"name": "shared", "mountPath": "/out"}]}},
    "config": {"sources": {"allowedAddresses": ["10.0.0.0/8"]}},
}
# Of other projects, whose schemas are not at hand.
FOREIGN = ("monitoring.coreos.com/v1", "gateway.networking.k8s.io/v1")


@pytest.fixture(scope="module")
def chart():
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed: the chart was not rendered")
    return helm.Chart.load(CHART)


def rendered(chart, values):
    files = chart.render(values, name="demo", namespace="config")
    texts = [text for name, text in sorted(files.items()) if name.endswith(".yaml")]
    return [document for text in texts for document in yaml.safe_load_all(text) if document]


def plain():
    return list(yaml.safe_load_all((REPOSITORY / "deploy/kubernetes/sidecar.yaml").read_text()))


def check(documents, version):
    validator = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    checked = [document for document in documents if document["apiVersion"] not in FOREIGN]
    for document in checked:
        validator.validate(document, version, strict=True)
    assert len(checked) >= 4


def test_the_chart_is_linted(chart):
    import helm_python
    report = helm_python.lint(CHART, strict=True)
    assert not report["errors"] and all(message["severity"] < 2 for message in report["messages"]), report


@pytest.mark.parametrize("version", ("1.30", "1.33", "1.36"))
@pytest.mark.parametrize("name", VALUES)
def test_what_the_chart_makes_is_strictly_valid(chart, name, version):
    check(rendered(chart, VALUES[name]), version)


@pytest.mark.parametrize("version", ("1.30", "1.33", "1.36"))
def test_the_plain_file_is_strictly_valid(version):
    check(plain(), version)


def pods(documents):
    return [each["spec"]["template"]["spec"] for each in documents if each["kind"] in ("StatefulSet", "Deployment")]


@pytest.mark.parametrize("name", [*VALUES, "the plain file"])
def test_the_daemon_is_confined_watched_and_given_time(chart, name):
    documents = plain() if name == "the plain file" else rendered(chart, VALUES[name])
    [pod] = pods(documents)
    containers = pod.get("initContainers", []) + pod["containers"]
    [daemon] = [each for each in containers if each["name"] == "stalecast"]
    security = daemon["securityContext"]
    assert security["runAsNonRoot"] and security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]} and not pod["automountServiceAccountToken"]
    assert daemon["resources"]["limits"]["memory"]
    assert not [each for each in containers if each["image"].endswith(":latest") or ":" not in each["image"]]
    assert daemon["readinessProbe"]["httpGet"]["path"] == "/readyz"
    # A full disk ends neither a start nor the streams.
    assert daemon["livenessProbe"]["httpGet"]["path"] == "/healthz" == daemon["startupProbe"]["httpGet"]["path"]
    [edge] = [each for each in documents if each["kind"] == "Service" and each["metadata"]["name"].endswith("-edge")]
    assert edge["spec"]["publishNotReadyAddresses"] == ("cluster" not in name)
    # The daemon itself takes at most 15 s.
    assert pod["terminationGracePeriodSeconds"] >= daemon["lifecycle"]["preStop"]["sleep"]["seconds"] + 15
    sidecar = "sidecar" in name or name == "the plain file"
    assert (daemon.get("restartPolicy") == "Always") == sidecar
    assert len([each for each in documents if each["kind"] == "Service"]) == 2
    mounted = {mount["name"] for each in containers for mount in each.get("volumeMounts", [])}
    claims = [each for document in documents if document["kind"] == "StatefulSet"
              for each in document["spec"].get("volumeClaimTemplates", [])]
    assert mounted <= {volume["name"] for volume in pod["volumes"]} | {claim["metadata"]["name"] for claim in claims}


@pytest.mark.parametrize("name", [*VALUES, "the plain file"])
def test_the_daemon_takes_the_configuration_and_the_flags(chart, name, tmp_path):
    documents = plain() if name == "the plain file" else rendered(chart, VALUES[name])
    [text] = [each["data"]["stalecast.yaml"] for each in documents if each["kind"] == "ConfigMap"]
    file = tmp_path / "stalecast.yaml"
    file.write_text(text)
    done = subprocess.run([BINARY, "check-config", "--config", file], capture_output=True, text=True, check=False,
                          env=environment())
    assert done.returncode == 0, done.stderr
    [pod] = pods(documents)
    [daemon] = [each for each in pod.get("initContainers", []) + pod["containers"] if each["name"] == "stalecast"]
    help_text = subprocess.run([BINARY, "help", "serve"], capture_output=True, text=True, check=True).stdout
    for flag in daemon["args"][1:]:
        assert flag.split("=")[0] in help_text, flag


@pytest.mark.parametrize("name", VALUES)
def test_only_a_cluster_has_several_replicas(chart, name):
    documents = rendered(chart, VALUES[name])
    [text] = [each["data"]["stalecast.yaml"] for each in documents if each["kind"] == "ConfigMap"]
    [workload] = [each for each in documents if each["kind"] in ("StatefulSet", "Deployment")]
    budgets = [each for each in documents if each["kind"] == "PodDisruptionBudget"]
    etcd = (yaml.safe_load(text) or {}).get("store", {}).get("etcd")
    values = VALUES[name].get("cluster")
    assert workload["spec"]["replicas"] == (values.get("replicas", 3) if values else 1)
    assert bool(etcd) == bool(budgets) == bool(values)
    if values:
        assert etcd["endpoints"] == values["etcd"]["endpoints"]
        [daemon] = workload["spec"]["template"]["spec"]["containers"]
        mounts = [mount["mountPath"] for mount in daemon["volumeMounts"]]
        files = [etcd.get(key) for key in ("caFile", "certificate", "key", "passwordFile")]
        is_edge = values.get("role") == "edge"
        config = yaml.safe_load(text)
        assert config["cluster"].get("role") == ("edge" if is_edge else None)
        assert ("webhooks" in config) != is_edge, "an edge calls no webhook, and has no key of theirs"
        for file in [config.get("webhooks", {}).get("keyFile"), *files]:
            assert file is None or any(file.startswith(mount + "/") for mount in mounts), file


def test_addresses_of_ones_own_do_not_shut_out_the_pod(chart):
    documents = rendered(chart, VALUES["a sidecar with a shared file"])
    [text] = [each["data"]["stalecast.yaml"] for each in documents if each["kind"] == "ConfigMap"]
    assert yaml.safe_load(text)["sources"]["allowedAddresses"] == ["127.0.0.0/8", "10.0.0.0/8"]


@pytest.mark.parametrize("values,kind", ((CLUSTER, dict), ({}, type(None)), ({"affinity": {"nodeAffinity": {}}}, dict)))
def test_nodes_of_a_cluster_prefer_machines_of_their_own(chart, values, kind):
    [pod] = pods(rendered(chart, values))
    assert isinstance(pod.get("affinity"), kind)
    assert ("podAntiAffinity" in pod.get("affinity", {})) == (values is CLUSTER)


def test_a_grace_period_the_daemon_cannot_keep_is_refused(chart):
    import helm_python
    with pytest.raises(helm_python.HelmRenderError, match="terminationGracePeriodSeconds"):
        rendered(chart, {"preStopSeconds": 30, "terminationGracePeriodSeconds": 40})


def test_an_edge_that_would_share_its_name_with_a_core_node_is_refused(chart):
    import helm_python
    assert chart.render(CLUSTER, name="stalecast", namespace="config")
    with pytest.raises(helm_python.HelmRenderError, match="a name that no other of the cluster has"):
        chart.render(EDGES, name="stalecast", namespace="config")


@pytest.mark.parametrize("values,publishes", ((CLUSTER, True), (EDGES, False), ({}, True)), ids=("cluster", "edges", "server"))
def test_the_notes_say_publish_where_that_is_answered(chart, values, publishes):
    [notes] = [text for name, text in chart.render(values, name="demo", namespace="config").items() if name.endswith("NOTES.txt")]
    assert ("stalecast publish" in notes) == publishes == ("421" not in notes)
    assert "exec -it demo-0 -- stalecast watch" in notes


@pytest.mark.parametrize("values", (
    {"replicas": 2}, {"mode": "cluster"}, {**CLUSTER, "control": {}}, {**CLUSTER, "cluster": {"replicas": 0}},
    {**CLUSTER, "cluster": {"keySecret": "k", "etcd": {"endpoints": []}}}, {**CLUSTER, "cluster": {"role": "x"}},
    {**EDGES, "config": {"cluster": {"role": "core"}}}, {**EDGES, "cluster": {**EDGES["cluster"], "role": "core"}},
    {**CLUSTER, "config": {"store": {"etcd": {"user": "u"}}}}, {**CLUSTER, "config": {"cluster": {"node": "a"}}},
    {"mode": "sidecar"}, {"image": {"tag": "latest"}},
    {"config": {"data": "/elsewhere"}}, {"config": {"edge": {"listen": "0.0.0.0:1"}}},
    {"monitoring": {"serviceMonitor": True}},
    {"monitoring": {"serviceMonitor": True}, "control": {"tokenSecret": "t"}},
    {**CLUSTER, "cluster": {**CLUSTER["cluster"], "etcd": {"endpoints": ["http://e:1"], "user": "u"}}}, {"route": {"enabled": True}}, {"persistence": {"size": "large"}},
    {"terminationGracePeriodSeconds": 10}, {"resources": {"limits": {"memory": None}}},
    {**SIDECAR, "config": {"sources": {"scopes": []}}}), ids=str)
def test_values_that_cannot_work_are_refused(chart, values):
    import helm_python
    with pytest.raises(helm_python.HelmValuesError):
        chart.validate_schema(values)


def test_alerts_of_the_chart_are_those_of_the_files(chart):
    [rule] = [each for each in rendered(chart, VALUES["watched"]) if each["kind"] == "PrometheusRule"]
    groups = [yaml.safe_load((REPOSITORY / "deploy/monitoring" / name).read_text())["groups"][0]["rules"]
              for name in ("rules.yaml", "alerts.yaml")]
    assert [group["rules"] for group in rule["spec"]["groups"]] == groups
