"""G1: kill -9, again and again, under publishes and subscribers; afterwards the records must agree."""

import asyncio
import random
import statistics

import pytest

from harness import configs, history
from harness.daemon import LONG
from harness.history import Link, Stored
from harness.http1 import Broken
from harness.poll import Poller
from harness.pressure import publish_while
from harness.sse import Stream
from harness.templates import marked
from harness.waiting import until

KILLS = 300 if LONG else 40
WRITERS = 4
# Acknowledged publishes before each kill: without any a kill shows nothing.
LEAST = 2 * WRITERS
TOPICS = (("PUSH_RC",), ("OTHER",), ("PUSH_RC", "THIRD"), ("PUSH_RC",))


class Campaign:
    """Writers, subscribers and a poller that outlive the daemon they talk to."""

    def __init__(self, daemon):
        self.daemon, self.random = daemon, random.Random(7)
        self.acknowledged, self.links, self.streams = [], [], {}
        self.alive = asyncio.Event()

    async def write(self, name):
        """Publishes without pause while the daemon is up; only a 200 counts as acknowledged."""
        await publish_while(
            self.alive, self.daemon, name, 0.004, lambda version: self.acknowledged.append(as_stored(version)))

    async def subscribe(self, name, topics):
        """Reconnects with the last id for ever."""
        cursor = None
        while True:
            try:
                stream = await Stream.open(self.daemon.edge, topics, last_event_id=cursor)
            except (Broken, OSError):
                await asyncio.sleep(0.005)
                continue
            self.streams[name] = stream
            while stream.ended is None:
                await stream.until(lambda s, n=len(stream.frames): s.ended or len(s.frames) > n, 60)
            assert not stream.fault, stream.fault
            self.links.append(history.link_of(stream, name, cursor or ""))
            cursor = stream.last_id or cursor
            stream.close()

    async def round(self):
        """Up until there is something to lose and a random short time more, then killed, started again, looked at."""
        before = len(self.acknowledged)
        await until(lambda: len(self.acknowledged) >= before + LEAST, "publishes before a kill")
        await asyncio.sleep(self.random.uniform(0.05, 0.35))
        self.alive.clear()
        self.daemon.kill()
        seconds = await asyncio.to_thread(self.daemon.start)
        await self.compare()
        self.alive.set()
        return seconds

    async def compare(self):
        """Everything acknowledged or announced before the kill must be in the store, as it was."""
        client = self.daemon.client()
        listed = [as_stored(entry) for entry in (await client.versions()).values()]
        client.close()
        lowest = min((one.version for one in listed), default=0)
        recent = [one for one in self.acknowledged if one.version >= lowest]
        faults = history.acknowledged_lost(recent, listed) + history.not_a_function(recent + listed)
        open_links = [history.link_of(stream, name) for name, stream in self.streams.items()]
        announced = [Link(link.subscriber, seen=[seen for seen in link.seen if seen.version >= lowest])
                     for link in open_links + self.links[-50:]]
        faults += history.phantoms(announced, listed)
        assert not faults, faults[:5]


def as_stored(metadata):
    number = int(metadata["versionNumber"])
    return Stored(number, metadata["description"], f"etag-123456789012-{number}", metadata["updateTime"])


@pytest.mark.limit(900 if LONG else 240)
async def test_kill_dash_nine_loses_and_changes_nothing(launch, half):
    daemon = launch(configs.many_topics(half), half=half)
    campaign = Campaign(daemon)
    await daemon.publish(marked("first"))
    tasks = [asyncio.create_task(campaign.write(f"w{i}")) for i in range(WRITERS)]
    tasks += [asyncio.create_task(campaign.subscribe(f"s{i}", t)) for i, t in enumerate(TOPICS)]
    pollers = [Poller(daemon.edge, wait="2s").start(), Poller(daemon.edge, ("OTHER",), wait="1s").start()]
    campaign.alive.set()
    starts = []
    for _ in range(KILLS):
        starts.append(await campaign.round())
        for task in tasks + [poller.task for poller in pollers]:
            if task.done():
                task.result()
    await asyncio.sleep(0.1)
    for task in tasks[:WRITERS]:
        task.cancel()
    final = await daemon.publish(marked("final"))
    for name, stream in list(campaign.streams.items()):
        await campaign.streams[name].version_at_least(final)
    for poller in pollers:
        await poller.version_at_least(final)
    links = campaign.links + [history.link_of(stream, name) for name, stream in campaign.streams.items()]
    assert not history.disorder_on_connection(links)
    assert not history.decrease_across_connections(links)
    for poller in pollers:
        assert poller.versions == sorted(set(poller.versions)), "a poller saw a decrease or a repeat"
        poller.stop()
    for task in tasks:
        task.cancel()
    print(f"{KILLS} kills, {len(campaign.acknowledged)} acknowledged, "
          f"start median {statistics.median(starts):.3f} s, longest {max(starts):.3f} s")
    assert not any(link.reset for link in links), "kill -9 must not cost the epoch"
