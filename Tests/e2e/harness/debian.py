"""A Debian 12 of its own, for what must be installed to be seen."""

import fcntl
import os
import re
import shlex
import subprocess
import time

import pytest

from harness.daemon import REPOSITORY

CHROOT = REPOSITORY / ".build-venv/bookworm-systemd.tar"


def run(*command, **options):
    """Runs a command that must succeed; its standard output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def problem_within(seconds, *command):
    """Why a command failed, or did not end in time; "" when it succeeded. All its processes are ended, so that it clears up."""
    done = subprocess.run(["timeout", "--kill-after=10", str(seconds), *command], stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    if done.returncode in (124, 137):
        return f"it did not end within {seconds} s"
    return done.returncode and (done.stderr[-300:] or f"exit code {done.returncode}") or ""


def semantic(version):
    """The version as charts and images spell it."""
    return re.sub(r"~git(\d+)\.", r"-git.\1.g", version).replace("~", "-")


def build_package(binary, directory):
    """The Debian package of a binary, lightly compressed, always with the same times."""
    run(REPOSITORY / "deploy/debian/build.sh", "--binary", binary, "--to", directory, env={
        **os.environ, "SOURCE_DATE_EPOCH": "1790000000", "DPKG_DEB_COMPRESSOR_TYPE": "gzip",
        "DPKG_DEB_COMPRESSOR_LEVEL": "1"})
    [deb] = directory.glob("stalecast_*_*.deb")
    return deb


def as_version(package, version, directory, conffile=None):
    """The package as another version, with another reference; `conffile` stands in for its configuration."""
    tree = directory / version
    run("dpkg-deb", "-R", package, tree)
    control = tree / "DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*", f"Version: {version}", control.read_text()))
    (tree / "usr/share/doc/stalecast/stalecast.yaml").write_text("# Another reference.\n")
    if conffile:
        (tree / "etc/stalecast/stalecast.yaml").write_text(conffile)
    run("dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, f"{tree}.deb")
    return f"{tree}.deb"


class Debian:
    """A Debian 12 of its own, with systemd and all that the package depends on: nothing is fetched to install it.

    The first one on a machine takes a minute and Debian's mirror; it is kept, and others are unpacked from it in seconds.
    """

    def __init__(self, directory, tool):
        if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
            pytest.skip("no root, or mounts are not allowed here: the package was not installed")
        CHROOT.parent.mkdir(exist_ok=True)
        with open(CHROOT.with_suffix(".lock"), "w") as lock:  # else each process of `-n` makes one in a fresh clone
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not CHROOT.is_file():
                self.make_chroot(tool("mmdebstrap"))
        directory.mkdir(exist_ok=True)
        self.root = directory
        self.serving = None
        run("tar", "-C", directory, "-xf", CHROOT)
        (directory / "usr/sbin/policy-rc.d").write_text("#!/bin/sh\nexit 101\n")

    @staticmethod
    def make_chroot(mmdebstrap):
        own = CHROOT.with_name(f"{CHROOT.name}.{os.getpid()}")
        packages = "ca-certificates,dbus,libcurl4,libsqlite3-0,libstdc++6,systemd-sysv,zlib1g"
        try:
            if problem := problem_within(300, mmdebstrap, "--quiet", "--variant=minbase", "--format=tar", f"--include={packages}",
                                         "bookworm", own):
                pytest.skip(f"no Debian was made, so the package was not installed: {problem}")
            own.rename(CHROOT)
        finally:
            own.unlink(missing_ok=True)

    def command(self, text, user="root"):
        inside = text if user == "root" else f"exec runuser -u {user} -- sh -c {shlex.quote(text)}"
        return ["unshare", "--mount", "sh", "-c", 'mount -t proc proc "$1/proc" && exec chroot "$1" sh -c "$2"', "sh",
                str(self.root), f"export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive; cd /; {inside}"]

    def run(self, text, user="root"):
        return run(*self.command(text, user))

    def fails(self, text, user="root"):
        done = subprocess.run(self.command(text, user), capture_output=True, text=True, check=False)
        assert done.returncode != 0, done.stdout
        return done.stderr

    def serve(self):
        """As systemd would: the unit's command line, as its user, with its runtime directory."""
        text = (self.root / "lib/systemd/system/stalecast.service").read_text()
        command = re.search(r"^ExecStart=(.*)$", text, re.MULTILINE).group(1)
        for directory, mode in (("run/stalecast", "0750"), ("var/lib/stalecast", "0700")):
            assert f"{'Runtime' if 'run' in directory else 'State'}DirectoryMode={mode}" in text
            self.run(f"install -d -o stalecast -g stalecast -m {mode} /{directory}")
        self.serving = subprocess.Popen(self.command(
            "set -a; . /etc/default/stalecast; umask 0077; export RUNTIME_DIRECTORY=/run/stalecast;"
            f"exec setpriv --reuid stalecast --regid stalecast --init-groups --no-new-privs --bounding-set=-all {command}"))
        endpoints = self.root / "run/stalecast/endpoints.json"
        while not endpoints.exists():
            assert self.serving.poll() is None, "the daemon ended"
            time.sleep(0.02)

    def stop(self):
        self.serving.terminate()
        assert self.serving.wait(16) == 0
