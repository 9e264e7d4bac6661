#!/usr/bin/env bash
# Builds the binary that is shipped: Swift's libraries inside, stripped, runs on a Debian 12 without Swift.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'TEXT'
deploy/install.sh [--to DIR] [--configuration NAME]

Builds the release binary with Swift's libraries linked in, strips it, and installs it as DIR/stalecast. What it needs of
the machine it runs on are Debian's own libraries: apt-get install libcurl4 libsqlite3-0 zlib1g libstdc++6.

  --to DIR               where the binary goes (default: /usr/local/bin)
  --configuration NAME   release (default), or debug
  --help                 this text

For a service, afterwards: deploy/stalecast.service.
TEXT
}

to=/usr/local/bin configuration=release
while (($#)); do
    case $1 in
    --help | -h) usage && exit ;;
    --to) to=${2:?--to needs a directory} && shift 2 ;;
    --configuration) configuration=${2:?--configuration needs a name} && shift 2 ;;
    *) usage >&2 && exit 2 ;;
    esac
done

source deploy/packages.sh
require_swift
install_missing "${build_packages[@]}"
build_swift -c "$configuration" --product stalecast
bin=$(swift build -c "$configuration" --show-bin-path)
mkdir -p "$to"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Linked in, not compiled in: a plain `swift build` needs no git, and another commit compiles nothing again.
described=$(describe_build)
read -r build revision <<<"$described"
printf 'const char *stalecast_build(void) { return "%s"; }\nconst char *stalecast_revision(void) { return "%s"; }\n' \
    "$build" "$revision" >"$work/build.c"
clang -c -O1 -fPIC -o "$work/build.o" "$work/build.c"
# What is compiled already is linked once more: the package manager's --static-swift-stdlib would compile everything
# again. Foundation's parts do not name the archives they need themselves.
foundation=(FoundationNetworking Foundation CoreFoundation _CFURLSessionInterface FoundationInternationalization
    FoundationEssentials _FoundationCShims _FoundationCollections _FoundationICU)
swiftc -static-stdlib -emit-executable -o "$to/stalecast.new" -Xlinker --defsym=main=stalecast_main -Xlinker -s \
    -Xlinker -z -Xlinker relro -Xlinker -z -Xlinker now \
    "$work/build.o" "@$bin/stalecast.product/Objects.LinkFileList" "${foundation[@]/#/-l}" -lcurl -lsqlite3 -lz \
    2> >(grep -vE "mktemp|^$" >&2)
mv "$to/stalecast.new" "$to/stalecast"
"$to/stalecast" version
echo "installed as $to/stalecast"
