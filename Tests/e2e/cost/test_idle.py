"""What ten thousand silent streams cost, and what one stalled reader costs the others."""

import asyncio
import time

import pytest

from harness import configs
from harness.daemon import LONG
from harness.figures import alone_when_long
from harness.pressure import cpu_share
from harness.sse import Stream
from harness.swarm import Swarm
from harness.templates import marked, wide

STREAMS = 10_000
SECONDS = 4 if LONG else 0.4
# Beside other tests the last of the streams still arrive; a loop that never waits takes a whole core each time.
MOST_OF_A_CORE = 0.05 if LONG else 0.25


@alone_when_long
@pytest.mark.limit(180)
async def test_ten_thousand_idle_streams_cost_next_to_nothing(launch, half):
    daemon = launch(configs.many_connections(half), half=half)
    before = daemon.memory()
    swarm = await asyncio.to_thread(Swarm, daemon.edge, STREAMS)
    per_stream = (daemon.memory() - before) / STREAMS
    await asyncio.sleep(0.4)
    share = min([await cpu_share(daemon, SECONDS) for _ in range(5)])
    version = await daemon.publish(marked("wake up"))
    times = await asyncio.to_thread(swarm.message_times, version)
    print(f"{half}: {share:.4f} of a core idle, {per_stream:.0f} bytes per stream, fan-out to {len(times)}")
    swarm.close()
    assert share < MOST_OF_A_CORE, f"idle streams take {share:.1%} of a core"
    assert per_stream < 16 << 10, f"{per_stream:.0f} bytes of resident memory per idle stream"


async def p99_of_deliveries(daemon, swarm, rounds=15):
    """Seconds from just before the publish until 99 % of the streams have it; the best half of the rounds' median."""
    client, found = daemon.client(), []
    for number in range(rounds):
        begun = time.monotonic()
        waiting = asyncio.create_task(asyncio.to_thread(swarm.message_times, await next_version(client)))
        await client.publish(wide(str(number)))
        times = sorted(await waiting)
        found.append(times[int(len(times) * 0.99)] - begun)
    return sorted(found)[rounds // 4]


async def next_version(client):
    return (await client.current())[0] + 1


@pytest.mark.busy
@pytest.mark.limit(180)
async def test_a_stalled_reader_among_a_thousand_does_not_move_the_others(launch, half):
    daemon = launch(configs.stall_limit(half, 120), half=half)
    swarm = await asyncio.to_thread(Swarm, daemon.edge, 1000)
    alone = await p99_of_deliveries(daemon, swarm)
    stalled = [await Stream.open(daemon.edge, receive_buffer=4096, reading=False) for _ in range(5)]
    client = daemon.client()
    for number in range(400):  # enough to fill the kernel's buffers for those that do not read
        last = await client.publish(wide(f"fill {number}"))
    await asyncio.to_thread(swarm.message_times, last)
    beside = await p99_of_deliveries(daemon, swarm)
    print(f"{half}: p99 of 1,000 deliveries {alone * 1000:.1f} ms alone, {beside * 1000:.1f} ms beside stalled readers")
    for stream in stalled:
        stream.close()
    swarm.close()
    assert beside < alone * 2 + 0.050, f"p99 {alone * 1000:.0f} ms became {beside * 1000:.0f} ms"
