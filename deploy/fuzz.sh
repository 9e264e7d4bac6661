#!/usr/bin/env bash
# Compiles the fuzz targets (libFuzzer, all readers in one instrumented module, the packages they use as they are built)
# and runs each for a share of the time, two at once.
#   deploy/fuzz.sh [--seconds N]   N of both processors together, default 30; a crash's input is kept in .build/fuzz and printed
# A run of up to a minute (CI's) begins with the same number each time, so that whether a change is taken is no matter of
# chance. It is compiled without optimisation, which takes 30 s of CPU instead of 124. A longer run begins anew each time
# and is optimised, which is how something is found.
# Inputs that were worth keeping lie in Tests/Fuzz/corpus/<target>; new ones stay in .build/fuzz.
set -euo pipefail
shopt -s inherit_errexit
cd "$(dirname "$0")/.."
seconds=30
case ${1:-} in
'') ;;
--help | -h)
    sed -n '2,/^set /{/^set /d; s/^# \{0,1\}//; p}' deploy/fuzz.sh
    exit 0
    ;;
--seconds)
    seconds=${2:-}
    [[ $seconds =~ ^[1-9][0-9]{0,6}$ ]] || {
        echo "fuzz: --seconds takes a whole number of seconds, such as --seconds 60" >&2
        exit 64
    }
    ;;
*)
    echo "fuzz: unknown argument $1; deploy/fuzz.sh --help shows how it is called" >&2
    exit 64
    ;;
esac

out=.build/fuzz
rm -rf "$out/sources"
mkdir -p "$out/sources"
# in_room FOLDER NAME…: the files of these names (patterns) in a folder. A name that finds no file ends the run: a reader that
# was renamed must not leave the fuzzers in silence.
in_room() {
    local room=$1 name found && shift
    for name in "$@"; do
        found=$(find "$room" -name "$name")
        [[ -n $found ]] || { echo "fuzz: no file in $room is called $name" >&2 && return 1; }
        printf '%s\n' "$found"
    done
}
files() {
    in_room Sources/StalecastWire '*.swift'
    in_room Sources/StalecastTemplate '*.swift' | grep -v /RandomBucket.swift
    # It stands on the records of a cluster, and reads nothing itself.
    in_room Sources/StalecastHub '*.swift' | grep -v /SharedRollouts.swift
    in_room Sources/StalecastAccess '*.swift'
    in_room Sources/StalecastEdge StreamRequest.swift SharedPoll.swift EightBytes.swift Recogniser.swift \
        FetchScan.swift FetchRequest.swift FetchDialect.swift FlagContext.swift FlagRefusal.swift FlagValue.swift \
        LaunchDarklyContext.swift LaunchDarklyPath.swift
    in_room Sources/StalecastHTTP HostRule.swift PercentEncoding.swift TrustedProxies.swift RequestHead.swift \
        GoogleError.swift Answer.swift 'Credentials+head.swift'
    in_room Sources/StalecastClient ResponseHead.swift
    in_room Sources/StalecastSources InvalidationParser.swift SignedPost.swift 'YAML*.swift'
    in_room Sources/StalecastWebhooks/Signing SignatureCheck.swift SigningKey.swift
    in_room Sources/StalecastDaemon/Configuration ConfigurationDocument.swift ConfigurationProblems.swift
    in_room Sources/StalecastLoad ChunkDecoder.swift ByteSearch.swift
    in_room Sources/StalecastEtcd Protobuf.swift EtcdMessages.swift EtcdStatus.swift
    in_room Tests/Fuzz '*.swift'
}
packages=(
    NIOCore NIOEmbedded NIOHTTP1 NIOConcurrencyHelpers NIOPosix _NIODataStructures _NIOBase64 CNIOAtomics CNIODarwin CNIOLLHTTP
    CNIOLinux CNIOWindows CNIOPosix CNIOWASI CNIOOpenBSD CNIOFreeBSD Atomics _AtomicsShims InternalCollectionsUtilities DequeModule
    ContainersPreview BasicContainers TrailingElementsModule
    CLinux Yams CYaml Crypto CryptoExtras SwiftASN1 CryptoBoringWrapper CCryptoBoringSSL CCryptoBoringSSLShims CXKCP CXKCPShims
)
# One module, so that the optimiser and the coverage see all of it: the rooms' own imports go.
list=$(files)
while read -r file; do
    script='s/^((package|internal|public) )?import Stalecast.*//; s/^(package|internal|public) import/import/'
    # The hub's invalidation is another one.
    if [[ $file == *InvalidationParser.swift ]]; then script+='; s/\bInvalidation\b/OriginInvalidation/g'; fi
    sed -E "$script" "$file" >"$out/sources/${file//\//_}"
done <<<"$list"
# A debug build will do where there is no release build; the packages are not what is looked at.
built=$(swift build -c release --show-bin-path)
[[ -r $built/Modules/NIOHTTP1.swiftmodule ]] || built=$(swift build --show-bin-path)
[[ -r $built/Modules/NIOHTTP1.swiftmodule ]] || swift build --build-tests
# Copies: the rooms' own modules must not be found.
mkdir -p "$out/modules"
objects=() includes=()
for module in "${packages[@]}"; do
    if [[ -d $built/$module.build ]]; then
        while read -r object; do objects+=("$object"); done < <(find "$built/$module.build" -name '*.o')
        if [[ -r $built/$module.build/module.modulemap ]]; then
            includes+=(-Xcc "-fmodule-map-file=$built/$module.build/module.modulemap")
        fi
    fi
    if [[ -r $built/Modules/$module.swiftmodule ]]; then cp "$built/Modules/$module.swiftmodule" "$out/modules"; fi
done
for include in Sources/CLinux/include .build/checkouts/*/Sources/*/include; do includes+=(-Xcc "-I$include"); done
optimisation=-Onone seed=1
if ((seconds > 60)); then optimisation=-O seed=0; fi
# What was compiled from the same sources, by the same compiler and over the same packages is not compiled again.
key=$({ swiftc --version 2>&1 && echo "$optimisation $built" && find Sources/CLinux -type f -print0 | sort -z | xargs -0 cat &&
    cat deploy/fuzz.sh Package.resolved "$out"/sources/*.swift; } | sha256sum)
if [[ -x $out/fuzz && $(cat "$out/fuzz.key" 2>/dev/null) == "$key" ]]; then
    echo "fuzz: compiled before"
else
    echo "fuzz: compiling"
    rm -f "$out/fuzz.key"
    swiftc $optimisation -wmo -num-threads 2 -swift-version 6 -package-name stalecast -module-name Fuzz -parse-as-library \
        -sanitize=fuzzer -enable-upcoming-feature MemberImportVisibility -I "$out/modules" "${includes[@]}" -o "$out/fuzz" \
        "$out"/sources/*.swift "${objects[@]}"
    echo "$key" >"$out/fuzz.key"
fi

mapfile -t targets < <(ls Tests/Fuzz/corpus)
share=$((seconds / ${#targets[@]}))
share=$((share > 0 ? share : 1))
# fuzz TARGET: for its share of the time.
fuzz() {
    local target=$1
    mkdir -p "$out/corpus/$target"
    if ! SWIFT_BACKTRACE=enable=no STALECAST_FUZZ=$target "$out/fuzz" -seed=$seed -max_total_time=$share -timeout=5 -rss_limit_mb=2048 \
        -max_len=4096 -print_final_stats=0 -verbosity=0 -artifact_prefix="$out/$target-" "$out/corpus/$target" \
        "Tests/Fuzz/corpus/$target" >"$out/$target.log" 2>&1; then
        tail -40 "$out/$target.log"
        echo "fuzz: $target FAILED, its input is in $out/$target-…"
        return
    fi
    echo "fuzz: $target, $share s, $(find "$out/corpus/$target" -type f | wc -l) inputs"
    echo "$target" >>"$out/passed"
}
# One on each of two processors.
: >"$out/passed"
for target in "${targets[@]}"; do
    while (($(jobs -rp | wc -l) >= 2)); do wait -n || true; done
    fuzz "$target" &
done
wait
(($(wc -l <"$out/passed") == ${#targets[@]}))
