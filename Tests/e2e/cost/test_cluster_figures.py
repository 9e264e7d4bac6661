"""What a cluster costs beside what etcd costs: figures of one run, recorded, none asserted.

pytestmark = pytest.mark.busy

Floor: etcd's own put and watch, through its JSON gateway. Members' disks are this machine's. `append` is a call to etcd
as the daemon counts them, interpolated within the buckets of its histogram; requests are those that members count."""

import asyncio
import base64
import json
import math
import re
import time
import urllib.request

import pytest

from harness.cli import stalecast
from harness.cluster import Cluster, fetched_version
from harness.daemon import LONG, parse_metrics
from harness.etcd import Etcd
from harness.figures import percentile, record
from harness.http1 import Broken, Connection
from harness.sse import Stream
from harness.templates import marked

COUNT = 1000 if LONG else 100
SUBSCRIBERS = 10_000 if LONG else 500
BEHIND = 1000 if LONG else 200
KILLS = 7 if LONG else 2
STORM = 5 if LONG else 2  # seconds


@pytest.fixture
def cluster(request, tmp_path, launch):
    etcd = Etcd(tmp_path / "etcd").start()
    cluster = Cluster(tmp_path / "cluster", etcd, edge={"maxConnections": 15_000, "maxConnectionsPerAddress": 0})
    request.node.daemons += cluster.nodes
    yield cluster.start()
    cluster.dispose()
    etcd.dispose()


def milliseconds(name, seconds):
    ordered = sorted(seconds)
    return {f"{name}_p50_ms": percentile(ordered, 0.5) * 1000, f"{name}_p99_ms": percentile(ordered, 0.99) * 1000}


def base(text):
    return base64.b64encode(text.encode()).decode()


def gateway(member):
    host, _, port = member.client.removeprefix("http://").partition(":")
    return host, int(port)


async def floor(etcd):
    """Seconds of puts at one member, and until a watch at another member has them."""
    host, port = gateway(etcd.followers()[0])
    watched, arrived = asyncio.Event(), {}
    reader, writer = await asyncio.open_connection(*gateway(etcd.followers()[1]))
    body = json.dumps({"create_request": {"key": base("/floor")}}).encode()
    writer.write(b"POST /v3/watch HTTP/1.1\r\nHost: etcd\r\nContent-Length: %d\r\n\r\n" % len(body) + body)

    async def watch():
        buffer = b""
        while data := await reader.read(1 << 16):
            now = time.perf_counter()
            buffer += data
            watched.set()
            for number in [n for n in range(COUNT) if n not in arrived and base(f"value-{n:06d}").encode() in buffer]:
                arrived[number] = now
            buffer = buffer[-4096:]

    task = asyncio.create_task(watch())
    await watched.wait()
    connection, sent, puts = Connection(port, host), {}, []
    for number in range(COUNT):
        sent[number] = time.perf_counter()
        body = json.dumps({"key": base("/floor"), "value": base(f"value-{number:06d}")}).encode()
        answer = await connection.request("POST", "/v3/kv/put", [], body)
        assert answer.status == 200, answer
        puts.append(time.perf_counter() - sent[number])
    while len(arrived) < COUNT:
        await asyncio.sleep(0.01)
    task.cancel()
    writer.close()
    connection.close()
    return puts, [arrived[number] - sent[number] for number in range(COUNT)]


async def appends(cluster):
    """Seconds of publishes at one node, and until a subscriber at another has the message."""
    a, b, _ = cluster.nodes
    stream = await Stream.open(b.edge)
    await stream.synced()
    client, sent, puts = a.client(), {}, []
    for number in range(COUNT):
        begin = time.monotonic()
        version = await client.publish(marked(str(number)))
        sent[version] = begin
        puts.append(time.monotonic() - begin)
        await asyncio.sleep(0.005)
    await stream.version_at_least(max(sent))
    client.close()
    stream.close()
    return puts, [frame.at - sent[frame.version] for frame in stream.messages if frame.version in sent]


async def fetches(cluster):
    """Seconds of fetches without a cursor, which look at etcd, and with one, which do not."""
    b = cluster.nodes[1]
    stream = await Stream.open(b.edge)
    cursor = (await stream.synced()).id
    stream.close()
    connection = Connection(b.edge)
    found = []
    for given in (None, cursor):
        times = []
        for _ in range(COUNT):
            begin = time.perf_counter()
            await fetched_version(b, connection, cursor=given)
            times.append(time.perf_counter() - begin)
            await asyncio.sleep(0.006)
        found.append(times)
    connection.close()
    return found


def interpolated(samples, name, share, **labels):
    """A percentile of a histogram of /metrics, in seconds; None where there is none."""
    wanted = [f'{key}="{value}"' for key, value in labels.items()]
    buckets = sorted((float(re.search(r'le="([^"]+)"', text).group(1).replace("+Inf", "inf")), value)
                     for (sample, text), value in samples.items()
                     if sample == f"{name}_bucket" and all(label in text for label in wanted))
    below, before = 0.0, 0
    for bound, count in buckets:
        if count >= share * buckets[-1][1] > 0:
            part = (share * buckets[-1][1] - before) / (count - before)
            return below if math.isinf(bound) else below + (bound - below) * part
        below, before = bound, count
    return None


def requests(etcd):
    """Calls to the key-value store that members have answered."""
    count = 0
    for member in etcd.members:
        with urllib.request.urlopen(f"{member.client}/metrics", timeout=10) as answer:
            samples = parse_metrics(answer.read().decode())
        count += sum(value for (name, labels), value in samples.items()
                     if name == "grpc_server_handled_total" and 'grpc_service="etcdserverpb.KV"' in labels)
    return count


async def requests_each_second(cluster, seconds):
    begin, before = time.monotonic(), await asyncio.to_thread(requests, cluster.etcd)
    await asyncio.sleep(seconds)
    return (await asyncio.to_thread(requests, cluster.etcd) - before) / (time.monotonic() - begin)


async def storm(cluster):
    """(calls to etcd each second without requests, of all nodes; the same while many fetch at one without a pause;
    fetches each second)"""
    idle = await requests_each_second(cluster, STORM)
    answered = 0

    async def fetch():
        nonlocal answered
        connection = Connection(cluster.nodes[1].edge)
        try:
            while True:
                await fetched_version(cluster.nodes[1], connection)
                answered += 1
        finally:
            connection.close()

    tasks = [asyncio.create_task(fetch()) for _ in range(50)]
    await asyncio.sleep(0.2)
    before, begin = answered, time.monotonic()
    busy = await requests_each_second(cluster, STORM)
    fetched = (answered - before) / (time.monotonic() - begin)
    while [task for task in tasks if not task.done()]:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=0.2)
    return idle, busy, fetched


async def gap(cluster, rounds):
    """Seconds without an acknowledged publish when the leader is killed."""
    pauses = []
    for _ in range(rounds):
        leader = await asyncio.to_thread(cluster.etcd.leader)
        client = cluster.nodes[0].client()
        await client.publish(marked("before"))
        begin = time.monotonic()
        leader.kill()
        while True:
            try:
                if (await client.put(marked("after"))).status == 200:
                    break
            except Broken:
                pass
        pauses.append(time.monotonic() - begin)
        client.close()
        await cluster.etcd.heal()
        await asyncio.sleep(1)
    return pauses


async def has_newest(node, version):
    """Until a node that starts shows a version; looks each 5 ms."""
    while True:
        client = node.client()
        try:
            if (await client.current())[0] >= version:
                return
        except (Broken, AssertionError):
            pass
        finally:
            client.close()
        await asyncio.sleep(0.005)


async def started(node, version):
    """Seconds from the start of a node to its showing a version."""
    begin = time.monotonic()
    node.spawn()
    await asyncio.wait_for(has_newest(node, version), 120)
    return time.monotonic() - begin


async def catch_up(cluster):
    """Seconds of starts: with nothing missed, with BEHIND versions missed, and of a node that has nothing."""
    a, _, c = cluster.nodes
    client = a.client()
    assert await asyncio.to_thread(c.stop) == 0
    seconds = [await started(c, (await client.current())[0])]
    assert await asyncio.to_thread(c.stop) == 0
    for number in range(BEHIND):
        version = await client.publish(marked(str(number)))
    seconds.append(await started(c, version))
    new = cluster.add("d")
    seconds.append(await started(new, version))
    client.close()
    assert await asyncio.to_thread(new.stop) == 0
    cluster.nodes.remove(new)
    return seconds


@pytest.mark.campaign
@pytest.mark.limit(900 if LONG else 180)
async def test_what_a_cluster_costs_beside_etcd(cluster):
    a, b, _ = cluster.nodes
    await a.publish(marked("first"))
    puts, events = await floor(cluster.etcd)
    published, heard = await appends(cluster)
    samples = await a.metrics()
    append = {f"append_p{share * 100:.0f}_ms": 1000 * seconds for share in (0.5, 0.99)
              if (seconds := interpolated(samples, "stalecast_cluster_etcd_request_seconds", share, kind="append"))}
    verified, local = await fetches(cluster)
    assert len(heard) > COUNT / 2, "the subscriber heard most versions by themselves"
    idle, busy, fetched = await storm(cluster)
    fanout = json.loads(await asyncio.to_thread(
        stalecast, "load", "fanout", "--json", "--yes", "--no-restore", "--rounds", 5, "--subscribers", SUBSCRIBERS,
        "--edge", f"http://127.0.0.1:{b.edge}", "--control", f"http://127.0.0.1:{a.control}", "--token-file",
        cluster.token_file))
    start, start_behind, start_empty = await catch_up(cluster)
    pauses = sorted(await gap(cluster, KILLS))
    for node in cluster.nodes:
        assert await asyncio.to_thread(node.stop) == 0
    begin = time.monotonic()
    await asyncio.to_thread(cluster.start)
    cold = time.monotonic() - begin
    record("cluster_figures", count=COUNT, **milliseconds("etcd_put", puts), **milliseconds("etcd_event", events),
           **append, **milliseconds("publish", published), **milliseconds("heard_elsewhere", heard),
           **milliseconds("fetch_verified", verified), **milliseconds("fetch_with_cursor", local),
           etcd_calls_each_second_idle=idle, etcd_calls_each_second_in_storm=busy, storm_fetches_each_second=fetched,
           subscribers=SUBSCRIBERS, last_elsewhere_ms=fanout["median"]["lastMs"],
           start_s=start, behind=BEHIND, start_behind_s=start_behind, start_empty_s=start_empty,
           leader_kills=KILLS, leader_gap_median_s=pauses[len(pauses) // 2], leader_gap_longest_s=pauses[-1],
           cold_start_s=cold)
