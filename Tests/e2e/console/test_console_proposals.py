"""Proposals in the console: a draft proposed by one, reviewed and approved by another, by keyboard."""

import importlib.util
import json
import subprocess

import pytest

from harness import configs
from harness.cli import Cli
from harness.console import go
from harness.daemon import BINARY, environment
from harness.keys import make_key
from harness.templates import template

REQUIRED = configs.config(projects=[{"id": "demo", "number": 123456789012, "approvals": "required"}])


def focus(text):
    return f"e.textContent.trim() === {json.dumps(text)} || e.getAttribute('aria-label') === {json.dumps(text)}"


@pytest.fixture
def people(launch, tmp_path):
    """A daemon that asks for approvals, and files of two people's keys."""
    daemon = launch(REQUIRED)

    async def make():
        for name in ("ada", "bob"):
            _, text = await make_key(daemon, {"role": "publisher"}, name=name.capitalize())
            (tmp_path / name).write_text(text)
        return daemon

    return make


def sign_in(browser, daemon, file):
    done = subprocess.run([BINARY, "console", "--json", "--no-open", "--data", daemon.data, "--token-file", file],
                          capture_output=True, text=True, env=environment(), check=True)
    browser.open(json.loads(done.stdout)["url"])
    browser.has("Sign out")


@pytest.mark.limit(120)
async def test_one_proposes_and_another_approves(people, browser, tmp_path):
    daemon = await people()
    cli = Cli(daemon)
    cli("publish", "--propose", cli.file(template({"a": "1"})), "--token-file", str(tmp_path / "ada"))
    cli("proposals", "approve", "1", "--token-file", str(tmp_path / "bob"))
    sign_in(browser, daemon, str(tmp_path / "ada"))
    go(browser, "template")
    browser.tab_to(focus("Edit a"))
    browser.press("Enter")
    browser.has("Edit parameter")
    browser.tab_to("e.labels?.[0]?.textContent.trim().startsWith('Value')")
    browser.evaluate("document.activeElement.select()")
    browser.type("2")
    browser.tab_to(focus("Keep in the draft"))
    browser.press("Enter")
    browser.tab_to(focus("Review and propose"))
    browser.press("Enter")
    browser.has("Valid.")
    browser.tab_to("e.textContent === 'Propose'")
    browser.press("Enter")
    browser.has("Two people publish here")
    browser.shows("document.querySelector('h1').textContent === 'Versions'")
    assert browser.evaluate("sessionStorage.length") == 0, "the draft is gone"
    browser.tab_to(focus("Review proposal 2"))
    browser.press("Enter")
    browser.has("It is your own")
    assert browser.evaluate("![...document.querySelectorAll('dialog button')].some(b => b.textContent.startsWith('Approve'))")
    browser.press("Escape")
    assert cli.json("get")["version"]["versionNumber"] == "1"

    sign_in(browser, daemon, str(tmp_path / "bob"))
    go(browser, "versions")
    browser.tab_to(focus("Review proposal 2"))
    browser.press("Enter")
    browser.has("What changes")
    browser.shows("document.querySelector('dialog ins')?.textContent === '2'")
    if importlib.util.find_spec("axe_playwright_python"):
        assert browser.violations() == []
    browser.tab_to(focus("Approve and publish"))
    browser.press("Enter")
    browser.has("From version 1 to version 2")
    seen = cli.json("get")
    assert seen["parameters"]["a"]["defaultValue"]["value"] == "2" and seen["version"]["updateUser"]["name"] == "Ada, approved by Bob"


@pytest.mark.limit(120)
async def test_a_stale_one_is_shown_as_such_and_rejected(launch, browser, console):
    daemon = launch()
    cli = Cli(daemon)
    cli("publish", cli.file(template({"a": "1", "b": "1"})))
    cli("set", "a=2", "--propose", "--description", "<img src=x onerror=alert(1)>")
    console(daemon, "versions")
    browser.has("open")
    cli("set", "b=2")
    browser.reload()
    browser.has("stale")
    browser.tab_to(focus("Review proposal 1"))
    browser.press("Enter")
    browser.has("Another version is current now")
    browser.has("Changed since: b")
    assert browser.evaluate("document.querySelectorAll('dialog img').length") == 0
    assert browser.evaluate("![...document.querySelectorAll('dialog button')].some(b => b.textContent.startsWith('Approve'))")
    browser.tab_to("e.labels?.[0]?.textContent.startsWith('Reason')")
    browser.type("late")
    browser.tab_to(focus("Reject"))
    browser.press("Enter")
    browser.shows("!document.querySelector('dialog')")
    assert cli.json("proposals", "show", "1")["decision"]["reason"] == "late"
