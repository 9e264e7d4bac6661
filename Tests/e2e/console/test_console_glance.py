"""What one sees at a glance and reaches with a few keys: the strip, the search box, switches, webhooks, keys, the audit log."""

import asyncio
import importlib.util
import json

import pytest

from harness.cli import Cli
from harness.console import go
from harness.daemon import REPOSITORY

TEMPLATE = {
    "conditions": [{"name": "half", "expression": "percent <= 50", "tagColor": "BLUE"}],
    "parameters": {
        "dark_mode": {"defaultValue": {"value": "false"}, "valueType": "BOOLEAN"},
        "max_items": {"defaultValue": {"value": "20"}, "valueType": "NUMBER"},
        "welcome_text": {"defaultValue": {"value": "Hello"}, "valueType": "STRING"}}}
STRIP = "[...document.querySelectorAll('#strip .cell')].map(cell => cell.innerText.replaceAll('\\n', ' '))"
CHOSEN = "document.getElementById(document.querySelector('[role=combobox]')?.getAttribute('aria-activedescendant'))?.innerText ?? ''"


def current(daemon):
    return json.loads(Cli(daemon)("get"))


def control_k(browser):
    shape = {"key": "k", "code": "KeyK", "windowsVirtualKeyCode": 75, "modifiers": 2}
    browser.call("Input.dispatchKeyEvent", type="rawKeyDown", **shape)
    browser.call("Input.dispatchKeyEvent", type="keyUp", **shape)


@pytest.mark.limit(90)
def test_four_answers_are_on_every_screen(launch, browser, console):
    daemon = launch("webhooks:\n  allowedAddresses: [127.0.0.0/8]\n")
    cli = Cli(daemon)
    cli("publish", str(REPOSITORY / "samples/templates/demo.json"), "--user", "Ada")
    cli("webhooks", "add", "http://127.0.0.1:1/hook")
    cli("set", "max_items=25", "--user", "Grace")
    console(daemon)
    for screen in ("now", "audit", "template"):
        go(browser, screen)
        seen = browser.shows(STRIP, lambda cells: len(cells) == 5 and "failing" in cells[3])
        assert seen[1].startswith("Version 2") and "by Grace" in seen[1], seen
        assert "no client" in seen[0].lower() or "no audience" in seen[0], seen
        assert seen[4].startswith("Sources") and "none" in seen[4], seen
    color = "getComputedStyle(document.querySelector('#strip .cell:nth-child({}) b')).color"
    assert browser.evaluate(color.format(4)) != browser.evaluate(color.format(5)), "what fails is red"
    browser.evaluate("document.querySelector('#strip .bad a').click()")
    browser.has("http://127.0.0.1:1/hook")
    cli("set", "max_items=26", "--user", "Lin")
    browser.shows(STRIP, lambda cells: cells[1].startswith("Version 3") and "by Lin" in cells[1])


@pytest.mark.limit(90)
async def test_the_search_box_finds_with_the_keyboard_alone(launch, browser, console):
    daemon = launch()
    await daemon.client().publish(TEMPLATE)
    await asyncio.to_thread(search_and_follow, browser, console, daemon)


def search_and_follow(browser, console, daemon):
    console(daemon)
    control_k(browser)
    browser.shows("document.activeElement.getAttribute('role') === 'combobox'")
    if importlib.util.find_spec("axe_playwright_python"):
        assert browser.violations() == []
    browser.type("max")
    browser.shows(CHOSEN, lambda text: "max_items" in text)
    browser.press("Enter")
    browser.shows("document.querySelector('h1').textContent === 'Template' && document.querySelector('input[type=search]')?.value === 'max_items'")
    assert browser.shows("[...document.querySelector('table').tBodies[0].rows].map(row => row.cells[0].textContent)") == ["max_items"]
    for typed, keys, kind, place in (("version 1", (), "version", "versions"), ("aud", (), "page", "audit"),
                                     ("some-client", (), "client", "clients"), ("", ("ArrowDown",), "page", "template")):
        control_k(browser)
        browser.shows("document.activeElement.getAttribute('role') === 'combobox'")
        browser.type(typed)
        browser.shows(CHOSEN, lambda text: text.startswith(kind))
        for key in keys:
            browser.press(key)
        browser.press("Enter")
        # The screen, and not its address alone: a page that begins closes the dialogs that are open.
        browser.shows(f"location.hash.startsWith('#/{place}') && document.title.toLowerCase().startsWith('{place}')")
    control_k(browser)
    browser.type("nothing is called so")
    browser.press("Escape")
    browser.shows("!document.querySelector('dialog')")
    assert "#/template" in browser.evaluate("location.hash"), "Escape leaves everything as it was"


@pytest.mark.limit(90)
async def test_a_switch_is_two_clicks(launch, browser, console):
    daemon = launch()
    await daemon.client().publish(TEMPLATE)
    await asyncio.to_thread(flip, browser, console, daemon)


def flip(browser, console, daemon):
    console(daemon, "template")
    browser.shows("document.querySelector('[aria-label=\"Set dark_mode to true\"]')?.click() ?? true")
    browser.has("Valid.")
    browser.evaluate("[...document.querySelectorAll('dialog button')].find(b => b.textContent === 'Cancel').click()")
    browser.shows("!document.querySelector('dialog') && !document.body.innerText.includes('draft:')")
    assert browser.evaluate("sessionStorage.length") == 0, "what was only looked at leaves no draft"
    browser.evaluate("document.querySelector('[aria-label=\"Set dark_mode to true\"]').click()")
    browser.has("Valid.")
    browser.evaluate("document.querySelector('dialog [type=submit]').click()")
    browser.has("version 2")
    assert current(daemon)["parameters"]["dark_mode"]["defaultValue"]["value"] == "true"


PRESS = "(button => button && (button.click(), true))([...document.querySelectorAll('{} button')].find(b => b.textContent === '{}'))"


@pytest.mark.limit(120)
def test_webhooks_are_added_edited_and_removed(launch, browser, console):
    daemon = launch("webhooks:\n  allowedAddresses: [127.0.0.0/8]\n")
    browser.excused = ("status of 400",)
    cli = Cli(daemon)
    console(daemon, "webhooks")
    browser.shows(PRESS.format("main", "Add webhook"))
    browser.has("New webhook")
    browser.type("ftp://127.0.0.1/hook")
    browser.shows(PRESS.format("dialog", "Add"))
    browser.shows("document.querySelector('dialog .state.error') !== null")
    browser.evaluate("void (document.querySelector('dialog input[type=url]').value = 'http://127.0.0.1:1/hook')")
    browser.shows(PRESS.format("dialog", "Add"))
    browser.has("Its secret")
    browser.has("whsec_")
    browser.shows(PRESS.format("dialog", "Close"))
    browser.shows(PRESS.format("main", "Edit"))
    browser.has("Edit the webhook")
    browser.evaluate("[...document.querySelectorAll('dialog input[type=text]')].at(-1).value = 'for the shop'")
    browser.shows(PRESS.format("dialog", "Save"))
    browser.shows("!document.querySelector('dialog')")
    kept = cli.json("webhooks", "list")["webhooks"]
    assert [(one["url"], one["description"]) for one in kept] == [("http://127.0.0.1:1/hook", "for the shop")]
    browser.shows(PRESS.format("main", "Remove"))
    browser.has("hears of no version any more")
    browser.shows(PRESS.format("dialog", "Remove"))
    browser.has("No webhook is registered in this project.")
    assert cli.json("webhooks", "list")["webhooks"] == []


@pytest.mark.limit(120)
def test_keys_and_the_audit_log_have_a_screen(launch, browser, console):
    daemon = launch()
    cli = Cli(daemon)
    cli("publish", str(REPOSITORY / "samples/templates/demo.json"), "--user", "Ada")
    asyncio.run(daemon.client().put(TEMPLATE, "etag-123456789012-9"))
    console(daemon, "keys")
    browser.shows(PRESS.format("main", "New key"))
    browser.has("Who or what uses it.")
    browser.type("ci")
    browser.shows(PRESS.format("dialog", "Make it"))
    browser.has("It is shown here, and only once.")
    shown = browser.evaluate("document.querySelector('dialog code').textContent")
    browser.shows(PRESS.format("dialog", "Close"))
    listed = cli.json("keys", "list")["keys"]
    assert [(key["name"], key["state"]) for key in listed] == [("ci", "active")] and listed[0]["id"] in shown
    browser.shows("document.querySelector('[aria-label=\"Revoke ci\"]')?.click() ?? true")
    browser.has("This cannot be undone.")
    browser.shows(PRESS.format("dialog", "Revoke"))
    browser.shows("document.body.innerText.includes('revoked') && !document.querySelector('dialog')")
    go(browser, "audit")
    for sentence in ("published version 1", "created key", "revoked key", "the daemon started"):
        browser.has(sentence)
    rows = "document.querySelector('main table').tBodies[0].rows.length"
    before = browser.evaluate(rows)
    browser.evaluate("[...document.querySelectorAll('main [type=checkbox]')].at(-1).click()")
    browser.shows(rows, lambda count: 0 < count < before)
    browser.has("publish template")


@pytest.mark.limit(60)
def test_rows_are_cards_in_a_narrow_window(launch, browser, console):
    daemon = launch()
    Cli(daemon)("publish", str(REPOSITORY / "samples/templates/demo.json"))
    console(daemon, "template")
    browser.resize(390, 844)
    browser.has("welcome_text")
    wide = "[...document.querySelectorAll('.scroller')].every(one => one.scrollWidth <= one.clientWidth)"
    assert browser.shows(wide), "nothing has to be moved sideways"
    assert browser.evaluate("getComputedStyle(document.querySelector('tbody td'), '::before').content") == '"Type"'
    roles = "[...new Set([...document.querySelector('tbody tr').children].map(cell => cell.getAttribute('role')))]"
    assert browser.evaluate(roles) == ["rowheader", "cell"], "still a table to those who do not see it"
