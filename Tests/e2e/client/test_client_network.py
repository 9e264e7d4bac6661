"""The SDK's connection against the daemon, through networks that break: each client ends at the last version."""

import asyncio
import os
import time

import pytest

from harness import templates
from harness.contract import ContractService, Hosted
from harness.daemon import BINARY, LONG
from harness.faulty_network import FaultyNetwork

SERVICE = os.environ.get(
    "STALECAST_CONTRACT_BIN", os.path.join(os.path.dirname(BINARY) or ".", "stalecast-contract-service"))

pytestmark = pytest.mark.skipif(
    not os.access(SERVICE, os.X_OK), reason=f"no contract service at {SERVICE}; build it or set STALECAST_CONTRACT_BIN")

# Limits of the SDK, a hundredth of what apps have.
QUICK = {
    "openingLimitMs": 700, "heartbeatLimitMs": 1500, "reconnectDelayMs": 50, "longestReconnectDelayMs": 500,
    "pollWaitMs": 5000, "streamRetryMs": 500,
}
# The server's heartbeats must come within the SDK's limit, and its retry must not be the longest of all waits.
CONFIG = """
edge:
  heartbeat: 500ms
  retry: 200ms
"""


@pytest.fixture(scope="module")
def service():
    service = ContractService(SERVICE)
    yield service
    assert service.end() == 0


class Crowd(Hosted):
    """Connections of the SDK in the service's process."""

    def __init__(self, service, url, count=1, **parameters):
        super().__init__(service, "/connections", count, endpoint=url, **{**QUICK, **parameters})

    def happened(self, name):
        assert self.service.call("POST", self.location, {"happened": name})[0] == 202

    async def until(self, condition, timeout=30):
        deadline = time.monotonic() + timeout
        while not condition(summary := self.summary):
            assert time.monotonic() < deadline, summary
            await asyncio.sleep(0.02)
        return summary

    async def reach(self, version, timeout=30):
        """Waits until all are at a version; no client may have gone back on the way."""
        summary = await self.until(lambda s: s["versions"] == {str(version): self.count}, timeout)
        assert summary["regressions"] == 0
        return summary


async def publish(daemon, marker):
    return await daemon.publish(templates.marked(marker))


@pytest.mark.limit(120)
async def test_a_thousand_connections_in_one_process(launch, service):
    daemon = launch(CONFIG)
    patience = {"openingLimitMs": 20_000, "heartbeatLimitMs": 20_000}
    with Crowd(service, f"http://127.0.0.1:{daemon.edge}", 1000, **patience) as crowd:
        await crowd.until(lambda s: s["synced"] == 1000)
        for marker in range(5):
            await crowd.reach(await publish(daemon, f"m{marker}"))
        assert crowd.summary["losses"] == 0


@pytest.mark.limit(120)
async def test_a_daemon_that_is_killed_and_comes_back(launch, service):
    daemon = launch(CONFIG)
    with Crowd(service, f"http://127.0.0.1:{daemon.edge}", 50) as crowd:
        for marker in range(20 if LONG else 3):
            await crowd.reach(await publish(daemon, f"before{marker}"))
            daemon.kill()
            await crowd.until(lambda s: s["states"].get("open", 0) == 0)
            daemon.start()
            await crowd.reach(await publish(daemon, f"after{marker}"))
        assert crowd.summary["resets"] == 0


@pytest.mark.limit(120)
async def test_a_daemon_that_is_stopped_and_started(launch, service):
    daemon = launch(CONFIG)
    with Crowd(service, f"http://127.0.0.1:{daemon.edge}", 50) as crowd:
        await crowd.reach(await publish(daemon, "before"))
        assert daemon.stop() == 0
        daemon.start()
        await crowd.reach(await publish(daemon, "after"))


@pytest.mark.limit(120)
async def test_firebases_stream_as_transport(launch, service):
    daemon = launch(CONFIG)
    with FaultyNetwork(daemon.edge) as network, Crowd(service, network.url, 20, firebase={"project": "demo"}) as crowd:
        await crowd.reach(await publish(daemon, "one"))
        assert crowd.summary["transports"] == {"firebase": 20}
        network.mode = "reset"
        version = await publish(daemon, "two")
        network.mode = "pass"
        await crowd.reach(version)
        daemon.kill()
        daemon.start()
        await crowd.reach(await publish(daemon, "three"))


@pytest.mark.limit(120)
@pytest.mark.parametrize("mode", ["stall", "reset", "buffer", "portal"])
async def test_a_network_that_breaks_and_heals(launch, service, mode):
    daemon = launch(CONFIG)
    with FaultyNetwork(daemon.edge) as network, Crowd(service, network.url, 20) as crowd:
        await crowd.reach(await publish(daemon, "whole"))
        network.mode = mode
        version = await publish(daemon, "broken")
        if mode == "buffer":
            # A long-poll's answer is complete, so that the new version comes through all the same.
            summary = await crowd.reach(version)
            assert summary["transports"]["poll"] == 20
            version = await publish(daemon, "still broken")
            await crowd.reach(version)
        else:
            await crowd.until(lambda s: s["states"].get("open", 0) == 0)
            assert str(version) not in crowd.summary["versions"]
        network.mode = "pass"
        await crowd.reach(version)
        await crowd.reach(await publish(daemon, "whole again"))
        # Buffering ends only those streams that were open; a stream is used again once it comes through.
        summary = await crowd.until(lambda s: s["states"] == {"open": 20})
        assert summary["resets"] == 0


@pytest.mark.limit(120)
async def test_a_proxy_that_buffers_from_the_start(launch, service):
    daemon = launch(CONFIG)
    with FaultyNetwork(daemon.edge) as network:
        network.mode = "buffer"
        with Crowd(service, network.url, 20) as crowd:
            for marker in range(3):
                summary = await crowd.reach(await publish(daemon, f"m{marker}"))
            assert summary["transports"] == {"poll": 20}
            network.mode = "pass"
            await crowd.until(lambda s: s["transports"] == {"poll": 20, "sse": 20})
            await crowd.reach(await publish(daemon, "over streams"))


@pytest.mark.limit(120)
async def test_a_network_that_changes_all_the_time(launch, service):
    daemon = launch(CONFIG)
    modes = ["stall", "pass", "reset", "portal", "buffer", "pass", "portal", "stall", "reset", "pass"]
    with FaultyNetwork(daemon.edge) as network, Crowd(service, network.url, 20) as crowd:
        for round_ in range(10 if LONG else 1):
            for mode in modes:
                network.mode = mode
                version = await publish(daemon, f"{mode}{round_}")
                await asyncio.sleep(0.2)
        await crowd.reach(version)


@pytest.mark.limit(60)
async def test_background_and_another_network(launch, service):
    daemon = launch(CONFIG)
    with FaultyNetwork(daemon.edge) as network, Crowd(service, network.url, 5) as crowd:
        first = await publish(daemon, "one")
        await crowd.reach(first)
        crowd.happened("background")
        await crowd.until(lambda s: s["states"] == {"idle": 5})
        second = await publish(daemon, "two")
        assert crowd.summary["versions"] == {str(first): 5}
        crowd.happened("foreground")
        await crowd.reach(second)
        network.mode = "stall"
        third = await publish(daemon, "three")
        network.mode = "pass"
        # Nothing tells the connections that theirs are dead but this, and silence after a while.
        crowd.happened("networkChanged")
        await crowd.reach(third)
