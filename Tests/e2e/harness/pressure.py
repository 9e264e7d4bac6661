"""Steady publishers and the figures taken while they run, for tests of the fast path."""

import asyncio
import time

from harness.figures import percentile
from harness.http1 import Broken
from harness.templates import marked, wide


async def publish_each(client, interval, seconds, body=marked):
    """Publishes at a steady rate, late ones at once; returns (last version, count, seconds each took)."""
    begun, taken, version = time.monotonic(), [], 0
    for number in range(int(seconds / interval)):
        await asyncio.sleep(begun + number * interval - time.monotonic())
        asked = time.monotonic()
        version = await client.publish(body(f"{number}"))
        taken.append(time.monotonic() - asked)
    return version, sorted(taken)


async def publish_until_acknowledged(client, marker):
    """Publishes until a 200, as a careful publisher does after a broken connection."""
    while True:
        try:
            return await client.publish(marked(marker))
        except Broken:
            await asyncio.sleep(0.01)


async def publish_while(alive, daemon, name, pause, acknowledged):
    """Publishes without end while the event `alive` is set; `acknowledged` gets the version of each 200."""
    number = 0
    while True:
        await alive.wait()
        client = daemon.client()
        try:
            while True:
                number += 1
                answer = await client.put(marked(f"{name}-{number}"))
                if answer.status == 200:
                    acknowledged(answer.json()["version"])
                await asyncio.sleep(pause)
        except (Broken, OSError):
            await asyncio.sleep(pause)
        finally:
            client.close()


async def until_metric(daemon, name, wanted, timeout):
    deadline = time.monotonic() + timeout
    while (value := await daemon.metric(name)) != wanted:
        assert time.monotonic() < deadline, f"{name} is {value}, not {wanted}, after {timeout} s"
        await asyncio.sleep(0.05)


async def cpu_share(daemon, seconds):
    """Share of a core that the daemon takes over so many seconds."""
    begun, used = time.monotonic(), daemon.cpu_seconds()
    await asyncio.sleep(seconds)
    return (daemon.cpu_seconds() - used) / (time.monotonic() - begun)


async def memory_over(daemon, samples):
    """Appends (time, resident bytes) ten times a second until cancelled."""
    while True:
        samples.append((time.monotonic(), daemon.memory()))
        await asyncio.sleep(0.1)


def mean_between(samples, start, end):
    values = [bytes_ for at, bytes_ in samples if start <= at < end]
    return sum(values) / len(values)


async def p99_of_one(daemon, client, subscribers):
    """Seconds from just before a publish until 99 % of the crowd have it, and until the last has."""
    expected = (await client.current())[0] + 1
    await asyncio.to_thread(subscribers.expect, expected)
    begun = time.monotonic()
    await client.publish(marked(str(expected)))
    times = await asyncio.to_thread(subscribers.arrivals)
    return percentile(times, 0.99) - begun


async def fill_until_stalled(daemon, client, subscribers, count):
    """Publishes large messages until `count` streams have bytes that their kernel buffers do not take."""
    version = 0
    for number in range(400):
        version = await client.publish(wide(f"fill {number}"))
        if number % 5 == 4:
            await asyncio.to_thread(subscribers.all_have, version)
            if await daemon.metric("stalecast_stalled_streams") >= count:
                return version, time.monotonic()
    raise AssertionError(f"{await daemon.metric('stalecast_stalled_streams')} of {count} are stalled")
