"""A release in stages in the console: begun, seen, paused, promoted and taken back, by keyboard, in both widths and schemes."""

import importlib.util
import json

import pytest

from harness.cli import Cli
from harness.console import go

BASE = {"parameters": {"a": {"defaultValue": {"value": "1"}}}}
CARD = "document.querySelector('[aria-label=\"Release in stages\"]')"


def focus(part):
    return f"e.textContent.trim() === {json.dumps(part)}"


def labelled(part):
    return f"e.labels?.[0]?.textContent.trim().startsWith({json.dumps(part)})"


def say(browser, label, text):
    """Types over what a field has."""
    browser.tab_to(labelled(label))
    browser.evaluate("document.activeElement.select()")
    browser.type(text)


def review(browser, value):
    """A draft of one change, and the dialog that publishes it."""
    browser.shows("document.querySelector('[aria-label=\"Edit a\"]')?.click() ?? true")
    browser.has("Edit parameter")
    say(browser, "Value", value)
    browser.tab_to(focus("Keep in the draft"))
    browser.press("Enter")
    browser.has("draft:")
    browser.tab_to(focus("Review and publish"))
    browser.press("Enter")
    browser.has("What changes")


def publish(browser):
    browser.shows("[...document.querySelectorAll('dialog [type=submit]')].find(b => b.textContent === 'Publish')?.disabled === false")
    browser.tab_to("e.type === 'submit' && e.textContent === 'Publish'")
    browser.press("Enter")
    browser.shows("!document.querySelector('dialog')")


def steer(browser, label, reason, chip):
    """Presses a button of the card, says why, and agrees."""
    browser.tab_to(focus(label))
    browser.press("Enter")
    browser.shows("document.querySelector('dialog input')?.labels[0].textContent === 'Why'")
    browser.type(reason)
    browser.tab_to(f"e.type === 'submit' && {focus(label)}")
    browser.press("Enter")
    browser.shows(f"{CARD}.querySelector('.chip').textContent === {json.dumps(chip)} && !document.querySelector('dialog')")
    browser.shows(f"{CARD}.innerText.includes({json.dumps(reason)})")


@pytest.mark.limit(180)
async def test_a_release_is_begun_and_steered_without_a_mouse(launch, browser, console):
    daemon = launch()
    await daemon.client().publish(BASE)
    browser.excused = ("status of 409",)  # an open release, in the way of a publish
    console(daemon, "template")
    review(browser, "staged")
    browser.tab_to(labelled("in stages"))
    browser.press(" ")
    say(browser, "Shares of the clients", "2.5%, 100%")
    say(browser, "Each lasts", "1h")
    browser.has("No client is connected now who would hear of it.")
    publish(browser)
    browser.shows(f"{CARD}?.innerText.includes('2.5 % of the clients were told of version 2, over version 1')")
    browser.has("Only a share of the clients is told so far.")
    # The gates that compare clients, each with its limit as a line.
    browser.shows(f"[...{CARD}.querySelectorAll('.gauges figure b')].map(b => b.textContent).join() === 'failed,fetchErrors,loss'")
    browser.shows(f"{CARD}.querySelectorAll('.gauges svg .limit').length === 3")
    sound(browser)
    steer(browser, "Pause", "support calls", "paused")
    steer(browser, "Resume", "it was the network", "ramping")
    # What an operator does elsewhere is seen here.
    Cli(daemon)("release", "pause", "--reason", "from a shell")
    browser.shows(f"{CARD}.innerText.includes('from a shell') && {CARD}.querySelector('.chip').textContent === 'paused'")
    go(browser, "template")
    review(browser, "another")
    browser.has("take the place of the release that is open")
    browser.press("Escape")
    go(browser, "now")
    steer(browser, "Promote", "good enough", "baking")
    steer(browser, "Roll back", "<img src=x onerror=alert(1)>", "rolled back")
    browser.shows(f"{CARD}.innerText.includes('version 3 followed') && {CARD}.querySelectorAll('.actions button').length === 0")
    assert browser.evaluate("document.querySelectorAll('main img').length") == 0
    seen = Cli(daemon).json("release")
    assert (seen["policy"]["every"], [event["kind"] for event in seen["events"]]) == ("1h", [
        "BEGAN", "PAUSED", "RESUMED", "PAUSED", "PROMOTED", "ROLLED_BACK"])


def sound(browser):
    """The screen in both widths and both schemes, with an open release and with its dialog."""
    has_axe = importlib.util.find_spec("axe_playwright_python")
    for width, height in ((390, 844), (1440, 900)):
        browser.resize(width, height)
        for scheme in ("dark", "light"):
            browser.prefer(scheme)
            assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"too wide at {width}"
            assert not has_axe or browser.violations() == [], f"{width} in {scheme}"
    browser.tab_to(focus("Roll back"))
    browser.press("Enter")
    browser.has("The content of version 1 becomes a new version.")
    assert not has_axe or browser.violations() == [], "the dialog"
    browser.press("Escape")
    browser.shows("!document.querySelector('dialog')")
