"""Stock clients that hop: a fetch at one node after a publish was answered at another is never older."""

import asyncio
import re
import time

import pytest

from harness.cluster import FETCH, INSTANCE
from harness.daemon import LONG
from harness.figures import record
from harness.templates import marked

FETCHES = 1_000_000 if LONG else 12_000
SECONDS = 540 if LONG else 60  # at most; a machine that is busy with other things gets less far
CLIENTS, AT_ONCE = 12, 25
VERSION = re.compile(rb'"templateVersion":"(\d+)"')
REQUEST = (f"POST {FETCH} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
           f"Content-Length: {len(INSTANCE)}\r\n\r\n").encode() + INSTANCE


class Seen:
    """What any client was told so far, and what was read since."""

    def __init__(self):
        self.version, self.fetched, self.stale, self.refused, self.unverified = 0, 0, [], 0, 0


async def publish(node, seen):
    client = node.client()
    while True:
        seen.version = max(seen.version, await client.publish(marked("x")))
        await asyncio.sleep(0.005)


async def read(cluster, first, seen, end):
    """Sends some fetches at once to one node after another, each on a connection of its own; each began after `known` had
    been acknowledged."""
    connections = {node: [await asyncio.open_connection("127.0.0.1", node.edge, limit=1 << 20) for _ in range(AT_ONCE)]
                   for node in cluster.nodes}
    at = first
    try:
        while seen.fetched < FETCHES and time.monotonic() < end:
            node = cluster.nodes[at % len(cluster.nodes)]
            at += 1
            known = seen.version
            for _, writer in connections[node]:
                writer.write(REQUEST)
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


@pytest.mark.campaign
@pytest.mark.limit(7200 if LONG else 120)
async def test_no_fetch_is_older_than_what_was_acknowledged_anywhere(cluster):
    seen = Seen()
    writers = [asyncio.create_task(publish(node, seen)) for node in cluster.nodes[:2]]
    while not seen.version:
        await asyncio.sleep(0.01)
    begin = time.monotonic()
    try:
        await asyncio.gather(*(read(cluster, number, seen, begin + SECONDS) for number in range(CLIENTS)))
    finally:
        seconds = time.monotonic() - begin
        while [writer for writer in writers if not writer.done()]:
            for writer in writers:
                writer.cancel()
            await asyncio.wait(writers, timeout=0.2)
    for writer in writers:
        if not writer.cancelled() and writer.exception():
            raise writer.exception()
    record("cluster_fetches", fetched=seen.fetched, versions=seen.version, refused=seen.refused,
           unverified=seen.unverified, fetches_each_second=seen.fetched / seconds)
    assert not seen.stale, (len(seen.stale), seen.stale[:5])
    assert seen.fetched >= FETCHES / 10 and seen.version > 20
    assert seen.unverified < seen.fetched / 100, "etcd was there all the time"
