#!/usr/bin/env bash
# Three etcd members and three daemons behind haproxy on this machine, to try what a cluster does: one command.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'TEXT'
deploy/cluster.sh [--port PORT] [--etcd-port PORT] [--data DIR] [--edges COUNT]

Installs the Debian packages that are missing, builds the release binary (minutes the first time), and runs in the
foreground: etcd members m1, m2, m3 on 127.0.0.11 to .13, daemons a, b, c over them, and haproxy before the daemons. It says
what to try. What ends is started again after five seconds, so kill any of them. Ctrl-C ends all and removes the data.

  --port PORT        haproxy before the three Edges; before the three Controls one above it; a's Edge and Control 10 and
                     11 above it, b's 20 and 21, c's 30 and 31 (default: 8080)
  --etcd-port PORT   of the members for clients, one above it for each other (default: 12379)
  --data DIR         a directory for all data and logs, which stays (default: a temporary one)
  --edges COUNT      0 to 4 nodes besides, e1 to e4, that only follow the log, as those of another region do; e1's Edge and
                     Control are 40 and 41 above the port, e2's 50 and 51 (default: 0)
  --help             this text

STALECAST_BIN names a binary that is used instead of building one.
Exit codes: 0 ended by Ctrl-C or SIGTERM; 1 something could not be started, the sentence says what; 2 wrong use.

Examples:
  deploy/cluster.sh
  deploy/cluster.sh --port 9080 --data /tmp/try-cluster
  deploy/cluster.sh --edges 2
TEXT
}

# port_of WORD: a port with room for those above it; ends the script with a sentence for anything else.
port_of() {
    [[ $1 =~ ^[0-9]{1,5}$ ]] && ((10#$1 >= 1024 && 10#$1 <= 65000)) && echo "$((10#$1))" && return
    echo "\"$1\" is no port from 1024 to 65000" >&2
    exit 2
}

port=8080 etcd_port=12379 data='' edges=0
while (($#)); do
    case $1 in
    --help | -h) usage && exit ;;
    --port | --etcd-port)
        # In a command list a failure would not end the script.
        number=$(port_of "${2:-}")
        if [[ $1 == --port ]]; then port=$number; else etcd_port=$number; fi
        shift 2
        ;;
    --edges)
        [[ ${2:-} =~ ^[0-4]$ ]] || { echo "\"${2:-}\" is no number of edges from 0 to 4" >&2 && exit 2; }
        edges=$2
        shift 2
        ;;
    --data) data=${2:?--data needs a directory} && shift 2 ;;
    *) usage >&2 && exit 2 ;;
    esac
done

source deploy/packages.sh
install_command etcd etcd-server etcd
install_command haproxy haproxy haproxy
install_command curl curl
export PATH="$PATH:/usr/sbin:/sbin"
if [[ -z ${STALECAST_BIN:-} ]]; then
    require_swift
    install_missing "${build_packages[@]}"
    build_swift -c release --product stalecast
    STALECAST_BIN=$(swift build -c release --show-bin-path)/stalecast
fi

is_temporary=0
if [[ -z $data ]]; then
    data=$(mktemp -d "${TMPDIR:-/tmp}/stalecast-cluster.XXXXXX") && is_temporary=1
else
    mkdir -p "$data" && data=$(realpath "$data")
fi

declare -A pids=() ended=()
core=(a b c) members=(m1 m2 m3)
nodes=("${core[@]}")
for ((number = 1; number <= edges; number++)); do nodes+=("e$number"); done

# Ends all that was started here, nodes before members, and what was temporary goes.
clean_up() {
    trap - EXIT INT TERM
    local name deadline=$((SECONDS + 20))
    for name in haproxy "${nodes[@]}"; do
        [[ -z ${pids[$name]:-} ]] || kill "${pids[$name]}" 2>/dev/null || true
    done
    for name in haproxy "${nodes[@]}"; do
        while [[ -n ${pids[$name]:-} ]] && kill -0 "${pids[$name]}" 2>/dev/null && ((SECONDS < deadline)); do
            # One that was stopped by a signal hears nothing else.
            kill -CONT "${pids[$name]}" 2>/dev/null || true
            sleep 0.1
        done
    done
    for name in "${!pids[@]}"; do kill -9 "${pids[$name]}" 2>/dev/null || true; done
    wait 2>/dev/null || true
    ((!is_temporary)) || rm -rf "$data"
}
stop() {
    echo "Ending …" >&2
    clean_up
    exit 0
}
trap clean_up EXIT
trap stop INT TERM

umask 077
endpoints='' peers=''
for number in 1 2 3; do
    endpoints+=", \"http://127.0.0.1$number:$etcd_port\""
    peers+=",m$number=http://127.0.0.1$number:$((etcd_port + 1))"
done

# Nodes share their control token and the key that secrets are sealed with.
for file in control.token webhooks.key; do
    [[ -s $data/$file ]] || od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$data/$file"
done

# edge_of NODE: its Edge's port; Control is one above.
edge_of() {
    case $1 in
    a) echo $((port + 10)) ;;
    b) echo $((port + 20)) ;;
    c) echo $((port + 30)) ;;
    e?) echo $((port + 30 + 10 * ${1#e})) ;;
    esac
}

# Three that share a disk and two processors are given more time for each other than etcd's second.
start_member() {
    local address=127.0.0.1${1#m}
    env -u ETCD_NAME etcd --name "$1" --data-dir "$data/$1" --initial-cluster "${peers#,}" \
        --initial-cluster-token "$data" --election-timeout 1500 --heartbeat-interval 150 \
        --listen-client-urls "http://$address:$etcd_port" --advertise-client-urls "http://$address:$etcd_port" \
        --listen-peer-urls "http://$address:$((etcd_port + 1))" \
        --initial-advertise-peer-urls "http://$address:$((etcd_port + 1))" \
        --auto-compaction-mode periodic --auto-compaction-retention 1h --logger zap >>"$data/$1.log" 2>&1 &
}

start_node() {
    local edge
    edge=$(edge_of "$1")
    if [[ $1 == e? ]]; then configure_edge "$1"; else configure_core "$1" "$edge"; fi
    SWIFT_BACKTRACE=${SWIFT_BACKTRACE-enable=no} "$STALECAST_BIN" serve --config "$data/$1.yaml" --data "$data/$1" \
        --edge "127.0.0.1:$edge" --control "127.0.0.1:$((edge + 1))" >>"$data/$1.log" 2>&1 &
}

# configure_edge NAME: it publishes nothing and calls no webhook, so it needs no key of theirs.
configure_edge() {
    cat >"$data/$1.yaml" <<YAML
store:
  etcd:
    endpoints: [${endpoints#, }]
cluster:
  node: $1
  role: edge
control:
  tokenFile: "$data/control.token"
YAML
}

# configure_core NAME EDGE-PORT
configure_core() {
    cat >"$data/$1.yaml" <<YAML
store:
  etcd:
    endpoints: [${endpoints#, }]
cluster:
  node: $1
  advertise: http://127.0.0.1:$(($2 + 1))
control:
  tokenFile: "$data/control.token"
webhooks:
  keyFile: "$data/webhooks.key"
  allowedAddresses: [127.0.0.0/8]
YAML
}

# A node that cannot publish is asked for nothing; streams go on.
start_haproxy() {
    {
        cat <<'CONFIG'
defaults
    mode http
    option http-no-delay
    option redispatch
    option httpchk GET /readyz
    retry-on conn-failure
    timeout connect 1s
    timeout client 660s
    timeout server 660s
    default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
CONFIG
        local above node
        for above in 0 1; do
            printf 'listen %s\n    bind 127.0.0.1:%d\n    balance roundrobin\n' \
                "$( ((above)) && echo control || echo edge)" $((port + above))
            for node in "${core[@]}"; do
                printf '    server %s 127.0.0.1:%d check port %d\n' "$node" \
                    $(($(edge_of "$node") + above)) $(($(edge_of "$node") + 1))
            done
        done
    } >"$data/haproxy.cfg"
    haproxy -db -f "$data/haproxy.cfg" >>"$data/haproxy.log" 2>&1 &
}

# start NAME: runs it beside this script; its process id is in NAME.pid.
start() {
    case $1 in
    m?) start_member "$1" ;;
    haproxy) start_haproxy ;;
    *) start_node "$1" ;;
    esac
    pids[$1]=$!
    echo "$!" >"$data/$1.pid"
    unset "ended[$1]"
}

# await WHAT NAME… -- COMMAND…: until the command succeeds; ends the script when one of these processes has ended.
await() {
    local what=$1 names=() name deadline=$((SECONDS + 60)) && shift
    while [[ $1 != -- ]]; do names+=("$1") && shift; done
    shift
    until "$@"; do
        for name in "${names[@]}"; do
            if kill -0 "${pids[$name]}" 2>/dev/null && ((SECONDS < deadline)); then continue; fi
            echo "$what: $name does not run as it should. The end of $data/$name.log:" >&2
            tail -n 5 "$data/$name.log" >&2
            exit 1
        done
        sleep 0.1
    done
}

answers() { curl -fs -o /dev/null --max-time 1 "$1"; }
all_are_ready() {
    local node
    for node in "${nodes[@]}"; do answers "http://127.0.0.1:$(($(edge_of "$node") + 1))/readyz" || return 1; done
}
etcd_is_healthy() { answers "http://127.0.0.11:$etcd_port/health" && answers "http://127.0.0.13:$etcd_port/health"; }

say_of_edges() {
    ((edges)) || return 0
    cat <<TEXT

    curl -N 'http://127.0.0.1:$(edge_of e1)/v1/events?topic=PUSH_RC'   # hear at e1, which only follows
    stalecast publish samples/templates/demo-winter.json --yes --control http://127.0.0.1:$(($(edge_of e1) + 1)) \\
        --token-file '$data/control.token'   # e1 says who takes it
TEXT
}

say_what_next() {
    local control="--control http://127.0.0.1:$((port + 1)) --token-file '$data/control.token'"
    cat <<TEXT

Three daemons over three etcd members; haproxy before them on http://127.0.0.1:$port (Edge) and :$((port + 1)) (Control).
In other terminals, in $PWD:

    export PATH="$(dirname "$STALECAST_BIN"):\$PATH"
    curl -N 'http://127.0.0.1:$(edge_of c)/v1/events?topic=PUSH_RC'   # hear at node c; it stays open
    stalecast publish samples/templates/demo-winter.json --yes \\
        --control http://127.0.0.1:$(($(edge_of a) + 1)) --token-file '$data/control.token'   # publish at node a
    stalecast cluster status $control
    kill -9 \$(cat '$data/b.pid')            # node b; its clients go to another through haproxy
    kill -9 \$(cat '$data/m1.pid')           # a member of etcd; two of three suffice
    kill -STOP \$(cat '$data/m2.pid')        # one that stands still; -CONT lets it go on
    stalecast rollback 1 --yes $control
    tail -f '$data'/*.log$(say_of_edges)

What ends is started again after five seconds. Ctrl-C ends all$( ((!is_temporary)) || echo " and removes $data").

TEXT
}

# Two servers on one port would share it, or one of the two would end.
for used in $((port)) $((port + 1)) $(for node in "${nodes[@]}"; do edge_of "$node"; done); do
    if (exec 3<>"/dev/tcp/127.0.0.1/$used") 2>/dev/null; then
        echo "Another program listens on 127.0.0.1:$used already; choose others with --port." >&2
        exit 1
    fi
done
if (exec 3<>"/dev/tcp/127.0.0.11/$etcd_port") 2>/dev/null; then
    echo "Another program listens on 127.0.0.11:$etcd_port already; choose another with --etcd-port." >&2
    exit 1
fi

for name in "${members[@]}"; do start "$name"; done
await 'etcd did not start' "${members[@]}" -- etcd_is_healthy
for name in "${nodes[@]}"; do start "$name"; done
await 'the daemons did not start' "${nodes[@]}" -- all_are_ready
start haproxy
await 'haproxy did not start' haproxy -- answers "http://127.0.0.1:$port/healthz"
control=(--control "http://127.0.0.1:$((port + 1))" --token-file "$data/control.token")
# On a busy machine the log may be too slow for the first publish, which then ends with code 8: look before it is repeated.
for ((tries = 5; tries--; )); do
    if grep -q '"versionNumber"' <<<"$("$STALECAST_BIN" versions --limit 1 --json "${control[@]}")"; then break; fi
    status=0
    "$STALECAST_BIN" publish samples/templates/demo.json --description 'the demo template' --yes "${control[@]}" || status=$?
    ((status == 0 || status == 8 && tries)) || exit "$status"
done
say_what_next

while :; do
    for name in "${!pids[@]}"; do
        kill -0 "${pids[$name]}" 2>/dev/null && continue
        if [[ -z ${ended[$name]:-} ]]; then
            echo "$name has ended; it is started again in five seconds" >&2
            ended[$name]=$SECONDS
        elif ((SECONDS - ended[$name] >= 5)); then
            start "$name"
            echo "$name is started again" >&2
        fi
    done
    # A signal is heard at once while this waits.
    sleep 0.5 &
    wait $! || true
done
