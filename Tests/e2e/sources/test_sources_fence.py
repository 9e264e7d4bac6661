"""Replicas that lag: no client is told of a version that a fetch would not bring yet (G6), for a bounded time."""

import asyncio
import json
import time

import pytest

from harness.daemon import LONG
from harness.http1 import fetch
from harness.receiver import Answer, Receiver
from harness.sources import fed, http_feed, source_of, subscribe, version
from harness.templates import marked


class Replicated:
    """An origin whose private answer is the newest and whose public one follows after `lag` seconds."""

    def __init__(self, lag):
        self.lag = lag
        self.history = []
        self.private = Receiver(lambda arrival: self._answer(len(self.history)))
        self.public = Receiver(lambda arrival: self._answer(self.visible()))

    def publish(self, marker):
        self.history.append((time.monotonic(), {"template": marked(marker), "rev": len(self.history) + 1}))
        return len(self.history)

    def visible(self):
        """The newest version that reached the replica."""
        now = time.monotonic()
        return max((n for n, (at, _) in enumerate(self.history, 1) if n == 1 or now - at >= self.lag), default=0)

    def _answer(self, number):
        if not number:
            return Answer(404)
        body = json.dumps(self.history[number - 1][1]).encode()
        return Answer(200, (("Content-Type", "application/json"), ("ETag", f'"rev-{number}"')), body)

    def __enter__(self):
        self.private.__enter__()
        self.public.__enter__()
        return self

    def __exit__(self, *cause):
        self.public.__exit__(*cause)
        self.private.__exit__(*cause)


def fenced(origin, **more):
    return fed(http_feed(
        origin.private.url, interval="100ms", versionPointer="/rev", contentPointer="/template",
        serve="notify",
        fenceUrl=origin.public.url, **more))


PROOFS = [{"fenceProof": "pointer", "fencePointer": "/rev"}, {"fenceProof": "etag"}, {"fenceProof": "content"}]


@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof["fenceProof"])
async def test_whoever_hears_of_a_version_can_fetch_it(launch, proof):
    with Replicated(lag=0.3) as origin:
        origin.publish("first")
        daemon = launch(fenced(origin, fenceWait="10s", **proof))
        await version(daemon, 1)
        stream = await subscribe(daemon)
        for _ in range(20 if LONG else 4):
            number = origin.publish(f"at {time.monotonic()}")
            message = await stream.version_at_least(number)
            assert "fence" not in message.json()
            answer = await fetch(origin.public.port, "/")
            assert answer.json()["rev"] >= message.version, "the fetch after a message brought an older version"
            await asyncio.sleep(0.02)
        assert await daemon.metric("stalecast_source_fence_wait_seconds_total") > 0.5
        stream.close()


async def test_a_replica_that_lags_too_long_is_announced_as_such(launch):
    with Replicated(lag=3600) as origin:
        origin.publish("first")
        daemon = launch(fenced(origin, fenceWait="300ms", fenceProof="pointer", fencePointer="/rev"))
        await version(daemon, 1)
        stream = await subscribe(daemon)
        number = origin.publish("second")
        message = await stream.version_at_least(number)
        assert message.json()["fence"] == "timeout"
        assert (await source_of(daemon))["fenceTimeouts"] == 1
        assert "origin does not show its new version to clients" in daemon.log_text()
        assert "version 1" in daemon.log_text()
        later = await subscribe(daemon, have=1)
        assert (await later.version_at_least(number)).json()["fence"] == "timeout"
        stream.close()
        later.close()


async def test_ending_while_waiting_at_the_fence_announces_nothing(launch):
    with Replicated(lag=3600) as origin:
        origin.publish("first")
        daemon = launch(fenced(origin, fenceWait="60s", fenceProof="pointer", fencePointer="/rev"))
        await version(daemon, 1)
        origin.publish("second")
        asked = len(origin.public.arrivals)
        origin.public.wait_for(asked + 2)
        assert daemon.stop() == 0
        origin.lag = 0
        daemon.start()
        stream = await subscribe(daemon, have=1)
        message = await stream.version_at_least(2)
        assert "fence" not in message.json()
        stream.close()
