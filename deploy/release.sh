#!/usr/bin/env bash
# Makes everything that is released, from this commit: tests, package, archive, image, chart, bill of materials, sums.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'TEXT'
deploy/release.sh [--to DIR] [--no-tests] [--no-image] [--binary FILE] [--sign KEY]
deploy/release.sh --check

Wants a clone without changes. Runs deploy/test.sh --strict, builds the binary once, and puts into DIR

  stalecast_VERSION_ARCHITECTURE.deb    stalecast-VERSION-linux-ARCHITECTURE.tar.gz    stalecast-VERSION.oci.tar
  stalecast-VERSION.tgz (the chart)     stalecast-VERSION.cdx.json (CycloneDX)         SHA256SUMS
  SHA256SUMS.asc (with --sign)

The version is that of Sources/StalecastDaemon/Daemon.swift when this commit has the tag VERSION or vVERSION. Before
that it is VERSION~gitNUMBER.COMMIT, which Debian sorts before VERSION; chart and image spell it VERSION-git.NUMBER.gCOMMIT.
A tag of another version, or one that deploy/CHANGES.md has no heading for, is refused. Times are the commit's (SOURCE_DATE_EPOCH), so
the same binary gives the same bytes, and linking the same objects twice gives the same binary. What compiling makes differ is
the place: source paths are written into it (235 of them, BoringSSL's). Two compilations
were not compared, nor two images.

  --to DIR        new, empty or a release's, which is replaced; default: .build/release-VERSION
  --no-tests      leaves the tests out
  --no-image      leaves the image out, which needs root
  --binary FILE   one that deploy/install.sh has made, instead of building it
  --check         only looks whether this commit's tags may be released
  --sign KEY      signs SHA256SUMS with this secret key of gpg (its name, address or fingerprint)
  --help          this text
TEXT
}

source deploy/packages.sh

# check_tags: ends when a tag of this commit that names a version is not the source's, or CHANGES.md has no heading for it.
check_tags() {
    local tag
    for tag in $(git tag --points-at HEAD | grep -E '^v?[0-9]+\.'); do
        if [[ ${tag#v} != "$(release)" ]]; then
            echo "This commit has the tag $tag, and Sources/StalecastDaemon/Daemon.swift says $(release)." >&2
            exit 1
        elif ! grep -qx "## $(release)" deploy/CHANGES.md; then
            echo "This commit has the tag $tag, and deploy/CHANGES.md has no heading \"## $(release)\"." >&2
            exit 1
        fi
    done
}

to='' tests=1 image=1 binary='' key=''
while (($#)); do
    case $1 in
    --help | -h) usage && exit ;;
    --to) to=${2:?--to needs a directory} && shift 2 ;;
    --check) check_tags && exit ;;
    --no-tests) tests=0 && shift ;;
    --no-image) image=0 && shift ;;
    --binary) binary=$(realpath "${2:?--binary needs a file}") && shift 2 ;;
    --sign) key=${2:?--sign needs a key} && shift 2 ;;
    *) usage >&2 && exit 2 ;;
    esac
done
# Checked before the work: an hour later no person is at the terminal.
if ((image)) && ((EUID != 0)); then
    echo "The image needs root: run this as root, or with --no-image." >&2
    exit 1
fi
# An interrupted run leaves a part of a release there.
if [[ -d $to && -n $(find "$to" -mindepth 1 ! -name 'stalecast[-_]*' ! -name 'SHA256SUMS*' -print -quit) ]]; then
    echo "$to holds something else than a release, and would be emptied: name another directory." >&2
    exit 1
fi
[[ -n $binary ]] || require_swift
if [[ -n $key ]] && ! gpg --batch --list-secret-keys "$key" >/dev/null; then
    echo "gpg has no secret key $key; import it, or leave --sign out." >&2
    exit 1
fi

install_missing dpkg-dev python3
if ((image)); then install_missing buildah mmdebstrap; fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
if [[ -z $binary ]]; then
    if [[ -n $(git status --porcelain) ]]; then
        echo 'This clone has changes: commit them, or clone anew.' >&2
        exit 1
    fi
    check_tags
    if ((tests)); then deploy/test.sh --strict; fi
    deploy/install.sh --to "$work/bin"
    binary=$work/bin/stalecast
fi
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
version=$("$binary" version)
architecture=$(dpkg --print-architecture)
to=${to:-.build/release-$version}
rm -rf "$to"
mkdir -p "$to"
to=$(realpath "$to")

# pack ARCHIVE DIRECTORY: the same bytes for the same files; compressed as the package is when a test wants it quick.
pack() {
    tar --directory "$(dirname "$2")" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
        --mode=u=rwX,go=rX --dereference --format=gnu -cf - "$(basename "$2")" |
        gzip -n "-${DPKG_DEB_COMPRESSOR_LEVEL:-6}" >"$1"
}

deploy/debian/build.sh --binary "$binary" --to "$to"

# What the package installs, for other systems.
name=stalecast-$version-linux-$architecture
mkdir -p "$work/$name"
dpkg-deb --fsys-tarfile "$to/stalecast_${version}_$architecture.deb" |
    tar --directory "$work/$name" --strip-components=2 -xf - ./usr/bin ./usr/share
rm -r "$work/$name/share/lintian"
cp deploy/stalecast.service deploy/stalecast.socket "$work/$name"
pack "$to/$name.tar.gz" "$work/$name"

semantic=$(semantic "$version")
mkdir "$work/chart"
cp -rL deploy/chart "$work/chart/stalecast"
rm "$work/chart/stalecast/monitoring/alerts.test.yaml" "$work/chart/stalecast/monitoring/dashboard.json"
sed -i -e '/^# Both versions/d' -e "s/^\(version\|appVersion\): .*/\1: $semantic/" "$work/chart/stalecast/Chart.yaml"
pack "$to/stalecast-$semantic.tgz" "$work/chart/stalecast"

deploy/sbom.py "$binary" >"$to/stalecast-$version.cdx.json"
if ((image)); then deploy/image.sh --binary "$binary" --to "$to/stalecast-$semantic.oci.tar"; fi
(cd "$to" && sha256sum -- * >"$work/sums" && mv "$work/sums" SHA256SUMS)
if [[ -n $key ]]; then gpg --batch --yes --local-user "$key" --armor --detach-sign "$to/SHA256SUMS"; fi
ls -l "$to"
