#!/usr/bin/env bash
# Builds and runs Stalecast on this machine: from a fresh clone to a served demo project in one command.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'TEXT'
deploy/run.sh [--data DIR] [OPTION of `stalecast serve`]…

Installs the Debian packages that are missing, builds the release binary (minutes the first time), and runs `stalecast serve` in the
foreground: Edge (public) on 127.0.0.1:8080, Control (private) on 127.0.0.1:8081. When nothing has been published
yet it publishes samples/templates/demo.json. Ctrl-C stops it; the data stays.

  --data DIR   data directory (default: $STALECAST_DATA, else ./stalecast-data)
  --help       this text

Examples:
  deploy/run.sh
  deploy/run.sh --data /tmp/try --edge 127.0.0.1:9080 --control 127.0.0.1:9081
TEXT
}

data=${STALECAST_DATA:-./stalecast-data}
options=()
while (($#)); do
    case $1 in
    --help | -h) usage && exit ;;
    --data) data=${2:?--data needs a directory} && shift 2 ;;
    --data=*) data=${1#--data=} && shift ;;
    *) options+=("$1") && shift ;;
    esac
done

source deploy/packages.sh
require_swift
install_missing "${build_packages[@]}" curl
build_swift -c release --product stalecast
bin=$(swift build -c release --show-bin-path)

# address NAME: edge or control, as the daemon with our process id has written it; nothing before that.
address() {
    local file=$data/endpoints.json
    grep -qE "\"pid\"[[:space:]]*:[[:space:]]*$$([^0-9]|\$)" "$file" 2>/dev/null || return 0
    sed -nE "s/.*\"$1\"[[:space:]]*:[[:space:]]*\"([^\"]*)\".*/\1/p" "$file"
}

# Waits until the daemon serves; fails when it has ended.
wait_until_served() {
    until [[ -n $(address control) ]] && curl -fs -o /dev/null "$(address control)/healthz"; do
        kill -0 $$ 2>/dev/null || return 1
        sleep 0.1
    done
}

publish_when_empty() {
    local versions
    versions=$("$bin/stalecast" versions --limit 1 --json --data "$data") || return 0
    [[ $versions == *'"versionNumber"'* ]] ||
        "$bin/stalecast" publish samples/templates/demo.json --description 'the demo template' --data "$data"
}

say_what_next() {
    local at=''
    [[ $data == ./stalecast-data ]] || at="export STALECAST_DATA='$(realpath "$data")'"$'\n    '
    cat <<TEXT

Stalecast serves on $(address edge) (Edge) and $(address control) (Control). In other terminals, in $PWD:

    export PATH="$bin:\$PATH"
    ${at}curl -N '$(address edge)/v1/events?topic=PUSH_RC'       # stays open
    stalecast publish samples/templates/demo-winter.json        # the message appears there at once
    stalecast rollback 1                                        # and again
    stalecast webhooks listen                                   # a receiver; in yet another terminal:
    stalecast webhooks add http://127.0.0.1:9000/
    swift run --package-path samples Quickstart                 # an app with the Swift client
    stalecast watch                                             # the same for people; also: versions, diff 1 2, status

TEXT
}

# The demo's webhooks may call this machine; what the operator has set, even to nothing, stays.
export STALECAST_WEBHOOKS_ALLOWED_ADDRESSES=${STALECAST_WEBHOOKS_ALLOWED_ADDRESSES-127.0.0.0/8}

# A crash gives the ports back at once.
export SWIFT_BACKTRACE=${SWIFT_BACKTRACE-enable=no}

# The daemon takes this shell's place, so signals reach it directly; the rest happens beside it.
( (wait_until_served && publish_when_empty && say_what_next) </dev/null &)
exec "$bin/stalecast" serve --data "$data" "${options[@]}"
