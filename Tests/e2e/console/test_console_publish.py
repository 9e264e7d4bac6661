"""Publishing from the console: by keyboard alone, against another window, and with names that mean harm."""

import json
import subprocess

import pytest

from harness.cli import Cli
from harness.console import go
from harness.daemon import BINARY, environment

BASE = {"parameters": {"a": {"defaultValue": {"value": "1"}, "valueType": "STRING"},
                       "b": {"defaultValue": {"value": "1"}, "valueType": "STRING"}}}


def current(daemon):
    return json.loads(Cli(daemon)("get"))


def focus(part):
    return f"e.textContent.trim() === {json.dumps(part)} || e.getAttribute('aria-label') === {json.dumps(part)}"


def labelled(part):
    return f"e.labels?.[0]?.textContent.trim().startsWith({json.dumps(part)})"


def edit(browser, name, value):
    """With hands on the keys only, from wherever the focus is."""
    browser.tab_to(focus(f"Edit {name}"))
    browser.press("Enter")
    browser.has("Edit parameter")
    browser.tab_to(labelled("Value"))
    browser.evaluate("document.activeElement.select()")
    browser.type(value)
    browser.tab_to(focus("Keep in the draft"))
    browser.press("Enter")
    browser.has("draft:")


@pytest.mark.limit(120)
async def test_publishing_takes_no_mouse(launch, browser, console):
    daemon = launch()
    await daemon.client().publish(BASE)
    console(daemon)
    browser.evaluate("document.activeElement.blur()")
    browser.tab_to("e.textContent === 'Template'")
    assert browser.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", "the focus is seen"
    browser.press("Enter")
    browser.shows("document.querySelector('h1').textContent === 'Template' && document.querySelector('[aria-label=\"Edit a\"]') !== null")
    edit(browser, "a", "from the keyboard")
    browser.tab_to(focus("Validate"))
    browser.press("Enter")
    browser.has("The draft is valid.")
    browser.press("Escape")
    browser.tab_to(focus("Review and publish"))
    browser.press("Enter")
    browser.has("What changes")
    browser.tab_to(labelled("What it is about"))
    browser.type("typed")
    browser.has("Valid.")
    browser.tab_to("e.type === 'submit' && e.textContent === 'Publish'")
    browser.press("Enter")
    browser.has("version 2")
    seen = current(daemon)
    assert seen["parameters"]["a"]["defaultValue"]["value"] == "from the keyboard"
    assert seen["version"]["description"] == "typed"
    assert browser.evaluate("sessionStorage.length") == 0, "the draft is gone"


@pytest.mark.limit(120)
async def test_two_windows_disagree(launch, browser, console):
    daemon = launch()
    await daemon.client().publish(BASE)
    browser.excused = ("status of 400",)  # the conflict itself
    first = console(daemon, "template")
    edit(browser, "a", "mine")
    second = console(daemon, "template")
    edit(browser, "a", "theirs")
    edit(browser, "b", "theirs too")
    browser.tab_to(focus("Review and publish"))
    browser.press("Enter")
    browser.has("Valid.")
    browser.tab_to("e.type === 'submit' && e.textContent === 'Publish'")
    browser.press("Enter")
    browser.has("version 2")
    browser.use(first)
    browser.call("Page.bringToFront")
    browser.tab_to(focus("Review and publish"))
    browser.press("Enter")
    browser.has("Another version was published meanwhile")
    browser.has("Changed on both sides")
    assert browser.evaluate("document.querySelectorAll('dialog fieldset').length") == 1, "only a was changed by both"
    browser.tab_to(focus("Continue on their version"))
    browser.press("Enter")
    browser.has("What changes")
    browser.has("Valid.")
    browser.tab_to("e.type === 'submit' && e.textContent === 'Publish'")
    browser.press("Enter")
    browser.has("version 3")
    values = {name: one["defaultValue"]["value"] for name, one in current(daemon)["parameters"].items()}
    assert values == {"a": "mine", "b": "theirs too"}
    assert second != first


HOSTILE = "<img src=x onerror=alert(1)>\u202e}{\u2066<script>alert(2)</script>"


@pytest.mark.limit(120)
async def test_hostile_names_and_texts_are_only_text(launch, browser, console):
    daemon = launch()
    group, letters = HOSTILE[:80], "a" * 200
    body = {
        "conditions": [{"name": "x " * 60 + "x", "expression": "percent <= 10", "tagColor": "BLUE"}],
        "parameters": {name: {
            "defaultValue": {"value": HOSTILE}, "description": HOSTILE * 3,
            "conditionalValues": {"x " * 60 + "x": {"value": "\u05d0\u202e" * 50}}} for name in ("plain", "toSource", letters)},
        "parameterGroups": {group: {"parameters": {"large": {"defaultValue": {"value": "<b>\n" * 25_000}}}}},
        "version": {"description": HOSTILE},
    }
    control = daemon.client()
    await control.publish(body)
    body["parameters"]["plain"]["defaultValue"]["value"] = "{" * 100_000
    body["parameterGroups"][group]["parameters"]["large"]["defaultValue"]["value"] = "<i>\n" * 25_000
    assert (await control.put(body, headers=[("X-Stalecast-User", "<svg onload=alert(3)>")])).status == 200
    console(daemon, "template")
    browser.has("toSource")
    for screen in ("evaluate", "versions", "now", "template"):
        go(browser, screen)
        nothing_got_in(browser, screen)
    for name in ("plain", "large"):
        browser.shows(f"document.querySelector('[aria-label=\"Edit {name}\"]')?.click() ?? true")
        browser.has("Edit parameter")
        assert browser.evaluate("document.querySelector('dialog textarea').value.length") >= 100_000
        browser.press("Escape")
        browser.shows("!document.querySelector('dialog')")
    go(browser, "versions", **{"from": 1, "to": 2})
    browser.has("too much to compare here")


@pytest.mark.limit(120)
async def test_a_draft_may_hold_what_the_daemon_would_refuse(launch, browser, console):
    """The daemon allows no such names; the page must bear them all the same."""
    daemon = launch()
    await daemon.client().publish(BASE)
    console(daemon, "template")
    browser.excused = ("status of 400",)
    one = {"defaultValue": {"value": HOSTILE}, "conditionalValues": {"__proto__": {"value": "x"}, HOSTILE: {"value": "y"}}}
    draft = json.dumps({
        "conditions": [{"name": name, "expression": HOSTILE, "tagColor": HOSTILE} for name in (HOSTILE, "__proto__")],
        "parameters": {name: one for name in ("__proto__", "constructor", "hasOwnProperty", HOSTILE)},
        "parameterGroups": {"__proto__": {"parameters": {"inside": one}}, HOSTILE: {"description": HOSTILE}}})
    browser.evaluate("[...document.querySelectorAll('button')].find(b => b.textContent === 'Edit as JSON').click()")
    browser.has("The draft as JSON")
    browser.evaluate("document.querySelector('dialog textarea').select()")
    browser.type(draft)
    browser.evaluate("document.querySelector('dialog [type=submit]').click()")
    browser.has("hasOwnProperty")
    nothing_got_in(browser, "template")
    browser.shows("!!document.querySelector('[aria-label=\"Edit constructor\"]')")
    browser.evaluate("document.querySelector('[aria-label=\"Edit constructor\"]').click()")
    browser.has("Edit parameter")
    browser.evaluate("document.querySelector('dialog [type=submit]').click()")
    browser.shows("!document.querySelector('dialog')")
    assert json.loads(browser.evaluate("JSON.parse(sessionStorage.getItem('draft demo/firebase')).template && JSON.stringify(JSON.parse(sessionStorage.getItem('draft demo/firebase')).template)"))["parameters"].keys() == {"__proto__", "constructor", "hasOwnProperty", HOSTILE}
    browser.evaluate("[...document.querySelectorAll('button')].find(b => b.textContent === 'Review and publish').click()")
    browser.shows("document.querySelector('dialog .error')?.innerText.includes('is no condition name')")
    nothing_got_in(browser, "the review")


def nothing_got_in(browser, where):
    assert browser.evaluate("document.querySelectorAll('img, main script, dialog script').length") == 0, where
    assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{where} is too wide"


async def test_what_is_wrong_is_said_beside_the_draft(launch, browser, console):
    daemon = launch()
    await daemon.client().publish(BASE)
    browser.excused = ("status of 400",)
    console(daemon, "template")
    browser.evaluate("[...document.querySelectorAll('button')].find(b => b.textContent === 'Edit as JSON').click()")
    browser.has("The draft as JSON")
    browser.evaluate("document.querySelector('dialog textarea').select()")
    browser.type(json.dumps({
        "conditions": [{"name": "JSON Schema", "expression": "false"}],
        "parameters": {"a": {"defaultValue": {"value": "x"}, "valueType": "NUMBER"},
                       "rows": {"defaultValue": {"value": "[7]"}, "valueType": "JSON",
                                "conditionalValues": {"JSON Schema": {"value": '{"items":{"maximum":5}}'}}}}}))
    browser.evaluate("document.querySelector('dialog [type=submit]').click()")
    browser.has("draft:")
    browser.evaluate("[...document.querySelectorAll('button')].find(b => b.textContent === 'Validate').click()")
    browser.shows("document.querySelector('dialog .error')?.innerText ?? ''", lambda text: (
        "'x' is not a number" in text and "breaks its JSON Schema at /0: 7 breaks maximum 5" in text))


@pytest.mark.limit(90)
async def test_what_goes_is_agreed_to_and_what_is_typed_is_not_lost(launch, browser, console):
    daemon = launch()
    await daemon.client().publish(BASE)
    console(daemon, "template")
    browser.evaluate("[...document.querySelectorAll('button')].find(b => b.textContent === 'Edit as JSON').click()")
    browser.has("The draft as JSON")
    browser.evaluate("document.querySelector('dialog textarea').select()")
    browser.type("{}")
    browser.press("Escape")
    browser.has("Throw away what you typed?")
    browser.evaluate("[...document.querySelectorAll('dialog button')].find(b => b.textContent === 'Go on').click()")
    browser.shows("document.querySelectorAll('dialog').length === 1 && document.querySelector('dialog textarea').value === '{}'")
    browser.evaluate("document.querySelector('dialog [type=submit]').click()")
    browser.has("draft:")
    browser.evaluate("[...document.querySelectorAll('button')].find(b => b.textContent === 'Review and publish').click()")
    browser.has("Valid.")
    browser.has("This removes 2 of 2 parameters: a, b.")
    publish = "[...document.querySelectorAll('dialog [type=submit]')].find(b => b.textContent === 'Publish')"
    assert browser.evaluate(f"{publish}.disabled")
    browser.evaluate("[...document.querySelectorAll('dialog .error input')][0].click()")
    assert not browser.evaluate(f"{publish}.disabled")
    go(browser, "now")
    assert browser.evaluate("document.querySelectorAll('dialog').length") == 0, "it belongs to the screen before"


@pytest.mark.limit(90)
async def test_a_large_template_is_compared_once_and_not_for_each_row(launch, browser, console):
    daemon = launch()
    names = [f"c{number}" for number in range(50)]
    await daemon.client().publish({
        "conditions": [{"name": name, "expression": "true"} for name in names],
        "parameters": {f"flag_{number}": {"defaultValue": {"value": "1"}, "conditionalValues": {names[number % 50]: {"value": "2"}}}
                       for number in range(600)}})
    console(daemon, "template")
    browser.has("flag_1")
    browser.evaluate("const stringify = JSON.stringify; window.calls = 0; JSON.stringify = (...all) => { calls += 1; return stringify(...all) }")
    browser.evaluate("(input => { input.value = 'flag_599'; input.dispatchEvent(new Event('input')) })(document.querySelector('input[type=search]'))")
    browser.shows("document.querySelector('table').tBodies[0].rows.length === 1")
    assert browser.evaluate("window.calls") == 0, "a filter changes nothing"
    browser.has("12 parameters")


async def test_the_daemon_restarts_while_the_page_is_open(launch, browser, console):
    daemon = launch()
    await daemon.client().publish(BASE)
    browser.excused = ("ERR_CONNECTION_REFUSED", "ERR_CONNECTION_RESET", "ERR_EMPTY_RESPONSE", "status of 401", "ERR_INCOMPLETE")
    console(daemon, "template")
    edit(browser, "a", "kept")
    go(browser, "now")
    daemon.stop()
    browser.has("disconnected")
    daemon.start()
    browser.shows("!document.body.innerText.includes('disconnected')")
    browser.has("Sign out")
    daemon.stop()
    browser.has("disconnected")
    rotated = subprocess.run([BINARY, "token", "rotate", "--data", daemon.data], env=environment(), capture_output=True, check=False)
    assert rotated.returncode == 0, rotated.stderr
    daemon.start()
    browser.has("Sign in")
    browser.has("A draft you had is kept.")
    browser.shows("document.querySelector('input[type=password]')?.focus() ?? true")
    browser.type(daemon.token)
    browser.press("Enter")
    browser.has("Sign out")
    go(browser, "template")
    browser.has("draft: 1 change")


async def test_an_answer_from_before_a_sign_in_does_not_end_it(launch, browser, console):
    daemon = launch()
    console(daemon)
    assert browser.evaluate(f"""(async () => {{
      const api = await import("/console/api.js"), fetch = window.fetch
      let answer
      window.fetch = () => new Promise(resolve => answer = resolve)
      const late = api.refresh()
      window.fetch = fetch
      await api.signIn({{token: {json.dumps(daemon.token)}, user: "anna"}})
      answer(new Response('{{"signedIn": false}}'))
      await late
      return api.session.signedIn
    }})()""") is True


async def test_an_answer_from_before_a_sign_out_does_not_undo_it(launch, browser, console):
    daemon = launch()
    console(daemon)
    assert browser.evaluate("""(async () => {
      const api = await import("/console/api.js"), fetch = window.fetch, answers = []
      window.fetch = (path, options) =>
        path === "/console/session" ? new Promise(resolve => answers.push(text => resolve(new Response(text)))) : fetch(path, options)
      const late = api.refresh(), end = api.signOut()
      answers[1]("{}")
      while (answers.length < 3) await new Promise(resolve => setTimeout(resolve))
      answers[0]('{"signedIn": true}')
      await late
      answers[2]('{"signedIn": false}')
      await end
      window.fetch = fetch
      return api.session.signedIn
    })()""") is False
