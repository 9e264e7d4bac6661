"""G10: a reader that stalls costs a constant, is closed after the limit, and resumes without loss."""

import time

import pytest

from harness import configs
from harness.daemon import LONG
from harness.sse import Stream
from harness.templates import wide

STALLED = 100 if LONG else 40
STALL_LIMIT = 2
MEMORY_PER_STALLED = 64 << 10
MEMORY_BESIDES = 24 << 20


async def publish_until(daemon, enough, most=6000):
    """Publishes large messages until `enough()`; returns the last version."""
    client, version = daemon.client(), 0
    for number in range(most):
        version = await client.publish(wide(str(number)))
        if number % 20 == 0 and await enough():
            return version
    raise AssertionError(f"not enough after {most} publishes")


@pytest.mark.limit(180)
async def test_stalled_readers_cost_a_constant_are_closed_and_resume_without_loss(launch, half):
    daemon = launch(configs.stall_limit(half, STALL_LIMIT), half=half)
    client = daemon.client()
    for number in range(300):
        first = await client.publish(wide(str(number)))
    stalled = [await Stream.open(daemon.edge, have=first, receive_buffer=4096, reading=False)
               for _ in range(STALLED)]
    healthy = await Stream.open(daemon.edge)
    await healthy.synced()

    async def all_closed():
        return not set(map(port_of, stalled)) & set(send_queues(daemon.edge))

    with daemon.growth_below(STALLED * MEMORY_PER_STALLED + MEMORY_BESIDES):
        last = await publish_until(daemon, all_closed)
    await healthy.version_at_least(last)
    assert healthy.ended is None, "the healthy reader is not touched by the others' stall"
    for stream in stalled:
        stream.resume_reading()
        await stream.end(timeout=10)
        assert stream.ended in ("eof", "reset"), stream.ended
        again = await Stream.open(daemon.edge, last_event_id=stream.last_id or None, have=first)
        await again.synced()
        assert max(again.versions, default=0) >= last, "resumed without loss"
        again.close()


@pytest.mark.limit(120)
async def test_a_stalled_reader_is_closed_within_its_limit(launch, half):
    daemon = launch(configs.stall_limit(half, STALL_LIMIT), half=half)
    stream = await Stream.open(daemon.edge, receive_buffer=4096, reading=False)
    client, begun = daemon.client(), time.monotonic()
    pending_since = None
    # Less than the default limit of 30 s.
    while time.monotonic() - (pending_since or begun) < 25:
        await client.publish(wide(str(time.monotonic())))
        waiting = send_queues(daemon.edge).get(port_of(stream))
        if waiting is None:
            break
        if waiting and not pending_since:
            pending_since = time.monotonic()
    closed = time.monotonic()
    stream.close()
    assert waiting is None, "the stalled stream was never closed"
    # the kernel's buffer fills first; only when it is full has the daemon itself bytes left, and its limit begins
    assert closed - pending_since >= STALL_LIMIT * 0.8, "closed before its limit"


def port_of(stream):
    return stream._writer.get_extra_info("sockname")[1]


def send_queues(port):
    """Bytes in the daemon's send queue of each established connection of its listener, by the client's port."""
    queues = {}
    with open("/proc/net/tcp") as table:
        for line in list(table)[1:]:
            local, remote, state, sizes = line.split()[1:5]
            if int(local.split(":")[1], 16) == port and state == "01":
                queues[int(remote.split(":")[1], 16)] = int(sizes.split(":")[0], 16)
    return queues


@pytest.mark.limit(120)
async def test_a_slow_but_living_reader_skips_upward_and_ends_current(launch, half):
    """G7: it reads nothing for long, within its limit; versions are skipped, never the newest, never downward."""
    daemon = launch(configs.stall_limit(half, 100), half=half)
    stream = await Stream.open(daemon.edge, receive_buffer=4096, reading=False)
    client = daemon.client()
    for number in range(2500):
        last = await client.publish(wide(str(number)))
    stream.resume_reading()
    await stream.version_at_least(last, timeout=30)
    assert stream.versions == sorted(set(stream.versions))
    assert len(stream.versions) < last, "nothing was skipped: the reader was not slow enough to prove anything"
    stream.close()
