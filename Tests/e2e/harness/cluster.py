"""Several daemons over one etcd."""

import asyncio
import secrets
import signal
import time

from harness import cluster_history as checks
from harness import configs
from harness.cluster_history import entry_of
from harness.daemon import Daemon
from harness.history import Stored
from harness.http1 import Broken, Connection

FETCH = "/v1/projects/demo/namespaces/firebase:fetch"
INSTANCE = b'{"appId":"1:1:web:a","appInstanceId":"a","appInstanceIdToken":"b"}'


class Node(Daemon):
    """One daemon of a cluster; all nodes have one token."""

    is_edge = False

    def __init__(self, directory, name, token_file, **options):
        self.name, self.token_file = name, token_file
        super().__init__(directory, **options)
        self.frozen = False

    @property
    def token(self):
        return self.token_file.read_text().strip()

    def freeze(self):
        self.signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self):
        if self.frozen and self.running:
            self.signal(signal.SIGCONT)
        self.frozen = False

    def kill(self):
        super().kill()
        self.frozen = False


class Cluster:
    """`count` nodes named a, b, c, … with the same token and key; sections of `sections` beside their own. Tests'
    fixture disposes of them."""

    def __init__(self, directory, etcd, count=3, name="default", endpoints=None, cluster=None, **sections):
        directory.mkdir(parents=True, exist_ok=True)
        self.etcd, self.name, self.directory = etcd, name, directory
        self.sections, self.cluster = sections, cluster or {}
        self.token_file, self.key_file = directory / "control.token", directory / "webhooks.key"
        self.token_file.write_text(secrets.token_hex(32) + "\n")
        self.key_file.write_text(secrets.token_hex(32) + "\n")
        for file in (self.token_file, self.key_file):
            file.chmod(0o600)
        self.nodes = []
        for number in range(count):
            self.add(chr(ord("a") + number), endpoints and endpoints[number])

    def add(self, name, endpoints=None, **sections):
        """One more node, not started."""
        node = Node(self.directory / name, name, self.token_file, config=self.config(name, endpoints, **sections))
        self.nodes.append(node)
        return node

    def config(self, name, endpoints=None, **more):
        # Each begins with another member.
        given = list(endpoints or self.etcd.endpoints)
        first = (ord(name[0]) - ord("a")) % len(given)
        own = {
            "store": {**self.sections.get("store", {}), "etcd": {"endpoints": given[first:] + given[:first]}},
            "cluster": {"name": self.name, "node": name, **self.cluster},
            "control": {**self.sections.get("control", {}), "tokenFile": str(self.token_file)},
            "webhooks": {**self.sections.get("webhooks", {}), "keyFile": str(self.key_file)},
        }
        return configs.config(**{**self.sections, **own, **more})

    def start(self):
        """All at once, as machines start."""
        assert not self.crashed(), self.crashed()
        stopped = [node for node in self.nodes if not node.running]
        for node in stopped:
            node.spawn()
        for node in stopped:
            wait_for_endpoints(node)
        return self

    def dispose(self):
        for node in self.nodes:
            node.dispose()

    @property
    def core(self):
        """The nodes that take changes."""
        return [node for node in self.nodes if not node.is_edge]

    @property
    def alive(self):
        return [node for node in self.nodes if node.running and not node.frozen]

    def crashed(self):
        """{name: exit code} of nodes that ended otherwise than by `stop` or `kill`."""
        codes = {node.name: node.process.poll() for node in self.nodes if node.process}
        return {name: code for name, code in codes.items() if code not in (None, 0, -signal.SIGKILL)}

    def log(self):
        """Its versions: steps of releases, which have no content, are left out."""
        return [entry_of(line) for line in self.etcd.lines(self.name) if "sha256" in line]

    async def stored(self, node):
        """What a node shows of its versions, in order."""
        client = node.client()
        try:
            listed = await client.versions()
            return [Stored(number, entry.get("description", ""), f"etag-123456789012-{number}", entry["updateTime"])
                    for number, entry in sorted(listed.items())]
        finally:
            client.close()

    async def settled(self, timeout=30):
        """Waits until every node that is alive shows the log's newest version, and returns {name: versions}. One that
        does not answer is behind: it may be beginning anew, and does not listen meanwhile."""
        deadline = time.monotonic() + timeout
        while True:
            assert not self.crashed(), self.crashed()
            log = [checks.stored_of(entry) for entry in await asyncio.to_thread(self.log)]
            newest = max(log, key=lambda stored: stored.version, default=None)
            shown, behind = {}, {}
            for node in self.alive:
                try:
                    shown[node.name] = await self.stored(node)
                except (Broken, AssertionError) as error:
                    behind[node.name] = error
                    continue
                # Not by the number alone: a former history may have had it as well.
                if (last := next(iter(shown[node.name][-1:]), None)) != newest:
                    behind[node.name] = last
            if not behind:
                return shown
            assert time.monotonic() < deadline, f"after {timeout} s the log ends at {newest}, but {behind}"
            await asyncio.sleep(0.1)


def wait_for_endpoints(node, timeout=40):
    deadline = time.monotonic() + timeout
    while not node._endpoints_written():
        code = node.process.poll()
        assert code is None, f"node {node.name} ended with {code} at start:\n{node.log_tail()}"
        assert time.monotonic() < deadline, f"node {node.name}: no endpoints.json:\n{node.log_tail()}"
        time.sleep(0.01)


async def fetched_version(node, connection=None, cursor=None, timeout=40):
    """The version that a stock client's fetch gets at this node, None when it is refused (503); and the answer."""
    headers = [("Content-Type", "application/json")] + ([("X-Stalecast-Cursor", cursor)] if cursor else [])
    used = connection or Connection(node.edge)
    try:
        answer = await used.request("POST", FETCH, headers, INSTANCE, timeout)
    finally:
        if connection is None:
            used.close()
    if answer.status == 503:
        return None, answer
    assert answer.status == 200, f"fetch at {node.name} answered {answer}"
    return int(answer.json().get("templateVersion", 0)), answer
