"""Every sample, run as its reader runs it, against a daemon on which something is published meanwhile."""

import asyncio
import base64
import importlib
import json
import queue
import re
import subprocess
import time

import pytest

from harness import configs, programs
from harness.daemon import environment
from harness.keys import change_key, make_key
from harness.programs import SAMPLES
from harness.templates import template

TEMPLATES = SAMPLES / "templates"


@pytest.fixture(scope="module")
def built(once):
    return programs.built(once)


class Sample:
    """A sample under way; its lines are read as they come."""

    def __init__(self, daemon, cache):
        self.process = None
        self.lines = []
        self.settings = {"STALECAST_ENDPOINT": f"http://127.0.0.1:{daemon.edge}", "STALECAST_CACHE": str(cache)}

    def start(self, *command):
        self.process = subprocess.Popen([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                        text=True, env=environment(**self.settings))

    async def line(self, part, within=20):
        """The next line that contains `part`."""
        async with asyncio.timeout(within):
            while True:
                line = await asyncio.to_thread(self.process.stdout.readline)
                assert line, f"ended before {part!r}: {self.lines}"
                self.lines.append(line.rstrip())
                if part in line:
                    return self.lines[-1]

    async def ends(self, within=20):
        rest, _ = await asyncio.to_thread(self.process.communicate, timeout=within)
        self.lines += rest.splitlines()
        return self.process.returncode

    def dispose(self):
        if self.process:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def sample(daemon, tmp_path):
    asyncio.run(publish(daemon, "demo.json"))
    running = Sample(daemon, tmp_path / "cache")
    yield running
    running.dispose()


@pytest.fixture(params=["engine"])
def half(request):
    """The other half of Edge has its own tests."""
    return request.param


async def publish(daemon, name):
    await daemon.publish(json.loads((TEMPLATES / name).read_text()))


async def test_quickstart(built, sample, daemon):
    sample.start(f"{built}/Quickstart", "--changes", "1")
    assert "Welcome" in await sample.line("home screen")
    assert "version 1" in await sample.line("fetched")
    assert '"Hello", 20 rows, no banner' in await sample.line("home screen")
    await sample.line("listening")
    await publish(daemon, "demo-winter.json")
    assert "banner" in await sample.line("version 2 changed")
    assert '"Hello, winter"' in await sample.line("home screen")
    assert await sample.ends() == 0, sample.lines


async def test_realtime_propagation(built, sample, daemon):
    sample.start(f"{built}/RealtimePropagation", "--changes", "1")
    assert "active version 1" in await sample.line("fetch:")
    await sample.line("subscribed")
    await publish(daemon, "demo-winter.json")
    assert "version 2" in await sample.line("CONFIG_STATE=STALE, version 2")
    assert "the flag was set; active version 2, new" in await sample.line("fetch:")
    await sample.line("welcome_text = Hello, winter")
    assert await sample.ends() == 0, sample.lines


async def test_config_helper_tells_only_who_is_concerned(built, sample, daemon):
    sample.start(f"{built}/ConfigHelper", "--changes", "1")
    await sample.line("paywall: Premium")
    await sample.line("listening")
    await publish(daemon, "demo-winter.json")
    await sample.line("paywall: Plus for 3.99")
    assert await sample.ends() == 0, sample.lines
    assert sum("onboarding: 3 pages" in line for line in sample.lines) == 1


@pytest.mark.parametrize(("version", "first", "then"), [
    ("1.3", "none", "none"), ("1.0.5", "recommend", "force"), ("0.9", "force", "force"), ("1.10", "none", "none"),
])
async def test_force_update(built, sample, daemon, version, first, then):
    sample.settings["APP_VERSION"] = version
    sample.start(f"{built}/ForceUpdate", "--changes", "1")
    await sample.line(f"update {first}")
    await publish(daemon, "demo-winter.json")
    await sample.line(f"update {then}")
    assert await sample.ends() == 0, sample.lines


async def test_update_behaviours(built, sample, daemon):
    sample.start(f"{built}/UpdateBehaviours", "--changes", "1")
    await sample.line("at start: actual Hello | default Hello | snapshot Hello")
    await publish(daemon, "demo-winter.json")
    await sample.line("the objects read at start: actual Hello | default Hello, winter | snapshot Hello")
    await sample.line("asked again: actual Hello, winter | default Hello, winter | snapshot Hello")
    assert await sample.ends() == 0, sample.lines


async def test_without_a_server_the_defaults_count(built, sample, daemon):
    sample.settings["STALECAST_ENDPOINT"] = "http://127.0.0.1:9"
    sample.start(f"{built}/Quickstart")
    await sample.line("running on what is known")
    assert "Welcome" in await sample.line("home screen")


async def test_wrong_arguments_are_explained(built, sample, daemon):
    sample.start(f"{built}/Quickstart", "--changes", "many")
    await sample.line("--changes needs a number")
    assert await sample.ends() == 64


async def test_python(sample, daemon):
    sample.start("python3", SAMPLES / "python" / "watch.py", f"http://127.0.0.1:{daemon.edge}", "--changes", "1")
    assert '"welcome_text"' in await sample.line("version 1"), "the values are there before anything is published"
    await sample.line("listening")
    while await daemon.metric("stalecast_streams") < 1:
        await asyncio.sleep(0.01)
    await publish(daemon, "demo-winter.json")
    assert '"welcome_text": "Hello, winter"' in await sample.line("version 2")
    assert await sample.ends() == 0, sample.lines


async def test_curl(sample, daemon):
    sample.start(SAMPLES / "curl" / "recipes.sh", f"http://127.0.0.1:{daemon.edge}")
    assert await sample.ends() == 0, sample.lines
    text = "\n".join(sample.lines)
    assert '"CONFIG_STATE":"STALE"' in text and '"state":"UPDATE"' in text and "event: synced" in text


STATE = "document.getElementById('state')?.textContent"
VALUES = "document.getElementById('values')?.textContent"


@pytest.fixture
def page(browser):
    """`page(daemon)` opens the web sample as it is, from disk, in a real browser."""

    def open_(daemon):
        sample = (SAMPLES / "web" / "index.html").as_uri()
        browser.open(f"{sample}?endpoint=http://127.0.0.1:{daemon.edge}")
        return browser

    return open_


async def shows(browser, script, holds, within=30):
    """The value of an expression in the page once it is as wanted."""
    deadline = time.monotonic() + within
    while not holds(seen := browser.evaluate(script)):
        assert time.monotonic() < deadline, f"the page shows {seen!r}"
        await asyncio.sleep(0.02)
    return seen


@pytest.mark.limit(120)
async def test_web(launch, page):
    daemon = launch(configs.config(edge={"allowedOrigins": ["*"]}))
    await publish(daemon, "demo.json")
    browser = page(daemon)
    await shows(browser, STATE, lambda state: state == "live")
    heading = "document.getElementById('welcome').textContent"
    await shows(browser, heading, lambda text: text == "Hello")
    await shows(browser, VALUES, lambda text: "max_items" in text and "winter" not in text)
    await publish(daemon, "demo-winter.json")
    await shows(browser, heading, lambda text: text == "Hello, winter")
    marked = browser.evaluate("[...document.querySelectorAll('.new')].map(row => row.cells[0].textContent)")
    assert {"welcome_text", "banner"} <= set(marked) and "max_items" not in marked
    daemon.kill()
    await shows(browser, STATE, lambda state: state != "live")
    daemon.start()
    await publish(daemon, "demo.json")
    await shows(browser, heading, lambda text: text == "Hello")
    await shows(browser, STATE, lambda state: state == "live")


@pytest.mark.limit(60)
async def test_web_says_what_to_do_when_it_is_refused(launch, page):
    browser = page(launch())
    await shows(browser, STATE, lambda state: state and "edge.allowedOrigins" in state)


# Stands for Firebase's SDK, which lies at Google's: asks for an installation with `fetch` and for values at the base that
# the page sets, as the SDK does.
FIREBASE = """
export const initializeApp = options => options;
export const getRemoteConfig = app => ({app, settings: {}, entries: {}});
export const getAll = config => Object.fromEntries(
  Object.entries(config.entries).map(([key, value]) => [key, {asString: () => value}]));
export const activate = async () => true;
export const onConfigUpdate = () => {};
const post = async (url, body) => (await fetch(url, {method: "POST", body: JSON.stringify(body)})).json();
export const fetchAndActivate = async config => {
  const {projectId, appId} = config.app;
  const made = await post(`https://firebaseinstallations.googleapis.com/v1/projects/${projectId}/installations`,
    {fid: "cAAAAAAAAAAAAAAAAAAAAA", authVersion: "FIS_v2", appId, sdkVersion: "w:1"});
  const base = `${window.FIREBASE_REMOTE_CONFIG_URL_BASE}/v1/projects/${projectId}/namespaces/firebase`;
  const answer = await post(`${base}:fetch`,
    {app_id: appId, app_instance_id: made.fid, app_instance_id_token: made.authToken.token});
  config.entries = answer.entries;
};
"""


@pytest.mark.limit(60)
async def test_the_page_with_firebases_sdk_is_redirected(launch, browser, tmp_path):
    daemon = launch(configs.config(edge={"allowedOrigins": ["*"]}))
    await publish(daemon, "demo.json")
    text, count = re.subn(r"https://www\.gstatic\.com/firebasejs/[0-9.]+/firebase-(app|remote-config)\.js",
                          "data:text/javascript;base64," + base64.b64encode(FIREBASE.encode()).decode(),
                          (SAMPLES / "web" / "firebase.html").read_text())
    assert count == 2
    (tmp_path / "firebase.html").write_text(text)
    browser.open(f"{(tmp_path / 'firebase.html').as_uri()}?edge=http://127.0.0.1:{daemon.edge}")
    assert await shows(browser, STATE, lambda state: state not in (None, "fetching")) == "live"
    assert "Hello" in browser.evaluate("document.getElementById('values').textContent")


# The client for Python

@pytest.fixture
def client(monkeypatch):
    """The module of samples/python; clients that it made are closed."""
    monkeypatch.syspath_prepend(str(SAMPLES / "python"))
    module = importlib.import_module("stalecast")
    made = []

    def make(*words, **settings):
        made.append(module.Client(*words, **settings))
        return made[-1]

    yield make
    for one in made:
        one.close()


async def test_pythons_client(launch, client, tmp_path):
    daemon = launch(configs.config(edge={"retry": "100ms"}, auth={"mode": "enforce"}))
    first, old = await make_key(daemon, {"actions": ["watch", "fetch"]})
    _, new = await make_key(daemon, {"actions": ["watch", "fetch"]})
    keys, changes, problems = [new, old], queue.Queue(), []
    settings = {"defaults": {"title": "default", "rows": 5, "dark": True}, "cache": tmp_path / "cache.json"}
    address = f"http://127.0.0.1:{daemon.edge}"
    await daemon.publish(template({"title": "one", "rows": "20"}))
    config = client(address, token=lambda: keys.pop() if len(keys) > 1 else keys[0], on_error=problems.append, **settings)
    assert await asyncio.to_thread(config.wait, 20), problems
    assert (config.get_string("title"), config.get_number("rows"), config.get_boolean("dark"), config.version) == ("one", 20, True, 1)
    assert config.get_value("dark") == ("true", "default") and config.get_value("none") == ("", "static")
    config.on_update(lambda keys: changes.put((keys, config.get_string("title"))))

    async def changed():
        return await asyncio.to_thread(changes.get, timeout=20)

    await daemon.publish(template({"title": "two", "rows": "20"}))
    assert await changed() == (["title"], "two")
    assert (await change_key(daemon, first, "revoke")).status == 200
    await daemon.rollback(1)
    assert await changed() == (["title"], "one"), "with the other key"
    daemon.kill()
    daemon.start()
    await daemon.publish(template({"title": "four"}))
    assert await changed() == (["rows", "title"], "four")
    config.close()
    daemon.kill()
    again = client(address, **settings)
    assert (again.get_string("title"), again.version) == ("four", 4), "what the last run fetched, without a server"
