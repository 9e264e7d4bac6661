"""`stalecast load webhooks` against a daemon: everybody is told, everything is put back."""

import json

import pytest

from harness import webhooks
from harness.cli import stalecast
from harness.templates import marked
from harness.webhooks import Webhooks


@pytest.mark.parametrize("mode", ["latest", "fifo"])
@pytest.mark.limit(90)
async def test_every_receiver_is_told_of_every_publish_and_nothing_stays(launch, mode):
    daemon = launch(webhooks.config())
    before = await daemon.publish(marked("before"))
    report = json.loads(stalecast("load", "webhooks", "--receivers", 50, "--publishes", 5, "--gap", "50ms", "--mode", mode,
                                  "--data", daemon.data, "--json"))
    assert report["first"]["delivered"] == 50
    assert [each["delivered"] for each in report["publishes"]] == [50] * 5
    assert report["outOfOrder"] == 0 and report["connections"] <= 60
    assert report["pid"] == daemon.pid and report["median"]["serverCpuMicrosecondsEach"] > 0
    assert await Webhooks(daemon).list() == []
    client = daemon.client()
    assert (await client.get()).json()["parameters"] == (await client.get(before)).json()["parameters"]


@pytest.mark.limit(90)
async def test_black_holes_are_not_counted_and_go_too(launch):
    daemon = launch(webhooks.config())
    text = stalecast("load", "webhooks", "--receivers", 20, "--black-holes", 10, "--publishes", 3, "--data", daemon.data,
                     "--timeout", "20s")
    assert "20/20" in text and "10 black holes" in text
    assert await Webhooks(daemon).list() == []


async def test_without_permission_the_load_says_what_to_allow(launch):
    daemon = launch(webhooks.config(webhooks={"allowedAddresses": []}))
    with pytest.raises(AssertionError, match="ended with 1:") as refused:
        stalecast("load", "webhooks", "--receivers", 2, "--data", daemon.data)
    assert "STALECAST_WEBHOOKS_ALLOWED_ADDRESSES=127.0.0.0/8" in str(refused.value)
    assert await Webhooks(daemon).list() == []
