"""Clients that hop: a fetch at one node after a publish was answered at another is never older. Stock clients send no
cursor, and core nodes ask etcd; at an edge a client shows its cursor."""

import asyncio
import re
import time

import pytest

from harness.cluster import FETCH, INSTANCE
from harness.daemon import LONG
from harness.edges import add_edge
from harness.far_line import FarLine
from harness.figures import record
from harness.templates import marked

FETCHES = 1_000_000 if LONG else 12_000
WITH_CURSOR = 100_000 if LONG else 4_000
SECONDS = 540 if LONG else 60  # at most; a machine that is busy with other things gets less far
CLIENTS, AT_ONCE = 12, 25
VERSION = re.compile(rb'"templateVersion":"(\d+)"')


def request(cursor=None):
    field = f"X-Stalecast-Cursor: {cursor}\r\n" if cursor else ""
    return (f"POST {FETCH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n{field}"
            f"Content-Length: {len(INSTANCE)}\r\n\r\n").encode() + INSTANCE


class Seen:
    """What any client was told so far, and what was read since. `wanted`: fetches."""

    def __init__(self, wanted):
        self.wanted, self.version, self.cursor = wanted, 0, None
        self.fetched, self.stale, self.refused, self.unverified = 0, [], 0, 0


async def publish(node, seen, has_cursor=False):
    client = node.client()
    while True:
        version = await client.publish(marked("x"))
        if has_cursor:
            seen.cursor = (await node.state())["cursor"]
        seen.version = max(seen.version, version)
        await asyncio.sleep(0.005)


async def read(nodes, first, seen, end):
    """Sends some fetches at once to one node after another, each on a connection of its own; each began after `known` had
    been acknowledged."""
    connections = {}
    at = first
    try:
        while seen.fetched < seen.wanted and time.monotonic() < end:
            node = nodes[at % len(nodes)]
            at += 1
            # At the first use: Edge closes a connection that asks nothing for long.
            connections[node] = connections.get(node) or [
                await asyncio.open_connection("127.0.0.1", node.edge, limit=1 << 20) for _ in range(AT_ONCE)]
            known, sent = seen.version, request(seen.cursor)
            for _, writer in connections[node]:
                writer.write(sent)
            for reader, _ in connections[node]:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
                body = await reader.readexactly(length)
                if b" 200 " not in head[:16]:
                    assert b" 503 " in head[:16], head
                    seen.refused += 1
                    continue
                if b"x-stalecast-unverified" in head.lower():
                    seen.unverified += 1
                    continue
                got = int(VERSION.search(body).group(1))
                seen.fetched += 1
                if got < known:
                    seen.stale.append((node.name, known, got))
    finally:
        for _, writer in (one for several in connections.values() for one in several):
            writer.close()


async def hop(nodes, seen, *writing):
    """Lets the clients read while these publish; returns fetches a second."""
    writers = [asyncio.create_task(each) for each in writing]
    while not seen.version:
        await asyncio.sleep(0.01)
    begin = time.monotonic()
    try:
        await asyncio.gather(*(read(nodes, number, seen, begin + SECONDS) for number in range(CLIENTS)))
    finally:
        seconds = time.monotonic() - begin
        while [writer for writer in writers if not writer.done()]:
            for writer in writers:
                writer.cancel()
            await asyncio.wait(writers, timeout=0.2)
    for writer in writers:
        if not writer.cancelled() and writer.exception():
            raise writer.exception()
    return seen.fetched / seconds


@pytest.mark.campaign
@pytest.mark.limit(7200 if LONG else 120)
async def test_no_fetch_is_older_than_what_was_acknowledged_anywhere(cluster):
    seen = Seen(FETCHES)
    rate = await hop(cluster.nodes, seen, *(publish(node, seen) for node in cluster.nodes[:2]))
    record("cluster_fetches", fetched=seen.fetched, versions=seen.version, refused=seen.refused,
           unverified=seen.unverified, fetches_each_second=rate)
    assert not seen.stale, (len(seen.stale), seen.stale[:5])
    assert seen.fetched >= FETCHES / 10 and seen.version > 20
    assert seen.unverified < seen.fetched / 100, "etcd was there all the time"


@pytest.mark.limit(900 if LONG else 120)
async def test_no_fetch_with_a_cursor_is_older_at_an_edge_that_is_behind(start_etcd, start_cluster, request):
    cluster = start_cluster(start_etcd(1), 2)
    with FarLine(cluster.etcd.endpoints[0], delay=0.15) as line:
        edges = [add_edge(cluster, name, [line.url]) for name in ("e1", "e2")]
        request.node.daemons += edges
        cluster.start()
        seen = Seen(WITH_CURSOR)
        rate = await hop(cluster.nodes, seen, publish(cluster.core[0], seen, has_cursor=True))
        waits = sum([await edge.metric("stalecast_cluster_waits_total", **{"for": "cursor"}) for edge in edges])
    record("cluster_cursor_hops", fetched=seen.fetched, versions=seen.version, refused=seen.refused, waits=waits,
           fetches_each_second=rate)
    assert not seen.stale, (len(seen.stale), seen.stale[:5])
    assert seen.fetched >= WITH_CURSOR and seen.version > 10 and not seen.unverified
    assert waits > 20, "edges that are never behind would show nothing"
