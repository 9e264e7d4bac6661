"""An etcd whose members are machines of their own behind a router, which loses in silence what it is told to lose, as a
network does: connections that are open hear nothing, new ones get no answer. Made of namespaces and routing rules."""

import contextlib
from pathlib import Path

import pytest

from harness.etcd import Etcd, Member
from harness.namespaces import Machine, ip

PEERS, NODES, TESTS = 0, "abc", 9


def address(of, member):
    """Of a member: its own among peers, as a node reaches it, or as the tests do, whom nothing is cut from."""
    who = 1 + NODES.index(of) if isinstance(of, str) else of
    return f"10.99.{who}.{member + 1}"


def all_of(node):
    """Every member as this node reaches it."""
    return f"{address(node, -1)}/24"


class Router(Machine):
    """Between this thread's network and the members'."""

    def __init__(self):
        super().__init__()
        with self.inside():
            for name, value in (("ip_forward", 1), ("conf/all/rp_filter", 0), ("conf/default/rp_filter", 0)):
                try:
                    Path(f"/proc/sys/net/ipv4/{name}").write_text(str(value))
                except OSError as error:
                    pytest.skip(f"no forwarding between namespaces ({error}): this check did not run")
        self.wire("10.98.100", here="out", there="tests")
        ip("route", "add", "10.99.0.0/16", "via", "10.98.100.2")

    def attach(self, member, machine):
        with self.inside():
            network = f"10.98.{member + 1}"
            machine.wire(network, here=f"member{member}", there="out")
            for of in (PEERS, *NODES, TESTS):
                ip("route", "add", address(of, member), "via", f"{network}.2")
        with machine.inside():
            for of in (PEERS, *NODES, TESTS):
                ip("address", "add", f"{address(of, member)}/32", "dev", "lo")
            ip("route", "add", "default", "via", f"{network}.1", "src", address(PEERS, member))

    @contextlib.contextmanager
    def cut(self, ways):
        """While it lasts, packets of these (from, to) are lost; they are prefixes."""
        for source, target in ways:
            self.ip("rule", "add", "from", source, "to", target, "blackhole")
        try:
            yield
        finally:
            for source, target in ways:
                self.ip("rule", "del", "from", source, "to", target, "blackhole")

    def ip(self, *words):
        with self.inside():
            ip(*words)


class CuttableEtcd(Etcd):
    """Within ``own_network``, for a cluster of three nodes; `endpoints_of` says where each finds it."""

    def __init__(self, directory, **options):
        self.router = Router()
        self.machines = []
        super().__init__(directory, member=self.member, **options)

    def member(self, number, _, directory):
        machine = Machine()
        self.router.attach(number, machine)
        self.machines.append(machine)
        return FarMember(number, directory, machine)

    def endpoints_of(self, node):
        return [f"http://{address(node, member.number)}:{FarMember.PORT}" for member in self.members]

    def dispose(self):
        super().dispose()
        for machine in (self.router, *self.machines):
            machine.close()

    def peers_cut(self, member, both=True):
        """While it lasts, what this member says to the others is lost, and unless `both` is false what they say."""
        ours, theirs = address(PEERS, member.number), [address(PEERS, other.number) for other in self.members]
        ways = [(ours, other) for other in theirs if other != ours]
        return self.router.cut(ways + [way[::-1] for way in ways if both])

    def nodes_cut(self, *names, questions=True):
        """While it lasts, what members answer these nodes is lost, and unless `questions` is false what nodes say."""
        nodes = [all_of(name) for name in names]
        return self.router.cut([(node, "all") for node in nodes] + [("all", node) for node in nodes if questions])


class FarMember(Member):
    PORT = 2379

    def __init__(self, number, directory, machine):
        super().__init__(number, "127.0.0.1", directory)
        self.machine = machine
        self.client, self.peer = f"http://{address(TESTS, number)}:{self.PORT}", f"http://{address(PEERS, number)}:2380"
        self.listens = f"http://0.0.0.0:{self.PORT}"

    def spawn(self, *words):
        with self.machine.inside():
            super().spawn(*words)
