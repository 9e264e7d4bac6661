"""The fast path under what it is made for: many streams, publishes without pause, bad readers, a storm, few
descriptors. Sizes are small unless STALECAST_LONG=1; the figures are printed, see `harness/figures.py`."""

import asyncio
import subprocess
import time

import pytest

from harness import configs
from harness.crowd import Crowd
from harness.daemon import LONG
from harness.figures import alone_when_long, percentile, record
from harness.http1 import Broken
from harness.poll import poll
from harness.pressure import (cpu_share, fill_until_stalled, mean_between, memory_over, p99_of_one, publish_each,
                              publish_until_acknowledged, until_metric)
from harness.sse import Stream
from harness.templates import marked, template, wide
from harness.waiting import eventually

SUBSCRIBERS = 10_000 if LONG else 2_000
MB = 1 << 20


@pytest.fixture
def crowd():
    """`await crowd(port, count, …)`: a `Crowd` that is gone after the test."""
    crowds = []

    async def make(*arguments, **options):
        crowds.append(await asyncio.to_thread(Crowd, *arguments, **options))
        return crowds[-1]

    yield make
    for one in crowds:
        one.close()


# sustained load

RATE = 50
SUSTAINED_SECONDS = 60 if LONG else 5
# resident memory moves by pages, arenas and the database's cache; what piles up would be far more
GROWTH = 8 * MB


@alone_when_long
@pytest.mark.limit(240)
async def test_sustained_publishes_cost_no_memory_and_everybody_ends_current(launch, half, crowd):
    daemon = launch(configs.many_connections(half), half=half)
    subscribers = await crowd(daemon.edge, SUBSCRIBERS)
    client, samples, begun = daemon.client(), [], time.monotonic()
    watching = asyncio.create_task(memory_over(daemon, samples))
    cpu = daemon.cpu_seconds()
    last, taken = await publish_each(client, 1 / RATE, SUSTAINED_SECONDS)
    published_at = time.monotonic()
    arrivals = await asyncio.to_thread(subscribers.all_have, last, 60)
    watching.cancel()
    third = (published_at - begun) / 3
    # the first third is warm-up for its first half: the store's cache and the kernel's queues fill
    first = mean_between(samples, begun + third / 2, begun + third)
    final = mean_between(samples, begun + 2 * third, published_at)
    counts = await asyncio.to_thread(subscribers.counts)
    written, skipped = await accounted_for(daemon, last * SUBSCRIBERS)
    record(f"sustained {half}", subscribers=SUBSCRIBERS, seconds=published_at - begun, publishes=last,
           publish_p99_ms=percentile(taken, 0.99) * 1e3, last_arrival_ms=(arrivals[-1] - published_at) * 1e3,
           growth_mb=(final - first) / MB, delivered=written, coalesced=skipped,
           cpu_us_per_delivery=(daemon.cpu_seconds() - cpu) * 1e6 / max(written, 1))
    assert final - first < GROWTH, f"resident memory grew by {(final - first) / MB:.1f} MB while publishing"
    assert counts["decreases"] == 0 and counts["synced"] == SUBSCRIBERS, counts
    assert counts["messages"] <= written
    assert written + skipped == last * SUBSCRIBERS, "each message is either written or counted as coalesced"


async def accounted_for(daemon, messages):
    """(written, skipped) once they add up to `messages`: a shard hands out its counts ten times a second, so what the
    subscribers have already may not be in the first answer."""
    async def both():
        return [await daemon.metric("stalecast_deliveries_total", transport="sse"),
                await daemon.metric("stalecast_coalesced_total")]

    async def total():
        return sum(await both())

    await eventually(total, messages)
    return await both()


@pytest.mark.busy
@pytest.mark.limit(120)
async def test_more_than_the_cores_can_write_is_coalesced_not_queued(launch, half, crowd):
    """Publishes as fast as they are acknowledged: the newest arrives about as late as a walk takes, not as late as all
    walks that were asked for."""
    daemon = launch(configs.many_connections(half), half=half)
    subscribers = await crowd(daemon.edge, SUBSCRIBERS)
    clients = [daemon.client() for _ in range(8)]
    await daemon.publish(marked("warm"))
    walk = time.monotonic()
    await asyncio.to_thread(subscribers.all_have, 1)
    walk = time.monotonic() - walk
    before, end = daemon.memory(), time.monotonic() + (20 if LONG else 2)

    async def flood(client):
        version = 0
        while time.monotonic() < end:
            version = await client.publish(marked(f"{version}"))
        return version

    last = max(await asyncio.gather(*map(flood, clients)))
    published_at = time.monotonic()
    arrivals = await asyncio.to_thread(subscribers.all_have, last, 60)
    late, grown = arrivals[-1] - published_at, daemon.memory() - before
    skipped = await daemon.metric("stalecast_coalesced_total")
    record(f"flood {half}", subscribers=SUBSCRIBERS, publishes=last, one_walk_ms=walk * 1e3,
           last_arrival_ms=late * 1e3, growth_mb=grown / MB, coalesced=skipped)
    assert late < 1 + 10 * walk, f"the newest message came {late:.2f} s after its publish"
    counts = await asyncio.to_thread(subscribers.counts)
    assert counts["decreases"] == 0 and counts["synced"] == SUBSCRIBERS, counts


# bad readers

STALLED = SUBSCRIBERS // 10
READING = SUBSCRIBERS - STALLED
# below the 30 s after which the kernel gives up on a reader that takes nothing (TCP_USER_TIMEOUT)
STALL_SECONDS = 25 if LONG else 6
ROUNDS = 31 if LONG else 9
P99_RATIO = 1.25 if LONG else 2.0
MEMORY_PER_STALLED = 64 << 10


def slow_reader_limit(half):
    return configs.config(half, edge={"writeStallLimit": f"{STALL_SECONDS}s", "maxConnections": 15_000})


@pytest.mark.busy
@pytest.mark.limit(300)
async def test_a_tenth_that_reads_nothing_does_not_slow_the_others(launch, half, crowd):
    """Two daemons with the same readers, one with the bad ones besides; rounds alternate, so that the machine's mood
    meets both."""
    clean, dirty = (launch(slow_reader_limit(half), half=half) for _ in range(2))
    beside_nobody = await crowd(clean.edge, READING)
    beside_stalled = await crowd(dirty.edge, READING)
    client, other = clean.client(), dirty.client()
    for number in range(20):
        held = await other.publish(wide(f"warm {number}"))
        await client.publish(wide(f"warm {number}"))
    await asyncio.to_thread(beside_stalled.all_have, held)
    stalled = [await Stream.open(dirty.edge, have=held, receive_buffer=4096, reading=False) for _ in range(STALLED)]
    memory = dirty.memory()
    _, full_at = await fill_until_stalled(dirty, other, beside_stalled, STALLED)
    per_stalled = (dirty.memory() - memory) / STALLED
    alone, beside = [], []
    while len(beside) < ROUNDS and time.monotonic() < full_at + STALL_SECONDS * 0.6:
        alone.append(await p99_of_one(clean, client, beside_nobody))
        beside.append(await p99_of_one(dirty, other, beside_stalled))
    assert await dirty.metric("stalecast_stalled_streams") == STALLED, "the readers must be stalled while it counts"
    alone, beside = sorted(alone), sorted(beside)
    ratio = percentile(beside, 0.5) / percentile(alone, 0.5)
    await until_metric(dirty, "stalecast_streams", READING, STALL_SECONDS + 15)
    closed_after = time.monotonic() - full_at
    last = await other.publish(marked("last"))
    await asyncio.to_thread(beside_stalled.all_have, last)
    for stream in stalled:
        await resumes_without_loss(dirty, stream, held, last)
    record(f"fairness {half}", readers=READING, stalled=STALLED, rounds=len(beside),
           p99_alone_ms=percentile(alone, 0.5) * 1e3, p99_beside_ms=percentile(beside, 0.5) * 1e3, ratio=ratio,
           kb_per_stalled=per_stalled / 1024, closed_after_seconds=closed_after)
    assert len(beside) >= 3, "the machine is too slow for a single comparison"
    assert ratio < P99_RATIO, f"p99 of those who read became {ratio:.2f} times as long"
    assert per_stalled <= MEMORY_PER_STALLED, f"{per_stalled / 1024:.0f} kB for each stalled reader"
    assert await dirty.metric("stalecast_drops_total", reason="write_stall") == STALLED
    counts = await asyncio.to_thread(beside_stalled.counts)
    assert counts["synced"] == READING and counts["decreases"] == 0, "none of those who read was touched"


async def resumes_without_loss(daemon, stream, held, last):
    """Reads what was under way when it was closed, comes back with what it has, and ends current."""
    stream.resume_reading()
    assert await stream.end() in ("eof", "reset")
    again = await Stream.open(daemon.edge, last_event_id=stream.last_id or None, have=held)
    await again.synced()
    assert max(again.versions, default=0) == last and not any(e.name == "reset" for e in again.events)
    stream.close()
    again.close()


# storm

ACKNOWLEDGED_WITHIN = 2.0


@pytest.mark.busy
@pytest.mark.limit(240)
async def test_a_publish_into_a_reconnect_storm_is_acknowledged_and_reaches_everybody(launch, half, crowd):
    daemon = launch(configs.many_connections(half), half=half)
    subscribers = await crowd(daemon.edge, SUBSCRIBERS, comes_back=True)
    first = await daemon.publish(marked("before"))
    await asyncio.to_thread(subscribers.all_have, first)
    before = daemon.memory()
    daemon.kill()
    start = await asyncio.to_thread(daemon.start)
    accepted_at = time.monotonic()
    client = daemon.client()
    last = await publish_until_acknowledged(client, "in the storm")
    acknowledged = time.monotonic() - accepted_at
    back = await asyncio.to_thread(subscribers.all_back) - accepted_at
    arrivals = await asyncio.to_thread(subscribers.all_have, last)
    peak, steady = daemon.memory("VmHWM"), daemon.memory()
    counts = await asyncio.to_thread(subscribers.counts)
    record(f"storm {half}", subscribers=SUBSCRIBERS, start_seconds=start, acknowledged_seconds=acknowledged,
           all_back_seconds=back, last_arrival_seconds=arrivals[-1] - accepted_at, peak_mb=peak / MB,
           steady_mb=steady / MB, before_mb=before / MB, returns=counts["returns"])
    assert acknowledged < ACKNOWLEDGED_WITHIN, f"the publish took {acknowledged:.2f} s"
    assert peak <= 2 * steady, f"memory peaked at {peak / MB:.0f} MB and settled at {steady / MB:.0f} MB"
    assert counts["returns"] >= SUBSCRIBERS and counts["resets"] == 0 and counts["decreases"] == 0, counts
    assert min(await asyncio.to_thread(subscribers.newest)) == last


# descriptors

DESCRIPTORS = 400


def limited(daemon, descriptors):
    """Has the daemon started with a hard limit of open files."""
    plain = daemon.command
    daemon.command = lambda *flags: ["prlimit", f"--nofile={descriptors}:{descriptors}", *plain(*flags)]
    return daemon


async def refused_politely(port):
    """Opens a stream; true when it was told to come back later, false when it is served."""
    stream = await Stream.open(port)
    await stream.until(lambda s: s.ended or any(f.name == "synced" for f in s.events))
    if any(frame.name == "synced" for frame in stream.events):
        stream.close()
        return False
    assert stream.head.status == 200 and await stream.end() == "clean"
    assert stream.frames and stream.frames[-1].kind == "retry", "a refused stream is told when to come back"
    stream.close()
    return True


@pytest.mark.limit(120)
async def test_at_the_descriptor_limit_streams_live_and_others_are_told_to_come_back(launch, half, crowd, tool):
    tool("prlimit")
    daemon = limited(launch(half=half, start=False), DESCRIPTORS)
    daemon.start()
    served = []
    while len(served) < DESCRIPTORS:
        stream = await Stream.open(daemon.edge)
        await stream.until(lambda s: s.ended or any(f.name == "synced" for f in s.events))
        if stream.ended:
            break
        served.append(stream)
    assert DESCRIPTORS / 4 < len(served) < DESCRIPTORS, f"the limit was met at {len(served)} streams"
    assert all([await refused_politely(daemon.edge) for _ in range(20)])
    assert (await poll(daemon.edge, wait="1s")).status == 503
    waiting = [await asyncio.open_connection("127.0.0.1", daemon.edge) for _ in range(DESCRIPTORS)]
    # What spins does so in each of them.
    share = min([await cpu_share(daemon, 0.3) for _ in range(3)])
    version = await daemon.publish(marked("at the limit"))
    for stream in served:
        await stream.version_at_least(version)
    for _, writer in waiting:
        writer.close()
    for stream in served[:10]:
        stream.close()
    await until_metric(daemon, "stalecast_streams", len(served) - 10, 10)
    await comes_to_be_served(daemon.edge)
    refused = await daemon.metric("stalecast_connections_refused_total")
    record(f"descriptors {half}", limit=DESCRIPTORS, served=len(served), refused=refused, cpu_share=share)
    assert share < 0.2, f"{share:.0%} of a core at the descriptor limit: something spins"
    assert refused >= 21
    for stream in served:
        stream.close()


@pytest.mark.limit(60)
async def test_a_limit_of_descriptors_that_is_lowered_later_ends_nothing(launch, half, tool):
    """All parts that ask others are configured, so their idle descriptors count too."""
    daemon = launch(configs.config(
        half, sources={"allowedAddresses": ["127.0.0.0/8"], "scopes": [
            {"scope": "demo/firebase-server", "kind": "http", "url": "http://127.0.0.1:9/", "interval": "1s"}]},
        auth={"mode": "observe", "allowedAddresses": ["127.0.0.0/8"],
              "hook": {"url": "http://127.0.0.1:9/", "headers": ["x-session"]}}), half=half)
    assert await daemon.metric("process_open_fds") <= 128, "more than DescriptorBudget has for the daemon itself"
    streams = [await Stream.open(daemon.edge) for _ in range(40)]
    for stream in streams:
        await stream.synced()
    limit = int(await daemon.metric("process_open_fds")) + 50
    subprocess.run([tool("prlimit"), "--pid", str(daemon.pid), f"--nofile={limit}:{limit}"], check=True)
    while "the limit of open files changed" not in daemon.log_text():
        await asyncio.sleep(0.05)
    waiting = [await asyncio.open_connection("127.0.0.1", daemon.edge) for _ in range(200)]
    assert (await daemon.ask_control("/readyz")).status == 200
    assert await daemon.metric("process_max_fds") == limit
    version = await daemon.publish(marked("below the limit"))
    for stream in streams:
        await stream.version_at_least(version)
    for _, writer in waiting:
        writer.close()
    assert all([await refused_politely(daemon.edge) for _ in range(5)])
    assert await daemon.metric("stalecast_connections_refused_total") >= 5
    for stream in streams:
        stream.close()
    await comes_to_be_served(daemon.edge)


async def comes_to_be_served(port, timeout=15):
    """Comes back as refused clients do, until it is served."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            if not await refused_politely(port):
                return
        except (Broken, OSError):
            pass
        assert time.monotonic() < deadline, f"still refused {timeout} s after there was room"
        await asyncio.sleep(0.1)


# cost does not depend on what is idle

TOPICS = 1000
PER_TOPIC = 10
PUBLISHES = 200 if LONG else 60


def keyed_topics(half, count):
    topics = [configs.topic(f"T{index}", keys=(f"key_{index}",)) for index in range(count)]
    return configs.config(half, edge={"maxConnections": 15_000}, topics=topics)


async def cpu_per_publish(daemon, client, marker):
    """Seconds of the daemon's CPU for publishes that reach topic T0 only, in one burst."""
    used = daemon.cpu_seconds()
    for number in range(PUBLISHES // 4):
        await client.publish(template({"key_0": f"{marker} {number}"}))
    await asyncio.sleep(0.1)
    return (daemon.cpu_seconds() - used) / (PUBLISHES // 4)


@pytest.mark.busy
@pytest.mark.limit(180)
async def test_a_delivery_costs_the_same_among_a_thousand_idle_topics(launch, half, crowd):
    few, many = (launch(keyed_topics(half, count), half=half) for count in (1, TOPICS))
    with_few = await crowd(few.edge, PER_TOPIC, topics="T0")
    with_many = await crowd(many.edge, TOPICS * PER_TOPIC, topics=[f"T{index}" for index in range(TOPICS)])
    client, other = few.client(), many.client()
    costs = []
    for number in range(5):
        costs.append((await cpu_per_publish(few, client, number), await cpu_per_publish(many, other, number)))
    # Other processes only add to a burst's time.
    one, thousand = (min(column) for column in zip(*costs[1:]))
    version = (await other.current())[0]
    newest = await asyncio.to_thread(with_many.newest)
    delivered = await many.metric("stalecast_deliveries_total", transport="sse")
    record(f"idle topics {half}", topics=TOPICS, subscribers=TOPICS * PER_TOPIC, cpu_us_per_publish_one=one * 1e6,
           cpu_us_per_publish_thousand=thousand * 1e6, ratio=thousand / one)
    reached = sum(number == version for number in newest)
    assert reached == PER_TOPIC and delivered <= version * PER_TOPIC, f"{reached} streams have version {version}"
    assert thousand < one * 3, f"a publish takes {thousand / one:.1f} times the CPU among idle topics"
    assert max(await asyncio.to_thread(with_few.newest)) > 0


# memory

STREAMS = 16_000 if LONG else 10_000
BYTES_PER_STREAM = 512


@pytest.mark.busy
@pytest.mark.limit(120)
@pytest.mark.parametrize("kind", ("stream", "poll"))
async def test_an_idle_stream_or_held_poll_takes_half_a_kilobyte(launch, crowd, kind):
    config = configs.config("engine", edge={"maxConnections": 19_400, "heartbeat": "300s"})
    daemon = launch(config)
    metric = "stalecast_streams" if kind == "stream" else "stalecast_polls"
    await crowd(daemon.edge, 200, kind=kind)
    await until_metric(daemon, metric, 200, 10)
    before, cpu = daemon.memory(), daemon.cpu_seconds()
    many = await crowd(daemon.edge, STREAMS - 200, kind=kind)
    await until_metric(daemon, metric, STREAMS, 20)
    cpu = daemon.cpu_seconds() - cpu
    each = (daemon.memory() - before) / (STREAMS - 200)
    record(f"memory {kind}", count=STREAMS, bytes_each=each, cpu_us_per_connect=cpu * 1e6 / (STREAMS - 200),
           opened_in_seconds=many.opened_in)
    assert each <= BYTES_PER_STREAM, f"{each:.0f} bytes of resident memory for each {kind}"
    await daemon.publish(marked("still there"))
    if kind == "stream":
        await asyncio.to_thread(many.all_have, 1)
