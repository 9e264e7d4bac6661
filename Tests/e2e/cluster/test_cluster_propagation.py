"""How far a version came, over all nodes: whichever is asked, and wherever a client listens and fetches."""

import asyncio
import json

import pytest

from harness.cli import stalecast
from harness.http1 import Connection
from harness.sse import Stream
from harness.templates import encoded, marked

EACH = 6  # clients listening at each node
BUDGET = 2  # fetches a second that the origin takes


async def propagation(node, **query):
    pairs = "&".join(f"{name}={value}" for name, value in query.items())
    answer = await node.ask_control(f"/v1/projects/demo/remoteConfig/propagation?{pairs}")
    assert answer.status == 200, answer
    return answer.json()


async def shown(node, is_good, what, timeout=30, **query):
    for _ in range(timeout * 10):
        if is_good(found := await propagation(node, **query)):
            return found
        await asyncio.sleep(0.1)
    raise AssertionError(f"{node.name}: {what}, but {json.dumps(found, indent=1)}")


async def get(node, client):
    connection = Connection(node.edge)
    body = {"appId": "1:123456789012:web:ab", "appInstanceId": client, "appInstanceIdToken": "t"}
    answer = await connection.request("POST", "/v1/projects/demo/namespaces/firebase:fetch",
                                      [("Content-Type", "application/json")], json.dumps(body).encode())
    connection.close()
    assert answer.status == 200, answer


async def counted(cluster, expected):
    """Until each node knows of all subscribers: it tells the others each five seconds."""
    for node in cluster.nodes:
        for _ in range(200):
            herds = (await node.status())["herds"]
            if herds and herds[0]["subscribers"] == expected:
                break
            await asyncio.sleep(0.1)
        else:
            raise AssertionError(f"{node.name} counts {herds}")


@pytest.mark.limit(200)
async def test_every_node_counts_the_clients_of_all(start_cluster, etcd, tmp_path):
    cluster = start_cluster(etcd, sources={"scopes": [
        {"scope": "demo/firebase", "kind": "store", "herdBudget": BUDGET}]})
    a, b, c = cluster.nodes
    version = await b.publish(marked("first"))
    streams = {node.name: [await Stream.open(node.edge, client=f"{node.name}-{n}", have=version) for n in range(EACH)]
               for node in cluster.nodes}
    names = [f"{node.name}-{n}" for node in cluster.nodes for n in range(EACH)]
    for node in cluster.nodes:
        for stream in streams[node.name]:
            await stream.synced()
    await counted(cluster, 3 * EACH)
    # The window is for the clients of all nodes, and the same whichever node they listen at.
    second = await c.publish(marked("second"))
    windows = set()
    for node in cluster.nodes:
        for stream in streams[node.name]:
            await stream.version_at_least(second)
            windows.add(stream.messages[-1].json()["fetchWindowMs"])
    assert len(windows) == 1 and windows.pop() == 3 * EACH / BUDGET * 1000
    for node in cluster.nodes:
        found = await shown(node, lambda way: way["clients"]["audience"] == 3 * EACH
                            and way["streams"]["audience"] == 3 * EACH, "all nodes' clients", versionNumber=second)
        assert found["clients"]["fetched"] == 0 and found["state"] == "SPREADING"
        assert found["streams"]["sent"] == 3 * EACH
    # A balancer sends their fetches anywhere: each is counted where its client listens.
    elsewhere = {"a": b, "b": c, "c": a}
    for name in names[:-1]:
        await get(elsewhere[name[0]], name)
    for node in cluster.nodes:
        found = await shown(node, lambda way: way["clients"]["fetched"] == 3 * EACH - 1, "fetches at other nodes")
        assert found["clients"]["behind"] == 1 and found["times"]["fetched"]["t50"] is not None
        assert found["fetches"]["answers"] == 3 * EACH - 1
    # In metrics each has its own, so that a sum over instances is right.
    alone = [await node.metric("stalecast_propagation_clients", stage="fetched") for node in cluster.nodes]
    assert max(alone) == EACH and sum(alone) == 3 * EACH - 1
    await get(b, names[-1])
    await shown(a, lambda way: way["state"] == "CONVERGED", "all have it")
    await waits(cluster, names, elsewhere, tmp_path)
    # A node that stands still counts for nothing once its lease is over.
    c.freeze()
    rest = 2 * EACH
    for node in (a, b):
        await shown(node, lambda way: way["clients"]["audience"] == rest and way["streams"]["audience"] == rest,
                    "without the node that stands still")
    c.thaw()
    await shown(a, lambda way: way["clients"]["audience"] == 3 * EACH, "with it again")
    for stream in sum(streams.values(), []):
        stream.close()


async def waits(cluster, names, elsewhere, tmp_path):
    """`publish --wait` at one node, while the clients of all fetch anywhere."""
    file = tmp_path / "third.json"
    file.write_bytes(encoded(marked("third")))
    node = cluster.nodes[0]
    before = (await propagation(node))["versionNumber"]
    waiting = asyncio.create_task(asyncio.to_thread(
        stalecast, "publish", file, "--wait", "99%", "--stage", "fetched", "--timeout", "60s", "--json", "--control",
        f"http://127.0.0.1:{node.control}", "--token-file", node.token_file))
    await shown(node, lambda way: way["versionNumber"] != before and way["clients"]["audience"] == len(names),
                "the third version")
    assert not waiting.done()
    for name in names:
        await get(elsewhere[name[0]], name)
    done = json.loads(await waiting)
    assert done["wait"]["reason"] == "REACHED", done
    assert done["wait"]["propagation"]["clients"]["audience"] == len(names), done
