#!/usr/bin/env bash
# Counts what one delivery costs the stream engine, in instructions and allocations: comparable between commits.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."

usage() {
    cat <<'TEXT'
deploy/bench.sh [--json FILE] [--compare FILE] [--fanout [SUBSCRIBERS [ROUNDS]]]

Builds in release and runs the hot loop (hub, one shard, subscribers on loopback) under callgrind with few and many
subscribers and few and many announcements; the differences are what one delivery and one announcement cost the
shard's thread in user space. Takes half a minute after the build. With one compiler and one C library the counts
repeat within about 10 % (timers fire by the clock) on every machine; allocations repeat exactly. Times do neither.

  --json FILE      also write the figures to FILE
  --compare FILE   also print the ratio to the figures in FILE, from an earlier --json
  --fanout         instead: what one publish to SUBSCRIBERS (10000) costs a daemon for each, in ROUNDS (9) rounds, and
                   what the same bytes cost a C program that only calls send(2); three times, one after the other
  --help           this text

Where the instructions go: the profiles stay in .build/bench; read one with `callgrind_annotate FILE`.
TEXT
}

json='' compare='' fanout=()
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

# fan_out SUBSCRIBERS ROUNDS: a real daemon beside the kernel's floor.
fan_out() {
    local bin data daemon
    install_command gcc gcc
    build_swift -c release --product stalecast
    bin=$(swift build -c release --show-bin-path)
    mkdir -p .build/bench
    gcc -O2 -pthread -o .build/bench/floor deploy/bench/floor.c
    data=$(mktemp -d)
    ulimit -n "$(ulimit -Hn)"
    "$bin/stalecast" serve --data "$data" --edge 127.0.0.1:0 --control 127.0.0.1:0 2>"$data/log" &
    daemon=$!
    trap 'kill "$daemon" 2>/dev/null; wait "$daemon" 2>/dev/null; rm -rf "$data"' EXIT
    until [[ -s $data/endpoints.json ]]; do
        kill -0 "$daemon" 2>/dev/null || { cat "$data/log" >&2 && exit 1; }
        sleep 0.1
    done
    for _ in 1 2 3; do
        .build/bench/floor "$1" "$2" 480
        "$bin/stalecast" load fanout --subscribers "$1" --rounds "$2" --data "$data"
    done
}

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
