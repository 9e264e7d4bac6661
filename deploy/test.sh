#!/usr/bin/env bash
# Builds everything once in release and runs all tests: Swift's, then the ones from outside against the built daemon.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'TEXT'
deploy/test.sh [--long] [--strict] [--only PATTERN]

Installs the Debian packages and Python clients that are missing, builds, runs `swift test` and `pytest Tests/e2e`.
Ends with pytest's summary, and with a code other than 0 when anything failed.

  --long           also what takes minutes: 10,000 streams, hundreds of kills, the thread and address sanitizers
  --strict         a compiler warning in Sources or Tests is a failure (seen only in what is really compiled)
  --only PATTERN   only tests whose name matches: a regular expression for Swift, pytest's -k for the others
  --help           this text
TEXT
}

long=0 strict=0 only=''
while (($#)); do
    case $1 in
    --help | -h) usage && exit ;;
    --long) long=1 && shift ;;
    --strict) strict=1 && shift ;;
    --only) only=${2:?--only needs a pattern} && shift 2 ;;
    *) usage >&2 && exit 2 ;;
    esac
done

source deploy/packages.sh
require_swift
install_missing "${build_packages[@]}" curl strace
install_command python3 python3
install_command nginx nginx-light nginx
install_command haproxy haproxy haproxy
install_command promtool prometheus prometheus
install_command chromium chromium
install_command ip iproute2
if ((long)); then install_missing wrk; fi
export PATH="$PATH:/usr/sbin:/sbin"

failed=()
begin() { printf '\n== %s\n' "$1"; }

begin 'Python clients'
venv=.build-venv
if ! cmp -s deploy/test-requirements.txt "$venv/installed.txt"; then
    python3 -c 'import ensurepip' 2>/dev/null || install_missing python3-venv
    python3 -m venv --clear "$venv/python"
    "$venv/python/bin/pip" install --quiet --disable-pip-version-check --cache-dir "$PWD/$venv/cache" \
        -r deploy/test-requirements.txt
    cp deploy/test-requirements.txt "$venv/installed.txt"
fi
"$venv/python/bin/python" --version

begin 'swift build'
mkdir -p .build
swift build -c release --build-tests 2>&1 | tee .build/build.log
if ((strict)) && grep -E "^$(pwd -P)/(Sources|Tests|Package\.swift).*: warning: " .build/build.log | sort -u; then
    echo 'The build has warnings, listed above.'
    failed+=(warnings)
fi

begin 'swift test'
# What has many timers is kept apart from what keeps the processors busy.
timed='StalecastOutboundTests|StalecastSourcesTests|StalecastWebhooksTests'
if [[ -n $only ]]; then
    swift test -c release --skip-build --filter "$only" || failed+=('swift test')
else
    swift test -c release --skip-build --skip "StalecastClientTests|$timed" || failed+=('swift test')
    swift test -c release --skip-build --filter "$timed" || failed+=('swift test of requests and sources')
    swift test -c release --skip-build --filter StalecastClientTests || failed+=('swift test of the client')
fi

# Where mounts are not allowed the lookups that nobody answers are skipped, and the summary of swift test says so.
silent_dns=()
if unshare --mount true 2>/dev/null; then silent_dns=(deploy/with-silent-dns.sh); fi
if [[ -z $only ]] && ((${#silent_dns[@]})); then
    begin 'swift test with a silent name server'
    "${silent_dns[@]}" swift test -c release --skip-build --filter SilentNameServer || failed+=('silent name server')
fi

# Release, because only there the compiler inlines Mutex so that the thread sanitizer sees its atomics.
sanitized='StalecastEdgeTests|StalecastHubTests|StalecastOutboundTests|StalecastWebhooksTests'
sanitize() {
    local kind=$1 scratch=.build-$1
    begin "swift test --sanitize=$kind (Edge, Hub, Outbound, Webhooks)"
    swift build -c release --sanitize="$kind" --scratch-path "$scratch" --build-tests &&
        "${silent_dns[@]}" swift test -c release --sanitize="$kind" --scratch-path "$scratch" --skip-build \
            --filter SilentNameServer &&
        swift test -c release --sanitize="$kind" --scratch-path "$scratch" --skip-build --filter "$sanitized" ||
        failed+=("$kind sanitizer")
}
if ((long)); then
    export TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/deploy/thread-sanitizer.supp" ASAN_OPTIONS=detect_leaks=0
    sanitize thread
    sanitize address
fi

begin 'pytest Tests/e2e'
STALECAST_BIN=$(swift build -c release --show-bin-path)/stalecast
export STALECAST_BIN STALECAST_LONG=$long
[[ -x $STALECAST_BIN ]] || { echo "No binary at $STALECAST_BIN." >&2 && exit 1; }
if ((${#failed[@]})); then echo "Failed so far, see above: ${failed[*]}"; fi
status=0
"$venv/python/bin/python" -m pytest Tests/e2e ${only:+-k "$only"} || status=$?
# 5: no test matched, which is no failure when only some were asked for.
((status == 0)) || [[ $status == 5 && -n $only ]] || failed+=(pytest)
((${#failed[@]} == 0))
