#!/usr/bin/env bash
# Runs a command where every DNS lookup goes unanswered: deploy/with-silent-dns.sh COMMAND…
#
# The command gets a mount namespace of its own with an /etc/resolv.conf that names 127.0.0.9, where a socket swallows
# what it is sent, and with an /etc/hosts of its own that it may change. Needs root. STALECAST_SILENT_DNS is set for the command.
set -euo pipefail
if (($# == 0)) || [[ $1 == --help ]]; then
    sed -n '2,5s/^# //p' "$0" && exit
fi
configuration=$(mktemp)
hosts=$(mktemp)
trap 'rm -f "$configuration" "$hosts"' EXIT
cp /etc/hosts "$hosts"
printf 'nameserver 127.0.0.9\noptions timeout:5 attempts:1\n' >"$configuration"
export STALECAST_SILENT_DNS=127.0.0.9
python3 - "$configuration" "$hosts" "$@" <<'PYTHON'
import socket, subprocess, sys
hole = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
hole.bind(("127.0.0.9", 53))
mount = 'mount --bind "$1" /etc/resolv.conf && mount --bind "$2" /etc/hosts && shift 2 && exec "$@"'
sys.exit(subprocess.run(["unshare", "--mount", "bash", "-c", mount, "bash", *sys.argv[1:]]).returncode)
PYTHON
