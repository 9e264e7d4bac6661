"""The service under a systemd that was booted, in a container of systemd-nspawn: its unit with all of its confinement."""

import os
import subprocess

import pytest

from harness.debian import Debian, as_version, problem_within, run

BEGIN = r"""
set -eux
wait_for() { for _ in $(seq 300); do "$@" && return; sleep 0.1; done; return 1; }
property() { systemctl show --property "$1" --value stalecast; }
pid() { property MainPID; }
ada() { runuser -u ada -- "$@"; }
# As unattended-upgrades and provisioning do: no operator answers prompts.
install() { DEBIAN_FRONTEND=noninteractive apt-get -qq -y "$@" </dev/null; }
cd /
"""

# The service of the package, and what its commands do to it.
LIFE = BEGIN + r"""
install install /this.deb
systemctl is-active stalecast
systemctl is-enabled stalecast
useradd -m -G stalecast ada
ada stalecast publish /template.json

# As the unit says: no way to more rights, a filter of system calls. A container may not raise the limit above its own.
[ "$(property LimitNOFILE)" = 1048576 ]
grep -E '^NoNewPrivs:.1$' /proc/$(pid)/status
grep -E '^Seccomp:.2$' /proc/$(pid)/status
grep -E "^Uid:.$(id -u stalecast)" /proc/$(pid)/status

# A subscriber that stays through all that follows.
ada stalecast watch >/watched 2>&1 &
wait_for ada sh -c 'stalecast status --json | grep -q "\"streams\": 1"'

crashed=$(pid)
systemctl kill --signal=KILL stalecast
wait_for sh -c "systemctl is-active stalecast && ! systemctl show --property MainPID --value stalecast | grep -qxE '0|$crashed'"
ada stalecast versions --json | grep '"versionNumber": "1"'

systemctl reload stalecast
# What is refused is said to the caller, and not taken.
cp /etc/stalecast/stalecast.yaml /kept
echo 'nonsense: 1' >/etc/stalecast/stalecast.yaml
systemctl reload stalecast && exit 1
cp /kept /etc/stalecast/stalecast.yaml
systemctl is-active stalecast
[ "$(property WatchdogUSec)" = 1min ]
# The journal knows priorities: nothing was as bad as an error.
journalctl -u stalecast -p notice -o cat --no-pager | grep -q 'audit log' && exit 1
journalctl -u stalecast -p info -o cat --no-pager | grep 'audit log'
systemctl restart stalecast
systemctl is-active stalecast
ada stalecast publish /template.json --force
wait_for grep -q 'version 2' /watched

# What root does leaves files that the service can read.
stalecast token rotate --yes --data /var/lib/stalecast
ada stalecast status
stalecast backup /stalecast.backup --data /var/lib/stalecast
systemctl stop stalecast
[ "$(property ExecMainStatus)" = 0 ]
test ! -e /run/stalecast/endpoints.json
stalecast restore /stalecast.backup --yes --data /var/lib/stalecast
[ -z "$(find /var/lib/stalecast ! -user stalecast)" ]
systemctl start stalecast
ada stalecast versions --json | grep '"versionNumber": "2"'
systemctl stop stalecast

# A port that is taken for longer than systemd's usual five tries.
mkdir -p /run/systemd/system/stalecast.service.d
printf '[Service]\nRestartSec=50ms\n' >/run/systemd/system/stalecast.service.d/soon.conf
systemctl daemon-reload
perl -MIO::Socket::INET -e '$taken = IO::Socket::INET->new(Listen => 1, LocalAddr => "127.0.0.1:8080", ReuseAddr => 1) or die; sleep' &
holder=$!
wait_for sh -c 'grep -q ":1F90 .* 0A " /proc/net/tcp'
systemctl start stalecast && exit 1
wait_for sh -c '[ $(systemctl show --property NRestarts --value stalecast) -gt 6 ]'
kill $holder
wait_for systemctl --quiet is-active stalecast
rm -r /run/systemd/system/stalecast.service.d
systemctl daemon-reload

# A configuration with problems is not tried again and again.
systemctl stop stalecast
echo 'nonsense: 1' >/etc/stalecast/stalecast.yaml
systemctl start stalecast && exit 1
[ "$(property ExecMainStatus)" = 78 ]
wait_for sh -c '[ $(systemctl show --property ActiveState --value stalecast) = failed ]'
[ "$(property NRestarts)" = 0 ]
install purge stalecast
test ! -e /var/lib/stalecast
echo all of it
"""

# Upgrades of a package that was installed long ago, until the machine goes down.
UPGRADES = BEGIN + r"""
install install /old.deb
useradd -m -G stalecast ada
echo 'log: {level: debug}' >/etc/stalecast/stalecast.yaml
systemctl restart stalecast
ada stalecast publish /template.json
ada stalecast watch >/watched 2>&1 &
wait_for ada sh -c 'stalecast status --json | grep -q "\"streams\": 1"'

# Both changed the file, the operator and the package.
before=$(pid)
install -o Dpkg::Options::=--force-confold install /this.deb >/upgrade.log 2>&1
grep -q 'What would you like' /upgrade.log && exit 1
systemctl is-active stalecast
[ "$(pid)" != "$before" ]
[ "$(cat /etc/stalecast/stalecast.yaml)" = 'log: {level: debug}' ]
test -e /etc/stalecast/stalecast.yaml.dpkg-dist

# From then on the package leaves the file as it was, and no option is needed.
before=$(pid)
install install /next.deb
systemctl is-active stalecast
[ "$(pid)" != "$before" ]
[ "$(cat /etc/stalecast/stalecast.yaml)" = 'log: {level: debug}' ]
wait_for ada sh -c 'stalecast status --json | grep -q "\"streams\": 1"'
ada stalecast publish /template.json --force
wait_for grep -q 'version 2' /watched

# A configuration that the next version refuses: the process that serves is left alone.
before=$(pid)
echo 'nonsense: 1' >>/etc/stalecast/stalecast.yaml
install install /after.deb 2>&1 | tee /refused.log
grep 'the running process was left alone' /refused.log
[ "$(pid)" = "$before" ]
ada stalecast status
sed -i '$d' /etc/stalecast/stalecast.yaml
systemctl restart stalecast
echo all of it
"""

# The machine comes up again; then the package is removed, installed again, and purged.
REBOOTED = BEGIN + r"""
wait_for systemctl --quiet is-active stalecast
ada stalecast versions --json | grep '"versionNumber": "2"'
ada stalecast publish /template.json --force
journalctl -b -u stalecast -o cat --no-pager | grep -q 'was killed or crashed' && exit 1

# What the operator turned off stays off.
systemctl disable --now stalecast
install reinstall /after.deb
systemctl --quiet is-enabled stalecast && exit 1
systemctl enable stalecast

install remove stalecast
test -e /var/lib/stalecast/stalecast.sqlite
[ "$(cat /etc/stalecast/stalecast.yaml)" = 'log: {level: debug}' ]
install install /after.deb
systemctl is-active stalecast
ada stalecast versions --json | grep '"versionNumber": "3"'

install purge stalecast
systemctl is-active stalecast && exit 1
systemctl list-unit-files | grep stalecast && exit 1
deluser ada stalecast 2>/dev/null || true
rm /*.deb
[ -z "$(find / -xdev -name '*stalecast*' -not -path '/proc/*' -not -path '/sys/*' -not -path '/var/cache/apt/*' \
    -not -path '/var/log/*')" ]
getent passwd stalecast && exit 1
echo all of it
"""


class Booted:
    """A Debian that boots, runs a script as root, and goes down; again with the next script."""

    def __init__(self, directory, tool):
        self.nspawn = tool("systemd-nspawn")
        self.root = (debian := Debian(directory, tool)).root
        (self.root / "usr/sbin/policy-rc.d").unlink()
        (self.root / "template.json").write_text('{"parameters":{"a":{"defaultValue":{"value":"1"}}}}')
        (self.root / "etc/machine-id").write_text("")
        # Not ordered behind multi-user.target: installing starts a unit that this target waits for.
        (self.root / "etc/systemd/system/life.service").write_text(
            "[Unit]\nAfter=dbus.service\n[Service]\nType=oneshot\n"
            "ExecStart=/bin/sh -c 'sh /life.sh >/life.log 2>&1; journalctl -b -u stalecast >/journal; systemctl --no-block poweroff'\n"
            "[Install]\nWantedBy=multi-user.target\n")
        debian.run("systemctl enable life.service")

        if problem := problem_within(60, *self.contained("/bin/true")):
            pytest.skip(f"no container runs here, so no systemd was booted: {problem}")

    def contained(self, *words):
        """A program in a container, with a network of its own: the ports are the defaults."""
        return [self.nspawn, "--register=no", "--keep-unit", "--private-network", f"--directory={self.root}",
                f"--machine=stalecast-{os.getpid()}", *words]

    def boot(self, script):
        (self.root / "life.sh").write_text(script)
        log = self.root / "life.log"
        log.unlink(missing_ok=True)
        booted = subprocess.run(self.contained("--boot"), capture_output=True, text=True, check=False)
        assert log.exists(), booted.stdout[-3000:] + booted.stderr[-3000:]
        said = log.read_text()
        assert said.endswith("all of it\n"), said[-3000:] + (self.root / "journal").read_text()[-3000:]


@pytest.fixture
def booted(tool, tmp_path):
    directory = tmp_path / "debian"
    try:
        yield Booted(directory, tool)
    finally:
        # pytest keeps the last three of its directories, and these have a gigabyte each.
        run("rm", "-rf", "--one-file-system", directory)


@pytest.mark.limit(600)
def test_the_service_lives_and_dies_as_systemd_says(booted, package):
    run("cp", package, booted.root / "this.deb")
    booted.boot(LIFE)


@pytest.mark.limit(600)
def test_a_package_is_upgraded_rebooted_and_purged_with_nobody_there(booted, package, tmp_path):
    for name, version, conffile in (("old", "0.1.0", "# All keys, as an early version had them.\n"), ("next", "99.0.0", None),
                                    ("after", "99.0.1", None)):
        run("cp", as_version(package, version, tmp_path, conffile), booted.root / f"{name}.deb")
    run("cp", package, booted.root / "this.deb")
    booted.boot(UPGRADES)
    booted.boot(REBOOTED)
