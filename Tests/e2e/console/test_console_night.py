"""What an operator finds who is called at night: who left, what fails and where, the way back, and whether figures are old."""

import asyncio
import contextlib
import json

import pytest

from harness.cli import Cli
from harness.console import go
from harness.http1 import fetch

TWO_PROJECTS = """
projects:
  - {id: demo, number: 123456789012}
  - {id: shop-europe, number: 23}
sources:
  allowedAddresses: [127.0.0.0/8]
  scopes:
    - {scope: shop-europe/firebase, kind: http, url: "http://127.0.0.1:1/config.json", interval: 5s}
"""
LISTED = """[...[...document.querySelectorAll('table')].find(one => one.caption?.textContent === 'Last versions')?.tBodies[0].rows ?? []]
    .map(row => [row.cells[0].textContent, row.cells[2].textContent, row.cells[3].textContent])"""
# Stands between the page and the daemon: refuses what has `refuses` in its address, keeps answers of `holds` in `held`.
BETWEEN = """void (() => {
    const plain = window.fetch.bind(window)
    window.asked = []
    window.held = []
    window.fetch = async (url, more) => {
        asked.push({url: String(url), match: more?.headers?.['If-Match'] ?? null})
        if (window.refuses && String(url).includes(window.refuses))
            return new Response('{"error": {"message": "Not now."}}', {status: 503})
        const isHeld = window.holds && String(url).includes(window.holds), answer = await plain(url, more)
        if (isHeld) await new Promise(go => held.push(go))
        return answer
    }
})()"""
GREEN = "[...document.querySelectorAll('main .chip.good')].map(chip => chip.textContent)"


def template(value):
    return {"parameters": {"a": {"defaultValue": {"value": value}}}}


async def stream(daemon, name):
    """A client that listens; returns what ends it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.edge)
    writer.write(f"GET /v1/events?topic=PUSH_RC&client={name}&app=test HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
    reading = asyncio.create_task(drop(reader))

    def end():
        reading.cancel()
        writer.close()

    return end


async def drop(reader):
    with contextlib.suppress(ConnectionError):
        while await reader.read(1 << 16):
            pass


async def fetches(daemon, name):
    body = json.dumps({"appInstanceId": name, "appInstanceIdToken": "t", "appId": "1:123456789012:web:ab"}).encode()
    assert (await fetch(daemon.edge, "/v1/projects/demo/namespaces/firebase:fetch", "POST", body=body)).status == 200


@pytest.mark.limit(120)
async def test_the_last_versions_follow_the_state_to_its_end(launch, browser, console):
    daemon = launch()
    await daemon.client().publish(template("1"))
    ends = [await stream(daemon, f"c{number}") for number in range(4)]
    await daemon.client().publish(template("2"))
    await asyncio.to_thread(console, daemon)
    await asyncio.to_thread(browser.shows, LISTED, lambda rows: rows and rows[0] == ["2", "spreading", "0 % of 4 clients"])
    for number in range(3):
        await fetches(daemon, f"c{number}")
    await asyncio.to_thread(browser.shows, LISTED, lambda rows: rows[0][2] == "75 % of 4 clients")
    browser.hear()
    before = sum("propagation:list" in url for url in browser.requests)
    await fetches(daemon, "c3")
    await asyncio.to_thread(browser.shows, LISTED, lambda rows: rows[0] == ["2", "converged", "100 % of 4 clients"])
    await asyncio.to_thread(browser.shows, GREEN, lambda chips: "converged" in chips)
    browser.hear()
    asked = sum("propagation:list" in url for url in browser.requests) - before
    assert asked <= 1, f"{asked} requests for one end"
    for end in ends:
        end()


@pytest.mark.limit(120)
async def test_clients_that_left_are_told_everywhere_and_nothing_is_green(launch, browser, console):
    daemon = launch()
    await daemon.client().publish(template("1"))
    ends = [await stream(daemon, f"c{number}") for number in range(10)]
    await daemon.client().publish(template("2"))
    for number in range(4):
        await fetches(daemon, f"c{number}")
    for end in ends:
        end()
    await asyncio.to_thread(console, daemon)
    await asyncio.to_thread(left_everywhere, browser)


def left_everywhere(browser):
    browser.shows("document.querySelector('.headline').textContent",
                  lambda text: text.startswith("40 %") and "6 left without it" in text, within=40)
    browser.shows(LISTED, lambda rows: rows[0][0] == "2" and rows[0][2] == "40 % of 10 clients · 6 left without it")
    cell = "document.querySelector('#strip .cell.reached')"
    browser.shows(f"{cell}.textContent", lambda text: "40 %" in text and "6 left without it" in text)
    assert browser.evaluate(f"{cell}.classList.contains('warn')")
    assert browser.shows(GREEN, lambda chips: True) == []
    go(browser, "versions", to=2)
    browser.shows("document.querySelectorAll('main')[0].innerText", lambda text: text.count("6 left without it") == 2)
    assert all(not chip.startswith(("converged", "left")) for chip in browser.evaluate(GREEN))


@pytest.mark.limit(60)
def test_the_strip_is_two_lines_on_a_phone(launch, browser, console):
    daemon = launch("webhooks:\n  allowedAddresses: [127.0.0.0/8]\n")
    cli = Cli(daemon)
    cli("publish", cli.file(template("1")), "--user", "A publisher with a name that is longer than most names are")
    cli("webhooks", "add", "http://127.0.0.1:1/hook")
    cli("publish", cli.file(template("2")))
    console(daemon)
    browser.resize(390, 844)
    # What a finger meets at the top and the bottom of each cell.
    targets = """[...document.querySelectorAll('#strip .cell')].filter(cell => cell.querySelector('a')).map(cell => {
        const {left, top, height} = cell.getBoundingClientRect(), at = y => document.elementFromPoint(left + 20, top + y)
        return [height, at(1)?.closest('a') === cell.querySelector('a'), at(height - 1)?.closest('a') === cell.querySelector('a')] })"""
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        browser.shows("document.querySelectorAll('#strip a').length", lambda count: count == 5)
        assert browser.evaluate("document.getElementById('strip').getBoundingClientRect().height") <= 90
        assert all(height >= 40 and top and bottom for height, top, bottom in browser.evaluate(targets))
        assert browser.evaluate("document.querySelector('#strip .cell').classList.contains('reached')")
        assert browser.evaluate("document.documentElement.scrollWidth") <= 390
    # All screens can be reached, though their names are one line.
    browser.tab_to("e.textContent === 'Health'")
    browser.press("Enter")
    browser.shows("document.querySelector('h1').textContent === 'Health'")


@pytest.mark.limit(60)
def test_the_names_of_the_screens_are_one_line_in_each_width(launch, browser, console):
    daemon = launch(TWO_PROJECTS.replace("shop-europe", "a-project-with-a-long-name"))
    cli = Cli(daemon)
    cli("publish", cli.file(template("1")), "--project", "demo")
    console(daemon)
    for width in (1280, 1100, 900, 700, 390):
        browser.resize(width, 844)
        assert browser.evaluate("document.querySelector('nav').offsetHeight") <= 44, width
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), width


@pytest.mark.limit(60)
def test_what_fails_is_named_with_its_scope(launch, browser, console):
    daemon = launch(TWO_PROJECTS)
    cli = Cli(daemon)
    cli("publish", cli.file(template("1")), "--project", "demo")
    console(daemon)
    browser.has("Source of shop-europe/firebase fails: ")
    browser.shows("document.querySelector('#strip .sources').innerText.includes('all projects counted')")
    go(browser, "sources")
    browser.has("in a row, the first")
    browser.has("not since the start")


@pytest.mark.limit(60)
def test_the_way_back_is_on_the_first_page(launch, browser, console):
    daemon = launch()
    cli = Cli(daemon)
    for value in ("1", "2", "3"):
        cli("publish", cli.file(template(value)))
    console(daemon)
    browser.tab_to("e.textContent === 'roll back to version 2 …'")
    browser.press("Enter")
    browser.has("Roll back to version 2?")
    browser.shows("[...document.querySelectorAll('dialog button')].find(b => b.textContent === 'Roll back')?.disabled === false")
    browser.tab_to("e.textContent === 'Roll back'")
    browser.press("Enter")
    browser.shows("document.querySelector('.headline')?.textContent.includes('version 4')")
    assert cli.json("get")["parameters"]["a"]["defaultValue"]["value"] == "2"


@pytest.mark.limit(60)
def test_no_way_back_is_offered_to_what_was_taken_back_and_none_is_gone_unseen(launch, browser, console):
    daemon = launch()
    cli = Cli(daemon)
    for value in ("1", "2"):
        cli("publish", cli.file(template(value)))
    console(daemon)
    browser.has("roll back to version 1 …")
    browser.evaluate(BETWEEN)
    # The history needs no propagations.
    browser.evaluate("window.refuses = 'propagation:list'")
    go(browser, "versions")
    way = "document.querySelector('[aria-label=\"Roll back to version 1\"]')"
    browser.shows(f"{way} !== null")
    browser.has("From version 1 to version 2")
    assert "Not now." not in browser.text()
    # A dialog that could not read what it would change changes nothing.
    browser.evaluate("window.refuses = 'versionNumber=1'")
    browser.evaluate(f"{way}.click()")
    browser.shows("document.querySelector('dialog [role=alert]')?.textContent", lambda text: text and "Close this and try again." in text)
    assert browser.evaluate("document.querySelector('dialog .danger').disabled")
    browser.evaluate("[...document.querySelectorAll('dialog button')].find(b => b.textContent === 'Cancel').click()")
    browser.shows("!document.querySelector('dialog')")
    browser.evaluate("window.refuses = undefined")
    browser.evaluate(f"{way}.click()")
    browser.shows("document.querySelector('dialog .danger')?.disabled === false")
    browser.evaluate("window.asked = []")
    browser.evaluate("document.querySelector('dialog .danger').click()")
    browser.shows("document.querySelector('.headline')?.textContent.includes('version 3')")
    assert browser.evaluate("asked.find(one => one.url.endsWith(':rollback')).match")
    # It is asked for after the link is there or not.
    browser.shows("asked.some(one => one.url.includes('propagation:list?pageSize=12'))")
    browser.has("changed a · compare")
    assert "roll back to version" not in browser.text()
    assert cli.json("versions")["versions"][0]["rollbackSource"] == "1"


@pytest.mark.limit(60)
def test_an_older_answer_does_not_replace_a_newer_list(launch, browser, console):
    daemon = launch()
    cli = Cli(daemon)
    cli("publish", cli.file(template("1")))
    console(daemon)
    browser.shows(LISTED, lambda rows: [row[0] for row in rows] == ["1"])
    browser.evaluate(BETWEEN)
    browser.evaluate("window.holds = 'propagation:list?pageSize=12'")
    cli("publish", cli.file(template("2")))
    browser.shows("held.length > 0")
    browser.evaluate("window.holds = undefined")
    cli("publish", cli.file(template("3")))
    browser.shows(LISTED, lambda rows: [row[0] for row in rows] == ["3", "2", "1"])
    browser.evaluate("new Promise(done => { held.forEach(go => go()); setTimeout(done, 300) })")
    assert [row[0] for row in browser.evaluate(LISTED)] == ["3", "2", "1"]


@pytest.mark.limit(60)
def test_a_share_and_its_color_are_of_those_who_were_told(launch, browser, console):
    daemon = launch()
    cli = Cli(daemon)
    cli("publish", cli.file(template("1")))
    console(daemon)

    def shown(streams, clients, state="CONVERGED"):
        row = json.dumps({"versionNumber": "1", "state": state, "streams": streams, "clients": clients})
        return browser.evaluate(f"""import(new URL('reach.js', document.baseURI).href).then(({{reachWords, stateChip}}) =>
            [reachWords({row}), stateChip({row}).textContent, stateChip({row}).className])""")

    # Those who went before they were told are no reason for doubt.
    churn = {"audience": 100, "fetched": 80, "left": 20, "lost": 0}
    assert shown({"audience": 100, "sent": 80}, churn) == ["100 % of 80 clients", "converged", "chip good"]
    lost = {"audience": 100, "fetched": 74, "left": 26, "lost": 6}
    assert shown({"audience": 100, "sent": 80}, lost, "LEFT") == ["92.5 % of 80 clients · 6 left without it", "left", "chip warn"]
    # One client with a name is not all.
    one = {"audience": 1, "fetched": 0, "left": 1, "lost": 0}
    assert shown({"audience": 1000, "sent": 1000, "left": 0}, one) == ["100 % of 1,000 streams", "converged", "chip good"]
    assert shown({"audience": 1, "sent": 0, "left": 1}, one, "LEFT") == ["1 left without it", "left", "chip warn"]
    # Nor are two among a thousand anonymous streams: the daemon judges by the streams then.
    few = {"audience": 2, "fetched": 0, "left": 2, "lost": 2, "unidentifiedStreams": 998}
    assert shown({"audience": 1000, "sent": 998, "left": 2}, few) == ["100 % of 998 streams", "converged", "chip good"]
    # An older daemon does not say who was told.
    older = {"audience": 10, "fetched": 9, "left": 1}
    assert shown({}, older) == ["at least 90 % of 10 clients · 1 left without it, told or not", "converged, 1 left", "chip good"]


@pytest.mark.limit(60)
def test_figures_of_a_silent_daemon_are_said_to_be_old(launch, browser, console):
    daemon = launch()
    browser.excused = ("ERR_",)
    cli = Cli(daemon)
    cli("publish", cli.file(template("1")))
    console(daemon)
    browser.has("version 1")
    assert daemon.stop() == 0
    browser.has("What is shown is from before")
    daemon.start()
    browser.shows("!document.getElementById('outage') && !document.body.classList.contains('old')")


@pytest.mark.limit(60)
def test_a_stale_proposal_is_not_said_to_be_published(launch, browser, console):
    daemon = launch()
    cli = Cli(daemon)
    cli("publish", cli.file(template("1")))
    cli("publish", "--propose", cli.file(template("2")))
    cli("publish", cli.file(template("3")))
    cli("publish", cli.file(template("4")), "--stages", "10%,100%", "--every", "1h")
    console(daemon, "versions")
    row = "[...document.querySelector('table').tBodies[0].rows].map(row => row.innerText)"
    browser.shows(row, lambda rows: rows and "stale" in rows[0] and "not any more" in rows[0] and "when approved" not in rows[0])
    go(browser, "now")
    browser.shows("document.querySelector('[aria-label=\"Release in stages\"]')?.innerText.includes('control token')")
    browser.has("too few yet")


@pytest.mark.limit(60)
def test_ages_are_by_the_daemons_clock(launch, browser, console, clock):
    daemon = launch(start=False)
    daemon.more = clock.more
    daemon.start()
    clock(3 * 3600)
    Cli(daemon)("publish", Cli(daemon).file(template("1")))
    console(daemon)
    browser.shows("[...document.querySelectorAll('.headline time')].map(time => time.textContent)",
                  lambda ages: ages and all(age == "now" or age.endswith(" s ago") for age in ages))
