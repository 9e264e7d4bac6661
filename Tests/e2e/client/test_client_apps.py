"""Whole apps on the Swift client against the daemon: from a publish to the value in force."""

import asyncio
import os
import re
import statistics
import subprocess
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import templates
from harness.contract import ContractService, Hosted
from harness.daemon import BINARY, LONG
from harness.faulty_network import FaultyNetwork
from harness.figures import record

SERVICE = os.environ.get(
    "STALECAST_CONTRACT_BIN", os.path.join(os.path.dirname(BINARY) or ".", "stalecast-contract-service"))

pytestmark = pytest.mark.skipif(
    not os.access(SERVICE, os.X_OK), reason=f"no contract service at {SERVICE}; build it or set STALECAST_CONTRACT_BIN")


@pytest.fixture(scope="module")
def service():
    service = ContractService(SERVICE)
    yield service
    assert service.end() == 0


class Apps(Hosted):
    """Apps in the service's process; each listens, and activates what it hears of."""

    def __init__(self, service, url, count, **parameters):
        super().__init__(service, "/apps", count, endpoint=url, parameter="color", **parameters)

    async def reach(self, value, timeout=60):
        deadline = time.monotonic() + timeout
        while (summary := self.summary)["values"] != {value: self.count}:
            assert time.monotonic() < deadline, summary["values"]
            await asyncio.sleep(0.02)
        return summary


async def publish(daemon, color):
    return await daemon.publish(templates.template({"color": color, "other": "same"}))


async def test_a_listener_hears_of_its_keys(launch, service):
    daemon = launch()
    await publish(daemon, "red")
    with Apps(service, f"http://127.0.0.1:{daemon.edge}", 1) as apps:
        await apps.reach("red")
        times = []
        for number in range(30):
            begin = time.time()
            await publish(daemon, f"color{number}")
            summary = await apps.reach(f"color{number}")
            assert summary["updatedKeys"] == {"color": 1}
            times.append(summary["updatedAt"][0] / 1e6 - begin)
        record("publish to updatedKeys, 1 app", p50_ms=statistics.median(times) * 1000, max_ms=max(times) * 1000)


@pytest.mark.busy
@pytest.mark.limit(180)
async def test_a_thousand_apps_activate_every_version(launch, service):
    daemon = launch()
    await publish(daemon, "red")
    with Apps(service, f"http://127.0.0.1:{daemon.edge}", 1000) as apps:
        await apps.reach("red", timeout=120)
        for number in range(3):
            begin = time.time()
            await publish(daemon, f"color{number}")
            summary = await apps.reach(f"color{number}")
            at = sorted(time_ / 1e6 - begin for time_ in summary["updatedAt"])
            record(f"publish to updatedKeys, 1,000 apps, round {number}", p50_ms=at[500] * 1000, last_ms=at[-1] * 1000)


@pytest.mark.limit(120)
async def test_apps_survive_a_killed_daemon(launch, service):
    daemon = launch()
    await publish(daemon, "red")
    with Apps(service, f"http://127.0.0.1:{daemon.edge}", 20) as apps:
        await apps.reach("red")
        daemon.kill()
        daemon.start()
        await publish(daemon, "green")
        await apps.reach("green")


# Limits of the connection, a hundredth of what apps have; the daemon's heartbeats come within them.
QUICK = {
    "openingLimitMs": 700, "heartbeatLimitMs": 1500, "reconnectDelayMs": 50, "longestReconnectDelayMs": 500,
    "pollWaitMs": 5000, "streamRetryMs": 500, "fetchTimeoutMs": 2000,
}
CONFIG = """
edge:
  heartbeat: 500ms
  retry: 200ms
"""


@pytest.mark.limit(120)
@pytest.mark.parametrize("mode", ["stall", "reset", "buffer", "portal"])
async def test_apps_survive_a_broken_network(launch, service, mode):
    daemon = launch(CONFIG)
    await publish(daemon, "red")
    # A proxy that frames messages knows where an answer ends; this one has only the end of the connection to go by.
    headers = {"Connection": "close"}
    with FaultyNetwork(daemon.edge) as network, Apps(service, network.url, 20, headers=headers, **QUICK) as apps:
        await apps.reach("red")
        network.mode = mode
        network_was_broken = await publish(daemon, "green")
        assert network_was_broken == 2
        if mode == "stall":
            # Once their streams are given up, the message is lost for good with them.
            while await daemon.metric("stalecast_streams") > 0:
                await asyncio.sleep(0.02)
            assert apps.summary["values"] == {"red": 20}
        elif mode == "buffer":
            # Complete answers come through: long-poll tells of the version.
            await apps.reach("green")
            while await daemon.metric("stalecast_streams") > 0:
                await asyncio.sleep(0.02)
        network.mode = "pass"
        await apps.reach("green")
        await publish(daemon, "blue")
        await apps.reach("blue")


def resident(process):
    """Resident memory in bytes."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", text).group(1)) * 1024


@pytest.mark.limit(240)
async def test_memory_stays_flat_over_a_thousand_publishes(launch, monkeypatch):
    daemon = launch()
    # One heap, so that resident memory does not depend on which threads happened to run.
    monkeypatch.setenv("MALLOC_ARENA_MAX", "1")
    await publish(daemon, "red")
    service = ContractService(SERVICE)
    control = daemon.client()
    with Apps(service, f"http://127.0.0.1:{daemon.edge}", 20) as apps:
        await apps.reach("red")
        begin = time.monotonic()
        for number in range(1, 1001):
            await control.publish(templates.template({"color": f"color{number}", "other": "same"}))
            if number % 10 == 0:
                summary = await apps.reach(f"color{number}")
            if number == 200:
                before = resident(service.process)
        grown = resident(service.process) - before
        record("memory of 20 apps, publishes 200 to 1,000", before_mb=before / 2**20, grown_mb=grown / 2**20,
               bytes_per_fetch=grown / 16000, seconds=time.monotonic() - begin)
    control.close()
    assert summary["versions"] == {"1001": 20} and summary["problems"] == []
    assert service.end() == 0
    # 16,000 fetches.
    assert grown < 8 * 2**20


class Flood:
    """Publishes one version after the other until it ends; version n has the color `color<n>`."""

    def __init__(self, daemon):
        self.daemon, self.version, self.task, self.is_over = daemon, 0, None, False

    async def one(self):
        self.version = await publish(self.daemon, f"color{self.version + 1}")
        return self.version

    async def __aenter__(self):
        self.is_over = False
        self.task = asyncio.create_task(self._run())

    async def __aexit__(self, *_):
        self.is_over = True
        await self.task

    async def _run(self):
        while not self.is_over:
            await self.one()


@pytest.mark.limit(600 if LONG else 120)
async def test_apps_survive_their_own_kills(launch, tmp_path):
    """SIGKILL while they fetch, activate and write: what the next process finds is whole, and no older than what was
    written before."""
    daemon = launch()
    caches = {"directory": str(tmp_path / "caches")}
    flood = Flood(daemon)
    undone, least = 0, 1
    for round_ in range(50 if LONG else 6):
        version = await flood.one()
        service = ContractService(SERVICE)
        apps = Apps(service, f"http://127.0.0.1:{daemon.edge}", 10, **caches)
        await apps.reach(f"color{version}")
        # What they began with is on disk. An app that found it in its cache had nothing to write.
        while round_ == 0 and min(apps.summary["durableVersions"]) < version:
            await asyncio.sleep(0.01)
        async with flood:
            # Each time at another place in the flood.
            while min((summary := apps.summary)["activeVersions"]) < version + 1 + round_ % 5:
                await asyncio.sleep(0.001)
            service.process.kill()
        service.process.wait()
        service = ContractService(SERVICE)
        with Apps(service, "http://127.0.0.1:9", 10, **caches) as reborn:
            found = reborn.summary
        assert service.end() == 0
        assert found["problems"] == []
        assert found["values"] == {f"color{number}": count for number, count in found["versions"].items()}
        pairs = list(zip(summary["durableVersions"], found["activeVersions"], strict=True))
        assert all(max(least, durable) <= active <= flood.version for durable, active in pairs), pairs
        least = min(found["activeVersions"])
        seen = zip(summary["activeVersions"], found["activeVersions"], strict=True)
        undone += sum(active < was for was, active in seen)
    record("kills of 10 apps in a flood of versions", kills=round_ + 1, not_yet_written=undone)
    service = ContractService(SERVICE)
    with Apps(service, f"http://127.0.0.1:{daemon.edge}", 10, **caches) as apps:
        await apps.reach(f"color{flood.version}")
    assert service.end() == 0


@pytest.mark.limit(300)
def test_an_app_may_exit_at_any_moment():
    """200 processes end within 3 ms after their connections began. OpenSSL's clean-up frees what libcurl's calls work
    with: without care for it one exit in forty ended with signal 11."""
    environment = {**os.environ, "SWIFT_BACKTRACE": "enable=no"}

    def end_of(number):
        arguments = [SERVICE, "--exit-after", str(number * 15), "https://127.0.0.1:9"]
        return subprocess.run(arguments, env=environment, check=False).returncode

    with ThreadPoolExecutor(4) as pool:
        assert Counter(pool.map(end_of, range(200))) == {0: 200}
