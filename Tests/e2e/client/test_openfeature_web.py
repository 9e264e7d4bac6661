"""Pages with OpenFeature's SDK for the web in a real browser. `web/openfeature.js` asks what its OFREP provider asks.

`STALECAST_OPENFEATURE_JS=FILE` puts the published packages in its place: one script that defines `OpenFeatureWeb` with the
exports of `@openfeature/web-sdk` and `@openfeature/ofrep-web-provider`, as a bundler makes it of them.
"""

import json
import time

import pytest

from harness import configs
from harness.daemon import running
from harness.faulty_network import FaultyNetwork
from harness.keys import make_key
from harness.pages import sdk_pages
from harness.templates import template

GRANT = {"actions": ["watch", "fetch"]}
CONDITIONS = [{"name": "pro", "expression": "app.customSignal['plan'].exactlyMatches(['pro'])"}]


@pytest.fixture(scope="module")
def origin(tmp_path_factory):
    with sdk_pages(tmp_path_factory, "openfeature") as origin:
        yield origin


@pytest.fixture(scope="module")
def daemon(origin, tmp_path_factory):
    settings = configs.config(
        edge={"allowedOrigins": [origin], "retry": "500ms"}, auth={"mode": "enforce"}, shutdown={"drain": "100ms"})
    with running(tmp_path_factory.mktemp("openfeature"), settings) as daemon:
        yield daemon


@pytest.fixture
def page(browser, origin):
    opened = []

    def open_page(edge, key, **context):
        browser.open(f"{origin}/openfeature.html?edge={edge}")
        opened.append(browser.shows("document.readyState === 'complete' && 'begin' in window"))
        browser.evaluate(f"begin({json.dumps(key)}, {json.dumps(context)})")
        return browser

    yield open_page
    if opened:
        browser.evaluate("'provider' in window && provider.onClose()")
        browser.call("Page.close")


async def publish(daemon, text, paid="paid"):
    return await daemon.publish(template(
        {"welcome": {"defaultValue": {"value": text}, "conditionalValues": {"pro": {"value": paid}}},
         "rows": {"valueType": "NUMBER", "defaultValue": {"value": "20"}},
         "beta": {"valueType": "BOOLEAN", "defaultValue": {"value": "true"}},
         "screens": {"valueType": "JSON", "defaultValue": {"value": '{"home":["a",1]}'}}}, conditions=CONDITIONS))


def shows(page, text):
    page.shows("client.getStringValue('welcome', 'none')", lambda seen: seen == text)


async def test_a_provider_hears_of_publishes_rollbacks_and_restarts(page, daemon):
    _, key = await make_key(daemon, GRANT, kind="publishable")
    first = await publish(daemon, "hello")
    page = page(f"http://127.0.0.1:{daemon.edge}", key, targetingKey="anna")
    shows(page, "hello")
    assert page.evaluate("client.getNumberValue('rows', 0)") == 20
    assert page.evaluate("client.getBooleanValue('beta', false)") is True
    assert page.evaluate("client.getObjectValue('screens', {})") == {"home": ["a", 1]}
    assert page.evaluate("client.getStringDetails('none', '').errorCode") == "FLAG_NOT_FOUND"
    page.evaluate("OpenFeature.setContext({targetingKey: 'bert', plan: 'pro'}).then(() => true)")
    shows(page, "paid")
    page.evaluate("told.length = 0")
    before = time.time() * 1000
    await publish(daemon, "hello", paid="paid more")
    event = page.shows("told", lambda told: len(told) > 0)[0]
    print(f"a change event {event['at'] - before:.0f} ms after the publish began")
    assert event["keys"] == ["welcome"]
    shows(page, "paid more")
    await daemon.client().rollback(first)
    shows(page, "paid")
    assert daemon.stop() == 0
    daemon.start()
    await publish(daemon, "hello", paid="after the restart")
    shows(page, "after the restart")


async def test_a_version_that_was_missed_is_fetched_after_the_reconnect(page, daemon):
    _, key = await make_key(daemon, GRANT, kind="publishable")
    await publish(daemon, "before")
    with FaultyNetwork(daemon.edge) as network:
        page = page(network.url, key, targetingKey="carla")
        shows(page, "before")
        # One message, so that the stream has an id to come back with.
        await publish(daemon, "connected")
        shows(page, "connected")
        network.mode = "reset"
        await publish(daemon, "while it was away")
        network.mode = "pass"
        shows(page, "while it was away")


async def test_a_provider_with_a_bad_key_fails_and_keeps_the_apps_values(page, daemon):
    _, key = await make_key(daemon, GRANT, kind="publishable")
    page = page(f"http://127.0.0.1:{daemon.edge}", key[:-1], targetingKey="dora")
    page.shows("'failure' in window && 'client' in window")
    assert page.evaluate("client.getStringValue('welcome', 'none')") == "none"
