"""`stalecast load webhooks` against a daemon: each webhook is told, and the daemon is left as it was."""

import asyncio
import json

import pytest

from harness import webhooks
from harness.cli import stalecast
from harness.daemon import LONG
from harness.receiver import Receiver
from harness.sse import Stream
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


@pytest.mark.parametrize("limit,count", [(400, 220), *([(600, 700), (1024, 700), (4096, 700)] if LONG else [])])
async def test_webhooks_on_many_hosts_leave_descriptors_to_others(launch, tool, limit, count):
    """Streams at their cap, and more hosts than there are descriptors: webhooks take turns, and Control answers."""
    daemon = launch(webhooks.config(), start=False)
    plain = daemon.command
    daemon.command = lambda *flags: [tool("prlimit"), f"--nofile={limit}:{limit}", *plain(*flags)]
    daemon.start()
    hooks = Webhooks(daemon)
    with Receiver(host="0.0.0.0") as receiver:
        for number in range(count):
            await hooks.add(f"http://127.1.{number // 250}.{number % 250 + 1}:{receiver.port}/")
        streams = []
        while len(streams) < limit:
            stream = await Stream.open(daemon.edge)
            await stream.until(lambda one: one.ended or any(event.name == "synced" for event in one.events))
            if stream.ended:
                break
            streams.append(stream)
        for number in range(1, 4):
            assert await daemon.publish(marked(str(number))) == number
            await asyncio.to_thread(receiver.wait_for, number * count)
            assert (await daemon.ask_control("/readyz")).status == 200
            assert await daemon.metric("process_open_fds") < limit
        for stream in streams:
            await stream.version_at_least(3)
            stream.close()
    assert daemon.running
