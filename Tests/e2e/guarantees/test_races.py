"""Subscribing while a publish happens: the newest version arrives in each interleaving."""

import asyncio
import random

import pytest

from harness.poll import poll, versions_in
from harness.sse import Stream
from harness.templates import marked

RACES = 300


class Race:
    """One subscriber and one publish, started within a millisecond of each other in random order."""

    def __init__(self, daemon, seed):
        self.daemon, self.random = daemon, random.Random(seed)
        self.client = daemon.client()

    async def publish(self, number):
        await asyncio.sleep(self.random.uniform(0, 0.002))
        return await self.client.publish(marked(str(number)))

    async def subscribe(self, kind, cursor, held):
        await asyncio.sleep(self.random.uniform(0, 0.002))
        known = {"have": {"have": held}, "cursor": {"cursor": cursor}, "header": {"last_event_id": cursor}}
        return await Stream.open(self.daemon.edge, **known.get(kind, {}))


async def head_cursor(daemon):
    stream = await Stream.open(daemon.edge)
    cursor = (await stream.synced()).id
    stream.close()
    return cursor


@pytest.mark.limit(120)
async def test_no_subscriber_misses_a_publish_that_races_with_it(daemon):
    race = Race(daemon, seed=1)
    held = await daemon.publish(marked("start"))
    cursor = await head_cursor(daemon)
    kinds = ["nothing", "have", "cursor", "header"]
    for number in range(RACES):
        kind = kinds[number % len(kinds)]
        version, stream = await asyncio.gather(race.publish(number), race.subscribe(kind, cursor, held))
        synced = await stream.synced()
        sequence = int(synced.id.partition(".")[2])
        if kind != "nothing" or sequence < version:  # one scope, one commit per version: sequence = version
            await stream.version_at_least(version, timeout=5)
        assert stream.versions in ([], [version]), f"race {number} ({kind}): {stream.versions}"
        held, cursor = version, stream.last_id
        assert int(cursor.partition(".")[2]) == version
        stream.close()


@pytest.mark.limit(120)
async def test_no_long_poll_misses_a_publish_that_races_with_it(daemon):
    race = Race(daemon, seed=2)
    held = await daemon.publish(marked("start"))
    cursor = await head_cursor(daemon)
    for number in range(RACES // 2):
        known = {"have": held} if number % 2 else {"cursor": cursor}
        await asyncio.sleep(race.random.uniform(0, 0.001))
        answer, version = await asyncio.gather(poll(daemon.edge, wait="5s", **known), race.publish(number))
        assert answer.status == 200 and versions_in(answer) == [version], f"race {number}: {answer}"
        held, cursor = version, answer.json()["cursor"]


@pytest.mark.limit(60)
async def test_hundreds_subscribe_during_a_burst_and_all_end_current(daemon):
    client = daemon.client()
    held = await client.publish(marked("start"))

    async def burst():
        for number in range(150):
            last = await client.publish(marked(str(number)))
        return last

    async def subscriber(delay):
        await asyncio.sleep(delay)
        return await Stream.open(daemon.edge, have=held)

    publishing = asyncio.create_task(burst())
    streams = await asyncio.gather(*(subscriber(index / 600) for index in range(RACES)))
    last = await publishing
    for stream in streams:
        await stream.version_at_least(last)
        assert stream.versions == sorted(set(stream.versions))
        stream.close()
