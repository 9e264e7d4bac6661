"""The auth hook: a backend says whose a request is; what it does not say in time is not so."""

import asyncio
import http.server
import json
import threading
import time
from datetime import datetime, timedelta, timezone

import pytest

from harness import configs
from harness.http1 import fetch
from harness.keys import bearer, make_key
from harness.sse import Stream
from harness.templates import marked
from harness.waiting import eventually

PAGE = "https://shop.example"
WATCH = [{"actions": ["watch"], "projects": ["demo"]}]


class Backend:
    """Knows sessions by their cookie; keeps what it was asked."""

    def __init__(self):
        self.asked, self.times, self.answers, self.delay = [], [], {}, 0
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.times.append(time.monotonic())
                outer.asked.append((self.path, dict(self.headers)))
                time.sleep(outer.delay)
                status, body = outer.answers.get(self.headers.get("cookie"), (401, b""))
                try:
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            request_queue_size = 256

        self.server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def knows(self, cookie, subject="ann", status=200, **more):
        self.answers[cookie] = (status, json.dumps({"subject": subject, "grants": WATCH, **more}).encode())


@pytest.fixture
def backend():
    found = Backend()
    yield found
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def guarded(launch, half, backend):
    hook = {"url": f"http://127.0.0.1:{backend.server.server_port}/whois", "headers": ["cookie", "x-session"]}
    return launch(configs.config(half, edge={"allowedOrigins": [PAGE]}, auth={
        "mode": "enforce", "allowedAddresses": ["127.0.0.1"], "hook": hook}), half=half)


async def poll(daemon, *headers, topic="PUSH_RC"):
    return (await fetch(daemon.edge, f"/v1/poll?topic={topic}&wait=0s", headers=headers)).status


@configs.one_half
async def test_who_the_backend_names_gets_in(guarded, backend):
    backend.knows("sid=1", expiresAt=(datetime.now(timezone.utc) + timedelta(seconds=4)).isoformat())
    stream = await Stream.open(guarded.edge, headers=[("Cookie", "sid=1"), ("User-Agent", "secret")])
    await stream.synced()
    version = await guarded.publish(marked("one"))
    await stream.version_at_least(version)
    [(path, seen)] = backend.asked
    assert path == "/whois" and "User-Agent" not in seen and "user-agent" not in seen
    assert {name.lower() for name in seen} <= {"host", "accept", "cookie"}
    await stream.until(lambda s: s.ended, timeout=10, what="the end that the backend said")
    assert b'"expired"' in stream.raw
    assert "sid=1" not in guarded.log_text()


@configs.one_half
async def test_what_is_not_a_yes_is_a_no(guarded, backend):
    good = {"subject": "ann", "grants": WATCH}
    backend.answers |= {
        "none": (401, b""), "forbidden": (403, b""), "down": (500, b""), "redirect": (302, b""),
        "html": (200, b"<html>"), "empty": (200, b""), "no grants": (200, b'{"subject":"ann"}'),
        "odd": (200, json.dumps({**good, "grants": [{"actions": ["everything"]}]}).encode()),
        "nobody": (200, json.dumps({**good, "subject": ""}).encode()),
        "late": (200, json.dumps({**good, "expiresAt": "2020-01-01T00:00:00Z"}).encode()),
        "when": (200, json.dumps({**good, "expiresAt": 12}).encode()),
        "large": (200, json.dumps({**good, "x": "y" * 70_000}).encode()),
        "other": (200, json.dumps({**good, "grants": [{"actions": ["fetch"]}]}).encode()),
    }
    found = {cookie: await poll(guarded, ("Cookie", cookie)) for cookie in [*backend.answers, "unknown"]}
    assert found == {**{cookie: 503 for cookie in backend.answers}, "none": 401, "forbidden": 401, "unknown": 401,
                     "late": 401, "other": 403}
    assert await poll(guarded) == 401 and len(backend.asked) == len(found)


@configs.one_half
async def test_an_answer_is_kept_as_long_as_it_says(guarded, backend):
    backend.knows("kept", cacheFor=300)
    backend.knows("fresh")
    for cookie, times in (("kept", 1), ("fresh", 3)):
        backend.asked.clear()
        assert [await poll(guarded, ("Cookie", cookie)) for _ in range(3)] == [200] * 3
        assert len(backend.asked) == times, cookie
    backend.asked.clear()
    assert await poll(guarded, ("Cookie", "kept"), ("X-Session", "other")) == 200, "another question"
    assert len(backend.asked) == 1


@configs.one_half
async def test_a_slow_backend_is_not_waited_for_and_not_flooded(guarded, backend):
    backend.delay = 3
    backend.knows("slow", cacheFor=60)
    answers = await asyncio.gather(*(poll(guarded, ("Cookie", "slow")) for _ in range(20)))
    # A client that had waited for the backend's yes would have been admitted.
    assert set(answers) == {503} and len(backend.asked) == 1
    backend.times.clear()
    answers = await asyncio.gather(*(poll(guarded, ("Cookie", f"sid={number}")) for number in range(100)))
    assert set(answers) == {503} and 0 < sum(at < backend.times[0] + 0.9 for at in backend.times) <= 64
    stream = await fetch(guarded.edge, "/v1/events?topic=PUSH_RC", headers=[("Cookie", "x")])
    assert stream.status == 200 and b"retry:" in stream.body and b"event" not in stream.body
    assert await eventually(lambda: poll(guarded), 401) == 401


@configs.one_half
async def test_all_who_come_at_once_get_their_turn(guarded, backend):
    backend.delay = 0.05
    for number in range(300):
        backend.knows(f"sid={number}")
    answers = await asyncio.gather(*(poll(guarded, ("Cookie", f"sid={number}")) for number in range(300)))
    assert set(answers) == {200} and len(backend.asked) == 300


@configs.one_half
async def test_known_credentials_are_not_asked_about(guarded, backend):
    _, secret = await make_key(guarded, WATCH[0])
    backend.knows("sid=1")
    assert await poll(guarded, *bearer(secret), ("Cookie", "none")) == 200
    assert await poll(guarded, *bearer(secret[:-1] + "!"), ("Cookie", "sid=1")) == 401
    assert backend.asked == []
    assert await poll(guarded, ("Authorization", "Basic eDp5"), ("Cookie", "sid=1")) == 200


@configs.one_half
async def test_a_foreign_pages_cookie_is_not_asked_about(guarded, backend):
    backend.knows("sid=1")
    for origin, wanted in ((PAGE, 200), ("https://evil.example", 401), ("null", 401)):
        assert await poll(guarded, ("Cookie", "sid=1"), ("Origin", origin)) == wanted
    assert len(backend.asked) == 1


async def test_bad_settings_get_a_sentence(launch):
    for hook, words in (({"url": "http://127.0.0.1/"}, "auth.hook.url means nothing without auth.hook.headers"),
                        ({"headers": ["cookie"]}, "auth.hook.headers means nothing without auth.hook.url"),
                        ({"url": "ftp://x/", "headers": ["cookie"]}, "auth.hook.url"),
                        ({"url": "http://127.0.0.1/", "headers": ["Host"]}, "host is about the message")):
        daemon = launch(configs.config(auth={"hook": hook}), start=False)
        daemon.spawn()
        assert daemon.wait() == 78 and words in daemon.log_text(), daemon.log_text()
