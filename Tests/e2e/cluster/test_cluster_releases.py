"""Releases in stages over several nodes: one state, whichever node is asked, and whichever node dies."""

import asyncio
import json
from urllib.parse import quote

import pytest

from harness.cli import stalecast
from harness.http1 import Connection, fetch
from harness.sse import Stream
from harness.templates import marked
from harness.waiting import eventually

BASE = "/v1/projects/demo/remoteConfig"
FETCH = "/v1/projects/demo/namespaces/firebase:fetch"
IDS = [f"client-{number}" for number in range(60)]
TAKEN_OVER = 90  # seconds: a lease of 45, which a new leader may renew, and a look
DUTY = "/stalecast/default/record/duty/release/demo/firebase"


async def release(node):
    answer = await node.ask_control(f"{BASE}/release")
    assert answer.status == 200, answer
    return answer.json()


async def change(node, verb, **body):
    client = node.client()
    answer = await client.call("POST", f"{BASE}/release:{verb}", json.dumps(body).encode())
    client.close()
    assert answer.status == 200, answer
    return answer.json()


async def fetched(node, cursor=None):
    """The version that each client's fetch gets at a node."""
    connection, found = Connection(node.edge), {}
    for name in IDS:
        body = {"appId": "1:1:web:a", "appInstanceId": name, "appInstanceIdToken": "t"}
        answer = await connection.request(
            "POST", FETCH, [("Content-Type", "application/json")], json.dumps(body).encode())
        assert answer.status == 200, answer
        found[name] = int(answer.json()["templateVersion"])
    connection.close()
    return found


async def agreed(nodes):
    """What all nodes serve: no two disagree about a client."""
    found = [await fetched(node) for node in nodes]
    assert all(one == found[0] for one in found), found
    return found[0]


async def shows(node, timeout=20, **wanted):
    async def read():
        found = await release(node)
        return {name: found[name] for name in wanted}
    assert await eventually(read, wanted, timeout=timeout) == wanted, await release(node)


def told(streams, version):
    return {name for name, stream in streams.items() if max(stream.versions, default=0) >= version}


@pytest.mark.limit(300)
async def test_a_release_outlives_the_node_that_conducts_it(start_cluster, etcd):
    plan = {"scope": "demo/firebase", "default": "staged", "stages": ["20%", "50%", "100%"], "every": "2s", "bake": "1h"}
    cluster = start_cluster(etcd, releases=[plan])
    a, b, c = cluster.nodes
    assert "valid" in stalecast("check-config", "--config", a.config)
    await a.publish(marked("one"))
    await cluster.settled()
    streams = {}
    for number, name in enumerate(IDS):
        node = cluster.nodes[number % 3]
        streams[name] = await Stream.open(node.edge, client=name, have=1)
        await streams[name].synced()
    assert await a.publish(marked("two")) == 2
    assert (await change(b, "pause", reason="a look"))["state"] == "PAUSED"
    for node in cluster.nodes:
        await shows(node, state="PAUSED", versionNumber="2")
    percent = (await release(c))["percent"]
    assert percent in (20, 50) and all([(await release(node))["percent"] == percent for node in cluster.nodes])
    served = {name for name, version in (await agreed(cluster.nodes)).items() if version == 2}
    assert 0 < len(served) < len(IDS)

    async def told_now():
        return told(streams, 2)
    assert await eventually(told_now, served) == served
    # A client of node a comes to another with the cursor that it has, also one of a moment at which nothing was told.
    moved = await Stream.open(b.edge, client=IDS[0], last_event_id=streams[IDS[0]].last_id)
    await moved.synced()
    assert not any(event.name == "reset" for event in moved.events)

    holder = etcd.values(DUTY)[DUTY].decode().split()[0]
    conductor = next(node for node in cluster.nodes if node.name == holder)
    rest = [node for node in cluster.nodes if node is not conductor]
    conductor.kill()
    for node in rest:
        found = await release(node)
        assert (found["state"], found["percent"]) == ("PAUSED", percent), "it goes on where it was"
    assert {name for name, version in (await agreed(rest)).items() if version == 2} == served
    await change(rest[0], "resume")
    await shows(rest[1], TAKEN_OVER, state="BAKING", percent=100)
    events = [(event["kind"], event["by"]) for event in (await release(rest[0]))["events"]]
    assert [kind for kind, _ in events][0] == "BEGAN" and ("ADVANCED", "schedule") == events[-1]
    assert len([kind for kind, _ in events if kind == "ADVANCED"]) == 2, "no stage was skipped or reached twice"
    reached = [int(stage["sequence"]) for stage in (await release(rest[0]))["stages"]]
    assert reached == sorted(set(reached)) and (await release(rest[0]))["stages"] == (await release(rest[1]))["stages"]

    assert (await change(rest[1], "rollback", reason="crashes"))["successorVersionNumber"] == "3"
    await shows(rest[0], state="ROLLED_BACK")
    here = {name: stream for number, (name, stream) in enumerate(streams.items())
            if cluster.nodes[number % 3] is not conductor}

    async def taken_back():
        return told(here, 3)
    assert await eventually(taken_back, set(here)) == set(here)
    await asyncio.to_thread(conductor.start)
    await shows(conductor, state="ROLLED_BACK")
    assert set((await agreed(cluster.nodes)).values()) == {3}
    for stream in [*streams.values(), moved]:
        assert stream.versions == sorted(set(stream.versions)), "no client goes back"
        stream.close()


@pytest.mark.limit(120)
async def test_gates_count_each_client_once_over_all_nodes(start_cluster, etcd):
    """Each listens at one node and fetches at all three; some report a failure, at one node and at another."""
    gates = quote(json.dumps({"failed": "100%", "fetchErrors": "off", "loss": "off"}))
    cluster = start_cluster(etcd)
    await cluster.nodes[0].publish(marked("one"))
    await cluster.settled()
    streams = {name: await Stream.open(cluster.nodes[number % 3].edge, client=name, have=1)
               for number, name in enumerate(IDS)}
    for stream in streams.values():
        await stream.synced()
    client = cluster.nodes[1].client()
    answer = await client.put(marked("two"), query=f"?release=staged&stages=40%25,100%25&every=0s&gates={gates}")
    client.close()
    assert answer.status == 200, answer
    served = [name for name, version in (await agreed(cluster.nodes)).items() if version == 2]
    assert len(served) > 5

    def shown(failed):
        wanted = {"told": len(served), "fetched": len(served), "failed": failed}, len(served)

        async def read():
            found = [await release(node) for node in cluster.nodes]
            return [(one.get("clients"), next((gate["count"] for gate in one["gates"]), 0)) for one in found]
        return eventually(read, [wanted] * 3, timeout=20), [wanted] * 3

    found, wanted = shown(0)
    assert await found == wanted
    for number, name in enumerate(served[:4]):
        for node in (cluster.nodes[number % 3], cluster.nodes[(number + 1) % 3]):
            report = {"client": name, "project": "demo", "versionNumber": "2", "state": "failed", "error": "no room"}
            answer = await fetch(node.edge, "/v1/report", "POST", [("Content-Type", "application/json")],
                                 json.dumps(report).encode())
            assert answer.status in (200, 204), answer
    found, wanted = shown(4)
    assert await found == wanted
    gate = (await release(cluster.nodes[2]))["gates"][0]
    assert gate["value"] == round(400 / len(served), 4) and gate["verdict"] == "OK"
    for stream in streams.values():
        stream.close()
