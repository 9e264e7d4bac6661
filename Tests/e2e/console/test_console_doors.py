"""Who gets in, and who does not: codes, cookies, other origins, other hosts, frames, guesses."""

import json
import time

from harness.cli import Cli
from harness.control import Control
from harness.http1 import exchange


def test_the_command_prints_an_address_that_signs_in_once(launch, browser):
    daemon = launch()
    said = Cli(daemon)("console", "--no-open")
    url = said.splitlines()[0]
    assert url.startswith(f"http://127.0.0.1:{daemon.control}/console/#code=")
    browser.excused = ("status of 401",)
    browser.open(url)
    browser.has("Sign out")
    assert browser.evaluate("location.href").startswith(f"http://127.0.0.1:{daemon.control}/console/#/now") or "#" not in browser.evaluate("location.href")
    assert browser.evaluate("document.cookie") == "", "no script sees it"
    browser.evaluate("[...document.querySelectorAll('button')].find(b => b.textContent === 'Sign out').click()")
    browser.has("Token or key")
    browser.open(url)
    browser.has("opens nothing")


def test_another_origins_page_can_do_nothing(launch, browser, tmp_path, console):
    """`localhost` and 127.0.0.1 are two sites; another port of one is the same site and another origin."""
    import functools
    import http.server
    import threading

    daemon = launch()
    console(daemon)
    (tmp_path / "www").mkdir()
    (tmp_path / "www/index.html").write_text("<!doctype html><link rel=icon href=data:,><title>other</title>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path / "www"))
    handler.log_message = lambda *_: None
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.excused = ("CORS", "ERR_FAILED", "status of 403", "frame-ancestors", "X-Frame-Options", "ERR_BLOCKED_BY_RESPONSE", "Framing")
        browser.open(f"http://127.0.0.1:{server.server_port}/")
        browser.shows("document.title === 'other'")
        url = f"http://127.0.0.1:{daemon.control}"
        put = f"""fetch('{url}/v1/projects/demo/remoteConfig:rollback?versionNumber=1', {{method: 'POST', mode: 'no-cors',
            credentials: 'include'}}).then(a => a.type, e => 'refused')"""
        browser.evaluate(put)
        read = f"fetch('{url}/status', {{credentials: 'include'}}).then(a => a.text(), e => 'refused')"
        assert browser.evaluate(read) == "refused"
        browser.evaluate(f"""new Promise(done => {{ const f = document.createElement('iframe'); f.src = '{url}/console/';
            f.onload = () => done(true); document.body.append(f); setTimeout(done, 3000) }})""")
        assert browser.evaluate("(() => { try { return document.querySelector('iframe').contentDocument === null } catch { return true } })()")
        server.shutdown()
    refused = [line for line in Cli(daemon)("audit", "show", "--json").splitlines() if "rollback" in line]
    assert not refused, "it never came as far as the audit log"


async def test_a_rebound_name_reaches_nothing(launch):
    daemon = launch()

    async def ask(path, host):
        request = f"GET {path} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {daemon.token}\r\nConnection: close\r\n\r\n"
        answer, _ = await exchange(daemon.control, request.encode())
        return int(answer.split(b" ")[1])

    for path in ("/console/", "/status", "/v1/projects/demo/topics"):
        assert await ask(path, f"evil.example:{daemon.control}") == 421, path
        assert await ask(path, f"localhost:{daemon.control}") == 200, path


def test_a_rebound_page_is_not_shown(launch, browser):
    daemon = launch()
    browser.excused = ("status of 421",)
    browser.open(f"http://evil.localhost:{daemon.control}/console/")
    browser.has("does not answer for that host")


async def test_ten_wrong_codes_are_enough(launch):
    daemon = launch()
    control = Control(daemon.control, None)
    for _ in range(10):
        assert (await control.call("POST", "/console/session", b'{"code": "0"}')).status == 401
    answer = await control.call("POST", "/console/session", json.dumps({"token": daemon.token}).encode())
    assert answer.status == 429 and answer.header("retry-after") == "60"


async def test_who_may_read_nothing_does_not_sign_in(launch):
    daemon = launch()
    made = Cli(daemon).json("keys", "create", "--name", "app", "--action", "watch", "--action", "fetch")
    answer = await Control(daemon.control, None).call(
        "POST", "/console/session", json.dumps({"token": made["key"]}).encode())
    assert answer.status == 401 and answer.header("set-cookie") is None


async def test_a_revoked_keys_session_ends_with_it(launch, browser):
    daemon = launch()
    cli = Cli(daemon)
    made = cli.json("keys", "create", "--name", "publisher", "--role", "publisher")
    control = Control(daemon.control, made["key"])
    code = json.loads((await control.call("POST", "/console/code")).body)["path"]
    browser.excused = ("status of 401", "status of 404")
    browser.open(f"http://127.0.0.1:{daemon.control}{code}")
    browser.has("Sign out")
    cli("keys", "revoke", made["id"])
    browser.has("The session is over")


def test_a_hidden_page_asks_for_nothing(launch, browser, console):
    daemon = launch()
    page = console(daemon)
    # The clock does not wait for answers: a step, then time for them to come.
    asked, end = [], time.monotonic() + 20
    while len(asked) < 5:
        assert time.monotonic() < end, asked
        asked += browser.advance(5)
        browser.hear(0.1)
    browser.open("about:blank")
    browser.call("Page.bringToFront")
    browser.use(page)
    browser.shows("document.hidden")
    browser.advance(1)
    browser.hear(1)  # answers under way: without them no timer runs, and nothing could be seen
    assert browser.advance(60) == []


# Until `isAway` is false no request of the page reaches the daemon.
AWAY = """{ const plain = window.fetch.bind(window); window.isAway = true
    window.fetch = (...all) => window.isAway ? Promise.reject(new TypeError('away'))
        : plain(...all).then(answer => { window.isAnswered = true; return answer }) }"""


def test_a_page_that_was_opened_in_an_outage_goes_on_after_it(launch, browser, console):
    daemon = launch()
    console(daemon)
    browser.call("Page.addScriptToEvaluateOnNewDocument", source=AWAY)
    browser.reload()
    said = "document.querySelector('.gate [role=status]')?.textContent ?? ''"
    browser.shows(said, lambda text: text.startswith("The daemon does not answer"))
    browser.evaluate("window.isAway = false")
    browser.has("Sign out")
    sign_out = "[...document.querySelectorAll('button')].find(b => b.textContent === 'Sign out').click()"
    # The cookie is still good then, but who left is not signed in again.
    browser.evaluate(f"window.isAway = true, window.isAnswered = false, {sign_out}")
    browser.has("You are signed out.")
    browser.evaluate("window.isAway = false")
    browser.shows("window.isAnswered")
    browser.hear(0.5)
    browser.has("You are signed out.")
    browser.reload()
    browser.shows(said, lambda text: text.startswith("The daemon does not answer"))
    browser.evaluate("window.isAway = false")
    browser.has("Sign out")
    browser.evaluate(sign_out)
    browser.has("You are signed out.")
    browser.reload()
    browser.shows(said, lambda text: text.startswith("The daemon does not answer"))
    browser.evaluate("window.isAway = false")
    browser.shows(said, lambda text: text == "")
    browser.has("Token or key")
