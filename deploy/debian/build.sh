#!/usr/bin/env bash
# Makes the Debian package: stalecast_VERSION_ARCHITECTURE.deb.
set -euo pipefail
cd "$(dirname "$0")/../.."

usage() {
    cat <<'TEXT'
deploy/debian/build.sh [--binary FILE] [--to DIR]

Makes DIR/stalecast_VERSION_ARCHITECTURE.deb of a binary that deploy/install.sh made. With SOURCE_DATE_EPOCH set, the same
binary gives the same bytes.

  --binary FILE   that binary (default: build one)
  --to DIR        where the package goes (default: .build/package)
  --help          this text
TEXT
}

to=.build/package binary=''
while (($#)); do
    case $1 in
    --help | -h) usage && exit ;;
    --binary) binary=$(realpath "${2:?--binary needs a file}") && shift 2 ;;
    --to) to=${2:?--to needs a directory} && shift 2 ;;
    *) usage >&2 && exit 2 ;;
    esac
done

source deploy/packages.sh
install_missing dpkg-dev python3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [[ -z $binary ]]; then
    deploy/install.sh --to "$work/bin"
    binary=$work/bin/stalecast
fi
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(date +%s)}
umask 022
maintainer="${DEBFULLNAME:-Stalecast} <${DEBEMAIL:-stalecast@example.org}>"

tree=$work/root
share=$tree/usr/share
doc=$share/doc/stalecast
version=$("$binary" version)
architecture=$(dpkg --print-architecture)
install -D -m 755 "$binary" "$tree/usr/bin/stalecast"

mkdir -p "$share/man/man1"
deploy/debian/manual.py "$binary" "$share/man/man1"
gzip -9n "$share"/man/man1/*
complete() { mkdir -p "$share/$2" && "$binary" completion "$1" | sed '1{/^#!/d;}' >"$share/$2/$3"; }
complete bash bash-completion/completions stalecast
complete zsh zsh/vendor-completions _stalecast
complete fish fish/vendor_completions.d stalecast.fish

# The reference changes with each version. What an operator changes must not, or dpkg asks at every upgrade.
mkdir -p "$tree/etc/stalecast" "$doc"
"$binary" check-config --explain >"$doc/stalecast.yaml"
cat >"$tree/etc/stalecast/stalecast.yaml" <<'YAML'
# Configuration of stalecast. Without any key every default holds; /usr/share/doc/stalecast/stalecast.yaml has all keys
# with meaning, unit and default, and so has `stalecast check-config --explain`.
#
# stalecast check-config --config /etc/stalecast/stalecast.yaml   reports problems with their lines
# systemctl reload stalecast                                      takes a change, without dropping a stream
YAML
install -D -m 644 deploy/debian/default "$tree/etc/default/stalecast"
install -D -m 644 deploy/debian/sysusers.conf "$tree/usr/lib/sysusers.d/stalecast.conf"
install -D -m 644 deploy/debian/tmpfiles.conf "$tree/usr/lib/tmpfiles.d/stalecast.conf"

# The unit of a copied binary with the package's paths and its static user, whom operators can join.
unit=$tree/lib/systemd/system/stalecast.service
mkdir -p "$(dirname "$unit")"
# systemd, not this shell, puts the options in.
# shellcheck disable=SC2016
check='/usr/bin/stalecast check-config --for-start --config /etc/stalecast/stalecast.yaml $STALECAST_OPTIONS'
# shellcheck disable=SC2016
serve='/usr/bin/stalecast serve --config /etc/stalecast/stalecast.yaml --data /var/lib/stalecast $STALECAST_OPTIONS'
sed -e '1,/^\[Unit\]/{/^#/d;}' -e '/^# Only what exists/d' -e "s|^ExecStart=.*|ExecStart=$serve|" \
    -e "s|^ExecReload=.*check-config.*|ExecReload=$check|" \
    -e 's|^Description=.*|&\nDocumentation=man:stalecast(1) file:///usr/share/doc/stalecast/operating.md|' \
    -e 's|^DynamicUser=yes|User=stalecast\nGroup=stalecast\nRemoveIPC=yes|' -e 's|DynamicUser can|its user can|' \
    -e 's|^Environment=.*|&\nEnvironmentFile=-/etc/default/stalecast|' deploy/stalecast.service >"$unit"

install -m 644 deploy/stalecast.socket "$tree/lib/systemd/system/stalecast.socket"

mkdir -p "$doc"
cp deploy/docs/*.md "$doc"
gzip -9nc deploy/CHANGES.md >"$doc/changelog.gz"
cp -r deploy/proxy "$doc"
if [[ -d deploy/monitoring ]]; then cp -r deploy/monitoring "$doc"; fi
chmod -R u=rwX,go=rX "$doc"
{
    echo "stalecast ($version) bookworm; urgency=medium"
    printf '\n  * What changed: /usr/share/doc/stalecast/changelog.gz.\n\n'
    echo " -- $maintainer  $(date -u -R -d "@$SOURCE_DATE_EPOCH")"
} | gzip -9n >"$doc/changelog.Debian.gz"
deploy/debian/copyright.sh >"$doc/copyright"

install -D -m 644 deploy/debian/lintian-overrides "$share/lintian/overrides/stalecast"

mkdir -p "$tree/DEBIAN" "$work/debian"
install -m 755 deploy/debian/{postinst,prerm,postrm} "$tree/DEBIAN"
printf '%s\n' /etc/default/stalecast /etc/stalecast/stalecast.yaml >"$tree/DEBIAN/conffiles"
# It wants a source package's control file beside it.
printf 'Source: stalecast\n\nPackage: stalecast\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O "$binary" | sed 's/^shlibs:Depends=//')
cat >"$tree/DEBIAN/control" <<TEXT
Package: stalecast
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Section: net
Priority: optional
Installed-Size: $(du -sk --apparent-size "$tree" | cut -f1)
Depends: $depends, ca-certificates, systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles
Recommends: tzdata
Suggests: nginx | haproxy | caddy, prometheus
Description: tells clients of a remote configuration that it changed
 Stalecast keeps the versions of a configuration template behind Firebase Remote
 Config's REST API. On every publish or rollback it sends a message to the
 subscribers of a topic, over server-sent events, long-poll and webhooks, and
 they fetch anew. It can also watch a config server that is already there.
TEXT
(cd "$tree" && find usr etc lib -type f ! -path 'etc/*' -print0 | sort -z | xargs -0 md5sum) >"$work/md5sums"
install -m 644 "$work/md5sums" "$tree/DEBIAN/md5sums"

find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -print0 | xargs -0r touch -h -d "@$SOURCE_DATE_EPOCH"
mkdir -p "$to"
dpkg-deb --root-owner-group --build "$tree" "$to/stalecast_${version}_$architecture.deb"
