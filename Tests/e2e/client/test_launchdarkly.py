"""Pages with LaunchDarkly's SDK for JavaScript in a real browser. `web/launchdarkly.js` asks what the SDK asks.

`STALECAST_LAUNCHDARKLY_JS=FILE` puts the published SDK in its place: one script that defines `LDClient`, as its package
`launchdarkly-js-client-sdk` has it in `dist`.
"""

import json
import re

import pytest

from harness import configs
from harness.daemon import REPOSITORY, running
from harness.http1 import fetch
from harness.keys import make_key
from harness.pages import sdk_pages
from harness.templates import template
from harness.waiting import eventually

PAGE = REPOSITORY / "deploy/docs/launchdarkly.md"
GRANT = {"actions": ["watch", "fetch"]}
ANNA, PRO = {"kind": "user", "key": "anna"}, {"kind": "user", "key": "bert", "plan": "pro"}
CONDITIONS = [{"name": "pro", "expression": "app.customSignal['plan'].exactlyMatches(['pro'])"}]


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    with sdk_pages(tmp_path_factory, "launchdarkly") as origin:
        yield origin


@pytest.fixture(scope="module")
def daemon(origin, tmp_path_factory):
    settings = configs.config(
        edge={"dialects": ["launchdarkly"], "allowedOrigins": [origin]}, auth={"mode": "enforce"},
        shutdown={"drain": "100ms"})
    with running(tmp_path_factory.mktemp("launchdarkly"), settings) as daemon:
        yield daemon


@pytest.fixture
def page(browser, daemon, origin):
    browser.open(f"{origin}/launchdarkly.html?edge=http://127.0.0.1:{daemon.edge}")
    browser.shows("document.readyState === 'complete' && 'begin' in window")
    yield browser
    browser.evaluate("'client' in window && client.close()")
    browser.call("Page.close")


def begin(page, environment, context, **options):
    page.evaluate(f"begin({json.dumps(environment)}, {json.dumps(context)}, {json.dumps(options)})")


async def publish(daemon, text, paid="paid"):
    return await daemon.publish(template(
        {"welcome": {"defaultValue": {"value": text}, "conditionalValues": {"pro": {"value": paid}}},
         "rows": {"valueType": "NUMBER", "defaultValue": {"value": "20"}}}, conditions=CONDITIONS))


def shows(page, text):
    page.shows("client.variation('welcome', 'none')", lambda seen: seen == text)


@pytest.mark.parametrize("report", (False, True))
async def test_the_sdk_hears_of_publishes_rollbacks_and_restarts(page, daemon, report):
    _, key = await make_key(daemon, GRANT, kind="publishable")
    first = await publish(daemon, "hello")
    begin(page, f"demo~{key}", ANNA, useReport=report, evaluationReasons=True)
    shows(page, "hello")
    assert page.evaluate("client.variation('rows', 0)") == 20
    assert page.evaluate("client.variationDetail('welcome', '').reason") == {"kind": "FALLTHROUGH"}
    page.evaluate(f"client.identify({json.dumps(PRO)})")
    shows(page, "paid")
    page.evaluate("told.length = 0")
    await publish(daemon, "hello", paid="paid more")
    changes = page.shows("told", lambda told: len(told) == 1)[0]
    assert changes == {"welcome": {"current": "paid more", "previous": "paid"}}
    await daemon.client().rollback(first)
    shows(page, "paid")
    assert daemon.stop() == 0
    daemon.start()
    await publish(daemon, "hello", paid="after the restart")
    shows(page, "after the restart")
    assert page.evaluate("failures") == []
    page.evaluate("client.flush()")
    assert await eventually(lambda: daemon.metric("stalecast_dropped_events_total"), 1) >= 1


async def test_a_bad_key_and_an_unknown_environment_are_told_to_the_app(page, daemon):
    _, key = await make_key(daemon, GRANT, kind="publishable")
    for environment, wanted in ((f"demo~{key[:-1]}", "401"), (f"none~{key}", "nvironment")):
        page.evaluate("failures.length = 0")
        begin(page, environment, ANNA)
        page.shows("failures", lambda found: any(wanted in text for text in found))
        assert page.evaluate("client.variation('welcome', 'none')") == "none"
        page.evaluate("client.close()")


async def test_the_sdk_counts_among_the_clients_that_have_a_version(page, daemon):
    _, key = await make_key(daemon, GRANT, kind="publishable")
    await publish(daemon, "one")
    begin(page, f"demo~{key}", {"kind": "user", "key": "carla"})
    shows(page, "one")
    # The page shows what it fetched before its stream is there; and the one of the test before may still end.
    assert await eventually(lambda: daemon.metric("stalecast_streams"), 1) == 1
    await publish(daemon, "two")
    shows(page, "two")

    async def fetched():
        counts = (await daemon.ask_control("/v1/projects/demo/remoteConfig/propagation")).json()["clients"]
        return counts["audience"], counts["fetched"]

    assert await eventually(fetched, (1, 1)) == (1, 1)


async def test_the_example_of_the_documentation_runs(page, daemon, origin):
    text = PAGE.read_text()
    script = re.search(r"```js\n(.*?)```", text, re.DOTALL)[1]
    await publish(daemon, "documented")
    _, key = await make_key(daemon, GRANT, kind="publishable")
    script = script.replace("http://127.0.0.1:8080", f"http://127.0.0.1:{daemon.edge}").replace("'demo'", f"'demo~{key}'")
    page.evaluate(f"(() => {{ window.console.log = (text) => told.push(text); {script.replace('const client', 'window.client')} }})()")
    page.shows("told", lambda told: "paid" in told)
    path = re.search(r"curl http://127.0.0.1:8080(\S+)", text)[1].replace("/demo/", f"/demo~{key}/")
    answer = await fetch(daemon.edge, path)
    assert answer.status == 200 and answer.json()["welcome"]["value"] == "documented"
