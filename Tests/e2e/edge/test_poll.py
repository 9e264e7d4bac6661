"""Long-poll: held, answered at once, empty at its timeout, and as polite with cursors as a stream."""

import asyncio
import socket
import time

import pytest

from harness import configs
from harness.http1 import Connection, fetch
from harness.poll import Poller, poll, poll_target, versions_in
from harness.templates import marked
from harness.waiting import eventually


async def test_a_held_poll_is_answered_by_the_next_publish(daemon):
    await daemon.publish(marked("one"))
    cursor = (await poll(daemon.edge, wait="0s")).json()["cursor"]
    task = asyncio.create_task(poll(daemon.edge, cursor=cursor, wait="20s"))
    await asyncio.sleep(0.2)
    assert not task.done()
    await daemon.publish(marked("two"))
    answer = await task
    assert answer.status == 200 and versions_in(answer) == [2]
    assert answer.json()["messages"][0]["CONFIG_STATE"] == "STALE"
    assert answer.json()["cursor"].endswith(".2") and answer.body.isascii()


@pytest.mark.parametrize("wait", ("0s", "30s"))
async def test_who_says_goodbye_with_the_request_does_not_stay(daemon, wait):
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", daemon.edge), 15) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)  # both in one segment
            client.sendall(poll_request(wait))
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while more := client.recv(1 << 16):
                answer += more
            assert answer.startswith(b"HTTP/1.1 200 OK") or wait == "30s"


def poll_request(wait):
    return f"GET /v1/poll?topic=PUSH_RC&wait={wait} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()


async def test_a_poll_without_a_cursor_waits_for_what_comes(daemon):
    await daemon.publish(marked("one"))
    answer = await poll(daemon.edge, wait="1s")
    assert answer.status == 200 and versions_in(answer) == [] and answer.json()["cursor"].endswith(".1")


@pytest.mark.parametrize("wait", ("1s", "1", "1000ms"))
async def test_at_its_timeout_a_poll_is_empty_with_a_cursor(daemon, wait):
    begun = time.monotonic()
    longer = asyncio.create_task(poll(daemon.edge, wait="20s"))
    answer = await poll(daemon.edge, wait=wait)
    assert time.monotonic() - begun >= 0.9 and not longer.done()
    longer.cancel()
    assert answer.status == 200 and answer.json()["messages"] == [] and answer.json()["cursor"]
    assert answer.header("content-type").startswith("application/json")
    assert "no-store" in answer.header("cache-control")


async def test_with_if_none_match_the_timeout_is_304(daemon):
    await daemon.publish(marked("one"))
    first = await poll(daemon.edge, have=0, wait="0s")
    answer = await poll(daemon.edge, wait="0s", headers=[("If-None-Match", f'"{first.json()["cursor"]}"')])
    assert answer.status == 304 and answer.body == b""
    await daemon.publish(marked("two"))
    answer = await poll(daemon.edge, wait="5s", cursor=first.json()["cursor"], headers=[("If-None-Match", '"x"')])
    assert answer.status == 200 and versions_in(answer) == [2]


async def test_several_topics_in_one_poll(launch, half):
    daemon = launch(configs.many_topics(half), half=half)
    await daemon.publish(marked("x"))
    answer = await poll(daemon.edge, ("PUSH_RC", "OTHER", "SERVER"), have=0, wait="1s")
    assert sorted(m["topic"] for m in answer.json()["messages"]) == ["OTHER", "PUSH_RC"]


async def test_one_connection_serves_poll_after_poll(daemon):
    connection, used = Connection(daemon.edge), set()
    for number in range(1, 30):
        await daemon.publish(marked(str(number)))
        answer = await poll(daemon.edge, connection=connection, have=number - 1, wait="5s")
        assert versions_in(answer) == [number]
        used.add(connection.writer)
    assert len(used) == 1 and None not in used, "keep-alive held over all polls"


async def test_pipelined_polls_are_answered_in_order(daemon):
    await daemon.publish(marked("x"))
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.edge)
    request = f"GET {poll_target(have=0, wait='0s')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    writer.write(request * 5)
    got = b""
    while got.count(b'"messages"') < 5:
        more = await asyncio.wait_for(reader.read(65536), 5)
        assert more, f"closed after {got.count(b'messages')} of 5 answers"
        got += more
    writer.close()


async def test_a_mixed_conversation_on_one_connection(daemon):
    """Poll, state, healthz, unknown path, poll: each half may own a part of it."""
    await daemon.publish(marked("x"))
    connection = Connection(daemon.edge)
    for _ in range(3):
        assert versions_in(await poll(daemon.edge, connection=connection, have=0, wait="1s")) == [1]
        assert (await connection.request("GET", "/v1/state?topic=PUSH_RC")).status == 200
        assert (await connection.request("GET", "/healthz")).status == 200
        assert (await connection.request("GET", "/nothing")).status == 404


async def test_a_hundred_pollers_all_hear_and_a_vanished_one_harms_nobody(daemon):
    pollers = [Poller(daemon.edge).start() for _ in range(100)]
    goner = Connection(daemon.edge)
    lost = asyncio.create_task(goner.request("GET", poll_target(wait="20s")))
    # One that asked only after the publish would wait for the next version.
    assert await eventually(lambda: daemon.metric("stalecast_polls"), 101) == 101
    lost.cancel()
    goner.close()
    version = await daemon.publish(marked("x"))
    for poller in pollers:
        await poller.version_at_least(version)
        poller.stop()


@pytest.mark.parametrize("origin,allowed", (("https://app.example", True), ("https://evil.example", False)))
@pytest.mark.parametrize("target", (
    "/v1/events?topic=PUSH_RC", "/v1/poll?topic=PUSH_RC&wait=0s", "/v1/state?topic=PUSH_RC"))
async def test_cors_is_for_the_configured_origins(launch, half, origin, allowed, target):
    daemon = launch(configs.origins(half, "https://app.example"), half=half)
    method = "HEAD" if "events" in target else "GET"
    answer = await fetch(daemon.edge, target, method, [("Origin", origin)])
    assert answer.status == 200
    assert answer.header("access-control-allow-origin") == (origin if allowed else None)
    assert "origin" in (answer.header("vary") or "").lower()
    preflight = await fetch(daemon.edge, target, "OPTIONS", [
        ("Origin", origin), ("Access-Control-Request-Method", "GET"),
        ("Access-Control-Request-Headers", "last-event-id")])
    assert preflight.status in (200, 204) if allowed else preflight.status < 500
    assert preflight.header("access-control-allow-origin") == (origin if allowed else None)
    if allowed:
        assert "last-event-id" in preflight.header("access-control-allow-headers").lower()
        assert "GET" in preflight.header("access-control-allow-methods")


async def test_without_configuration_no_origin_may_read(daemon):
    answer = await fetch(daemon.edge, "/v1/state?topic=PUSH_RC", headers=[("Origin", "https://app.example")])
    assert answer.header("access-control-allow-origin") is None


async def test_state_tells_cursor_version_and_etag(daemon):
    await daemon.publish(marked("x"))
    state = await daemon.state("PUSH_RC")
    text = str(state)
    assert state["cursor"].endswith(".1") and "etag-123456789012-1" in text and "demo" in text
