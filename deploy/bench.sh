#!/usr/bin/env bash
# Counts what one delivery costs the stream engine, in instructions and allocations: comparable between commits.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."

usage() {
    cat <<'TEXT'
deploy/bench.sh [--json FILE] [--compare FILE] [--fanout [SUBSCRIBERS [ROUNDS]]] [--tls [STREAMS [ROUNDS]]] \
                [--flags [STREAMS [ROUNDS]]] [--fetch [KIND [SECONDS]]] [--storm [CLIENTS [ROUNDS]]] \
                [--publish [SECONDS]] [--cluster [SECONDS]] [--webhooks [ROUNDS]] [--release [SECONDS]] [--counts] \
                [--instructions]

Builds in release and runs the hot loop (hub, one shard, subscribers on loopback) under callgrind with few and many
subscribers and few and many announcements; the differences are what one delivery and one announcement cost the
shard's thread in user space. Takes half a minute after the build. With one compiler and one C library the counts
repeat within about 10 % (timers fire by the clock) on every machine; allocations repeat exactly. Times do neither.

  --json FILE      also write the figures to FILE
  --compare FILE   also print the ratio to the figures in FILE, from an earlier --json
  --fanout         instead: what one publish to SUBSCRIBERS (10000) costs a daemon for each, in ROUNDS (9) rounds, and
                   what the same bytes cost a C program that only calls send(2); three times, one after the other
  --tls            instead: what one publish to STREAMS (5000) over TLS 1.3 costs a daemon for each, in CPU and in memory,
                   what it costs without TLS, and what the kernel alone asks for; the same, three times
  --flags          instead: what one publish to STREAMS (10000) of OpenFeature providers, each a client of its own, costs a
                   daemon for each, in CPU and in memory, beside streams without an id; three times
  --fetch          instead: fetches a second of a daemon, and what each costs in CPU and allocations, beside nginx with a
                   file of the same bytes; wrk with 64 connections for SECONDS (2) each, three sizes, nine turns, each
                   server with one thread on one processor and wrk on another; medians, and of each pair the ratios, with
                   their quarters. KIND is engine (the default), front (without the engine), tls (1.3, nginx too), apple
                   (bodies as iOS sends them) or gzip (answers in gzip, nginx from a file of them)
  --storm          instead: 10,000 (CLIENTS) fetch 4 kB at once after a publish: answers a second, CPU of each, p99, and
                   how many were stale; beside nginx with a file of the same bytes; 5 ROUNDS, three times
  --publish        instead: publishes a second of a daemon, and what each costs in CPU, allocations and time, from 1 and
                   from 64 publishers with a project each, beside fdatasync(2) of 4 kB; SECONDS (5) each, three times; and a
                   publish's first byte at a subscriber beside its answer
  --cluster        instead: publishes a second of three nodes over three members of etcd on this machine, from 1 and from 64
                   publishers at the first node, and what each costs every node and etcd in CPU; SECONDS (5), three times
  --webhooks       instead: what one publish to 1,000 webhooks on 1,000 hosts costs a daemon for each, in nine turns of ROUNDS
                   (5), beside what the same requests cost libcurl alone, and what such a daemon costs while it is idle
  --release        instead: what fetches cost before any release in stages and while one is open, for SECONDS (5) each, and
                   what a publish to 5,000 streams costs before and after one; three times
  --counts         instead: a delivery, a fetch (five turns of a second beside nginx, pinned), a publish (two seconds) and a
                   webhook's delivery (three turns) beside their yardsticks, the state, and a publish's first byte; each beside its
                   last row in deploy/docs/figures.md. A minute, what deploy/test.sh ends with
  --instructions   instead: instructions in user space of the whole daemon for a fetch, the state, a publish and a webhook's
                   delivery, as callgrind counts them; two minutes
  The daemon of --fetch, --storm, --publish, --webhooks, --release and --counts counts its allocations, at about 1 ns for each.

  BIN=FOLDER       in the environment: all of these measure the stalecast there (counts of a delivery: stalecast-benchmarks),
                   and do not build it
  --help           this text

Where the instructions go: the profiles stay in .build/bench; read one with `callgrind_annotate FILE`.
TEXT
}

json='' compare='' fanout=() tls=() flags=() fetch=() storm=() publish='' cluster='' webhooks='' release='' counts='' instructions=''
absolute() { [[ $1 == /* ]] && echo "$1" || echo "$here/$1"; }
while (($#)); do
    case $1 in
    --help | -h) usage && exit ;;
    --json) json=$(absolute "${2:?--json needs a file}") && shift 2 ;;
    --compare) compare=$(absolute "${2:?--compare needs a file}") && shift 2 ;;
    --fanout)
        shift && fanout=(10000 9)
        [[ ${1:-} =~ ^[0-9]+$ ]] && fanout[0]=$1 && shift
        [[ ${1:-} =~ ^[0-9]+$ ]] && fanout[1]=$1 && shift
        ;;
    --tls)
        shift && tls=(5000 9)
        [[ ${1:-} =~ ^[0-9]+$ ]] && tls[0]=$1 && shift
        [[ ${1:-} =~ ^[0-9]+$ ]] && tls[1]=$1 && shift
        ;;
    --flags)
        shift && flags=(10000 9)
        [[ ${1:-} =~ ^[0-9]+$ ]] && flags[0]=$1 && shift
        [[ ${1:-} =~ ^[0-9]+$ ]] && flags[1]=$1 && shift
        ;;
    --fetch)
        shift && fetch=(engine 2)
        [[ ${1:-} =~ ^[a-z]+$ ]] && fetch[0]=$1 && shift
        [[ ${1:-} =~ ^[0-9]+$ ]] && fetch[1]=$1 && shift
        ;;
    --storm)
        shift && storm=(10000 5)
        [[ ${1:-} =~ ^[0-9]+$ ]] && storm[0]=$1 && shift
        [[ ${1:-} =~ ^[0-9]+$ ]] && storm[1]=$1 && shift
        ;;
    --publish)
        shift && publish=5
        [[ ${1:-} =~ ^[0-9]+$ ]] && publish=$1 && shift
        ;;
    --cluster)
        shift && cluster=5
        [[ ${1:-} =~ ^[0-9]+$ ]] && cluster=$1 && shift
        ;;
    --webhooks)
        shift && webhooks=5
        [[ ${1:-} =~ ^[0-9]+$ ]] && webhooks=$1 && shift
        ;;
    --release)
        shift && release=5
        [[ ${1:-} =~ ^[0-9]+$ ]] && release=$1 && shift
        ;;
    --counts) counts=1 && shift ;;
    --instructions) instructions=1 && shift ;;
    *) usage >&2 && exit 2 ;;
    esac
done
[[ -z $compare || -r $compare ]] || { echo "Cannot read $compare." >&2 && exit 2; }

source deploy/packages.sh
source deploy/bench/fetches.sh
source deploy/bench/publishes.sh
source deploy/bench/webhooks.sh
source deploy/bench/instructions.sh
require_swift
install_missing "${build_packages[@]}"
export PATH="$PATH:/usr/sbin:/sbin"

# build_daemon: leaves the release build's folder in $bin, or takes BIN as it is.
build_daemon() {
    bin=${BIN:-}
    install_command gcc gcc
    if [[ -z $bin ]]; then
        build_swift -c release --product stalecast
        bin=$(swift build -c release --show-bin-path)
    fi
    mkdir -p .build/bench
    gcc -O2 -pthread -o .build/bench/floor deploy/bench/floor.c
    gcc -O2 -shared -fPIC -o .build/bench/allocations.so deploy/bench/allocations.c
    ulimit -n "$(ulimit -Hn)"
}

# serve OPTION…: starts a daemon; sets $data and $daemon.
serve() {
    data=$(mktemp -d)
    ALLOCATIONS=$data/allocations LD_PRELOAD=$PWD/.build/bench/allocations.so \
        "${on_first[@]}" "$bin/stalecast" serve --data "$data" --edge 127.0.0.1:0 --control 127.0.0.1:0 "$@" 2>"$data/log" &
    daemon=$!
    trap end EXIT
    until [[ -s $data/endpoints.json ]]; do
        kill -0 "$daemon" 2>/dev/null || { cat "$data/log" >&2 && exit 1; }
        sleep 0.1
    done
}

# end: ends the daemon, and what a cluster has beside it; etcd last.
end() {
    local each
    for each in "$daemon" "${nodes[@]}" "${members[@]}"; do
        kill "$each" 2>/dev/null || true
        wait "$each" 2>/dev/null || true
    done
    rm -rf "$data" "${folders[@]}"
    nodes=() members=() folders=()
}
daemon='' nodes=() members=() folders=() data=''

# fan_out SUBSCRIBERS ROUNDS: a real daemon beside the kernel's floor.
fan_out() {
    build_daemon
    serve
    for _ in 1 2 3; do
        .build/bench/floor "$1" "$2" 480
        "$bin/stalecast" load fanout --subscribers "$1" --rounds "$2" --data "$data"
    done
}

# crowd KIND STREAMS ROUNDS OPTION…: a fresh daemon, because memory is compared.
crowd() {
    local kind=$1 streams=$2 rounds=$3 port control
    shift 3
    serve "$@"
    port=$(sed -E 's/.*"edge":"[^"]*:([0-9]+)".*/\1/' "$data/endpoints.json")
    control=$(sed -E 's/.*"control":"([^"]*)".*/\1/' "$data/endpoints.json")
    cat >"$data/publish" <<TEXT
curl -fsS -o /dev/null -X PUT -H "Authorization: Bearer $(<"$data/control.token")" -H 'If-Match: *' \
    -H 'Content-Type: application/json' $control/v1/projects/demo/remoteConfig \
    -d '{"parameters":{"p":{"defaultValue":{"value":"'"\$(date +%N)"'"}}}}'
TEXT
    .build/bench/crowd "$kind" "$port" "$daemon" "$streams" "$rounds" "sh $data/publish"
    end
}

# compare_flags STREAMS ROUNDS: plain streams and those of OpenFeature providers, one after the other.
compare_flags() {
    build_daemon
    install_missing libssl-dev curl
    gcc -O2 -o .build/bench/crowd deploy/bench/crowd.c -lssl -lcrypto
    for _ in 1 2 3; do
        crowd plain "$1" "$2"
        crowd flags "$1" "$2"
    done | tee .build/bench/flags
    awk '/^plain/ {plain += $2} /^flags/ {flags += $2} END {printf "flags: %.2f times plain\n", flags / plain}' .build/bench/flags
}

# compare_tls STREAMS ROUNDS: floor, plain and TLS, one after the other.
compare_tls() {
    local tls
    build_daemon
    install_missing libssl-dev curl
    gcc -O2 -o .build/bench/crowd deploy/bench/crowd.c -lssl -lcrypto
    tls=$(mktemp -d)
    "$bin/stalecast" tls dev --to "$tls" >/dev/null
    for _ in 1 2 3; do
        .build/bench/floor "$1" "$2" 480
        crowd plain "$1" "$2"
        crowd tls "$1" "$2" --tls-cert "$tls/localhost.pem" --tls-key "$tls/localhost.key"
    done | tee .build/bench/tls
    rm -rf "$tls"
    awk '/^floor/ {floor += $2} /^plain/ {plain += $2} /^tls/ {tls += $2}
        END {printf "TLS: %.2f times plain; plain: %.2f times the floor\n", tls / plain, plain / floor}' .build/bench/tls
}

# control_address: of the private listener of the daemon that runs.
control_address() { sed -E 's/.*"control":"([^"]*)".*/\1/' "$data/endpoints.json"; }

# control PATH OPTION…: a request to the private listener of the daemon that runs.
control() {
    local path=$1 address
    address=$(control_address)
    shift
    curl -fsS -o /dev/null -H "Authorization: Bearer $(<"$data/control.token")" -H 'Content-Type: application/json' \
        "$@" "$address$path"
}

# template COUNT: a template with so many parameters, of which the first three have a condition each.
template() {
    awk -v count="$1" 'BEGIN {
        printf "{\"conditions\":["
        printf "{\"name\":\"york\",\"expression\":\"app.customSignal['"'city'"'].exactlyMatches(['"'york'"'])\"},"
        printf "{\"name\":\"near\",\"expression\":\"device.country in ['"'GB','US'"'] && app.version.>=(['"'4.0.0'"'])\"},"
        printf "{\"name\":\"tier\",\"expression\":\"app.customSignal['"'tier'"'].exactlyMatches(['"'2'"'])\"}],\"parameters\":{"
        split("york near tier", names, " ")
        for (n = 1; n <= count; n++) {
            printf "%s\"parameter_%04d\":{\"defaultValue\":{\"value\":\"value %06d xxxxxxx\"}", (n > 1 ? "," : ""), n, n
            if (n <= 3) printf ",\"conditionalValues\":{\"%s\":{\"value\":\"special %d xxxxxxxxx\"}}", names[n], n
            printf "}"
        }
        printf "}}"
    }'
}

# allocations: those of the daemon that runs, since its start.
allocations() { od -An -v -tu8 -w64 "$data/allocations" | awk '{sum += $1} END {printf "%.0f\n", sum}'; }

# compare_cluster SECONDS: members and nodes begin anew for each number of publishers.
compare_cluster() {
    local work number node before after
    build_daemon
    install_command wrk wrk
    install_command etcd etcd-server etcd
    export COUNT TOKEN
    trap end EXIT
    for _ in 1 2 3; do
        for COUNT in 1 64; do
            work=$(mktemp -d) && folders=("$work")
            TOKEN=$work/token
            for node in token key; do (umask 077 && od -An -tx1 -N32 /dev/urandom | tr -d ' \n' >"$work/$node"); done
            for number in 1 2 3; do start_member "$number" "$work"; done
            for node in a b c; do
                configure_node "$node" "$work" >"$work/$node.yaml"
                serve --config "$work/$node.yaml"
                nodes+=("$daemon") folders+=("$data")
            done
            data=${folders[1]}
            publishes 1 >/dev/null
            # A node proposes one publish at a time: those that wrk left behind go first.
            curl -fsS -o /dev/null -X PUT -H "Authorization: Bearer $(<"$TOKEN")" -H 'If-Match: *' -d '{}' \
                "$(control_address)/v1/projects/p000/remoteConfig" || true
            before=$(for node in "${nodes[@]}" "${members[@]}"; do spent "$node"; done)
            publishes "$1" >"$work/wrk"
            after=$(for node in "${nodes[@]}" "${members[@]}"; do spent "$node"; done)
            awk -v count="$COUNT" -v before="${before//$'\n'/ }" -v after="${after//$'\n'/ }" '
                /Non-2xx|Socket errors/ {bad = 1} /requests in/ {sum = $1} /Requests\/sec/ {rate = $2} /Latency  / {time = $2}
                END {
                    printf "%2d publishers %6.0f a second, %s until the answer; ms of CPU each:", count, rate, time
                    number = split("a b c m1 m2 m3", name, " ")
                    split(before, was, " ")
                    split(after, now, " ")
                    for (n = 1; n <= number; n++) printf " %s %.2f", name[n], (now[n] - was[n]) / 1e6 / sum
                    print ""
                    exit bad
                }' "$work/wrk"
            end
        done
    done
}

# configure_node NAME FOLDER
configure_node() {
    many_projects
    cat <<TEXT
store: {etcd: {endpoints: ["$(member 1 18379)", "$(member 2 18379)", "$(member 3 18379)"]}}
cluster: {node: $1}
control: {tokenFile: $2/token}
webhooks: {keyFile: $2/key}
TEXT
}

# member NUMBER PORT: URL of a member of etcd.
member() { echo "http://127.0.0.2$1:$2"; }

# start_member NUMBER FOLDER
start_member() {
    local peers
    peers="m1=$(member 1 18380),m2=$(member 2 18380),m3=$(member 3 18380)"
    env -u ETCD_NAME etcd --name "m$1" --data-dir "$2/m$1" --initial-cluster "$peers" --initial-cluster-token "$2" \
        --listen-client-urls "$(member "$1" 18379)" --advertise-client-urls "$(member "$1" 18379)" \
        --listen-peer-urls "$(member "$1" 18380)" --initial-advertise-peer-urls "$(member "$1" 18380)" \
        --logger zap >"$2/m$1.log" 2>&1 &
    members+=("$!")
}

# compare_release SECONDS: one daemon before, during and after a release, three times.
compare_release() {
    local port
    build_daemon
    install_command wrk wrk
    install_missing curl
    for _ in 1 2 3; do
        serve
        port=$(sed -E 's/.*"edge":"[^"]*:([0-9]+)".*/\1/' "$data/endpoints.json")
        template 80 >"$data/template"
        control /v1/projects/demo/remoteConfig -X PUT -H 'If-Match: *' --data-binary "@$data/template"
        echo 'Before a release:'
        "$bin/stalecast" load fanout --subscribers 5000 --rounds 5 --yes --data "$data"
        control /v1/projects/demo/remoteConfig -X PUT -H 'If-Match: *' --data-binary "@$data/template"
        rush none "$daemon" deploy/bench/fetch.lua "http://127.0.0.1:$port/" "$1" >"$data/rushes"
        template 81 >"$data/template"
        control '/v1/projects/demo/remoteConfig?release=staged&stages=50%25,100%25&every=0s&bake=0s' -X PUT \
            -H 'If-Match: *' --data-binary "@$data/template"
        rush open "$daemon" deploy/bench/fetch.lua "http://127.0.0.1:$port/" "$1" >>"$data/rushes"
        echo 'Fetches before it (none) and while it is open (open):'
        awk '{printf "%-6s %.1f allocations each\n", $1, $4}' "$data/rushes"
        medians <"$data/rushes"
        control /v1/projects/demo/remoteConfig/release:promote -X POST -d '{}'
        echo 'After it:'
        "$bin/stalecast" load fanout --subscribers 5000 --rounds 5 --yes --data "$data"
        end
    done
}

if [[ -n $counts ]]; then
    compare_counts
    exit
fi
if [[ -n $instructions ]]; then
    compare_instructions
    exit
fi
if [[ -n $publish ]]; then
    compare_publish "$publish"
    exit
fi
if [[ -n $cluster ]]; then
    compare_cluster "$cluster"
    exit
fi
if [[ -n $webhooks ]]; then
    prepare_webhooks
    compare_webhooks "$webhooks" 9
    exit
fi
if [[ -n $release ]]; then
    compare_release "$release"
    exit
fi
if ((${#fetch[@]})); then
    compare_fetch "${fetch[@]}"
    exit
fi
if ((${#storm[@]})); then
    compare_storm "${storm[@]}"
    exit
fi
if ((${#flags[@]})); then
    compare_flags "${flags[@]}"
    exit
fi
if ((${#tls[@]})); then
    compare_tls "${tls[@]}"
    exit
fi
if ((${#fanout[@]})); then
    fan_out "${fanout[@]}"
    exit
fi

install_command valgrind valgrind
install_command strip binutils
bin=${BIN:-}
if [[ -z $bin ]]; then
    swift build -c release --product stalecast-benchmarks
    bin=$(swift build -c release --show-bin-path)
fi
work=.build/bench
rm -rf "$work" && mkdir -p "$work"

# Callgrind reads no debug information of newer compilers; the names of functions stay.
strip --strip-debug -o "$work/benchmarks" "$bin/stalecast-benchmarks"

subscribers=(100 1100) announcements=(20 120)

# profile NAME OPTION…: the four runs whose differences are the figures.
profile() {
    local name=$1 n r && shift
    for n in "${subscribers[@]}"; do
        for r in "${announcements[@]}"; do
            valgrind --tool=callgrind --separate-threads=yes --callgrind-out-file="$work/$name-$n-$r" \
                "$work/benchmarks" --subscribers "$n" --announcements "$r" "$@" \
                >"$work/$name-$n-$r.log" 2>&1 || { cat "$work/$name-$n-$r.log" >&2 && return 1; }
        done
    done
}

# figures NAME LABEL: prints them, and writes and compares them if asked to.
figures() {
    deploy/bench/figures.py "$work/$1" --subscribers "${subscribers[@]}" \
        --announcements "${announcements[@]}" --label "$2" --json "$work/figures.json" ${compare:+--compare "$compare"}
}

echo 'What the engine does for one live message, user space of the shard thread:'
profile direct
figures direct ''
profile several --topics 2
figures several 'two-topic stream:'
[[ -z $json ]] || cp "$work/figures.json" "$json"
