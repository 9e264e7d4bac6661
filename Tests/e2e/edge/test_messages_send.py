"""messages:send: exactly that data, to the clients that are subscribed now: by topic or by condition, on SSE and long-poll."""

import asyncio
import json

import pytest

from harness import configs
from harness.cli import Cli
from harness.keys import make_key
from harness.poll import poll
from harness.sse import Stream

DATA = {"CONFIG_STATE": "STALE", "reason": "tést", "n": "1"}


def data_of(stream):
    return [json.loads(frame.data) for frame in stream.events if frame.name == "message"]


@pytest.fixture
def many(launch, half):
    return launch(configs.many_topics(half), half=half)


async def synced(daemon, *topics):
    stream = await Stream.open(daemon.edge, topics)
    await stream.synced()
    return stream


async def fence(daemon, *streams):
    """Sends a last message on every topic and waits for it: what did not come before it will not come."""
    for topic in ("PUSH_RC", "OTHER", "THIRD"):
        assert (await daemon.client().send({"fence": topic}, topic=topic)).status == 200
    for stream in streams:
        await stream.until(lambda s: any("fence" in d for d in data_of(s)), what="the fence")
    await asyncio.sleep(0)


def before_fence(stream):
    return [data for data in data_of(stream) if "fence" not in data]


async def test_a_topic_message_reaches_its_subscribers_with_exactly_that_data(many):
    ours, other = await synced(many, "PUSH_RC"), await synced(many, "OTHER")
    answer = await many.client().send(DATA, topic="PUSH_RC")
    assert answer.status == 200 and answer.json()["name"].startswith("projects/demo/messages/")
    await fence(many, ours, other)
    assert before_fence(ours) == [DATA] and before_fence(other) == []
    assert all(frame.id is None for frame in ours.events if frame.name == "message"), "it has no place in the history"


async def test_a_held_long_poll_is_answered_with_exactly_that_data(many):
    held = [asyncio.create_task(poll(many.edge, topics, wait="20s")) for topics in (("PUSH_RC",), ("PUSH_RC", "OTHER"))]
    await asyncio.sleep(0.3)
    assert (await many.client().send(DATA, topic="PUSH_RC")).status == 200
    for task in held:
        answer = await asyncio.wait_for(task, 5)
        assert answer.json()["messages"] == [DATA] and answer.body.isascii()


@configs.one_half
@pytest.mark.parametrize("condition,reached", (
    ("'PUSH_RC' in topics", {"A", "AB", "ABC"}),
    ("'PUSH_RC' in topics && 'OTHER' in topics", {"AB", "ABC"}),
    ("'OTHER' in topics || 'THIRD' in topics", {"AB", "ABC", "C"}),
    ("'PUSH_RC' in topics && !('OTHER' in topics)", {"A"}),
    ("'THIRD' in topics || 'PUSH_RC' in topics && 'OTHER' in topics", {"AB", "ABC"}),  # left to right
    ("'THIRD' in topics || ('PUSH_RC' in topics && 'OTHER' in topics)", {"AB", "ABC", "C"}),
))
async def test_a_condition_reaches_those_it_holds_for_once(many, condition, reached):
    streams = {
        "A": await synced(many, "PUSH_RC"), "AB": await synced(many, "PUSH_RC", "OTHER"),
        "ABC": await synced(many, "PUSH_RC", "OTHER", "THIRD"), "C": await synced(many, "THIRD"),
    }
    answer = await many.client().send(DATA, condition=condition)
    assert answer.status == 200, answer
    await fence(many, *streams.values())
    got = {name: before_fence(stream) for name, stream in streams.items()}
    assert got == {name: [DATA] if name in reached else [] for name in streams}


@configs.one_half
@pytest.mark.parametrize("message", (
    {"data": DATA}, {"topic": "PUSH_RC", "condition": "'PUSH_RC' in topics", "data": DATA},
    {"topic": "a b", "data": DATA},
    {"topic": "PUSH_RC", "data": {"a": 1}}, {"topic": "PUSH_RC", "data": {"from": "x"}},
    {"topic": "PUSH_RC", "data": {"a": "x" * 5000}}, {"condition": "'a' in topics &&", "data": DATA},
    {"condition": " || ".join(f"'t{i}' in topics" for i in range(6)), "data": DATA}, {"topic": "PUSH_RC", "data": []}))
async def test_what_fcm_refuses_is_refused_and_reaches_nobody(many, message):
    stream = await synced(many, "PUSH_RC")
    body = json.dumps({"message": message}).encode()
    answer = await many.client().call("POST", "/v1/projects/demo/messages:send", body)
    assert answer.status == 400 and answer.json()["error"]["status"] == "INVALID_ARGUMENT", answer
    await fence(many, stream)
    assert before_fence(stream) == []


@configs.one_half
async def test_validate_only_sends_nothing(many):
    stream = await synced(many, "PUSH_RC")
    body = json.dumps({"message": {"topic": "PUSH_RC", "data": DATA}, "validateOnly": True}).encode()
    answer = await many.client().call("POST", "/v1/projects/demo/messages:send", body)
    assert answer.status == 200
    await fence(many, stream)
    assert before_fence(stream) == []


@configs.one_half
async def test_a_topic_nobody_declared_has_no_subscribers(many):
    stream = await synced(many, "PUSH_RC")
    answer = await many.client().send(DATA, topic="NOPE")
    assert answer.status == 200 and answer.json()["name"].startswith("projects/demo/messages/")
    answer = await many.client().send(DATA, condition="'PUSH_RC' in topics && !('NOPE' in topics)")
    assert answer.status == 200
    await stream.until(lambda s: data_of(s) == [DATA], what="the message of the condition")


async def test_the_history_says_who_sent_what_also_after_kill_9(launch):
    daemon = launch()
    key, text = await make_key(daemon, {"role": "publisher"}, name="ci")
    client = daemon.client()
    assert (await client.call("GET", "/v1/projects/demo/messages")).json() == {"messages": []}
    client.token = text
    sent = (await client.send({"b": "s3cret", "a": "1"}, topic="PUSH_RC")).json()["name"]
    assert (await client.send({"c": "1"}, condition="'PUSH_RC' in topics || 'news' in topics")).status == 200
    assert (await client.call("POST", "/v1/projects/demo/messages:send",
                              b'{"validateOnly":true,"message":{"topic":"x","data":{"a":"1"}}}')).status == 200
    assert (await client.send({}, topic="PUSH_RC")).status == 400
    daemon.kill()
    daemon.start()
    client = daemon.client()
    found = (await client.call("GET", "/v1/projects/demo/messages")).json()["messages"]
    assert [(one["target"], one["keys"]) for one in found] == [
        ("'PUSH_RC' in topics || 'news' in topics", ["c"]), ("PUSH_RC", ["a", "b"])]
    assert found[1]["name"] == sent and found[1]["sender"] == {
        "principal": f"key:{key}", "name": "ci", "email": f"{key}@key.stalecast"}
    assert "s3cret" not in str(found)
    table = Cli(daemon)("messages", "--limit", "1")
    assert f"ci (key:{key})" in table and "a,b" not in table
    _, viewer = await make_key(daemon, {"role": "viewer", "projects": ["other"]})
    client.token = viewer
    assert (await client.call("GET", "/v1/projects/demo/messages")).status == 403


@pytest.mark.limit(60)
async def test_the_history_is_bounded(launch):
    client = launch().client()
    for number in range(310):
        assert (await client.send({"n": str(number)}, topic=f"t{number}")).status == 200
    found = (await client.call("GET", "/v1/projects/demo/messages")).json()["messages"]
    assert [one["target"] for one in found] == [f"t{number}" for number in range(309, 9, -1)]
