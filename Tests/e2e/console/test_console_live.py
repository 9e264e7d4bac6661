"""Now: the curve moves by itself, for streams always, for clients where the daemon counts them."""

import asyncio
import contextlib
import json

import pytest

from harness.console import go
from harness.fetch_storm import INSTANCE, FetchStorm
from harness.http1 import fetch

TEMPLATE = {"parameters": {"a": {"defaultValue": {"value": "1"}}}}
HEADLINE = "document.querySelector('.headline')?.textContent ?? ''"
CURVE = "[...document.querySelectorAll('.curve .line')].map(line => [line.getAttribute('class'), line.getAttribute('d')])"


@contextlib.asynccontextmanager
async def streams(daemon, count, name="c"):
    """Subscribers with a name each, `c0` and so on; what they are sent is read and dropped."""
    writers, readers = [], []
    for number in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.edge)
        writer.write(f"GET /v1/events?topic=PUSH_RC&client={name}{number}&app=test HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        await reader.readuntil(b"\r\n\r\n")
        writers.append(writer)
        readers.append(asyncio.create_task(drop(reader)))
    try:
        yield
    finally:
        for writer, task in zip(writers, readers):
            task.cancel()
            writer.close()


async def drop(reader):
    while await reader.read(1 << 16):
        pass


async def there(browser, script, holds=bool, within=20):
    """As `browser.shows`, with the streams read meanwhile."""
    return await asyncio.to_thread(browser.shows, script, holds, within)


@pytest.mark.limit(90)
async def test_the_curve_moves_while_a_version_spreads(launch, browser, console):
    daemon = launch()
    await daemon.client().publish(TEMPLATE)
    async with streams(daemon, 50):
        await asyncio.to_thread(console, daemon)
        before = await asyncio.to_thread(browser.evaluate, CURVE)
        await daemon.client().publish({"parameters": {"a": {"defaultValue": {"value": "2"}}}})
        await there(browser, "document.querySelector('.headline')?.textContent.includes('version 2')")
        lines = await there(browser, CURVE, lambda lines: any("sent" in name for name, _ in lines) and lines != before)
        assert len(lines) >= 1
        await there(browser, "document.body.innerText.includes('50 sse') || document.body.innerText.includes('50')")


@pytest.mark.limit(90)
async def test_clients_that_fetch_are_seen(launch, browser, console):
    daemon = launch()
    await daemon.client().publish(TEMPLATE)
    async with streams(daemon, 20):
        await asyncio.to_thread(console, daemon)
        session = await asyncio.to_thread(browser.evaluate, "fetch('/console/session').then(a => a.json())")
        if not any(path.endswith("propagation:watch") for path in session["paths"]):
            pytest.skip("this daemon does not count clients")
        await daemon.client().publish({"parameters": {"a": {"defaultValue": {"value": "2"}}}})
        await there(browser, "document.querySelector('.headline')?.textContent.includes('of the clients have version 2')")
        for number in range(15):
            body = json.dumps({"appInstanceId": f"c{number}", "appInstanceIdToken": "t", "appId": "1:123456789012:web:ab"}).encode()
            answer = await fetch(daemon.edge, "/v1/projects/123456789012/namespaces/firebase:fetch", "POST", body=body)
            assert answer.status == 200
        await there(browser, "document.querySelector('.headline').textContent.startsWith('75 %')")
        fetched = dict(await asyncio.to_thread(browser.evaluate, CURVE))
        assert "line fetched" in fetched, "the rung has its line"
        await asyncio.to_thread(go, browser, "clients")
        await there(browser, "document.querySelector('.headline')?.textContent.startsWith('5 clients')")
        await there(browser, "document.body.innerText.includes('c19')")
        await asyncio.to_thread(go, browser, "clients", client="c3")
        await there(browser, "document.body.innerText.includes('current')")


@pytest.mark.limit(180)
async def test_the_curve_moves_while_a_thousand_clients_of_the_load_fetch(launch, browser, console):
    """The storm's thousand clients speak for 500 app instances, whose streams are here."""
    daemon = launch()
    await daemon.client().publish(TEMPLATE)
    async with streams(daemon, 500, INSTANCE), FetchStorm(daemon, 1000, outcomes=500) as storm:
        await asyncio.to_thread(console, daemon)
        # A hundred clients at a time: the first half of them are all the instances.
        gates, curves = [asyncio.Event() for _ in range(10)], []
        running = asyncio.create_task(storm.run(1, kilobytes=4, admit=lambda index: gates[index // 100].wait()))
        for number, gate in enumerate(gates[:5], 1):
            gate.set()
            await there(browser, HEADLINE, lambda text: text.startswith(f"{20 * number} %") and "version 2" in text)
            lines = await there(browser, CURVE, lambda lines: dict(lines).get("line fetched") not in [None, *curves])
            curves.append(dict(lines)["line fetched"])
        for gate in gates[5:]:
            gate.set()
        assert (await running).fetched == 1000
        found = (await daemon.ask_control("/v1/projects/demo/remoteConfig/propagation")).json()
        assert (found["clients"]["audience"], found["clients"]["fetched"]) == (500, 500), found["clients"]
        assert (found["fetches"]["answers"], found["fetches"]["errors"]) == (1000, 0), found["fetches"]
        # Drawn anew from what the server says, it is the same.
        await asyncio.to_thread(browser.reload)
        await there(browser, HEADLINE, lambda text: text.startswith("100 %"))
        assert "line fetched" in dict(await there(browser, CURVE))


@pytest.mark.limit(90)
async def test_now_says_only_what_the_daemon_knows(launch, browser, console):
    daemon = launch()
    browser.excused = ("ERR_", "status of 401")
    await daemon.client().publish(TEMPLATE)
    async with streams(daemon, 3):
        await asyncio.to_thread(console, daemon)
        await there(browser, f"({HEADLINE}).includes('version 1 is current. No client was connected when it was announced · 3 listen now')")
        await daemon.client().publish({"parameters": {"a": {"defaultValue": {"value": "2"}}}})
        await there(browser, f"({HEADLINE}).startsWith('0 %')")
        assert await asyncio.to_thread(daemon.stop) == 0
    await asyncio.to_thread(daemon.start)
    async with streams(daemon, 3):
        await asyncio.to_thread(console, daemon)
        await there(browser, f"({HEADLINE}).includes('how many clients have it is not known · 3 unknown since the restart')")
        await there(browser, "document.body.innerText.includes('0 of 3 clients had fetched it')")
        assert await asyncio.to_thread(browser.evaluate, "document.querySelectorAll('.curve').length") == 0
