#!/usr/bin/env bash
# Makes the image of deploy/Dockerfile without Docker and without a registry, of a binary that was built already.
set -euo pipefail
cd "$(dirname "$0")/.."

usage() {
    cat <<'TEXT'
deploy/image.sh --binary FILE --to ARCHIVE [--state DIR]

Runs deploy/Dockerfile with buildah and writes an OCI archive, which `docker load` and `podman load` read. (OCI
has no HEALTHCHECK: compose.yaml names it again.)
Where Docker would pull images, local ones stand in: debian:bookworm-slim is a Debian 12 that mmdebstrap makes, and
swift:6.3-bookworm is that Debian with compilers that hand over FILE. So nothing is compiled, and all of the Dockerfile
runs. Needs root.

  --binary FILE   made by deploy/install.sh
  --to ARCHIVE    the OCI archive
  --state DIR     where the Debian and buildah's storage are kept (default: .build/image)
  --help          this text
TEXT
}

binary='' to='' state=.build/image
while (($#)); do
    case $1 in
    --help | -h) usage && exit ;;
    --binary) binary=$(realpath "${2:?--binary needs a file}") && shift 2 ;;
    --to) to=$(realpath "${2:?--to needs a file}") && shift 2 ;;
    --state) state=${2:?--state needs a directory} && shift 2 ;;
    *) usage >&2 && exit 2 ;;
    esac
done
[[ -n $binary && -n $to ]] || { usage >&2 && exit 2; }

source deploy/packages.sh
install_missing buildah mmdebstrap
mkdir -p "$state"
state=$(realpath "$state")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date +%s)}
version=$("$binary" version)
version=$(semantic "$version")
run() { buildah --storage-driver vfs --root "$state/storage" --runroot "$state/run" "$@"; }

# has_image NAME: whether it is there.
has_image() { run inspect --type image "$1" >/dev/null 2>&1; }

# commit CONTAINER NAME: makes it the image of that name.
commit() { run commit --quiet --rm --timestamp "$SOURCE_DATE_EPOCH" "$1" "$2" >/dev/null; }

slim=docker.io/library/debian:bookworm-slim swift=docker.io/library/swift:6.3-bookworm
if ! has_image "$slim"; then
    if [[ ! -f $state/bookworm.tar ]]; then
        # What Debian's slim images leave out as well.
        mmdebstrap --quiet --variant=minbase --format=tar --dpkgopt='path-exclude=/usr/share/doc/*' \
            --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
            bookworm "$state/bookworm.tar.new"
        mv "$state/bookworm.tar.new" "$state/bookworm.tar"
    fi
    container=$(run from scratch)
    run add --quiet "$container" "$state/bookworm.tar" / >/dev/null
    commit "$container" "$slim"
fi

# Stands in for the toolchain, so that deploy/install.sh runs as it is.
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
cp "$binary" "$tools/made"
printf '#!/bin/sh\nprintf "%%s\\n" "$@" | grep -qx -e --show-bin-path && echo /tmp\nexit 0\n' >"$tools/swift"
cat >"$tools/swiftc" <<'SH'
#!/bin/sh
while [ "$1" != -o ]; do shift; done
cp /usr/bin/made "$2"
SH
printf '#!/bin/sh\nexit 0\n' >"$tools/clang"
chmod 755 "$tools"/*
container=$(run from --pull-never "$slim")
run add --quiet "$container" "$tools" /usr/bin/ >/dev/null
commit "$container" "$swift"

# HEALTHCHECK is Docker's; OCI's own format has no place for it.
run build --isolation chroot --pull-never --no-cache --format docker --timestamp "$SOURCE_DATE_EPOCH" --quiet \
    --tag "stalecast:$version" -f deploy/Dockerfile . >/dev/null
rm -f "$to"
run push --quiet --format oci "stalecast:$version" "oci-archive:$to:stalecast:$version"
run images --format '{{.Name}}:{{.Tag}} {{.Size}}' "stalecast:$version"
