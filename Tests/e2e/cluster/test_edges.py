"""Nodes that only follow the log: what they serve, what they refuse, and which keys of etcd they may write."""

import asyncio
import base64
import json
import random
import re

import pytest

from harness.cli import Cli
from harness.cluster import fetched_version
from harness.daemon import REPOSITORY
from harness.edges import add_edge, ask
from harness.http1 import fetch
from harness.poll import poll, versions_in
from harness.sse import Stream
from harness.templates import encoded, marked
from test_cluster_propagation import get, propagation, shown

MANUAL = REPOSITORY / "deploy/docs/cluster.md"
DEMO = "/v1/projects/demo/remoteConfig"


def at(node):
    return "--control", f"http://127.0.0.1:{node.control}", "--token-file", str(node.token_file)


@pytest.fixture
def start_edges(start_etcd, start_cluster, request):
    """`start_edges("e1", …)`: a core node `a` over one member, and edges; returns (cluster, core, edges)."""

    def start(*names, core=1, etcd=None, **own):
        etcd = etcd or start_etcd(1)
        cluster = start_cluster(etcd, core, running=False)
        for node in cluster.nodes:
            node.configure(cluster.config(node.name, cluster={
                "name": "default", "node": node.name, "advertise": f"http://127.0.0.1:{node.control}"}))
        cluster.start()
        edges = [add_edge(cluster, name, **own) for name in names]
        request.node.daemons += edges
        cluster.start()
        return cluster, cluster.nodes[:core], edges

    return start


async def test_an_edge_serves_what_core_nodes_publish(start_edges):
    cluster, (a, b), (e1, e2) = start_edges("e1", "e2", core=2)
    streams = [await Stream.open(node.edge) for node in (a, e1, e2)]
    for stream in streams:
        await stream.synced()
    for number in range(1, 4):
        assert await (a, b)[number % 2].publish(marked(f"m{number}")) == number
        for stream in streams:
            await stream.version_at_least(number)
    assert len({tuple(frame.id for frame in stream.messages) for stream in streams}) == 1, "the same cursors"
    await cluster.settled()
    answers = [await fetched_version(node) for node in (a, e1, e2)]
    assert {version for version, _ in answers} == {3}
    assert len({answer.header("etag") for _, answer in answers}) == 1, "the same ETag"
    assert len({json.dumps(await node.state()) for node in (a, e1, e2)}) == 1
    first = streams[0].messages[0].id
    for node in (e1, e2):
        answer = await poll(node.edge, cursor=first, wait="0s")
        assert versions_in(answer) == [3]
        again = await Stream.open(node.edge, last_event_id=streams[0].messages[-1].id)
        await again.synced()
        assert not again.versions and not [frame for frame in again.events if frame.name == "reset"]
        again.close()
    for stream in streams:
        stream.close()


async def known_at(node, address):
    """Until a node has heard where another one takes changes."""
    for _ in range(200):
        if any(one.get("advertise") == address for one in (await ask(node, "GET", "/v1/cluster")).json()["nodes"]):
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{node.name} has not heard of {address}")


async def test_an_edge_refuses_changes_and_says_where_they_are_taken(start_edges):
    cluster, (a,), (e1,) = start_edges("e1")
    assert await a.publish(marked("first")) == 1
    await cluster.settled()
    await known_at(e1, f"http://127.0.0.1:{a.control}")
    body = encoded(marked("second"))
    changes = [
        ("PUT", DEMO, body, {"If_Match": "*"}), ("POST", f"{DEMO}:rollback", b'{"versionNumber":"1"}', {}),
        ("POST", "/v1/projects/demo/webhooks", b'{"name":"w","url":"https://h.example/"}', {}),
        ("GET", "/v1/projects/demo/webhooks", b"", {}), ("GET", f"{DEMO}/proposals", b"", {}),
        ("POST", "/v1/keys", b'{"name":"k","role":"reader"}', {}), ("POST", "/v1/cluster:newEpoch", b"{}", {}),
        ("POST", "/v1/projects/demo/messages:send", b'{"message":{"topic":"PUSH_RC"}}', {}),
    ]
    for method, path, sent, fields in changes:
        answer = await ask(e1, method, path, sent, **fields)
        error = answer.json()["error"]
        assert answer.status == 421 and error["status"] == "FAILED_PRECONDITION", (method, path, answer)
        assert f"http://127.0.0.1:{a.control}" in error["message"]
        assert error["details"][0]["addresses"] == [f"http://127.0.0.1:{a.control}"]
    # What changes nothing is answered.
    for method, path, sent in [("GET", DEMO, b""), ("GET", f"{DEMO}:listVersions", b""), ("GET", "/v1/keys", b""),
                               ("POST", f"{DEMO}:evaluate", b'{"context":{}}'), ("GET", "/v1/cluster", b"")]:
        assert (await ask(e1, method, path, sent)).status == 200, path
    stated = (await ask(e1, "GET", "/v1/cluster")).json()
    assert stated["role"] == "edge" and {node["id"]: node.get("role") for node in stated["nodes"]} == {
        "a": None, "e1": "edge"}
    page = Cli(e1)("cluster", "status", *at(e1))
    assert page.startswith("edge e1 of cluster default: ready") and "different configurations" not in page


async def test_the_document_names_what_an_edge_refuses(start_edges):
    """421 for each operation that a core node has to do, and for no other but of browsers."""
    cluster, (a,), (e1,) = start_edges("e1")
    assert await a.publish(marked("first")) == 1
    await cluster.settled()
    document = (await ask(e1, "GET", "/openapi.json")).json()
    refused = 0
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            if operation.get("tags") == ["Console"] or path.endswith(":watch") or "stream" in operation["operationId"].lower():
                continue
            place = re.sub(r"{[^}]*}", "x", path.replace("{project}", "demo"))
            answer = await ask(e1, method.upper(), place, b"" if method == "get" else b"{}")
            assert (answer.status == 421) == ("421" in operation["responses"]), (method, path, answer)
            refused += answer.status == 421
    assert refused > 20


@pytest.mark.limit(120)
async def test_clients_of_edges_count_at_core_nodes(start_edges, tmp_path):
    cluster, (a,), (e1, e2) = start_edges("e1", "e2")
    assert await a.publish(marked("first")) == 1
    await cluster.settled()
    names = {e1: ["one", "two"], e2: ["three"], a: ["four"]}
    streams = []
    for node, clients in names.items():
        streams += [await Stream.open(node.edge, client=client, have=1) for client in clients]
    for stream in streams:
        await stream.synced()
    file = tmp_path / "second.json"
    file.write_bytes(encoded(marked("second")))
    waiting = asyncio.create_task(asyncio.to_thread(
        Cli(a).json, "publish", file, "--wait", "100%", "--stage", "fetched", "--timeout", "60s", *at(a)))
    for stream in streams:
        await stream.version_at_least(2)
    await shown(a, lambda way: way["clients"]["audience"] == 4, "the clients of all nodes")
    # Each fetches at another node than where it listens.
    for client, node in [("one", e2), ("two", a), ("three", e1), ("four", e2)]:
        await get(node, client)
    done = await waiting
    assert done["wait"]["reason"] == "REACHED" and done["wait"]["propagation"]["clients"]["fetched"] == 4, done
    assert (await propagation(e2))["clients"]["audience"] == 1, "an edge shows its own"
    for stream in streams:
        stream.close()


def rights(name, cluster):
    """The commands of the manual that make an edge's role and user, for another name and cluster."""
    text = MANUAL.read_text()
    block = next(part for part in re.findall(r"^ *```\w*\n(.*?)^ *```", text, re.S | re.M) if "role grant-permission" in part)
    block = block.replace("fra1", name).replace("/stalecast/production", f"/stalecast/{cluster}")
    return [line.split()[1:] for line in block.strip().splitlines()]


def unlike(before, after, *own):
    """Keys that changed and do not begin with one of these."""
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    return sorted(key for key in changed if not key.startswith(own))


@pytest.mark.limit(120)
async def test_an_edge_may_write_nothing_but_its_own_records(start_etcd, start_cluster, request, tmp_path):
    etcd = start_etcd(1)
    root = ["--user", "root:r"]
    for words in [["user", "add", "root:r"], ["user", "grant-role", "root", "root"],
                  ["role", "add", "core"],
                  ["role", "grant-permission", "core", "readwrite", "--prefix=true", "/stalecast/default"],
                  ["user", "add", "core:c"], ["user", "grant-role", "core", "core"]]:
        etcd.call(*words)
    for words in rights("e1", "default"):
        # Else etcdctl asks a terminal for the password.
        etcd.call(*[f"{word}:e" if words[:2] == ["user", "add"] and word == "edge-e1" else word for word in words])
    etcd.call("auth", "enable")
    for name in ("c", "e"):
        (tmp_path / name).write_text(name + "\n")
    core = {"endpoints": etcd.endpoints, "user": "core", "passwordFile": str(tmp_path / "c")}
    cluster = start_cluster(etcd, 1, running=False)
    a = cluster.nodes[0]
    a.configure(cluster.config("a", store={"etcd": core}))
    cluster.start()
    assert await a.publish(marked("first")) == 1
    # Long contents lie beside the log.
    big = marked("big")
    big["parameters"]["noise"] = {"defaultValue": {"value": random.Random(1).randbytes(150_000).hex()}}
    assert await a.publish(big) == 2
    e1 = add_edge(cluster, "e1", etcd={"user": "edge-e1", "passwordFile": str(tmp_path / "e")})
    request.node.daemons.append(e1)
    e1.start(timeout=40)
    stream = await Stream.open(e1.edge, client="one")
    await stream.synced()
    version = await a.publish(marked("third"))
    await stream.version_at_least(version)
    assert (await fetched_version(e1))[0] == version
    await get(a, "one")  # told at e1, seen at a
    await get(e1, "two")  # in no audience here: e1 tells the others
    await shown(a, lambda way: way["clients"]["audience"] == 1 and way["clients"]["fetched"] == 1, "e1's client")

    def values(member="value"):
        answer = json.loads(etcd.call(*root, "get", "--prefix", "/", "-w", "json"))
        return {base64.b64decode(one["key"]).decode(): one.get(member, "") for one in answer["kvs"]}

    own = ("/stalecast/default/record/node/e1", "/stalecast/default/record/way/e1/",
           "/stalecast/default/record/seen/e1/")
    before = values()
    assert [key for key in before if key == own[0]] and [key for key in before if key.startswith(own[1])]
    as_edge = ["--user", "edge-e1:e"]
    foreign = [key for key in before if not key.startswith(own)]
    assert len(foreign) > 6 and any("~/content/" in key for key in foreign), foreign
    foreign += ["/stalecast/default/log/00000000000000000099", "/stalecast/default/record/node/e11",
                "/stalecast/default/record/webhook/x", "/stalecast/default/record/duty/contents",
                "/stalecast/default/record/way/e11/demo/firebase", "/stalecast/other/charter"]
    for key in foreign:
        assert etcd.call(*as_edge, "put", key, "x", check=False) is None, f"an edge could write {key}"
        assert etcd.call(*as_edge, "del", key, check=False) is None, f"an edge could remove {key}"
    for words in (["user", "add", "x:x"], ["auth", "disable"], ["role", "add", "x"]):
        assert etcd.call(*as_edge, *words, check=False) is None, words
    lease = values("lease")["/stalecast/default/record/node/a"]
    assert etcd.call(*as_edge, "lease", "revoke", f"{lease:x}", check=False) is None, "it ended another's lease"
    # The node's own record and lease renewals go on meanwhile, those of a as well.
    a_own = tuple(f"/stalecast/default/record/{kind}/a" for kind in ("node", "way", "seen"))
    assert not unlike(before, values(), *own, *a_own)
    assert etcd.call(*as_edge, "put", own[1] + "x/y", "x") and etcd.call(*as_edge, "del", own[1] + "x/y")
    assert e1.stop() == 0
    assert not [key for key in values() if key.startswith(own[:2])], "its lease was revoked"
    stream.close()
