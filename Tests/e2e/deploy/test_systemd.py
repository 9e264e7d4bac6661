"""The service under a systemd that was booted, in a container of systemd-nspawn: its unit with all of its confinement."""

import subprocess

import pytest

from harness.daemon import LONG
from harness.debian import Debian, next_version, run

LIFE = r"""
set -eux
wait_for() { for _ in $(seq 300); do "$@" && return; sleep 0.1; done; return 1; }
pid() { systemctl show --property MainPID --value stalecast; }
ada() { runuser -u ada -- "$@"; }

dpkg --install /first.deb
systemctl is-active stalecast
systemctl is-enabled stalecast
useradd -m -G stalecast ada
cd /
ada stalecast publish /template.json

# As the unit says: no way to more rights, a filter of system calls. A container may not raise the limit above its own.
[ "$(systemctl show --property LimitNOFILE --value stalecast)" = 1048576 ]
grep -E '^NoNewPrivs:.1$' /proc/$(pid)/status
grep -E '^Seccomp:.2$' /proc/$(pid)/status
grep -E "^Uid:.$(id -u stalecast)" /proc/$(pid)/status

# A subscriber that stays through all that follows.
ada stalecast watch >/watched 2>&1 &
wait_for ada sh -c 'stalecast status --json | grep -q "\"streams\": 1"'

crashed=$(pid)
systemctl kill --signal=KILL stalecast
wait_for sh -c "systemctl is-active stalecast && [ \$(systemctl show --property MainPID --value stalecast) != $crashed ]"
ada stalecast versions --json | grep '"versionNumber": "1"'

systemctl reload stalecast
# What is refused is said to the caller, and not taken.
cp /etc/stalecast/stalecast.yaml /kept
echo 'nonsense: 1' >/etc/stalecast/stalecast.yaml
systemctl reload stalecast && exit 1
cp /kept /etc/stalecast/stalecast.yaml
systemctl is-active stalecast
[ "$(systemctl show --property WatchdogUSec --value stalecast)" = 1min ]
# The journal knows priorities: nothing was as bad as an error.
journalctl -u stalecast -p notice -o cat --no-pager | grep -q 'audit log' && exit 1
journalctl -u stalecast -p info -o cat --no-pager | grep 'audit log'
systemctl restart stalecast
systemctl is-active stalecast
systemctl stop stalecast
[ "$(systemctl show --property ExecMainStatus --value stalecast)" = 0 ]
test ! -e /run/stalecast/endpoints.json

# A configuration with problems is not tried again and again.
cp /etc/stalecast/stalecast.yaml /kept
echo 'nonsense: 1' >/etc/stalecast/stalecast.yaml
systemctl start stalecast && exit 1
[ "$(systemctl show --property ExecMainStatus --value stalecast)" = 78 ]
sleep 2
[ "$(systemctl show --property ActiveState --value stalecast)" = failed ]
echo 'log: {level: debug}' >/etc/stalecast/stalecast.yaml
systemctl start stalecast

before=$(pid)
dpkg --force-confdef --force-confold --install /next.deb
systemctl is-active stalecast
[ "$(pid)" != "$before" ]
[ "$(cat /etc/stalecast/stalecast.yaml)" = 'log: {level: debug}' ]

wait_for ada sh -c 'stalecast status --json | grep -q "\"streams\": 1"'
ada stalecast publish /template.json --force
wait_for grep -q 'version 2\|2' /watched

dpkg --purge stalecast
systemctl is-active stalecast && exit 1
test ! -e /var/lib/stalecast
test ! -e /run/stalecast
echo all of it
"""


@pytest.mark.limit(900)
@pytest.mark.skipif(not LONG, reason="booting a Debian takes minutes: deploy/test.sh --long")
def test_the_service_lives_and_dies_as_systemd_says(package, tool, tmp_path):
    nspawn = tool("systemd-nspawn")
    debian = Debian(tmp_path / "debian", tool)
    depends = "libcurl4 libsqlite3-0 libstdc++6 zlib1g ca-certificates"
    debian.run(f"apt-get -qq update && apt-get -qq -y --no-install-recommends install systemd-sysv dbus {depends}")
    (debian.root / "usr/sbin/policy-rc.d").unlink()
    run("cp", package, debian.root / "first.deb")
    run("cp", next_version(package, tmp_path), debian.root / "next.deb")
    (debian.root / "template.json").write_text('{"parameters":{"a":{"defaultValue":{"value":"1"}}}}')
    (debian.root / "life.sh").write_text(LIFE)
    (debian.root / "etc/machine-id").write_text("")
    (debian.root / "etc/systemd/system/life.service").write_text(
        "[Unit]\nAfter=multi-user.target\n[Service]\nType=oneshot\n"
        "ExecStart=/bin/sh -c 'sh /life.sh >/life.log 2>&1; journalctl -u stalecast >/journal; systemctl poweroff'\n"
        "[Install]\nWantedBy=multi-user.target\n")
    debian.run("systemctl enable life.service")
    # A network of its own: the ports are the defaults.
    booted = subprocess.run([nspawn, "--boot", "--register=no", "--keep-unit", "--private-network", "--directory",
                             str(debian.root), "--machine=stalecast-test"], capture_output=True, text=True, check=False)
    log = debian.root / "life.log"
    if not log.exists():
        pytest.skip(f"systemd was not booted here: {booted.stdout[-300:]}{booted.stderr[-300:]}")
    assert log.read_text().endswith("all of it\n"), log.read_text()[-3000:] + (debian.root / "journal").read_text()[-3000:]
