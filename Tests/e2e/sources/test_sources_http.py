"""Scopes fed over HTTP: servers of others, everything they may do wrong, and what clients hear meanwhile."""

import asyncio
import json
import os
import subprocess
import time
from email.utils import formatdate

import pytest

from harness import ports
from harness.cli import stalecast
from harness.daemon import BINARY, LONG, environment
from harness.figures import percentile, record
from harness.http1 import fetch
from harness.origins import HTTPOrigin
from harness.receiver import GARBAGE, HANG, RESET, Answer, flood
from harness.sources import fed, http_feed, problem, subscribe, version, well
from harness.templates import encoded, marked
from harness.waiting import until


@pytest.fixture
def origin():
    with HTTPOrigin(encoded(marked("one"))) as origin:
        yield origin


async def test_a_publish_at_the_origin_is_heard_within_an_interval(launch, origin):
    daemon = launch(fed(http_feed(origin.url + "/config.json", interval="200ms")))
    await version(daemon, 1)
    stream = await subscribe(daemon)
    delays = []
    for index in range(2, 52 if LONG else 14):
        origin.put(marked(str(index)))
        begin = time.monotonic()
        await stream.version_at_least(index)
        delays.append(time.monotonic() - begin)
    delays.sort()
    record("http, 200 ms: publish to STALE", p50_ms=percentile(delays, 0.5) * 1000, max_ms=delays[-1] * 1000)
    assert stream.versions == list(range(2, len(delays) + 2))
    stream.close()


async def test_unchanged_documents_cost_a_conditional_get(launch, origin):
    origin.changed -= 60  # Validators of what changed just now are not trusted.
    daemon = launch(fed(http_feed(origin.url, interval="100ms")))
    await version(daemon, 1)
    await until(lambda: origin.not_modified >= 5, "conditional answers")
    assert origin.full == 1


async def test_versions_and_content_are_where_the_pointers_say(launch, origin):
    origin.put(json.dumps({"data": {"rev": "41", "template": marked("deep")}}).encode())
    daemon = launch(fed(http_feed(origin.url, versionPointer="/data/rev", contentPointer="/data/template")))
    assert await version(daemon, 41) == {"welcome_text": "deep"}
    stream = await subscribe(daemon)
    origin.put(json.dumps({"data": {"rev": 45, "template": marked("later")}}).encode())
    await stream.version_at_least(45)
    message = next(frame for frame in stream.messages if frame.version == 45).json()
    assert message["sinceTemplateVersionNumber"] == "41"
    assert message["changedKeys"] == ["welcome_text"]
    origin.put(json.dumps({"data": {"rev": 44, "template": marked("old")}}).encode())
    assert "44" in (await problem(daemon, "older_version"))["message"]
    origin.put(json.dumps({"data": {"rev": 45, "template": marked("other")}}).encode())
    await problem(daemon, "same_version")
    origin.put(json.dumps({"data": {"rev": 46, "template": marked("new")}}).encode())
    assert await version(daemon, 46) == {"welcome_text": "new"}

    async def logged():
        lines = stalecast("logs", "--scope", "demo/firebase", "--data", daemon.data).splitlines()
        said = [line.split("  ")[-1] for line in lines]
        return said if "demo/firebase: took version 46 from its source" in said else None

    # The audit line follows the commit.
    said = await until(logged, "audit line of version 46")
    assert said[1:3] == [f"demo/firebase: took version {number} from its source" for number in (41, 45)]
    assert said[3].startswith("demo/firebase: failed: read source: ") and "44" in said[3], said
    assert "demo/firebase: recovered source" in said, said
    assert stream.versions[-1] in (45, 46)
    stream.close()


async def test_plain_values_and_yaml(launch, origin):
    origin.content_type = "application/yaml"
    origin.put(b"propertySources:\n- source: {colour: red}\n- source: {colour: blue, size: 3}\n")
    daemon = launch(fed(http_feed(origin.url, shape="values", contentPointer="/propertySources")))
    values = await version(daemon, 1)
    assert values["colour"] == "red" or "source" in values, values


async def test_headers_and_a_token_that_rotates(launch, origin, tmp_path):
    token = tmp_path / "token"
    token.write_text("first\n")
    origin.token = "first"
    daemon = launch(fed(http_feed(origin.url, tokenFile=str(token), headers={"X-Team": "blue"})))
    await version(daemon, 1)
    assert origin.arrivals[0].headers["x-team"] == "blue"
    origin.token = "second"
    error = await problem(daemon, "unauthorized")
    assert "first" not in error["message"]
    token.write_text("second\n")
    origin.put(marked("two"))
    assert await version(daemon, 2) == {"welcome_text": "two"}
    assert "first" not in daemon.log_text() and "second" not in daemon.log_text()


FAULTS = {
    "500": (Answer(500), "server_error"),
    "503": (Answer(503, (("Retry-After", "0"),)), "throttled"),
    "404": (Answer(404), "not_found"),
    "redirect": (Answer(302, (("Location", "http://127.0.0.1:1/else"),)), "redirect"),
    "invalid JSON": (Answer(200, (("Content-Type", "application/json"),), b'{"parameters":'), "invalid_content"),
    "other JSON": (Answer(200, (("Content-Type", "application/json"),), b'[1,2]'), "invalid_content"),
    "truncated": (Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{}", then="close"), "broken_answer"),
    "1 GB": (flood(1 << 30), "too_large"),
    "reset": (RESET, "broken_answer"),
    "garbage": (GARBAGE, "broken_answer"),
    "silent": (HANG, "timeout"),
}


@pytest.mark.limit(120)
async def test_no_fault_changes_what_is_served_and_every_fault_is_named(launch, origin):
    """One daemon, all faults after each other; streams stay up and heartbeats go on."""
    daemon = launch(fed(http_feed(origin.url, interval="100ms", timeout="500ms"), edge={"heartbeat": "200ms"}))
    await version(daemon, 1)
    stream = await subscribe(daemon)
    expected = 1
    for name, (fault, reason) in FAULTS.items():
        warnings = daemon.log_text().count("source cannot be used")
        origin.fault = fault
        error = await problem(daemon, reason)
        assert error["message"], name
        assert (await daemon.status())["scopes"][0]["versionNumber"] == str(expected), name
        comments = sum(frame.kind == "comment" for frame in stream.frames)
        await stream.until(lambda s: sum(f.kind == "comment" for f in s.frames) > comments, 5, "heartbeat")
        origin.fault = None
        expected += 1
        origin.put(marked(name))
        await stream.version_at_least(expected)
        assert daemon.log_text().count("source cannot be used") == warnings + 1, name
    assert stream.versions == list(range(2, expected + 1))
    assert daemon.memory() < 250 << 20
    stream.close()


async def test_retry_after_is_kept(launch, origin):
    daemon = launch(fed(http_feed(origin.url, interval="100ms")))
    await version(daemon, 1)
    origin.fault = Answer(429, (("Retry-After", "2"), ("Date", formatdate(usegmt=True))))
    await problem(daemon, "throttled")
    asked, begin = len(origin.arrivals), time.monotonic()
    origin.fault = None
    await until(lambda: len(origin.arrivals) > asked, "look")
    assert time.monotonic() - begin > 1.2


async def test_readiness_ends_with_the_age_and_streams_do_not(launch, origin):
    daemon = launch(fed(http_feed(origin.url, maxAge="1s", interval="100ms")))
    await version(daemon, 1)
    stream = await subscribe(daemon)
    assert await daemon.ready() == 200
    origin.fault = Answer(500)
    await until(lambda: unready(daemon), "unreadiness")
    body = (await daemon.ask_control("/readyz")).json()
    assert "demo/firebase" in body["reasons"][0] and "500" in body["reasons"][0]
    assert await daemon.metric("stalecast_source_age_seconds", kind="http") > 1
    assert await daemon.metric("stalecast_source_up", kind="http") == 0
    assert stream.ended is None
    origin.fault = None
    await well(daemon)
    assert await daemon.ready() == 200
    stream.close()


async def unready(daemon):
    return await daemon.ready() == 503


async def test_loopback_must_be_allowed(launch, origin):
    daemon = launch(fed(http_feed(origin.url)).replace('    - "127.0.0.0/8"\n', '    - "10.1.2.3"\n'))
    error = await problem(daemon, "blocked")
    assert "sources.allowedAddresses" in error["message"]
    assert not origin.arrivals


async def test_notify_leaves_fetches_to_the_origin(launch, origin):
    daemon = launch(fed(http_feed(origin.url + "/config?key=secret", serve="notify")))
    await version(daemon, 1)
    stream = await subscribe(daemon)
    body = json.dumps({"appId": "1:1:web:1", "appInstanceId": "c" * 22}).encode()
    answer = await fetch(
        daemon.edge, "/v1/projects/demo/namespaces/firebase:fetch", method="POST", body=body,
        headers=[("Content-Type", "application/json")])
    assert answer.status == 400
    sentence = answer.body.decode()
    assert "serve: notify" in sentence, "strangers are told why, and not where the origin is"
    assert origin.url not in sentence and "secret" not in sentence
    origin.put(marked("two"))
    await stream.version_at_least(2)
    stream.close()


NGINX = """
{user} daemon off; pid {root}/nginx.pid; error_log {root}/error.log; worker_processes 1;
events {{ worker_connections 64; }}
http {{ access_log off; client_body_temp_path {root}; proxy_temp_path {root}; fastcgi_temp_path {root};
  uwsgi_temp_path {root}; scgi_temp_path {root};
  server {{ listen 127.0.0.1:{port}; root {root}/www; types {{ application/json json; }} }} }}
"""


async def test_behind_nginx(launch, tmp_path, tool):
    """A static file with the ETags and dates that nginx makes of seconds and sizes."""
    program = tool("nginx")
    port = ports.free()
    (tmp_path / "www").mkdir()
    document = tmp_path / "www" / "config.json"
    document.write_bytes(encoded(marked("aaa")))
    conf = tmp_path / "nginx.conf"
    conf.write_text(NGINX.format(
        user="user root;" if os.geteuid() == 0 else "", root=tmp_path, port=port))
    server = subprocess.Popen([program, "-c", str(conf), "-p", str(tmp_path)], stderr=subprocess.DEVNULL)
    try:
        daemon = launch(fed(http_feed(f"http://127.0.0.1:{port}/config.json", interval="100ms")))
        await version(daemon, 1)
        stream = await subscribe(daemon)
        for index, value in enumerate(("bbb", "ccc", "ddd"), 2):
            # Same size within one second: nginx's ETag stays the same.
            document.write_bytes(encoded(marked(value)))
            await stream.version_at_least(index)
        server.terminate()
        server.wait()
        await problem(daemon, "unreachable")
        stream.close()
    finally:
        server.kill()
        server.wait()


async def test_the_command_line_shows_and_tries_sources(launch, origin):
    daemon = launch(fed(http_feed(origin.url)))
    await version(daemon, 1)
    table = await asyncio.to_thread(stalecast, "sources", "--data", daemon.data)
    assert "demo/firebase" in table and "http" in table and origin.url in table
    listed = json.loads(await asyncio.to_thread(stalecast, "sources", "--data", daemon.data, "--json"))
    assert listed["sources"][0]["kind"] == "http" and listed["sources"][0]["adopted"] == 1
    said = await asyncio.to_thread(stalecast, "sources", "check", "--config", daemon.config)
    assert "parameters: 1, conditions: 0" in said
    found = json.loads(await asyncio.to_thread(stalecast, "sources", "check", "--config", daemon.config, "--json"))
    assert found["sources"][0]["ok"] is True and found["sources"][0]["etag"] == origin.etag
    origin.fault = Answer(500)
    command = [BINARY, "sources", "check", "--config", str(daemon.config)]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, env=environment())
    assert done.returncode == 1 and "500" in done.stdout
    await problem(daemon, "server_error")
    assert "500" in await asyncio.to_thread(stalecast, "sources", "--data", daemon.data)
