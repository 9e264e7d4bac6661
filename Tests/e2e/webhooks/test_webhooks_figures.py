"""What deliveries cost, beside libcurl alone. By default a few webhooks show that the measurements work;

pytestmark = pytest.mark.busy
STALECAST_LONG=1 measures at full size and holds the results against what is promised."""

import asyncio
import json
import subprocess
import time
from pathlib import Path

import pytest

from harness import ports, webhooks
from harness.daemon import BINARY, LONG, environment
from harness.figures import record
from harness.templates import marked
from harness.webhooks import Webhooks

SINK = """daemon off; worker_processes 1; pid {dir}/nginx.pid; error_log {dir}/error.log;
events {{ worker_connections 15000; }}
http {{ access_log off; keepalive_requests 1000000; keepalive_timeout 300s;
  client_body_temp_path {dir}; proxy_temp_path {dir}; fastcgi_temp_path {dir}; uwsgi_temp_path {dir};
  scgi_temp_path {dir};
  server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ return 204; }} }} }}
"""


class Sink:
    """nginx that answers 204 to everything."""

    def __init__(self, program, directory):
        self.directory, self.port = Path(directory), ports.free()
        self.directory.mkdir()
        configuration = self.directory / "nginx.conf"
        configuration.write_text(SINK.format(dir=self.directory, port=self.port))
        self.process = subprocess.Popen([program, "-p", str(self.directory), "-c", str(configuration)])
        deadline = time.monotonic() + 10
        while not (self.directory / "nginx.pid").exists():
            assert self.process.poll() is None and time.monotonic() < deadline, "nginx does not start"
            time.sleep(0.01)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def stop(self):
        self.process.terminate()
        self.process.wait()


@pytest.fixture
def sink(tool, tmp_path):
    sink = Sink(tool("nginx"), tmp_path / "sink")
    yield sink
    sink.stop()


@pytest.fixture
def curl_floor(tool, tmp_path):
    """`curl_floor(url, posts, in_flight)`: microseconds of CPU per post that libcurl takes by itself."""
    program = tmp_path / "curl_floor"
    source = Path(__file__).parents[1] / "harness" / "curl_floor.c"
    subprocess.run([tool("gcc"), "-O2", "-o", program, source, "-lcurl"], check=True)

    def measure(url, posts, in_flight):
        done = subprocess.run([program, url, str(posts), str(in_flight)], check=True, capture_output=True, text=True)
        microseconds, bad = done.stdout.split()
        assert bad == "0", f"{bad} posts were not answered"
        return float(microseconds)

    return measure


async def register(daemon, url, count):
    api, gate = Webhooks(daemon), asyncio.Semaphore(16)

    async def one(index):
        async with gate:
            await api.add(f"{url}/{index}")

    await asyncio.gather(*(one(index) for index in range(count)))


# Seven eighths of `webhooks.maxInFlight`: so many attempts at healthy receivers are under way when a publish goes out.
UNDER_WAY = 448


async def delivered(daemon):
    return await daemon.metric("stalecast_webhook_deliveries_total", result="delivered")


async def publish_and_wait(daemon, marker, count, before):
    """One publish, until each receiver has acknowledged it."""
    await daemon.publish(marked(marker))
    while await delivered(daemon) < before + count:
        # Looking costs the daemon something as well.
        await asyncio.sleep(0.4)


@pytest.mark.limit(600 if LONG else 60)
async def test_cpu_of_a_delivery_beside_libcurl_alone(launch, sink, curl_floor):
    """All of the daemon's CPU, beside libcurl with as many requests under way: with fewer both are cheaper."""
    count, rounds = (1000, 20) if LONG else (40, 3)
    daemon = launch(webhooks.config())
    await register(daemon, sink.url, count)
    await publish_and_wait(daemon, "warm", count, 0)
    floors, costs = [], []
    for number in range(5 if LONG else 1):
        floors.append(curl_floor(sink.url + "/floor", 20_000 if LONG else 500, UNDER_WAY))
        begin = daemon.cpu_seconds()
        for each in range(rounds):
            await publish_and_wait(daemon, f"{number}-{each}", count, await delivered(daemon))
        costs.append((daemon.cpu_seconds() - begin) * 1e6 / (count * rounds))
    floor, cost = sorted(floors)[len(floors) // 2], sorted(costs)[len(costs) // 2]
    record("webhooks_cpu", webhooks=count, floor_us=floor, delivery_us=cost, ratio=cost / floor)
    assert await daemon.metric("stalecast_webhook_deliveries_total", result="failed") == 0
    if LONG:
        assert cost <= 2.0 * floor


def load(*arguments, timeout=300):
    command = [BINARY, "load", "webhooks", "--json", *(str(argument) for argument in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment())
    assert done.returncode == 0, f"{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return json.loads(done.stdout)


@pytest.mark.limit(600 if LONG else 60)
async def test_one_publish_to_many_webhooks(launch):
    count = 1000 if LONG else 30
    daemon = launch(webhooks.config())
    await daemon.publish(marked("before"))
    report = load("--receivers", count, "--publishes", 20 if LONG else 2, "--gap", "300ms", "--data", daemon.data)
    median = report["median"]
    record("webhooks_fanout", webhooks=count, p50_ms=median["p50Ms"], p99_ms=median["p99Ms"], last_ms=median["lastMs"],
           server_us=median["serverCpuMicrosecondsEach"], first_last_ms=report["first"]["lastMs"])
    assert all(each["delivered"] == count for each in report["publishes"])
    if LONG:
        assert median["lastMs"] <= 150


@pytest.mark.limit(900 if LONG else 60)
async def test_a_publish_a_second_to_ten_thousand_is_sustained(launch):
    # The load needs two descriptors per receiver, and 20,000 is a usual limit.
    count, publishes = (9_900, 30) if LONG else (50, 2)
    daemon = launch(webhooks.config())
    await daemon.publish(marked("before"))
    report = load("--receivers", count, "--publishes", publishes, "--gap", "1s" if LONG else "100ms",
                  "--timeout", "60s", "--data", daemon.data, timeout=800)
    last = [each["lastMs"] for each in report["publishes"]]
    record("webhooks_sustained", webhooks=count, publishes=publishes, last_ms_median=report["median"]["lastMs"],
           last_ms_max=max(last), server_us=report["median"]["serverCpuMicrosecondsEach"])
    assert all(each["delivered"] == count for each in report["publishes"])
    if LONG:
        assert report["median"]["lastMs"] <= 1000


@pytest.mark.limit(600 if LONG else 90)
async def test_black_holes_do_not_slow_the_healthy(launch):
    count = 500 if LONG else 20
    plain = launch(webhooks.config())
    await plain.publish(marked("before"))
    rounds = ["--publishes", 20 if LONG else 3, "--gap", "300ms", "--timeout", "60s"]
    without = load("--receivers", count, *rounds, "--data", plain.data)
    plain.stop()
    holed = launch(webhooks.config())
    await holed.publish(marked("before"))
    with_holes = load("--receivers", count, "--black-holes", count // 10, *rounds, "--data", holed.data)
    ratio = with_holes["median"]["p99Ms"] / without["median"]["p99Ms"]
    record("webhooks_black_holes", webhooks=count, p99_ms=without["median"]["p99Ms"],
           p99_ms_with_holes=with_holes["median"]["p99Ms"], ratio=ratio)
    assert all(each["delivered"] == count for each in with_holes["publishes"])
    if LONG:
        assert ratio <= 1.2


@pytest.mark.limit(600 if LONG else 60)
async def test_memory_of_idle_webhooks(launch, sink):
    count = 10_000 if LONG else 50
    daemon = launch(webhooks.config())
    await daemon.publish(marked("before"))
    await register(daemon, sink.url, count)
    assert daemon.stop() == 0
    daemon.start()
    deadline = time.monotonic() + 20
    while await daemon.metric("stalecast_webhooks") < count:
        assert time.monotonic() < deadline, "the webhooks are not installed"
        await asyncio.sleep(0.1)
    # Beside a daemon that has none: most of that one is code shared with the disk's cache.
    bare = launch(webhooks.config()).memory()
    added = (daemon.memory() - bare) / 2**20
    record("webhooks_idle", webhooks=count, added_mb=added, rss_mb=daemon.memory() / 2**20)
    if LONG:
        assert added < 60
