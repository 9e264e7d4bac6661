"""Every screen in both widths and both schemes: nothing complains, axe-core finds nothing, and nothing is wider than the page."""

import importlib.util
import json
import subprocess

import pytest

from harness.cli import Cli
from harness.console import go
from harness.daemon import BINARY, REPOSITORY, environment

SCREENS = ("now", "template", "evaluate", "versions", "clients", "webhooks", "sources", "messages", "keys", "audit", "health")
TEMPLATES = REPOSITORY / "samples/templates"


@pytest.fixture
def filled(launch):
    """A daemon with three versions and a webhook without a receiver."""
    daemon = launch("webhooks:\n  allowedAddresses: [127.0.0.0/8]\n")
    cli = Cli(daemon)
    cli("publish", str(TEMPLATES / "demo.json"), "--description", "first", "--user", "Ada")
    cli("publish", str(TEMPLATES / "demo-winter.json"), "--description", "winter", "--allow-removals")
    cli("set", "max_items=25")
    cli("webhooks", "add", "http://127.0.0.1:1/hook")
    return daemon


@pytest.mark.limit(240)
def test_every_screen_is_sound(filled, browser, console):
    if not importlib.util.find_spec("axe_playwright_python"):
        pytest.skip("axe-core is not there; deploy/test.sh installs it")
    console(filled)
    hook = Cli(filled).json("webhooks", "list")["webhooks"][0]["id"]
    parameters = {"versions": {"from": 1, "to": 2}, "webhooks": {"id": hook}}
    for width, height in ((1440, 900), (390, 844)):
        browser.resize(width, height)
        for scheme in ("light", "dark"):
            browser.prefer(scheme)
            for screen in SCREENS:
                go(browser, screen, **parameters.get(screen, {}))
                place = f"{screen} at {width} in {scheme}"
                assert browser.violations() == [], place
                assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{place} is too wide"


def test_it_is_few_requests_and_all_ours(filled, browser, console):
    console(filled)
    ours = f"http://127.0.0.1:{filled.control}/"
    assert all(url.startswith(ours) for url in browser.requests), browser.requests
    static = {url for url in browser.requests if url.startswith(ours + "console/") and not url.endswith(("session", "code"))}
    assert len(static) <= 22, static


def test_a_screen_is_its_address(filled, browser, console):
    console(filled, "versions", **{"from": 1, "to": 3})
    browser.has("From version 1 to version 3")
    browser.reload()
    browser.has("From version 1 to version 3")
    go(browser, "template")
    browser.has("welcome_text")
    browser.evaluate("history.back()")
    browser.has("From version 1 to version 3")


def test_tables_sort_and_filter(filled, browser, console):
    console(filled, "template")
    names = "[...document.querySelector('table').tBodies[0].rows].map(row => row.cells[0].textContent)"
    listed = browser.shows(names)
    assert listed == sorted(listed) and "max_items" in listed
    browser.evaluate("[...document.querySelectorAll('th button')].find(b => b.textContent === 'Name').click()")
    assert browser.evaluate(names) == listed[::-1]
    assert browser.evaluate("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "descending"
    browser.evaluate("document.querySelector('input[type=search]').focus()")
    browser.type("german")
    assert browser.shows(names, lambda shown: len(shown) < len(listed)) == ["welcome_text", "pay_by_invoice"]


def test_what_fails_is_said_where_one_looks_first(filled, browser, console):
    Cli(filled)("set", "max_items=26", "--user", "ann", "--description", "twenty-six")
    console(filled)
    for screen in ("now", "health"):
        go(browser, screen)
        browser.has("Webhook http://127.0.0.1:1/hook fails: ")
        if screen == "now":
            browser.has("published by ann: twenty-six")
            browser.has("changed max_items · compare")
    browser.shows("document.querySelector('nav a[href^=\"#/webhooks\"]').textContent", lambda text: text == "Webhooks1 failing")
    browser.evaluate("document.querySelector('.error a').click()")
    browser.has("http://127.0.0.1:1/hook")


def test_the_switch_chooses_the_colors(filled, browser, console):
    console(filled)
    browser.prefer("light")
    color = "getComputedStyle(document.body).backgroundColor"
    light = browser.evaluate(color)
    browser.evaluate("(e => { e.value = 'dark'; e.dispatchEvent(new Event('change')) })(document.getElementById('theme'))")
    assert browser.evaluate(color) != light
    browser.reload()
    browser.has("Sign out")
    assert browser.shows(color) != light, "it is remembered"


def test_evaluate_asks_the_daemon(filled, browser, console):
    console(filled, "evaluate", context=json.dumps({"countryCode": "FR", "appId": "1:1:ios:1"}).replace('"', "%22"), version=1)
    browser.has("Bonjour")
    browser.has("ios_france")


def test_a_rollback_is_two_steps(filled, browser, console):
    console(filled, "versions")
    browser.shows("document.querySelector('[aria-label=\"Roll back to version 1\"]')?.click() ?? true")
    browser.has("Its content becomes version 4")
    browser.has("demo")
    browser.shows("document.querySelector('dialog .danger')?.disabled === false")  # once it shows what changes
    browser.evaluate("document.querySelector('dialog .danger').click()")
    browser.shows("!document.querySelector('dialog')")  # which says version 4, too
    browser.has("version 4")
    assert Cli(filled).json("versions")["versions"][0]["rollbackSource"] == "1"


@pytest.mark.limit(60)
def test_less_is_shown_to_who_may_less(filled, browser):
    """A key with a viewer's grant for the server template sees that scope, reads, and is told what it cannot see."""
    cli = Cli(filled)
    made = cli.json("keys", "create", "--name", "reader", "--role", "viewer", "--project", "demo", "--namespace", "firebase-server")
    browser.open(f"http://127.0.0.1:{filled.control}/console/")
    browser.has("Sign in")
    browser.shows("document.querySelector('input[type=password]')?.focus() ?? true")
    browser.type(made["key"])
    browser.press("Enter")
    browser.has("demo/firebase-server")
    assert "demo/firebase\n" not in browser.text()
    browser.excused = ("status of 404",)
    go(browser, "template", scope="demo/firebase-server")
    browser.has("You may read this scope and not publish to it.")
    go(browser, "health")
    browser.has("your grants are for a part of it")


@pytest.mark.limit(120)
def test_a_copied_command_runs_as_it_is(filled, browser, console, tmp_path):
    console(filled)
    hook = Cli(filled).json("webhooks", "list")["webhooks"][0]["id"]
    browser.evaluate("void (navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve() })")
    parameters = {"versions": {"from": 1, "to": 2}, "evaluate": {"version": 2}}
    commands = []
    for screen, more in [*((screen, parameters.get(screen, {})) for screen in SCREENS), ("webhooks", {"id": hook})]:
        go(browser, screen, **more)
        press = "[...document.querySelectorAll('.tools button')].find(b => b.textContent === 'Copy the command').click()"
        browser.evaluate(f"window.copied = undefined; {press}")
        commands.append((screen, browser.shows("window.copied")))
        browser.evaluate("window.copied = undefined; document.querySelector('.tools button').click()")
        browser.shows("window.copied === undefined || JSON.parse(window.copied) !== undefined")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/stalecast").symlink_to(BINARY)
    variables = {**environment(), "PATH": f"{tmp_path}/bin:/usr/bin:/bin", "STALECAST_DATA": str(filled.data)}
    for screen, line in commands:
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", line], cwd=tmp_path, env=variables, capture_output=True, text=True,
                              timeout=30, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, f"{screen}: {line}\n{done.stdout}{done.stderr}"
