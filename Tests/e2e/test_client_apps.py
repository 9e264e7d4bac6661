"""Whole apps on the Swift client against the daemon: from a publish to the value in force."""

import asyncio
import os
import statistics
import time

import pytest

from harness import templates
from harness.contract import ContractService
from harness.daemon import BINARY
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


class Apps:
    """Apps in the service's process; each listens, and activates what it hears of."""

    def __init__(self, service, url, count):
        self.service, self.count = service, count
        status, headers, _ = service.call("POST", "/apps", {"endpoint": url, "count": count, "parameter": "color"})
        assert status == 201
        self.location = headers["Location"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.service.call("DELETE", self.location)

    async def reach(self, value, timeout=60):
        deadline = time.monotonic() + timeout
        while (summary := self.service.call("GET", self.location)[2])["values"] != {value: self.count}:
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


@pytest.mark.limit(120)
@pytest.mark.parametrize("mode", ["reset", "portal"])
async def test_apps_survive_a_broken_network(launch, service, mode):
    daemon = launch()
    await publish(daemon, "red")
    with FaultyNetwork(daemon.edge) as network, Apps(service, network.url, 20) as apps:
        await apps.reach("red")
        network.mode = mode
        network_was_broken = await publish(daemon, "green")
        assert network_was_broken == 2
        network.mode = "pass"
        await apps.reach("green")
