"""An edge in trouble: what it asks of the core when it returns from a cut, clients that read nothing or send nonsense, and a
disk without room."""

import asyncio
import socket

import pytest

from harness.cluster import fetched_version
from harness.disk import fill, small_disk
from harness.edges import add_edge, ask
from harness.far_line import FarLine
from harness.http1 import exchange
from harness.poll import poll, versions_in
from harness.sse import Stream, events_target
from harness.swarm import Swarm
from harness.templates import marked, template
from harness.waiting import until

MISSED = 300


@pytest.fixture
def near(start_etcd, start_cluster, request):
    """`near(endpoint, store=…)`: (cluster, core node, edge that is not started); `endpoint`: makes an address of etcd's that
    leads there; sections of the configuration of both."""

    def make(endpoint=None, **sections):
        cluster = start_cluster(start_etcd(1), 1, **sections)
        edge = add_edge(cluster, "e1", [endpoint(cluster.etcd.endpoints[0])] if endpoint else None)
        request.node.daemons.append(edge)
        return cluster, cluster.nodes[0], edge

    return make


async def asked(edge):
    """Calls to etcd so far."""
    return await edge.metric("stalecast_cluster_etcd_requests_total")


@pytest.mark.limit(150)
async def test_a_region_that_returns_asks_no_more_than_it_missed(near):
    """Streams, polls and fetches of an edge ask nothing of the core: what its return costs etcd are pages of the log, however
    many clients it has and however many versions they missed."""
    lines = []
    cluster, a, edge = near(lambda target: lines.append(FarLine(target, delay=0.05, loss=0)) or lines[0].__enter__().url,
                            sources={"scopes": [{"scope": "demo/firebase", "kind": "store", "herdBudget": 100}]})
    line = lines[0]
    try:
        cluster.start()
        client = a.client()
        assert await client.publish(marked("first")) == 1
        swarm = await asyncio.to_thread(Swarm, edge.edge, 300)
        stream = await Stream.open(edge.edge)
        cursor = (await stream.synced()).id
        await until(lambda: is_fetched(edge, 1))
        line.cut()
        for number in range(MISSED):
            await client.publish(marked(f"m{number}"))
        ahead = (await a.state())["cursor"]
        waiting = [asyncio.create_task(poll(edge.edge, cursor=cursor, wait="60s", timeout=90)) for _ in range(50)]
        told = [asyncio.create_task(fetched_version(edge, cursor=ahead, timeout=30)) for _ in range(50)]
        assert {version for version, _ in await asyncio.gather(*told)} == {None}, "none gets an old version"
        before = await asked(edge)
        line.heal()
        await stream.version_at_least(MISSED + 1, timeout=60)
        needed = await asked(edge) - before
        assert needed <= MISSED / 100 + 40, f"{needed} calls of an edge with 400 clients"
        for answer in await asyncio.gather(*waiting):
            assert versions_in(answer), "each poll is answered"
        told = [fetched_version(edge, cursor=ahead, timeout=30) for _ in range(50)]
        assert {version for version, _ in await asyncio.gather(*told)} == {MISSED + 1}
        messages = stream.messages[-1:] + [frame for frame in stream.messages if 1 < frame.version <= MISSED]
        assert len(messages) < MISSED, f"{len(messages)} messages: versions that come at once are told as few"
        windows = [frame.json()["fetchWindowMs"] for frame in messages]
        assert min(windows) >= 3000, f"300 streams would all fetch at once, not 100 a second: {windows}"
        assert await asked(edge) - before <= MISSED / 100 + 60, "clients that fetch ask nothing of etcd"
        await asyncio.to_thread(swarm.close)
        stream.close()
        client.close()
    finally:
        line.__exit__()


async def is_fetched(edge, version):
    return (await fetched_version(edge))[0] == version


async def test_clients_that_read_nothing_or_send_nonsense_hold_an_edge_up_for_nobody(near):
    cluster, a, edge = near()
    cluster.start()
    silent = socket.create_connection(("127.0.0.1", edge.edge))
    silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    silent.sendall(f"GET {events_target(('PUSH_RC',))} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    stream = await Stream.open(edge.edge)
    await stream.synced()
    client = a.client()
    for number in range(1, 31):
        assert await client.publish(marked(f"m{number}")) == number
    client.close()
    nonsense = [b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/9.9\r\n\r\n", b"PUT /v1/projects/demo/remoteConfig HTTP/1.1\r\n"
                b"Host: localhost\r\nContent-Length: 99999999999999999999\r\n\r\n",
                b"GET /v1/state?topic=" + b"z" * 70000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"]
    for port in (edge.edge, edge.control):
        for data in nonsense:
            got, ended = await exchange(port, data, timeout=2)
            assert got.startswith((b"HTTP/1.1 4", b"HTTP/1.1 5")) or ended in ("closed", "reset"), (port, data[:40], got[:80])
    await stream.version_at_least(30)
    for wrong in ("x", "0:1", "!" * 300, "99999999999999999999999"):
        version, answer = await fetched_version(edge, cursor=wrong)
        assert version == 30, answer
    assert (await ask(edge, "GET", "/v1/cluster")).json()["head"] == "30"
    assert not edge.process.poll()
    silent.close()
    stream.close()


@pytest.mark.limit(120)
async def test_an_edge_without_room_on_its_disk_says_so_and_goes_on_when_there_is(near):
    cluster, a, edge = near(store={"minFreeSpace": "0B"})
    with small_disk(edge.data, "24m"):
        cluster.start()
        assert await a.publish(marked("first")) == 1
        stream = await Stream.open(edge.edge)
        await stream.version_at_least(1) if stream.versions else await stream.synced()
        await until(lambda: is_fetched(edge, 1))
        ballast = fill(edge.data)
        for number in range(3):
            await a.publish(template({f"p{index}": f"{number}" * 20000 for index in range(40)}))
        ahead = (await a.state())["cursor"]

        async def says_so():
            body = (await edge.ask_control("/readyz")).json()
            return any("cannot be stored" in sentence for sentence in body.get("degraded", []))

        await until(says_so)
        assert await is_fetched(edge, 1), "it serves what it has"
        assert (await fetched_version(edge, cursor=ahead))[0] is None, "and nothing old to a client that knows more"
        ballast.unlink()
        await stream.version_at_least(4, timeout=60)
        assert (await fetched_version(edge, cursor=ahead))[0] == 4
        assert (await cluster.settled())["e1"][-1].version == 4
        stream.close()
        assert edge.stop() == 0
