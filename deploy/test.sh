#!/usr/bin/env bash
# Builds everything once and runs the tests: Swift's, then the ones from outside against the built daemon.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'TEXT'
deploy/test.sh [--fast | --long] [--strict] [--only PATTERN]

Installs the Debian packages and Python clients that are missing, builds, runs Swift's tests and `pytest Tests/e2e`.
Without --fast and --only it also prints what a delivery, a fetch and a publish cost, beside the last figures: times fail
nothing. Prints each part's time, the forty slowest tests and the flaky ones; its last line counts the tests that passed, failed
and were skipped. The code is other than 0 when anything failed.

  --fast           for every day, minutes: lint, a debug build of what changed, Swift's tests, one file from outside for
                   each area
  --long           also what takes minutes: 10,000 streams, hundreds of kills, the thread and address sanitizers, a check
                   that all targets compile for arm64
  --strict         a compiler warning in Sources or Tests is a failure (seen only in what is really compiled)
  --only PATTERN   only tests whose name matches: a regular expression for Swift, pytest's -k for the others
  --help           this text
TEXT
}

fast=0 long=0 strict=0 only=''
while (($#)); do
    case $1 in
    --help | -h) usage && exit ;;
    --fast) fast=1 && shift ;;
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
install_missing libnginx-mod-stream
install_command haproxy haproxy haproxy
install_command varnishd varnish varnish
install_command promtool prometheus prometheus
install_command chromium chromium
install_command etcd etcd-server etcd
install_command etcdctl etcd-client
install_command ip iproute2
install_command shellcheck shellcheck
install_command shfmt shfmt
if ((!fast)); then
    install_command caddy caddy caddy
    install_command wrk wrk
    install_missing gpg gpg-agent lintian mandoc mmdebstrap systemd-container zsh fish
    install_command node nodejs
    install_command java default-jdk-headless
fi
if ((long)); then install_missing buildah; fi
export PATH="$PATH:/usr/sbin:/sbin"

failed=()
# Logs and figures of this run, for deploy/test-summary.py.
results=$PWD/.build/test-results
rm -rf "$results"
mkdir -p "$results"
part='' part_began=$SECONDS
# begin PART: heads a part's output and keeps the time that the part before took.
begin() {
    if [[ -n $part ]]; then printf '%s\t%s\n' $((SECONDS - part_began)) "$part" >>"$results/parts.tsv"; fi
    part=$1 part_began=$SECONDS
    if [[ -n $part ]]; then printf '\n== %s\n' "$part"; fi
}

begin 'Python clients'
venv=.build-venv
if ! cmp -s deploy/test-requirements.txt "$venv/installed.txt" || { ((!fast)) && [[ ! -x $venv/sslyze/bin/sslyze ]]; }; then
    python3 -c 'import ensurepip' 2>/dev/null || install_missing python3-venv
    python3 -m venv --clear "$venv/python"
    "$venv/python/bin/pip" install --quiet --disable-pip-version-check --cache-dir "$PWD/$venv/cache" \
        -r deploy/test-requirements.txt
    # For axe-core, which lies in it; what it depends on is another browser's driver.
    "$venv/python/bin/pip" install --quiet --disable-pip-version-check --cache-dir "$PWD/$venv/cache" \
        --no-deps axe-playwright-python==0.1.8
    # Wants another cryptography than the clients do.
    if ((!fast)); then
        python3 -m venv --clear "$venv/sslyze"
        "$venv/sslyze/bin/pip" install --quiet --disable-pip-version-check --cache-dir "$PWD/$venv/cache" sslyze==6.3.1
    fi
    cp deploy/test-requirements.txt "$venv/installed.txt"
fi
"$venv/python/bin/python" --version

# A debug build of what changed takes a fraction of a release build's time.
configuration=release
if ((fast)); then configuration=debug; fi

if ((fast)); then
    begin 'swift format'
    # Only what changed since all files passed: all take 25 s.
    passed=.build/swift-format.passed newer=()
    if [[ $passed -nt .swift-format ]]; then newer=(-newer "$passed"); fi
    touch "$passed.next"
    mapfile -t changed < <(find Package.swift Sources Tests samples -name '*.swift' "${newer[@]}")
    if ((!${#changed[@]})) || swift format lint --strict -p "${changed[@]}"; then
        mv "$passed.next" "$passed"
    else
        failed+=('swift format')
    fi
fi

begin 'shell'
mapfile -t scripts < <(grep -rlE '^#!/(usr/bin/env bash|bin/sh)' deploy .ci)
{ shellcheck -x "${scripts[@]}" && shfmt -i 4 -d "${scripts[@]}"; } || failed+=(shell)

begin 'summaries of declarations'
deploy/lint-summaries.py || failed+=('summaries of declarations')

begin 'swift build'
# Meanwhile pytest rewrites the assertions of all tests, which else each of its processes would do: 8 s of a processor. Before
# there is a binary it cannot collect all of them.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$PWD/.build/pycache
"$venv/python/bin/python" -m pytest --collect-only -q -p no:cacheprovider Tests/e2e >"$results/collected.txt" 2>&1 &
swift build -c $configuration --build-tests 2>&1 | tee .build/build.log
if ((strict)) && grep -E "^$(pwd -P)/(Sources|Tests|Package\.swift).*: warning: " .build/build.log | sort -u; then
    echo 'The build has warnings, listed above.'
    failed+=(warnings)
fi
built=$(swift build -c $configuration --show-bin-path)

# Tests write to memory where there is room: on a disk that other processes use, each commit of a store waits 10 ms and more,
# and there are some hundred thousand. Containers have a small /dev/shm, from which no program may be started.
scratch=${TMPDIR:-/tmp}
if [[ -z ${TMPDIR:-} ]] && (($(df --output=avail -BG /dev/shm 2>/dev/null | tail -n 1 | tr -dc 0-9) + 0 >= 12)) &&
    (($(awk '/^MemAvailable/ {print int($2 / 1048576)}' /proc/meminfo) >= 12)) &&
    [[ $(findmnt -no OPTIONS /dev/shm) != *noexec* ]]; then
    scratch=$(mktemp -d /dev/shm/stalecast-test.XXXX)
    chmod 1777 "$scratch"
    # A failed test's files stay.
    trap '((${#failed[@]})) && echo "Files of failed tests: $scratch" || rm -rf --one-file-system "$scratch"' EXIT
fi

# swift_tests WIDTH OPTION…: the test binary, with so many tests at a time. Without `swift test` around it a start takes
# 0.2 s. No test matches --only: that is no failure.
swift_tests() {
    local status=0
    TMPDIR=$scratch SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=$1 "$built/stalecastPackageTests.xctest" \
        --testing-library swift-testing "${@:2}" || status=$?
    ((status == 0)) || [[ $status == 69 && -n $only ]]
}

# Most failed tests of a part that run once more.
most_repeated=6

# of_swift NAME WIDTH OPTION…: Swift's tests with these options. A few tests that failed run once more, alone: the
# machine is shared, and other processes' load or ports are no fault of what is tested. What fails twice has failed; what
# passes then is named as flaky.
of_swift() {
    local name=$1 log names && shift
    begin "$name"
    log=$results/${name// /-}.swift.log
    if ! swift_tests "$@" 2>&1 | tee "$log"; then
        mapfile -t names < <(sed -nE 's/^.* Test ([A-Za-z0-9_]+)\(.*\)( with .*)? failed after .*/\1/p' "$log" | sort -u)
        # A run that ends before its summary has crashed, or hung.
        if grep -qE ' Test run with .* failed after ' "$log" && ((${#names[@]} >= 1 && ${#names[@]} <= most_repeated)); then
            begin "$name, again: ${names[*]}"
            if swift_tests 1 --filter "[/.]($(IFS='|' && echo "${names[*]}"))\\("; then
                printf '%s\n' "${names[@]}" >>"$results/flaky.txt"
            else
                failed+=("$name")
            fi
        else
            failed+=("$name")
        fi
    fi
}

# What has many timers is kept apart from what keeps the processors busy.
timed='StalecastOutboundTests|StalecastSourcesTests|StalecastWebhooksTests|StalecastEtcdTests|ClusterNodeTests'
if [[ -n $only ]]; then
    of_swift 'swift test' 16 --filter "$only"
else
    # All 1,400 at once end together: each takes as long as the run, and on a busy machine longer than its time limit.
    of_swift 'swift test' 16 --skip "StalecastClientTests|$timed"
    of_swift 'swift test of the client' 16 --filter StalecastClientTests
    # These wait more than they compute. Each has an engine: 48 take 4,000 descriptors.
    of_swift 'swift test of requests and sources' 48 --filter "$timed"
fi
if ((long)) && [[ -z $only ]]; then
    # Without --long these try fewer inputs. With all of them they compute for minutes, so no test that waits runs beside them.
    STALECAST_LONG=1 of_swift 'swift test of all inputs' 16 --filter \
        'DoublingTests|ConfigurationFuzzTests|HistoryTests|SimulationTests|AssignmentTests|LossGateTests'
fi

# Where mounts are not allowed the lookups without an answer are skipped, and the summary of swift test says so.
silent_dns=()
if unshare --mount true 2>/dev/null; then silent_dns=(deploy/with-silent-dns.sh); fi
if ((!fast)) && [[ -z $only ]]; then
    begin 'fuzzing, and swift test with a silent name server'
    # Those tests wait for lookups that time out, while the fuzz targets are compiled.
    lookups=$results/silent-name-server.log
    if ((${#silent_dns[@]})); then
        "${silent_dns[@]}" "$built/stalecastPackageTests.xctest" --testing-library swift-testing \
            --filter SilentNameServer >"$lookups" 2>&1 &
        beside=$!
    fi
    deploy/fuzz.sh --seconds $((long ? 300 : 24)) || failed+=(fuzzing)
    if ((${#silent_dns[@]})); then
        wait "$beside" || failed+=('silent name server')
        cat "$lookups"
    fi
fi

# Release, and the tests optimised as well, because only so the compiler inlines Mutex and the thread sanitizer sees its
# atomics.
sanitized='StalecastClientTests|StalecastEdgeTests|StalecastHubTests|StalecastOutboundTests|StalecastWebhooksTests'
sanitize() {
    local kind=$1 scratch=.build-$1
    begin "swift test --sanitize=$kind (Client, Edge, Hub, Outbound, Webhooks)"
    swift build -c release --sanitize="$kind" --scratch-path "$scratch" --build-tests -Xswiftc -O &&
        "${silent_dns[@]}" swift test -c release --sanitize="$kind" --scratch-path "$scratch" --skip-build \
            --filter SilentNameServer &&
        swift test -c release --sanitize="$kind" --scratch-path "$scratch" --skip-build --filter "$sanitized" ||
        failed+=("$kind sanitizer")
}
if ((long)); then
    begin 'targets for arm64'
    # From other releases of Debian, or without a network, these may not come: then the check says what is missing.
    (install_missing libc6-dev-arm64-cross libstdc++-12-dev-arm64-cross) || true
    status=0
    deploy/check-arm64.py || status=$?
    if ((status == 3)); then
        echo 'SKIPPED: whether the targets compile for arm64 is not known, see above.'
    elif ((status)); then
        failed+=('targets for arm64')
    fi

    export TSAN_OPTIONS="halt_on_error=1 suppressions=$PWD/deploy/thread-sanitizer.supp" ASAN_OPTIONS=detect_leaks=0
    sanitize thread
    sanitize address
fi

export STALECAST_BIN=$built/stalecast STALECAST_LONG=$long
[[ -x $STALECAST_BIN ]] || { echo "No binary at $STALECAST_BIN." >&2 && exit 1; }
if ((${#failed[@]})); then echo "Failed so far, see above: ${failed[*]}"; fi

# from_outside NAME OPTION…: pytest with these options. A few tests that failed run once more, alone, as Swift's do.
from_outside() {
    local name=$1 status=0 cache count=0 && shift
    begin "pytest $name"
    cache=$(mktemp -d)
    local pytest=("$venv/python/bin/python" -m pytest -o cache_dir="$cache" ${only:+-k "$only"})
    TMPDIR=$scratch "${pytest[@]}" --junitxml "$results/${name//[^A-Za-z0-9]/-}.xml" "$@" || status=$?
    if ((status == 1)); then
        # `-n` writes a test's group behind its name.
        sed -i -E 's/@group-[^"]*"/"/' "$cache/v/cache/lastfailed"
        mapfile -t names < <(sed -nE 's/^ *"(.*)": true,?$/\1/p' "$cache/v/cache/lastfailed")
        count=${#names[@]}
        if ((count >= 1 && count <= most_repeated)); then
            begin "pytest $name, again: $count failed"
            status=0
            TMPDIR=$scratch "${pytest[@]}" --last-failed Tests/e2e || status=$?
            # The junit file writes a path without its ending.
            if ((status == 0)); then printf '%s\n' "${names[@]/.py::/::}" >>"$results/flaky.txt"; fi
        fi
    fi
    rm -rf "$cache"
    # 5: no test matched, which is no failure when only some were asked for.
    ((status == 0)) || [[ $status == 5 && -n $only ]] || failed+=("pytest $name")
}

# Most tests wait for something, so six of them share two cores well. What is grouped stays in one process, and what takes
# long begins first (conftest.py); the plug-in would put it last.
shared=(-n 6 --dist loadgroup --no-loadscope-reorder)
if ((fast)); then
    every_day=(edge/test_stream_wire.py edge/test_poll.py control/test_observability.py webhooks/test_webhooks_api.py
        sources/test_sources_file.py client/test_client_network.py guarantees/test_guarantees_publish.py)
    from_outside 'one file for each area' "${shared[@]}" -m 'not busy' "${every_day[@]/#/Tests/e2e/}"
else
    from_outside 'Tests/e2e' "${shared[@]}" -m 'not busy' Tests/e2e
    # What measures, or keeps all processors busy, has the machine to itself.
    from_outside 'Tests/e2e, what measures' -m busy Tests/e2e
    if [[ -z $only ]]; then
        begin 'counts, beside the last in deploy/docs/figures.md'
        # Figures are no test: a busy machine may give none.
        BIN=$(dirname "$STALECAST_BIN") deploy/bench.sh --counts || echo 'There are no counts of this run, see above.'
    fi
fi
begin ''
deploy/test-summary.py "$results"
((${#failed[@]} == 0)) || { echo "Failed, see above: ${failed[*]}" >&2 && exit 1; }
