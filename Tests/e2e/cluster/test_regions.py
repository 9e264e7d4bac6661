"""Regions: core nodes in one, edges at the end of long lines in others, while lines are cut and machines die.

The bounded run has two edges and few streams. With `STALECAST_LONG=1`: three members, three core nodes, four edges in
two regions and 2,000 streams. A line here delays and repairs as TCP does; a kernel with netem was not tried."""

import asyncio
import time
from contextlib import ExitStack

import pytest

from harness.campaign import Campaign
from harness.crowd import Crowd
from harness.daemon import LONG
from harness.edges import add_edge
from harness.far_line import FarLine
from harness.figures import percentile, record
from harness.sse import Stream
from harness.templates import marked
from test_cluster_propagation import get, shown

CORE, EDGES, STREAMS = (3, 4, 2000) if LONG else (2, 2, 100)
DELAY, LOSS = (0.15, 0.01) if LONG else (0.05, 0.01)
PUBLISHES = 200 if LONG else 10
CUTS = (5, 20, 60, 180) if LONG else (3,)


@pytest.fixture
def regions(start_etcd, start_cluster, request):
    """(cluster, {edge's name: line}): an edge at the end of each line."""
    cluster = start_cluster(start_etcd(3 if LONG else 1), CORE)
    with ExitStack() as stack:
        lines = {}
        for number in range(EDGES):
            member = cluster.etcd.endpoints[number % len(cluster.etcd.endpoints)]
            line = stack.enter_context(FarLine(member, DELAY, LOSS, seed=number))
            edge = add_edge(cluster, f"e{number + 1}", [line.url])
            request.node.daemons.append(edge)
            lines[edge.name] = line
        cluster.start()
        yield cluster, lines


def edges_of(cluster):
    return [node for node in cluster.nodes if node.is_edge]


async def reads(edges):
    """Reads of the log by these nodes, each a round trip to etcd."""
    return sum([await edge.metric("stalecast_cluster_etcd_requests_total", kind="read") for edge in edges])


@pytest.mark.campaign
@pytest.mark.limit(600 if LONG else 120)
async def test_how_long_a_version_takes_to_the_last_stream_of_another_region(regions):
    cluster, _ = regions
    edges = edges_of(cluster)
    crowds = await asyncio.gather(*(asyncio.to_thread(Crowd, edge.edge, STREAMS // EDGES) for edge in edges))
    client = cluster.core[0].client()
    late, answered, before = [], [], await reads(edges)
    try:
        for number in range(1, PUBLISHES + 1):
            for crowd in crowds:
                await asyncio.to_thread(crowd.expect, number)
            begin = time.monotonic()
            assert await client.publish(marked(f"m{number}")) == number
            answered.append(time.monotonic() - begin)
            arrivals = await asyncio.gather(*(asyncio.to_thread(crowd.arrivals) for crowd in crowds))
            assert [len(times) for times in arrivals] == [STREAMS // EDGES] * EDGES, "no stream is left out"
            late.append(max(times[-1] for times in arrivals) - begin)
        needed = await reads(edges) - before
        # A look at the log's end may meet an entry that is under way; a round trip for each version would be one read.
        assert needed <= PUBLISHES * EDGES / 10, f"{needed} reads: versions come by the watches, half a round trip"
    finally:
        client.close()
        for crowd in crowds:
            crowd.close()
    # A disk that stands still holds up the publish itself.
    worst = max(range(PUBLISHES), key=late.__getitem__)
    longest_answered = answered[worst]
    late.sort()
    answered.sort()
    record("regions_last_stream", streams=STREAMS, edges=EDGES, delay_each_way_s=DELAY, loss=LOSS, publishes=PUBLISHES,
           p50_s=percentile(late, 0.5), p99_s=percentile(late, 0.99), longest_s=late[-1],
           slower_than_400_ms=sum(time > 0.4 for time in late), longest_until_answered_s=longest_answered,
           answered_p99_s=percentile(answered, 0.99))


async def cut(campaign, lines, edge, seconds):
    """What an edge's etcd says and hears is lost for so long."""
    line = lines[edge.name]
    line.cut()
    begin = time.monotonic()
    while time.monotonic() < begin + seconds:
        await asyncio.sleep(0.2)
    line.heal()


@pytest.mark.limit(3600 if LONG else 150)
async def test_regions_that_are_cut_and_machines_that_die_lose_nothing(regions):
    cluster, lines = regions
    edges = edges_of(cluster)
    before = {name: line.taken[0] for name, line in lines.items()}
    async with Campaign(cluster, writers=2, subscribers=8 if LONG else 4) as campaign:
        for number, seconds in enumerate(CUTS):
            await campaign.busy()
            await cut(campaign, lines, edges[number % EDGES], seconds)
            await campaign.busy()
            victim = edges[(number + 1) % EDGES]
            victim.kill()
            await campaign.recovered()
            await campaign.busy()
            core = cluster.core[number % CORE]
            core.kill()
            await campaign.recovered()
            if LONG:
                await campaign.busy()
                cluster.etcd.members[number % 3].kill()
                await campaign.recovered()
                await cluster.etcd.heal()
            lines[edges[(number + 2) % EDGES].name].sever()
            await asyncio.to_thread(cluster.start)
        log, shown_versions = await campaign.finish()
    connections = {name: line.taken[0] - before[name] for name, line in lines.items()}
    record("regions", **campaign.summary(), log=len(log), most_connections=max(connections.values()))
    faults = campaign.faults(log, shown_versions)
    assert not faults, (len(faults), faults[:8])
    assert campaign.fetches and campaign.summary()["resets"] == 0
    await counted_exactly(cluster, edges)


async def counted_exactly(cluster, edges):
    """After all that, clients of all edges count once each at a core node."""
    core = cluster.core[0]
    version = (await cluster.settled())["a"][-1].version
    names = {f"{edge.name}-{number}": edge for edge in edges for number in range(5)}
    streams = [await Stream.open(edge.edge, client=name, have=version) for name, edge in names.items()]
    for stream in streams:
        await stream.synced()
    version = await core.publish(marked("last"))
    for stream in streams:
        await stream.version_at_least(version)
    for turn, name in enumerate(names):
        await get(cluster.nodes[turn % len(cluster.nodes)], name)
    await shown(core, lambda way: way["clients"]["audience"] == len(names) == way["clients"]["fetched"],
                "every client once", versionNumber=version)
    for stream in streams:
        stream.close()
