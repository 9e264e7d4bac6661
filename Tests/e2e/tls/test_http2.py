"""HTTP/2 on both listeners: everything is served as over HTTP/1.1, and floods end their connection alone."""

import asyncio
import contextlib
import json
import os
import re
import subprocess

import h2.errors
import h2.settings
import httpx
import pytest

from harness.http1 import Connection
from harness.http2 import (CONTINUATION, DATA, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS, WINDOW_UPDATE, Client,
                           frame, raw, request)
from harness.templates import encoded, marked, template
from harness.tls import launch_tls, trusting
from harness.waiting import eventually

FETCH = json.dumps({"appInstanceId": "a", "appId": "1:123456789012:web:a", "appInstanceIdToken": "t"}).encode()


async def test_streams_polls_and_requests_share_a_connection(launch, tmp_path, half):
    daemon, authority = launch_tls(launch, tmp_path, half)
    client = await Client(daemon.edge, authority).open()
    streams = [client.ask("/v1/events?topic=PUSH_RC") for _ in range(20)]
    poll = client.ask("/v1/poll?topic=PUSH_RC&wait=30s")
    for stream in streams:
        await client.until(lambda stream=stream: b"event: synced" in client.bodies[stream])
    assert "transfer-encoding" not in client.heads[streams[0]] and "connection" not in client.heads[streams[0]]
    await daemon.publish(marked("over http2"))
    for stream in streams:
        await client.until(lambda stream=stream: b'"latestTemplateVersionNumber":"1"' in client.bodies[stream])
    await client.until(lambda: poll in client.ended)
    assert len(json.loads(client.bodies[poll])["messages"]) == 1
    status, body = await client.answer("/v1/projects/demo/namespaces/firebase:fetch", "POST", FETCH,
                                       **{"content-type": "application/json"})
    assert status == 200 and b"over http2" in body
    # Of no announced length.
    status, again = await client.answer("/v1/projects/demo/namespaces/firebase:fetch", "POST", FETCH, length=False)
    assert (status, again) == (200, body)
    assert (await client.answer("/nothing"))[0] == 404
    assert await daemon.metric("stalecast_streams") == 20
    client.close()
    assert await eventually(lambda: daemon.metric("stalecast_connections"), 0) == 0


async def test_control_over_http2(launch, tmp_path):
    daemon, authority = launch_tls(launch, tmp_path, control=True)
    client = await Client(daemon.control, authority).open()
    assert (await client.answer("/v1/projects/demo/remoteConfig"))[0] == 401
    bearer = {"authorization": f"Bearer {daemon.token}"}
    status, _ = await client.answer("/v1/projects/demo/remoteConfig", "PUT", encoded(marked("x" * 100_000))[:60_000],
                                    **bearer, **{"if-match": "*"})
    assert status == 400
    status, body = await client.answer("/v1/projects/demo/remoteConfig", "PUT", encoded(marked("by http2")), **bearer,
                                       **{"if-match": "*"})
    assert status == 200, body
    client.close()


@pytest.mark.parametrize("program", ["curl", "node", "httpx"])
def test_programs_over_http2(launch, tmp_path, tool, program):
    daemon, authority = launch_tls(launch, tmp_path)
    url, roots = f"https://127.0.0.1:{daemon.edge}/v1/state?topic=PUSH_RC", f"{authority.directory}/ca.pem"
    if program == "httpx":
        with httpx.Client(http2=True, verify=trusting(authority)) as client:
            answer = client.get(url)
        assert answer.http_version == "HTTP/2" and answer.json()["state"][0]["topic"] == "PUSH_RC"
        return
    script = """
        const [, url] = process.argv, {origin, pathname, search} = new URL(url)
        const session = require('http2').connect(origin), stream = session.request({':path': pathname + search})
        stream.on('data', piece => process.stdout.write(piece)).on('end', () => session.close())
    """
    command = ([tool("curl"), "-sS", "--http2", "--cacert", roots, url] if program == "curl"
               else [tool("node"), "-e", script, url])
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False,
                          env={**os.environ, "NODE_EXTRA_CA_CERTS": roots})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"][0]["topic"] == "PUSH_RC"


@pytest.mark.limit(90)
async def test_a_stream_that_is_not_read_skips_upward_and_ends_current(launch, tmp_path):
    """G7: where the client's window is full the newest takes the place of what waits."""
    daemon, authority = launch_tls(launch, tmp_path)
    client = await Client(daemon.edge, authority).open()
    stalled = client.ask("/v1/events?topic=PUSH_RC")
    await client.until(lambda: b"event: synced" in client.bodies[stalled])
    client.reads = False
    control = daemon.client()
    for number in range(400):
        last = await control.publish(marked(f"number {number}"))
    client.read_on(stalled)
    await client.until(lambda: f'"latestTemplateVersionNumber":"{last}"'.encode() in client.bodies[stalled])
    versions = [int(number) for number in re.findall(rb'"latestTemplateVersionNumber":"(\d+)"', client.bodies[stalled])]
    assert versions == sorted(set(versions))
    assert len(versions) < last, "nothing was skipped: the window never was full"
    control.close()
    client.close()


async def test_an_end_is_said(launch, tmp_path):
    daemon, authority = launch_tls(launch, tmp_path)
    client = await Client(daemon.edge, authority).open()
    stream = client.ask("/v1/events?topic=PUSH_RC")
    await client.until(lambda: b"event: synced" in client.bodies[stream])
    assert daemon.stop() == 0
    await asyncio.wait_for(client.task, 10)
    assert stream in client.ended and client.bodies[stream].count(b"retry:") == 2


BOMB = b"\x40\x01a\x7f\xa1\x1e" + b"b" * 4000  # one field of 4 KB, put into the table
FLOODS = {
    "resets": lambda n: request(2 * n + 1, "/v1/poll?topic=PUSH_RC") + frame(RST_STREAM, bytes(4), 0, 2 * n + 1),
    "pings": lambda n: frame(PING, bytes(8)),
    "settings": lambda n: frame(SETTINGS, b"\0\x04\0\0\xff\xff"),
    "priorities": lambda n: frame(PRIORITY, b"\0\0\0\0\x10", 0, 2 * n + 1),
    "empty data": lambda n: (request(1, "/healthz", "POST", ends=False) if n == 0 else b"") + frame(DATA, b"", 0, 1),
    "continuations": lambda n: request(1)[:4] + b"\x01" + request(1)[5:] if n == 0
                     else frame(CONTINUATION, b"\0\x01a\x7f\xe1\x1d" + b"b" * 4000, 0, 1),
    "window updates": lambda n: frame(WINDOW_UPDATE, (1).to_bytes(4, "big")),
    "unknown frames": lambda n: frame(0xBB, b"x" * 8),
    "header bombs": lambda n: frame(HEADERS, BOMB + b"\xbe" * 8000, 0x5, 2 * n + 1),
    "too many streams": lambda n: request(2 * n + 1, "/v1/events?topic=PUSH_RC"),
}


@pytest.mark.limit(120)
@pytest.mark.parametrize("flood", FLOODS)
async def test_floods_end_their_connection_alone(launch, tmp_path, flood):
    daemon, authority = launch_tls(launch, tmp_path)
    other = await Client(daemon.edge, authority).open()
    stream = other.ask("/v1/events?topic=PUSH_RC")
    await other.until(lambda: b"event: synced" in other.bodies[stream])
    with daemon.growth_below(8 << 20):
        reader, writer = await raw(daemon, authority)
        drained = asyncio.create_task(reader.read(1 << 30))
        sent = 0
        with contextlib.suppress(ConnectionError):
            for sent in range(100_000):
                writer.write(FLOODS[flood](sent))
                if sent % 50 == 0:
                    await writer.drain()
                    await asyncio.sleep(0)
                if writer.is_closing() or drained.done():
                    break
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(drained, 10)
        writer.close()
    assert sent < 60_000, "the flood was never stopped"
    await daemon.publish(marked("others are served"))
    await other.until(lambda: b'"latestTemplateVersionNumber":"1"' in other.bodies[stream])
    assert await eventually(lambda: daemon.metric("stalecast_connections"), 2) == 2
    other.close()


HEAD = ((":method", "GET"), (":scheme", "https"), (":authority", "127.0.0.1"), (":path", "/v1/state?topic=PUSH_RC"))


def with_(name, value):
    """The head of a good request with one field or pseudo-header more, or another one."""
    return [(each, value if each == name else text) for each, text in HEAD] if name.startswith(":") else [*HEAD, (name, value)]


# Malformed by RFC 9113 §8: an answer where one can be made, else a reset that says so.
ANSWERED = {
    "host": with_("host", "other.example"), "leading blank": with_("x", " a"), "trailing blank": with_("x", "a "),
    "trailing tab": with_("x", "a\t"), "absolute path": with_(":path", "http://a/b"), "no slash": with_(":path", "abc"),
    "letters": with_(":path", "/\u00e4"),
}
RESET = {
    "connection": with_("connection", "close"), "chunks": with_("transfer-encoding", "chunked"),
    "line feed": with_("x", "a\r\nHost: b"), "capital": with_("X", "a"), "length": with_("content-length", "7"),
    "blank in path": with_(":path", "/a b"), "no path": [*HEAD[:3]], "blank in host": with_(":authority", "a b"),
}


@pytest.mark.parametrize("name", [*ANSWERED, *RESET])
async def test_a_malformed_request_is_answered_or_reset_as_malformed(launch, tmp_path, name):
    daemon, authority = launch_tls(launch, tmp_path)
    client = await Client(daemon.edge, authority).open()
    client.h2.config.validate_outbound_headers = client.h2.config.normalize_outbound_headers = False
    stream = client.ask_with(ANSWERED.get(name) or RESET[name])
    await client.until(lambda: stream in client.ended)
    if name in ANSWERED:
        assert client.heads[stream][":status"] == "400" and stream not in client.resets
        assert json.loads(client.bodies[stream])["error"]["status"] == "INVALID_ARGUMENT"
        assert (await client.answer("/v1/state?topic=PUSH_RC"))[0] == 200, "others on the connection go on"
    else:
        assert stream not in client.heads and client.resets[stream] == h2.errors.ErrorCodes.PROTOCOL_ERROR
    client.close()


async def test_an_answer_stays_good_when_the_rest_of_its_request_is_not_wanted(launch, tmp_path):
    daemon, authority = launch_tls(launch, tmp_path)
    client = await Client(daemon.edge, authority).open()
    client.h2.config.validate_outbound_headers = client.h2.config.normalize_outbound_headers = False
    stream = client.ask_with([(":method", "POST"), *HEAD[1:], ("x", "a ")], ends=False)
    await client.until(lambda: stream in client.resets)
    assert client.heads[stream][":status"] == "400" and json.loads(client.bodies[stream])
    assert client.resets[stream] == h2.errors.ErrorCodes.NO_ERROR
    client.close()


async def test_the_answer_to_a_malformed_head_has_no_body(launch, tmp_path):
    daemon, authority = launch_tls(launch, tmp_path)
    client = await Client(daemon.edge, authority).open()
    client.h2.config.validate_outbound_headers = client.h2.config.normalize_outbound_headers = False
    stream = client.ask_with([(":method", "HEAD"), *HEAD[1:], ("x", "a ")])
    await client.until(lambda: stream in client.ended)
    assert client.heads[stream][":status"] == "400" and client.bodies[stream] == b"" and stream not in client.resets
    client.close()


async def test_many_tabs_of_one_site_leave_room_for_a_fetch(launch, tmp_path, half):
    """A browser puts all its tabs on one connection, and queues what is above the limit without an error."""
    daemon, authority = launch_tls(launch, tmp_path, half)
    client = await Client(daemon.edge, authority).open()
    tabs = [client.ask("/v1/events?topic=PUSH_RC") for _ in range(100)]
    for tab in tabs:
        await client.until(lambda tab=tab: b"event: synced" in client.bodies[tab])
    assert (await client.answer("/v1/state?topic=PUSH_RC"))[0] == 200
    client.close()


async def test_requests_that_a_page_aborts_do_not_end_other_tabs(launch, tmp_path, half):
    daemon, authority = launch_tls(launch, tmp_path, half)
    client = await Client(daemon.edge, authority).open()
    tab = client.ask("/v1/events?topic=PUSH_RC")
    await client.until(lambda: b"event: synced" in client.bodies[tab])
    for _ in range(100):
        client.reset(client.ask("/v1/poll?topic=PUSH_RC&wait=20s"))
    await daemon.publish(marked("still heard"))
    await client.until(lambda: b'"latestTemplateVersionNumber":"1"' in client.bodies[tab])
    client.close()


async def test_a_small_answer_waits_for_the_window(launch, tmp_path, half):
    """What flow control holds back has not left, however small: the moment for the client's goodbye comes after it."""
    daemon, authority = launch_tls(launch, tmp_path, half)
    client = await Client(daemon.edge, authority).open()
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
    stream = client.ask("/v1/state?topic=PUSH_RC")
    await client.until(lambda: stream in client.heads)
    with pytest.raises(TimeoutError):
        await client.until(lambda: stream in client.ended, timeout=2)
    client.h2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 65_535})
    client._send()
    await client.until(lambda: stream in client.ended)
    assert json.loads(client.bodies[stream])
    client.close()


async def test_a_slow_client_gets_all_of_a_long_answer(launch, tmp_path, half):
    """The stall limit is for clients that read nothing, not for slow ones."""
    daemon, authority = launch_tls(launch, tmp_path, half, edge={"writeStallLimit": "2s"})
    await daemon.publish(template({f"key_{number}": "x" * 4000 for number in range(200)}))
    client = await Client(daemon.edge, authority).open()
    client.reads = False
    stream = client.ask("/v1/projects/demo/namespaces/firebase:fetch", "POST", FETCH)
    # A window of 64 KB every quarter of a second: more than three seconds in all.
    while stream not in client.ended:
        client.read_on(stream)
        client.reads = False
        await asyncio.sleep(0.25)
    assert client.heads[stream][":status"] == "200" and len(client.bodies[stream]) > 800_000
    client.close()


async def test_a_head_over_the_limit_is_431_on_its_stream_alone(launch, tmp_path, half):
    """Behind a proxy the other streams are those of other clients. Answered heads cost nothing in the end."""
    daemon, authority = launch_tls(launch, tmp_path, half)
    client = await Client(daemon.edge, authority).open()
    tab = client.ask("/v1/events?topic=PUSH_RC")
    await client.until(lambda: b"event: synced" in client.bodies[tab])
    for size in (17_000, 30_000, 60_000) * 3:
        status, body = await client.answer("/v1/state?topic=PUSH_RC", **{"x-long": os.urandom(size // 2).hex()})
        assert status == 431 and json.loads(body)["error"], (size, status, body)
    assert (await client.answer("/v1/state?topic=PUSH_RC", **{"x-long": "a" * 15_000}))[0] == 200
    # A page's tabs, or a proxy's clients, each with a token: heads that are not answered yet.
    polls = [client.ask("/v1/poll?topic=PUSH_RC&wait=30s", **{"x-long": os.urandom(4000).hex()}) for _ in range(30)]
    await eventually(lambda: daemon.metric("stalecast_polls"), 30)
    await daemon.publish(marked("still heard"))
    await client.until(lambda: b'"latestTemplateVersionNumber":"1"' in client.bodies[tab] and client.ended.issuperset(polls))
    assert {client.heads[poll][":status"] for poll in polls} == {"200"}
    # Above what is decoded nothing but the end of the connection is left.
    client.ask("/v1/state?topic=PUSH_RC", **{"x-long": "a" * 70_000})
    await asyncio.wait_for(client.task, 10)
