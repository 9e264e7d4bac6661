#!/usr/bin/env bash
# Compiles the fuzz targets (libFuzzer, all readers in one instrumented module) and runs each for a share of the time.
#   deploy/fuzz.sh [--seconds N]   N in all, default 30; a crash's input is kept in .build/fuzz and printed
# Inputs that were worth keeping lie in Tests/Fuzz/corpus/<target>; new ones stay in .build/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
seconds=30
if [[ ${1:-} == --seconds ]]; then seconds=$2; fi

out=.build/fuzz
rm -rf "$out/sources"
mkdir -p "$out/sources"
files() {
    find Sources/StalecastWire -maxdepth 1 -name '*.swift' ! -name Inflater.swift
    find Sources/StalecastTemplate -name '*.swift' ! -name RandomBucket.swift
    find Sources -name LenientJSON.swift
    find Sources/StalecastHub -name '*.swift'
    find Sources/StalecastEdge -name StreamRequest.swift -o -name Recogniser.swift
    find Sources/StalecastHTTP -name HostRule.swift -o -name ETagSpelling.swift -o -name PercentEncoding.swift
    find Sources/StalecastLoad -name ChunkDecoder.swift -o -name ByteSearch.swift
    find Tests/Fuzz -maxdepth 1 -name '*.swift'
}
# One module, so that the optimiser and the coverage see all of it: the rooms' own imports go.
while read -r file; do
    sed -E 's/^((package|internal|public) )?import Stalecast.*//; s/^(package|internal|public) import/import/' "$file" >"$out/sources/${file//\//_}"
done < <(files)
echo "fuzz: compiling"
swiftc -O -wmo -swift-version 6 -package-name stalecast -module-name Fuzz -parse-as-library -sanitize=fuzzer \
    -enable-upcoming-feature MemberImportVisibility -o "$out/fuzz" "$out"/sources/*.swift

targets=$(ls Tests/Fuzz/corpus)
share=$((seconds / $(wc -w <<<"$targets")))
share=$((share > 0 ? share : 1))
for target in $targets; do
    mkdir -p "$out/corpus/$target" "Tests/Fuzz/corpus/$target"
    if ! SWIFT_BACKTRACE=enable=no STALECAST_FUZZ=$target "$out/fuzz" -max_total_time=$share -timeout=5 -rss_limit_mb=2048 -max_len=4096 \
        -print_final_stats=0 -verbosity=0 -artifact_prefix="$out/$target-" "$out/corpus/$target" "Tests/Fuzz/corpus/$target" \
        >"$out/$target.log" 2>&1; then
        tail -40 "$out/$target.log"
        echo "fuzz: $target FAILED, its input is in $out/$target-…"
        exit 1
    fi
    echo "fuzz: $target, $share s, $(find "$out/corpus/$target" -type f | wc -l) inputs"
done
