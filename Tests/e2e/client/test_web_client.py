"""The client for web pages, as Edge serves it, in a real browser: promises in worlds of their own (`web/cases.js`), and
pages of another origin beside a daemon that asks for keys."""

import contextlib
import json
import re
import time

import pytest

from harness import configs
from harness.authority import Authority
from harness.caches import Cache
from harness.daemon import REPOSITORY, running
from harness.http1 import fetch
from harness.keys import change_key, make_key
from harness.pages import WEB, pages
from harness.receiver import Answer, Receiver
from harness.templates import template
from harness.tokens import Key, auth, good, issuer, key_set

MODULE = REPOSITORY / "Sources/CWebClient/web"
CASES = re.findall(r"^  async (\w+)\(\) {$", (WEB / "cases.js").read_text(), re.MULTILINE)
TEXT = "client.getString('welcome_text')"
GRANT = {"actions": ["watch", "fetch"]}


@pytest.fixture(scope="module")
def origin():
    """Where the pages come from."""
    with pages(WEB) as origin:
        yield origin


@pytest.fixture(scope="module")
def daemon(origin, tmp_path_factory):
    settings = configs.config(edge={"allowedOrigins": [origin], "retry": "100ms"}, auth={"mode": "enforce"})
    with running(tmp_path_factory.mktemp("web"), settings) as daemon:
        yield daemon


@pytest.fixture
def tab(browser, daemon, origin):
    """`tab()` opens a page that has the module; all are gone after the test."""
    opened = []

    def open_():
        opened.append(browser.open(f"{origin}/page.html?edge=http://127.0.0.1:{daemon.edge}"))
        browser.shows("document.title === 'ready'")
        if len(opened) == 1:
            browser.evaluate("localStorage.clear()")
        return opened[-1]

    yield open_
    for page in opened:
        browser.use(page)
        with contextlib.suppress(AssertionError):  # a test may have closed it
            browser.call("Page.close")


@pytest.fixture
def begin(browser, daemon, tab):
    """`begin(**options)` opens a page with a client, `environment` is JavaScript; the answer is for `browser.use`."""

    def begin_(environment="{}", **options):
        page = tab()
        options = {"defaults": {"welcome_text": "default"}, **options}
        browser.evaluate(f"begin({{...{json.dumps(options)}, environment: {environment}}})")
        return page

    return begin_


async def publish(daemon, text):
    return await daemon.publish(template({"welcome_text": text, "rows": "20"}))


async def app_key(daemon):
    return await make_key(daemon, GRANT, kind="publishable")


def state(browser, wanted):
    browser.shows("client.state", lambda state: state == wanted)


def shows(browser, text):
    browser.shows(TEXT, lambda seen: seen == text)


# Worlds of their own

@pytest.fixture(scope="module")
def world(browser, daemon, origin):
    page = browser.open(f"{origin}/page.html?edge=http://127.0.0.1:{daemon.edge}")
    browser.shows("document.title === 'ready'")
    return page


@pytest.mark.parametrize("case", CASES)
def test_promise(browser, world, case):
    browser.use(world)
    outcome = browser.evaluate(f"cases.{case}().then(() => 'kept', (error) => error.stack)")
    assert outcome == "kept", outcome


def test_every_case_runs(browser, world):
    browser.use(world)
    assert browser.evaluate("Object.keys(cases)") == CASES


def test_the_types_name_what_a_client_has(browser, world):
    browser.use(world)
    block = re.search(r"^export interface Client {$(.*?)^}$", (MODULE / "stalecast.d.ts").read_text(), re.MULTILINE | re.DOTALL)
    declared = re.findall(r"^  (?:readonly )?(\w+)[(:]", block[1], re.MULTILINE)
    assert browser.evaluate("Object.keys(makeClient({live: false})).sort()") == sorted(declared)


# Beside a daemon

async def test_a_publish_and_a_rollback_reach_the_page(browser, daemon, begin):
    _, key = await app_key(daemon)
    first = await publish(daemon, "one")
    begin(key=key)
    shows(browser, "one")
    state(browser, "live")
    browser.evaluate("void (told.length = 0)")
    await publish(daemon, "two")
    shows(browser, "two")
    await daemon.rollback(first)
    shows(browser, "one")
    assert browser.evaluate("told") == [["welcome_text"], ["welcome_text"]]
    assert browser.evaluate("[client.getNumber('rows'), client.isStale]") == [20, False]


async def test_a_page_that_loads_anew_has_its_values_at_once_and_fetches_nothing(browser, daemon, begin, tab):
    _, key = await app_key(daemon)
    await publish(daemon, "kept")
    begin(key=key)
    state(browser, "live")
    browser.evaluate("client.close()")
    tab()
    counting = "{fetch: (url, init) => { fetched += init.method === 'POST'; return fetch(url, init) }}"
    script = f"window.fetched = 0; void begin({{key: '{key}', environment: {counting}}}), {TEXT}"
    assert browser.evaluate(script) == "kept"
    state(browser, "live")
    assert browser.evaluate("fetched") == 0
    await publish(daemon, "fresh")
    shows(browser, "fresh")
    assert browser.evaluate("fetched") == 1


async def test_the_daemon_is_killed_and_comes_back(browser, daemon, begin):
    _, key = await app_key(daemon)
    await publish(daemon, "before")
    begin(key=key)
    state(browser, "live")
    daemon.kill()
    state(browser, "waiting")
    daemon.start()
    await publish(daemon, "after")
    shows(browser, "after")
    state(browser, "live")


async def test_an_offline_page_makes_up_for_what_it_missed(browser, daemon, begin):
    _, key = await app_key(daemon)
    await publish(daemon, "online")
    begin(key=key)
    state(browser, "live")
    weather = {"latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
    browser.call("Network.emulateNetworkConditions", offline=True, **weather)
    # Where the machine has no network, the browser tells of no change.
    browser.evaluate("dispatchEvent(new Event('offline'))")
    state(browser, "idle")
    await publish(daemon, "missed")
    browser.call("Network.emulateNetworkConditions", offline=False, **weather)
    browser.evaluate("dispatchEvent(new Event('online'))")
    shows(browser, "missed")
    state(browser, "live")


async def test_a_hidden_page_lets_its_connection_go(browser, daemon, begin):
    _, key = await app_key(daemon)
    await publish(daemon, "seen")
    begin(key=key, hiddenLimit=1)
    state(browser, "live")
    hide = ("Object.defineProperty(document, 'hidden', {configurable: true, get: () => %s});"
            "void document.dispatchEvent(new Event('visibilitychange'))")
    browser.evaluate(hide % "true")
    state(browser, "idle")
    await publish(daemon, "unseen")
    assert browser.evaluate(TEXT) == "seen"
    browser.evaluate(hide % "false")
    shows(browser, "unseen")


async def test_tabs_share_one_connection(browser, daemon, begin):
    _, key = await app_key(daemon)
    await publish(daemon, "one")
    first = begin(key=key)
    state(browser, "live")
    # Its clock is an hour ahead, and then set right: what the other one fetches is not older for that.
    second = begin("{now: () => Date.now() + 3_600_000}", key=key, minimumFetchInterval=1)
    state(browser, "following")
    shows(browser, "one")
    await publish(daemon, "two")
    shows(browser, "two")
    assert browser.evaluate("told") == [["welcome_text"]]
    browser.use(first)
    shows(browser, "two")
    browser.call("Page.close")
    browser.use(second)
    state(browser, "live")
    await publish(daemon, "three")
    shows(browser, "three")


async def test_where_no_stream_comes_through_polls_bring_the_news(browser, daemon, begin):
    _, key = await app_key(daemon)
    await publish(daemon, "one")
    portal = "new Response('<html>', {headers: {'Content-Type': 'text/html'}})"
    begin("{random: () => 0, fetch: (url, init) => url.pathname === '/v1/events' ? "
          f"Promise.resolve({portal}) : fetch(url, init)}}", key=key)
    state(browser, "polling")
    await publish(daemon, "polled")
    shows(browser, "polled")


async def test_refusals_and_another_key(browser, daemon, begin):
    await publish(daemon, "one")
    _, blind = await make_key(daemon, {"actions": ["fetch"]}, kind="publishable")
    begin(key=blind)
    assert browser.shows("states.at(-1)", lambda seen: seen and seen[1]) == ["waiting", 403]
    assert browser.evaluate(TEXT) == "one", "what it may fetch it has"
    begin(key="stc_p_nobody")
    assert browser.shows("states.at(-1)", lambda seen: seen and seen[1]) == ["waiting", 401]
    number, old = await make_key(daemon, GRANT)
    _, new = await make_key(daemon, GRANT)
    begin(live=False, key=blind)
    ask = "() => keys.length > 1 ? keys.pop() : keys[0]"
    browser.evaluate(f"window.keys = ['{new}', '{old}']; void begin({{token: {ask}}})")
    state(browser, "live")
    assert (await change_key(daemon, number, "revoke")).status == 200
    await publish(daemon, "renewed")
    shows(browser, "renewed")


class Accounts:
    """An issuer at work: the daemon asks it for its keys over TLS, pages ask it for tokens that end after `life` seconds, at
    most 1 s sooner. `key` signs; where nobody `is_signed_in` there are no tokens."""

    def __init__(self, directory):
        self.key, self.life, self.given, self.is_signed_in = Key(), 600, 0, True
        keys = Answer(200, body=key_set(self.key))
        self.keys = Receiver(lambda _: keys, tls=Authority(directory).server("127.0.0.1"))
        self.desk = Receiver(self.token)
        self.entry = issuer(f"{self.keys.url}/keys", caFile=str(directory / "ca.pem"))

    def token(self, _):
        for_pages = (("Access-Control-Allow-Origin", "*"),)
        if not self.is_signed_in:
            return Answer(403, for_pages)
        self.given += 1
        return Answer(200, for_pages, self.key.token(good(exp=int(time.time()) + self.life)).encode())


@pytest.fixture
def accounts(tmp_path):
    accounts = Accounts(tmp_path)
    with accounts.keys, accounts.desk:
        yield accounts


@pytest.fixture
def signed_in(browser, launch, origin, accounts):
    """`signed_in()` is a daemon that knows the issuer, and a page beside it that asks the issuer for its tokens."""

    async def open_(text):
        sections = {"auth": auth(accounts.entry, allowedAddresses=["127.0.0.0/8"])}
        daemon = launch(configs.config(edge={"allowedOrigins": [origin], "retry": "100ms"}, **sections))
        await publish(daemon, text)
        browser.open(f"{origin}/page.html?edge=http://127.0.0.1:{daemon.edge}")
        browser.shows("document.title === 'ready'")
        ask = f"async () => {{ const answer = await fetch('{accounts.desk.url}'); if (answer.ok) return answer.text() }}"
        browser.evaluate(f"void begin({{token: {ask}, environment: {{random: () => 0}}}})")
        return daemon

    return open_


async def test_tokens_of_an_issuer_expire_and_no_message_is_lost(browser, accounts, signed_in):
    accounts.life = 3
    daemon = await signed_in("0")
    state(browser, "live")
    number = 0
    while accounts.given < 3:
        number += 1
        await publish(daemon, str(number))
        shows(browser, str(number))
    assert browser.evaluate("told").count(["welcome_text"]) == number
    # Who signed out of the issuer is told so, and misses nothing once they are back.
    accounts.is_signed_in = False
    browser.shows("states.at(-1)", lambda seen: seen == ["waiting", 401])
    await publish(daemon, "missed")
    assert browser.evaluate(TEXT) == str(number)
    accounts.is_signed_in = True
    shows(browser, "missed")
    state(browser, "live")


async def test_a_token_that_is_refused_is_an_error_until_a_good_one_comes(browser, accounts, signed_in):
    known, accounts.key = accounts.key, Key()
    await signed_in("one")
    browser.shows("states.at(-1)", lambda seen: seen == ["waiting", 401])
    assert browser.evaluate("client.fetch().catch(({status, message}) => [status, message.slice(0, 5)])") == [401, "401: "]
    assert browser.evaluate(f"[{TEXT}, client.isStale]") == ["", True]
    accounts.key = known
    shows(browser, "one")
    state(browser, "live")


async def test_what_is_served_is_what_the_package_has(daemon):
    answer = await fetch(daemon.edge, "/v1/client/stalecast.js")
    assert answer.status == 200
    module = (MODULE / "stalecast.js").read_text()
    lines = [line for line in module.splitlines() if not line.lstrip().startswith("//")]
    # Which blanks may go is shown by tests of their own, and by the pages here.
    assert "".join(answer.body.decode().split()) == "".join("".join(lines).split())
    package = json.loads((MODULE / "package.json").read_text())
    assert all((MODULE / name).exists() for name in package["files"])
    assert f'version = "{package["version"]}"' in module
    assert (await daemon.status())["version"].startswith(package["version"])


@pytest.mark.limit(60)
@pytest.mark.parametrize("kind", ("nginx", "varnish"))
async def test_a_page_follows_through_a_cache(browser, origin, launch, tool, tmp_path, kind):
    daemon = launch(configs.config(edge={"allowedOrigins": [origin]}))
    first = await publish(daemon, "one")
    cache = Cache(kind, tool, tmp_path, daemon.edge)
    try:
        assert await cache.up() == 200
        pages = []
        for _ in range(2):
            pages.append(browser.open(f"{origin}/page.html?edge=http://127.0.0.1:{cache.port}"))
            browser.shows("document.title === 'ready'")
            browser.evaluate("localStorage.clear()")
            counting = "{storage: {getItem: () => null, setItem: () => {}}, fetch: (url, init) => { asked.push(String(url)); return fetch(url, init) }}"
            browser.evaluate(f"window.asked = [], void begin({{project: 'demo', cdn: true, pollWait: 3000, environment: {counting}}})")
            shows(browser, "one")
            state(browser, "polling")
        await publish(daemon, "two")
        for page in pages:
            browser.use(page)
            shows(browser, "two")
        await daemon.rollback(first)
        for page in pages:
            browser.use(page)
            shows(browser, "one")
            asked = browser.evaluate("asked")
            assert not any("client=" in url or ":fetch" in url or "events" in url for url in asked), asked
            assert [url.rpartition("version=")[2] for url in asked if "/config?" in url] == ["1", "2", "3"]
            browser.evaluate("client.close()")
    finally:
        cache.stop()
