#!/usr/bin/env bash
# Counts what one delivery costs the stream engine, in instructions and allocations: comparable between commits.
set -euo pipefail
here=$PWD
cd "$(dirname "$0")/.."

usage() {
    cat <<'TEXT'
deploy/bench.sh [--json FILE] [--compare FILE] [--yardstick DIR [SUBSCRIBERS [ROUNDS]]]

Builds in release and runs the hot loop (hub, one shard, subscribers on loopback) under callgrind with few and many
subscribers and few and many announcements; the differences are what one delivery and one announcement cost the
shard's thread in user space. Takes half a minute after the build. With one compiler and one C library the counts
repeat within about 10 % (timers fire by the clock) on every machine; allocations repeat exactly. Times do neither.

  --json FILE      also write the figures to FILE
  --compare FILE   also print the ratio to the figures in FILE, from an earlier --json
  --yardstick DIR  afterwards run DIR/fanout.sh (as in ../shared/yardstick) against a fresh daemon, if it is there
  --help           this text

Where the instructions go: the profiles stay in .build/bench; read one with `callgrind_annotate FILE`.
TEXT
}

json='' compare='' yardstick='' yardstick_arguments=()
absolute() { [[ $1 == /* ]] && echo "$1" || echo "$here/$1"; }
while (($#)); do
    case $1 in
    --help | -h) usage && exit ;;
    --json) json=$(absolute "${2:?--json needs a file}") && shift 2 ;;
    --compare) compare=$(absolute "${2:?--compare needs a file}") && shift 2 ;;
    --yardstick)
        yardstick=$(absolute "${2:?--yardstick needs a directory}") && shift 2
        while [[ ${1:-} =~ ^[0-9]+$ ]]; do yardstick_arguments+=("$1") && shift; done
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

# The fan-out of a real daemon beside the kernel's floor and a peer.
[[ -n $yardstick ]] || exit 0
if [[ ! -r $yardstick/fanout.sh ]]; then
    echo "There is no $yardstick/fanout.sh: the fan-out was not measured." >&2
    exit 0
fi
install_command gcc gcc
install_command nginx nginx-light nginx
install_missing libnginx-mod-nchan
swift build -c release --product stalecast
data=$(mktemp -d)
ulimit -n "$(ulimit -Hn)"
"$bin/stalecast" serve --data "$data" --edge 127.0.0.1:0 --control 127.0.0.1:0 2>"$data/log" &
daemon=$!
trap 'kill "$daemon" 2>/dev/null; wait "$daemon" 2>/dev/null; rm -rf "$data"' EXIT
until [[ -s $data/endpoints.json ]]; do
    kill -0 "$daemon" 2>/dev/null || { cat "$data/log" >&2 && exit 1; }
    sleep 0.1
done
port() { sed -nE "s/.*\"$1\"[[:space:]]*:[[:space:]]*\"[^\"]*:([0-9]+)\".*/\1/p" "$data/endpoints.json"; }
EDGE_PORT=$(port edge) CONTROL_PORT=$(port control) TOKEN=$(<"$data/control.token") \
    bash "$yardstick/fanout.sh" "$daemon" "${yardstick_arguments[@]}"
