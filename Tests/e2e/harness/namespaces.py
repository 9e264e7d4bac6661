"""A network and an /etc/hosts of a test's own, so that names and public addresses can be played with on one machine."""

import contextlib
import ctypes
import os
import subprocess

import pytest

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
OWN = "/proc/thread-self/ns/net"


@contextlib.contextmanager
def own_network(*addresses):
    """Until the exit this thread, with all threads and processes it starts, has a network of nothing but loopback, and
    there these addresses besides 127.0.0.0/8. Skips the test where that is not permitted."""
    with standing(OWN):
        if LIBC.unshare(CLONE_NEWNET) != 0:
            pytest.skip(f"no network namespace ({os.strerror(ctypes.get_errno())}): this check did not run")
        loopback(*addresses)
        yield


@contextlib.contextmanager
def standing(namespace):
    """The thread is in this network again at the exit."""
    before = os.open(namespace, os.O_RDONLY)
    try:
        yield
    finally:
        enter(before)
        os.close(before)


def enter(descriptor):
    if LIBC.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "cannot enter a network namespace")


def loopback(*addresses):
    ip("link", "set", "lo", "up")
    for address in addresses:
        ip("address", "add", f"{address}/32", "dev", "lo")


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Machine:
    """A network of its own; what is started or listens `with machine.inside():` is there. Gone when it is closed and
    nothing runs in it any more. Skips the test where that is not permitted."""

    def __init__(self, *addresses):
        with standing(OWN):
            if LIBC.unshare(CLONE_NEWNET) != 0:
                pytest.skip(f"no network namespace ({os.strerror(ctypes.get_errno())}): this check did not run")
            self.namespace = os.open(OWN, os.O_RDONLY)
            loopback(*addresses)

    def close(self):
        os.close(self.namespace)

    @contextlib.contextmanager
    def inside(self):
        with standing(OWN):
            enter(self.namespace)
            yield

    def wire(self, network, *, here, there):
        """A cable from where this thread is to this machine, named so at its ends: `network`.1 here, `network`.2
        there."""
        ip("link", "add", here, "type", "veth", "peer", "name", there, "netns",
           f"/proc/{os.getpid()}/fd/{self.namespace}")
        ip("address", "add", f"{network}.1/30", "dev", here)
        ip("link", "set", here, "up")
        with self.inside():
            ip("address", "add", f"{network}.2/30", "dev", there)
            ip("link", "set", there, "up")


class Far:
    """Another machine with these addresses, and the only way out of ``own_network``; what listens is made
    `with far.inside():`."""

    def __init__(self, *addresses):
        self.addresses = addresses

    def __enter__(self):
        self.machine = Machine(*self.addresses)
        self.inside = self.machine.inside
        self.machine.wire("172.31.0", here="near", there="far")
        ip("route", "add", "default", "via", "172.31.0.2")
        return self

    def __exit__(self, *_):
        self.machine.close()


class Hosts:
    """An /etc/hosts that one daemon sees; its names can be told anew while it runs."""

    def __init__(self, file, **names):
        self.file = file
        file.touch()
        self.tell(**names)

    def tell(self, **names):
        """`name=address`, or several addresses, under `.test`."""
        lines = ["127.0.0.1 localhost"]
        for name, addresses in names.items():
            for address in [addresses] if isinstance(addresses, str) else addresses:
                lines.append(f"{address} {name}.test")
        # In place and in one piece: the file is mounted, and read at any time.
        with open(self.file, "r+b", buffering=0) as file:
            file.write("\n".join([*lines, ""]).encode())
            file.truncate()

    def show_to(self, daemon):
        """The daemon, when it is started, sees this file instead of /etc/hosts."""
        mount = 'mount --bind "$0" /etc/hosts && exec "$@"'
        permitted = subprocess.run(["unshare", "--mount", "sh", "-c", mount, self.file, "true"], capture_output=True)
        if permitted.returncode != 0:
            pytest.skip(f"no mount namespace ({permitted.stderr.decode().strip()}): this check did not run")
        command = daemon.command
        daemon.command = lambda *flags: ["unshare", "--mount", "sh", "-c", mount, str(self.file), *command(*flags)]
