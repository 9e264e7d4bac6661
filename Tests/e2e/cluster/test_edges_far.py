"""Edges at the end of a long line: delay, loss, `etcd grpc-proxy`, cuts, and a start from nothing."""

import asyncio
import contextlib
import random
import subprocess

import pytest

from harness import waiting
from harness.cluster import fetched_version, wait_for_endpoints
from harness.daemon import REPOSITORY
from harness.edges import add_edge, ask
from harness.far_line import FarLine, GrpcProxy
from harness.http1 import Broken
from harness.sse import Stream
from harness.templates import marked

DEMO = "/v1/projects/demo/remoteConfig"
UNVERIFIED = "x-stalecast-unverified"


@pytest.fixture
def one(start_etcd, start_cluster):
    """A core node over one member."""
    return start_cluster(start_etcd(1), 1)


@pytest.fixture
def far(one, request):
    """`far("e1", line, …)`: an edge at the end of a line, started unless `start=False`."""

    def make(name, line, start=True, **own):
        edge = add_edge(one, name, [line.url], **own)
        request.node.daemons.append(edge)
        if start:
            edge.spawn()
            wait_for_endpoints(edge)
        return edge

    return make


@pytest.fixture
def hour_later(tool, tmp_path):
    """Environment of a daemon whose clock is an hour ahead."""
    library = tmp_path / "clock_offset.so"
    subprocess.run([tool("cc"), "-O2", "-shared", "-fPIC", "-o", library,
                    REPOSITORY / "Tests/e2e/harness/clock_offset.c"], check=True)
    return {"LD_PRELOAD": str(library), "CLOCK_OFFSET": "3600"}


async def until(is_good, what, timeout=30):
    """As `waiting.until`; a node that begins anew or is not reachable is asked again."""
    async def condition():
        with contextlib.suppress(Broken, OSError):
            return await is_good()

    return await waiting.until(condition, what, timeout)


async def ready(node):
    answer = await node.ask_control("/readyz")
    return answer.status, answer.json()


@pytest.mark.limit(120)
async def test_edges_behind_a_proxy_of_etcd_over_a_slow_line(one, far):
    a = one.nodes[0]
    with FarLine(one.etcd.endpoints[0]) as line, GrpcProxy([line.url], one.directory) as proxy:
        edges = [far(name, proxy) for name in ("e1", "e2", "e3")]
        streams = [await Stream.open(node.edge) for node in edges]
        for stream in streams:
            await stream.synced()
        for number in range(1, 21):
            assert await a.publish(marked(f"m{number}")) == number
        for stream in streams:
            await stream.version_at_least(20)
            assert not [frame for frame in stream.events if frame.name == "reset"]
        for edge in edges:
            # One that the edge cannot have yet when the client asks for it.
            version = await a.publish(marked("next"))
            cursor = (await a.state())["cursor"]
            got, answer = await fetched_version(edge, cursor=cursor)
            assert got is None or got >= version, answer
            await until(lambda: is_fetched(edge, version), "the edge's fetch")
            assert (await ready(edge))[1].get("degraded") is None
            calls = await edge.metrics()
            failed = sum(value for (name, text), value in calls.items()
                         if name.endswith("etcd_requests_total") and "unknown" in text)
            done = sum(value for (name, text), value in calls.items() if name.endswith("etcd_requests_total"))
            assert done > 10 and failed < done / 4, f"{failed} of {done} calls had no answer"
        await until(lambda: nodes_at(a, 4), "the edges' records")
        await until(lambda: far_away(a, {"e1", "e2", "e3"}), "how long etcd takes to answer the edges")
        edges[0].stop()
        gone = await until(lambda: gone_at(a), "that an edge has gone")
        assert [(node["id"], node["role"]) for node in gone] == [("e1", "edge")]
        for stream in streams:
            stream.close()


async def is_fetched(edge, version):
    return (await fetched_version(edge))[0] == version


async def nodes_at(node, count):
    return len((await ask(node, "GET", "/v1/cluster")).json()["nodes"]) == count


async def far_away(node, names):
    """Whether etcd takes a while to answer these nodes."""
    nodes = (await ask(node, "GET", "/v1/cluster")).json()["nodes"]
    return names <= {one["id"] for one in nodes if one.get("etcdDelaySeconds", 0) > 0.2}


async def gone_at(node):
    return (await ask(node, "GET", "/v1/cluster")).json()["gone"]


def reads(edge):
    """Reads of the log so far, each a round trip to etcd."""
    return edge.metric("stalecast_cluster_etcd_requests_total", kind="read")


@pytest.mark.limit(120)
async def test_a_packet_lost_on_one_connection_holds_no_version_up(one, far):
    """TCP repairs a loss after a round trip and 200 ms, and all behind it on its connection waits. An edge hears each
    version on two: whichever stands still, the version comes by the other, without a round trip."""
    a = one.nodes[0]
    with FarLine(one.etcd.endpoints[0], delay=0.005, loss=0) as line:
        edge = far("e1", line)
        stream = await Stream.open(edge.edge)
        await stream.synced()
        await a.publish(marked("first"))
        await stream.version_at_least(1)
        stalled = line.open
        # Calls, records, and the log twice. A call that has no answer ends its connection.
        for number in stalled:
            line.stall(number)
            needed = []
            # A look at the log's end, every five seconds, may meet an entry that is under way, and read it.
            while len(needed) < 5 and 0 not in needed:
                before = await reads(edge)
                await stream.version_at_least(await a.publish(marked(f"m{number}")))
                needed.append(await reads(edge) - before)
            assert 0 in needed, f"with connection {number} of {stalled} stalled it took reads of the log: {needed}"
            line.heal()
        stream.close()


@pytest.mark.limit(200)
async def test_a_cut_edge_says_how_old_it_is_and_refuses_when_too_old(one, far, hour_later):
    a = one.nodes[0]
    assert await a.publish(marked("first")) == 1
    with FarLine(one.etcd.endpoints[0], delay=0.02, loss=0) as line:
        edge = far("e1", line, maxUnverified="30m")
        stream = await Stream.open(edge.edge)
        cursor = (await stream.synced()).id
        got, answer = await fetched_version(edge)
        assert got == 1 and answer.header(UNVERIFIED) is None
        line.cut()
        assert await a.publish(marked("second")) == 2
        ahead = (await a.state())["cursor"]

        async def is_marked():
            got, answer = await fetched_version(edge)
            assert got == 1, "what it knows"
            return answer.header(UNVERIFIED)

        first = int(await until(is_marked, "a mark"))
        assert first > 12
        read = await ask(edge, "GET", DEMO)
        assert read.status == 200 and int(read.header(UNVERIFIED)) >= first
        status, body = await until(lambda: is_degraded(edge), "a degraded edge")
        assert status == 200 and "cannot be reached" in body["degraded"][0]
        assert await edge.metric("stalecast_cluster_unverified_seconds") >= first
        # A client that was told more elsewhere is not told less here.
        assert (await fetched_version(edge, cursor=ahead))[0] is None
        again = await Stream.open(edge.edge, last_event_id=cursor)
        await again.synced()
        assert again.ended is None and not again.versions, "streams go on"
        assert edge.stop() == 0
        edge.more = hour_later
        edge.start(timeout=40)
        assert await refuses(edge) and (await ready(edge))[0] == 503, "a restart makes it no younger"
        assert (await ask(edge, "GET", DEMO)).status == 503
        line.heal()
        await until(lambda: is_fetched(edge, 2), "the second version", 40)
        await until(lambda: is_well(edge), "a ready edge")
        once_more = await Stream.open(edge.edge, last_event_id=cursor)
        await once_more.version_at_least(2)

        async def is_young():
            return await edge.metric("stalecast_cluster_unverified_seconds") < 12
        await until(is_young, "a verified edge")
        for each in (stream, again, once_more):
            each.close()


async def refuses(edge):
    return (await fetched_version(edge))[0] is None


async def is_degraded(edge):
    status, body = await ready(edge)
    return (status, body) if body.get("degraded") else None


async def is_well(edge):
    status, body = await ready(edge)
    return status == 200 and not body.get("degraded")


@pytest.mark.limit(200)
async def test_a_start_from_nothing_goes_on_after_cuts(one, far):
    """The log is copied in pages before the edge listens; a cut in the middle, and a kill, cost what was not stored."""
    client = one.nodes[0].client()
    chance = random.Random(3)
    for number in range(300):
        body = marked(f"m{number}")
        body["parameters"]["noise"] = {"defaultValue": {"value": chance.randbytes(4000).hex()}}
        await client.publish(body)
    client.close()
    whole = sum(len(entry) for entry in one.etcd.values("/stalecast/default/log/").values())
    page = whole / 3
    with FarLine(one.etcd.endpoints[0], delay=0.15, loss=0) as line:
        edge = far("e1", line, start=False)
        edge.spawn()
        await until(lambda: has_taken(line, page / 2), "half a page of the log")
        line.sever()
        # Half a page was lost, smaller ones are stored since, and another is on its way.
        await until(lambda: has_taken(line, page * 2.4), "pages that are stored")
        line.cut()
        edge.kill()
        line.sever()
        line.heal()
        before = line.taken[1]
        edge.spawn()
        await asyncio.to_thread(wait_for_endpoints, edge)
        shown = await one.settled()
        assert len(shown["e1"]) == 300 and shown["e1"] == shown["a"]
        copied = line.taken[1] - before
        assert copied < whole - page / 2, f"{copied} of {whole} bytes after the restart: stored entries are read again"


async def has_taken(line, count):
    return line.taken[1] >= count
