"""The time line: what the daemon counts, what the first screen draws of it, and that a restart does not empty it."""

import asyncio
import json

import pytest

from harness.cli import Cli
from harness.control import Control
from harness.sse import Stream
from harness.templates import marked
from harness.waiting import until

CHART = "document.querySelector('.timeline svg')?.getAttribute('aria-label') ?? ''"


async def line(daemon):
    return json.loads((await daemon.ask_control("/v1/timeline")).body)


async def delivered(daemon, least):
    """Waits until the line has so many deliveries: it takes a sample each 5 s."""
    async def is_there():
        return sum(point["deliveries"] for point in (await line(daemon))["hour"]["points"]) >= least
    await until(is_there)


@pytest.mark.limit(90)
async def test_what_happened_is_there_also_after_a_restart(launch):
    daemon = launch()
    client = daemon.client()
    await client.publish(marked("one"))
    streams = [await Stream.open(daemon.edge) for _ in range(3)]
    for stream in streams:
        await stream.synced()
    await client.publish(marked("two"))
    await delivered(daemon, 3)
    seen = await line(daemon)
    assert [one["versionNumber"] for one in seen["publishes"]] == ["1", "2"]
    assert max(point["streams"] for point in seen["hour"]["points"]) == 3
    assert (seen["hour"]["stepSeconds"], seen["day"]["stepSeconds"]) == (60, 900)
    assert daemon.stop() == 0
    daemon.start()
    after = await line(daemon)
    assert sum(point["deliveries"] for point in after["day"]["points"]) >= 3, "the file was read"
    assert [one["versionNumber"] for one in after["publishes"]] == ["1", "2"]
    assert after["since"] > seen["since"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"hour":{"points":[1,{"time":"9999-99-99"}]}}', b"\xff" * 100])
async def test_a_damaged_file_begins_an_empty_line(launch, content):
    daemon = launch(start=False)
    daemon.data.mkdir(parents=True, exist_ok=True)
    (daemon.data / "timeline.json").write_bytes(content)
    daemon.start()
    assert (await line(daemon))["publishes"] == []


@pytest.mark.limit(90)
async def test_the_first_screen_draws_it(launch, browser, console):
    daemon = launch()
    client = daemon.client()
    await client.publish(marked("one"))
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    await client.publish(marked("two"))
    await delivered(daemon, 1)
    await asyncio.to_thread(console, daemon)
    text = await asyncio.to_thread(browser.shows, CHART)
    assert "2 versions" in text and "at most 1 stream," in text, text
    marks = "[...document.querySelectorAll('.timeline .publish:not(span)')].length"
    assert await asyncio.to_thread(browser.evaluate, marks) == 2
    await asyncio.to_thread(browser.evaluate, "document.querySelector('.timeline [data-length=day]').click()")
    assert await asyncio.to_thread(browser.evaluate, "document.querySelector('.timeline [aria-pressed=true]').textContent") == "Last day"
    table = await asyncio.to_thread(browser.evaluate, "document.querySelector('.timeline table').textContent")
    assert "streams" in table and "failures" in table
    await asyncio.to_thread(browser.resize, 390, 844)
    await asyncio.to_thread(browser.reload)
    await asyncio.to_thread(browser.shows, CHART)
    assert await asyncio.to_thread(browser.evaluate, "document.documentElement.scrollWidth <= innerWidth")


async def test_a_part_of_the_daemon_does_not_show_all_of_it(launch):
    daemon = launch()
    made = Cli(daemon).json("keys", "create", "--name", "reader", "--role", "viewer", "--project", "demo")
    assert (await Control(daemon.control, made["key"]).call("GET", "/v1/timeline")).status == 403
