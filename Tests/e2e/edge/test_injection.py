"""Text that would like to be an event, a header or a line: it stays text, and the wire stays ASCII."""

import json

import pytest

from harness import configs
from harness.poll import poll, versions_in
from harness.sse import Stream
from harness.templates import template

NASTY = {
    "blank line": "x\r\n\r\nevent: injected\r\ndata: {\"CONFIG_STATE\":\"STALE\"}\r\n\r\n",
    "line feeds": "x\n\nid: 9\n\nretry: 1\n\ndata: y\n\n",
    "carriage returns": "x\r\rdata: y\r\r",
    "line separators": "x\u2028\u2028data: y\u2029\x85\x0b\x0c\x1c",
    "nul": "x\x00id: y\x00",
    "byte order mark": "\ufeffdata: y",
    "astral": "\U0001f4a3 \U0010ffff",
    "json": '"}\n\ndata: {"latestTemplateVersionNumber":"99"}',
}


@pytest.fixture(params=list(NASTY))
def nasty(request):
    return NASTY[request.param]


async def only_messages(stream):
    """Every event is a STALE message or ours; the wire is ASCII without carriage returns."""
    assert stream.raw.isascii()
    assert {frame.name for frame in stream.events} <= {"message", "synced", "reset"}
    for frame in stream.messages:
        assert len(frame.data) <= 4096 and frame.json()["CONFIG_STATE"] == "STALE"
    assert [f.kind for f in stream.frames].count("retry") == 1


async def publish_or_refuse(daemon, body):
    """Refusing the text is as good as escaping it; a 5xx is not. Returns whether it was published."""
    answer = await daemon.client().put(body)
    assert answer.status in (200, 400), answer
    return answer.status == 200


async def test_no_text_of_a_template_makes_a_second_event(daemon, nasty):
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    bodies = [
        template({"plain": nasty}),
        template({"plain": {"defaultValue": {"value": "x"}, "description": nasty}}),
        template({"plain": "x"}, description=nasty),
        template({"plain": "x"}, groups={nasty: {"description": nasty, "parameters": {}}}),
        template({"plain": "x"}, conditions=[{"name": nasty, "expression": "true"}]),
        template({"plain": "x"}, conditions=[{"name": "c", "expression": f"device.language in ['{nasty}']"}]),
    ]
    published = 0
    for body in bodies:
        if await publish_or_refuse(daemon, body):
            published += 1
            # A stream that lags hears two publishes as one.
            await stream.version_at_least(published)
    final = await daemon.publish(template({"plain": "end"}))
    await stream.version_at_least(final)
    assert final == published + 1
    assert stream.versions == list(range(1, final + 1)), "one message per version, no more"
    await only_messages(stream)
    again = await poll(daemon.edge, have=0, wait="1s")
    assert again.body.isascii() and versions_in(again) == [final]


async def test_parameter_names_with_anything_else_than_their_alphabet_are_refused(daemon, nasty):
    answer = await daemon.client().put(template({nasty: "x"}))
    assert answer.status == 400
    assert (await daemon.client().current())[0] == 0


async def test_publisher_headers_do_not_reach_the_stream(daemon):
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    answer = await daemon.client().put(
        template({"a": "1"}), headers=[("X-Firebase-Client", "fire-admin-node/13 \u00e9vent: x")])
    assert answer.status in (200, 400)
    await daemon.publish(template({"a": "2"}))
    await stream.version_at_least(1)
    await only_messages(stream)


async def test_sent_data_is_escaped_and_exact(daemon, nasty):
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    answer = await daemon.client().send({"key": nasty}, topic="PUSH_RC")
    assert answer.status in (200, 400), answer
    await daemon.client().send({"key": "end"}, topic="PUSH_RC")
    await stream.until(lambda s: any('"end"' in f.data for f in s.events), what="the last message sent")
    data = [json.loads(f.data) for f in stream.events if f.name == "message"]
    assert data == ([{"key": nasty}] if answer.status == 200 else []) + [{"key": "end"}]
    assert stream.raw.isascii()


async def test_a_message_with_thousands_of_changed_keys_stays_small(daemon):
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    await daemon.publish(template({f"parameter_{index:05d}": "x" for index in range(2000)}))
    frame = await stream.version_at_least(1)
    assert len(frame.data) <= 4096 and "changedKeys" not in frame.json()


async def test_origin_and_topic_text_is_not_echoed_into_headers(launch, half):
    daemon = launch(configs.origins(half, "https://app.example"), half=half)
    stream = await Stream.open(daemon.edge, headers=[("Origin", "https://app.example\tX-Evil: 1")])
    assert stream.head.header("x-evil") is None
    assert stream.head.header("access-control-allow-origin") is None
