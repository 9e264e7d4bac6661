"""The bytes of a stream: beginning, topics, framing, heartbeats, end; and what is not a stream."""

import asyncio
import re
import signal

import pytest

from harness import configs
from harness.http1 import fetch
from harness.sse import Stream, events_target
from harness.templates import marked, template


async def test_a_stream_begins_in_the_documented_order(daemon):
    await daemon.publish(marked("one"))
    await daemon.publish(marked("two"))
    stream = await Stream.open(daemon.edge, have=1)
    await stream.synced()
    assert [(f.kind, f.name if f.kind == "event" else "") for f in stream.frames] == [
        ("retry", ""), ("comment", ""), ("event", "message"), ("event", "synced")]
    assert 100 <= int(stream.frames[0].data) <= 60_000
    head = stream.head
    assert head.status == 200
    assert head.header("content-type").startswith("text/event-stream")
    assert head.header("cache-control") == "no-store, no-transform"
    assert head.header("x-accel-buffering") == "no"
    assert head.header("content-length") is None and head.header("content-encoding") is None
    assert re.fullmatch(r"[a-z2-7]{26}\.2", stream.events[-1].id)


async def test_a_fresh_subscriber_of_an_empty_store_is_synced_at_zero(daemon):
    stream = await Stream.open(daemon.edge)
    assert (await stream.synced()).id.endswith(".0") and not stream.messages
    await daemon.publish(marked("first ever"))
    await stream.version_at_least(1)


async def test_retry_is_spread_over_clients(daemon):
    delays = []
    for _ in range(12):
        stream = await Stream.open(daemon.edge)
        await stream.synced()
        delays.append(int(stream.frames[0].data))
        stream.close()
    assert len(set(delays)) > 3, f"no jitter in {delays}"


async def test_every_message_is_one_chunk_of_ascii(daemon):
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    for number in range(5):
        await daemon.publish(template({"welcome_text": f"näïve \u2028 {number}"}, description="déjà vu \u2029"))
        # One after the other: of two that come at once only the newer is sent.
        await stream.version_at_least(number + 1)
    assert stream.raw.isascii()
    messages = [chunk for chunk in stream.chunks if b"CONFIG_STATE" in chunk]
    assert len(messages) == 5
    assert all(chunk.endswith(b"\n\n") and chunk.count(b"data:") == 1 for chunk in messages)


@pytest.mark.parametrize("target", (
    "/v1/events?topic=PUSH_RC&topic=OTHER", "/v1/events?topic=PUSH_RC,OTHER", "/v1/events?topic=PUSH_RC%2COTHER",
    "/v1/events?topic=OTHER&topic=PUSH_RC&topic=OTHER&utm_source=x"))
async def test_several_topics_on_one_stream(launch, half, target):
    daemon = launch(configs.many_topics(half), half=half)
    stream = await Stream.open(daemon.edge, target=target)
    await stream.synced()
    await daemon.publish(marked("x"))
    await stream.until(lambda s: len(s.messages) >= 2, what="a message of each topic")
    await daemon.publish(marked("y"))
    await stream.until(lambda s: len(s.messages) >= 4, what="a message of each topic")
    assert sorted(f.json()["topic"] for f in stream.messages[:2]) == ["OTHER", "PUSH_RC"]
    assert stream.versions == [1, 1, 2, 2]


async def test_a_topic_with_key_patterns_hears_only_of_those_keys(launch, half):
    daemon = launch(configs.many_topics(half), half=half)
    stream = await Stream.open(daemon.edge, ("PAY",))
    await stream.synced()
    await daemon.publish(template({"color": "red", "pay_limit": "1"}))
    await daemon.publish(template({"color": "blue", "pay_limit": "1"}))
    await daemon.publish(template({"color": "blue", "pay_limit": "2"}))
    await stream.version_at_least(3)
    assert stream.versions == [1, 3]
    again = await Stream.open(daemon.edge, ("PAY",), last_event_id=stream.messages[0].id)
    await again.synced()
    assert again.versions == [3]
    await daemon.publish(template({"color": "green", "pay_limit": "2"}))
    third = await Stream.open(daemon.edge, ("PAY",), last_event_id=stream.messages[1].id)
    await third.synced()
    assert third.versions == [], "the newest version of the scope does not concern this topic"
    stale = await Stream.open(daemon.edge, ("PAY",), have=3)
    await stale.synced()
    assert stale.versions == []


async def test_topics_of_another_scope_hear_nothing_of_this_one(launch, half):
    daemon = launch(configs.many_topics(half), half=half)
    server = await Stream.open(daemon.edge, ("SERVER",))
    client = await Stream.open(daemon.edge, ("OTHER",))
    await server.synced()
    await client.synced()
    await daemon.client(namespace="firebase").publish(marked("for clients"))
    await daemon.client(namespace="firebase-server").publish(marked("for servers"))
    await server.version_at_least(1)
    await client.version_at_least(1)
    assert [f.json()["namespace"] for f in server.messages] == ["firebase-server"]
    assert [f.json()["namespace"] for f in client.messages] == ["firebase"]


async def test_http_1_0_streams_are_unchunked_and_end_with_the_connection(daemon):
    stream = await Stream.open(daemon.edge, http="1.0")
    await stream.synced()
    assert stream.head.header("transfer-encoding") is None
    await daemon.publish(marked("x"))
    await stream.version_at_least(1)
    stream.close()


async def test_http_1_1_streams_are_chunked(daemon):
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    assert stream.head.header("transfer-encoding") == "chunked"
    stream.close()


@pytest.mark.parametrize("target", ("/v1/events?topic=PUSH_RC", "/v1/poll?topic=PUSH_RC&wait=0s", "/healthz"))
async def test_head_answers_the_head_and_nothing_else(daemon, target):
    answer = await fetch(daemon.edge, target, "HEAD")
    assert answer.status == 200 and answer.body == b""
    if "events" in target:
        assert answer.header("content-type").startswith("text/event-stream")


UNKNOWN = (
    "/v1/events?topic=NOPE", "/v1/events?topic=NOPE&topic=NADA", "/v1/poll?topic=NOPE", "/v1/state?topic=NOPE",
    "/v1/state?topic=PUSH_RC&project=nobody", "/v1/state?topic=PUSH_RC&namespace=firebase-server",
    "/", "/v1", "/v1/event", "/v1/events/", "/v1/remoteConfig", "/status", "/metrics", "/v1/../status",
    "/%2e%2e/status")
NONSENSE = (
    "/v1/events", "/v1/poll", "/v1/events?topic=", "/v1/events?topic=a%20b", "/v1/events?topic=%ff",
    "/v1/events?topic=%", "/v1/events?topic=PUSH_RC&have=-1", "/v1/events?topic=PUSH_RC&have=x",
    "/v1/poll?topic=PUSH_RC&wait=never")


async def test_unknown_topics_and_paths_are_plainly_not_found(daemon):
    answers = {target: await fetch(daemon.edge, target) for target in UNKNOWN}
    assert {target: answer.status for target, answer in answers.items()} == dict.fromkeys(UNKNOWN, 404)
    assert not [t for t, answer in answers.items() if b"PUSH_RC" in answer.body], "Edge tells strangers no names"


async def test_nonsense_queries_are_the_callers_mistake(daemon):
    statuses = {target: (await fetch(daemon.edge, target)).status for target in NONSENSE}
    assert statuses == dict.fromkeys(NONSENSE, 400)


async def test_other_methods_on_streams_are_refused(daemon):
    for method in ("POST", "PUT", "DELETE", "PATCH", "BREW"):
        answer = await fetch(daemon.edge, events_target(), method, body=b"")
        assert answer.status in (400, 404, 405, 501), f"{method}: {answer}"


async def test_an_unknown_topic_among_known_ones_is_named_and_the_others_are_heard(daemon):
    stream = await Stream.open(daemon.edge, ("GONE", "PUSH_RC"))
    await stream.synced()
    assert [f.json() for f in stream.frames if f.name == "unknown-topics"] == [{"topics": ["GONE"]}]
    await daemon.publish(marked("x"))
    await stream.version_at_least(1)
    answer = await fetch(daemon.edge, "/v1/state?topic=GONE,PUSH_RC")
    assert answer.json()["unknownTopics"] == ["GONE"] and len(answer.json()["state"]) == 1


async def test_server_templates_are_announced_on_a_topic_of_their_own(daemon):
    client = await Stream.open(daemon.edge)
    server = await Stream.open(daemon.edge, ("PUSH_RC_SERVER",))
    await client.synced()
    await server.synced()
    await daemon.client(namespace="firebase-server").publish(template({"internal_fraud_threshold": "7"}))
    await server.version_at_least(1)
    await daemon.publish(marked("x"))
    await client.version_at_least(1)
    assert [f.json()["namespace"] for f in client.messages] == ["firebase"]
    assert b"internal_fraud_threshold" not in client.raw


async def test_a_reload_shows_nothing_that_is_not_visible(launch, half):
    """Between commit and announcement a template is compiled: a reload then showed the version under an old cursor."""
    expression = "app.version.matches(['^%d[.][0-9]+(a|b|c)*$'])"
    conditions = [{"name": f"c{n}", "expression": expression % n} for n in range(300)]
    parameters = {f"p{n}": {"defaultValue": {"value": "v"}} for n in range(500)}
    daemon, stop = launch(configs.config(half), half=half), asyncio.Event()

    async def publish():
        for number in range(25):
            parameters["n"] = {"defaultValue": {"value": str(number)}}
            await daemon.client().publish({"conditions": conditions, "parameters": parameters})
        stop.set()

    async def reload():
        number = 0
        while not stop.is_set():
            number += 1
            daemon.config.write_text(configs.config(half, topics=[configs.topic(f"T{number}")]))
            daemon.signal(signal.SIGHUP)
            await asyncio.sleep(0.03)

    async def read():
        early = []
        while not stop.is_set():
            state = (await fetch(daemon.edge, "/v1/state?topic=PUSH_RC")).json()
            version = int(state["state"][0]["latestTemplateVersionNumber"])
            if version > int(state["cursor"].split(".")[1]):
                early.append((version, state["cursor"]))
        return early

    _, _, early = await asyncio.gather(publish(), reload(), read())
    assert early == [], f"{len(early)} versions were shown before they were announced"


async def test_healthz_says_nothing_about_anything(daemon):
    answer = await fetch(daemon.edge, "/healthz")
    assert answer.status == 200 and len(answer.body) < 20


@pytest.mark.limit(40)
async def test_heartbeats_come_at_their_interval_on_idle_streams(launch):
    daemon = launch(configs.config(edge={"heartbeat": "300ms"}))
    stream = await Stream.open(daemon.edge)
    beats = lambda s: [f for f in s.frames if f.kind == "comment"]
    await stream.until(lambda s: len(beats(s)) >= 9, timeout=10, what="nine comments")
    times = [frame.at for frame in beats(stream)]
    gaps = sorted(later - earlier for earlier, later in zip(times, times[1:]))
    # A late reader sees one gap grow and the next one shrink.
    assert gaps[0] <= 0.5 and gaps[len(gaps) // 2] >= 0.15, gaps


@pytest.mark.limit(40)
async def test_a_stream_ends_after_its_lifetime_with_retry_and_a_clean_end(launch):
    daemon = launch(configs.short_times("engine"))
    streams = [await Stream.open(daemon.edge) for _ in range(6)]
    begun = asyncio.get_running_loop().time()
    lives = []
    for stream in streams:
        assert await stream.end(timeout=8) == "clean"
        assert [f.kind for f in stream.frames][-1] == "retry", "the last thing said is when to come back"
        lives.append(asyncio.get_running_loop().time() - begun)
    assert min(lives) >= 1.2, lives
    again = await Stream.open(daemon.edge, last_event_id=streams[0].last_id)
    await again.synced()
