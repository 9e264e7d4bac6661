#!/usr/bin/env bash
# Counts what one delivery costs the stream engine, in instructions and allocations: comparable between commits.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."

usage() {
    cat <<'TEXT'
deploy/bench.sh [--json FILE] [--compare FILE] [--fanout [SUBSCRIBERS [ROUNDS]]] [--tls [STREAMS [ROUNDS]]]

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
  BIN=FOLDER       in the environment: both measure the stalecast there, and build nothing
  --help           this text

Where the instructions go: the profiles stay in .build/bench; read one with `callgrind_annotate FILE`.
TEXT
}

json='' compare='' fanout=() tls=()
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
    *) usage >&2 && exit 2 ;;
    esac
done
[[ -z $compare || -r $compare ]] || { echo "Cannot read $compare." >&2 && exit 2; }

source deploy/packages.sh
require_swift
install_missing "${build_packages[@]}"
install_command valgrind valgrind
install_command strip binutils
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
    ulimit -n "$(ulimit -Hn)"
}

# serve OPTION…: starts a daemon; sets $data and $daemon.
serve() {
    data=$(mktemp -d)
    "$bin/stalecast" serve --data "$data" --edge 127.0.0.1:0 --control 127.0.0.1:0 "$@" 2>"$data/log" &
    daemon=$!
    trap end EXIT
    until [[ -s $data/endpoints.json ]]; do
        kill -0 "$daemon" 2>/dev/null || { cat "$data/log" >&2 && exit 1; }
        sleep 0.1
    done
}

end() {
    kill "$daemon" 2>/dev/null || true
    wait "$daemon" 2>/dev/null || true
    rm -rf "$data"
}

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

if ((${#tls[@]})); then
    compare_tls "${tls[@]}"
    exit
fi
if ((${#fanout[@]})); then
    fan_out "${fanout[@]}"
    exit
fi

swift build -c release --product stalecast-benchmarks
bin=$(swift build -c release --show-bin-path)
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
                "$work/benchmarks" deliver --subscribers "$n" --announcements "$r" "$@" \
                >"$work/$name-$n-$r.log" 2>&1 || { cat "$work/$name-$n-$r.log" >&2 && return 1; }
        done
    done
}

# figures NAME LABEL: prints them, and writes and compares them if asked to.
figures() {
    "$work/benchmarks" figures "$work/$1" --subscribers "${subscribers[@]}" \
        --announcements "${announcements[@]}" --label "$2" --json "$work/figures.json" ${compare:+--compare "$compare"}
}

echo 'What the engine does for one live message, user space of the shard thread:'
profile direct
figures direct ''
profile several --topics 2
figures several 'two-topic stream:'
[[ -z $json ]] || cp "$work/figures.json" "$json"
