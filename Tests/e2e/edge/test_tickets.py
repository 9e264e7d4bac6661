"""Tickets: EventSource's way in, good once, for a minute, for what they were made for."""

import asyncio
import http.client
import json

import pytest

from harness import configs
from harness.authority import Authority
from harness.http1 import fetch
from harness.keys import bearer, change_key, make_key
from harness.sse import Stream
from harness.templates import marked
from harness.tls import Stream as TLSStream
from harness.tls import tls, trusting

WATCH = {"actions": ["watch"]}
PAGE = "https://shop.example"


@pytest.fixture
def guarded(launch, half):
    return launch(configs.config(half, auth={"mode": "enforce"}, edge={"allowedOrigins": [PAGE]},
                                 topics=[configs.topic("pay")]), half=half)


async def ask(daemon, credential, body=None, **more):
    body = json.dumps({"topics": ["PUSH_RC"], **more}).encode() if body is None else body
    return await fetch(daemon.edge, "/v1/tickets", "POST", [*bearer(credential), ("Origin", PAGE)], body)


async def ticket(daemon, credential, **more):
    answer = await ask(daemon, credential, **more)
    assert answer.status == 200, answer
    return answer.json()["ticket"]


async def poll(daemon, text, topic="PUSH_RC", path="/v1/poll", headers=()):
    return await fetch(daemon.edge, f"{path}?topic={topic}&wait=0s&ticket={text}", headers=headers)


@configs.one_half
async def test_a_stream_of_a_configured_keys_ticket_outlives_changes_of_other_keys(launch, half):
    daemon = launch(configs.config(half, auth={"mode": "enforce"}, edge={"apiKeys": ["in-all-apps"]}), half=half)
    stream = await Stream.open(daemon.edge, ticket=await ticket(daemon, "in-all-apps"))
    await stream.synced()
    other, _ = await make_key(daemon, WATCH)
    assert (await change_key(daemon, other, "revoke")).status == 200
    await stream.version_at_least(await daemon.publish(marked("one")))
    assert not stream.ended


async def test_a_ticket_opens_one_stream_of_its_topics(guarded):
    key, secret = await make_key(guarded, WATCH)
    answer = await ask(guarded, secret)
    assert answer.status == 200 and answer.header("cache-control") == "no-store"
    assert answer.header("access-control-allow-origin") == PAGE
    assert set(answer.json()) == {"ticket", "expiresAt", "expiresInMs"} and answer.json()["expiresInMs"] == 60_000
    text = answer.json()["ticket"]
    stream = await Stream.open(guarded.edge, ticket=text)
    await stream.synced()
    version = await guarded.publish(marked("one"))
    await stream.version_at_least(version)
    again = await fetch(guarded.edge, f"/v1/events?topic=PUSH_RC&ticket={text}")
    assert again.status == 401 and "invalid_token" in again.header("www-authenticate")
    # The stream is still its principal's.
    assert (await change_key(guarded, key, "revoke")).status == 200
    await stream.until(lambda s: s.ended, timeout=5, what="the end of a revoked stream")
    assert b'"revoked"' in stream.raw


@configs.one_half
async def test_many_at_once_with_one_ticket(guarded):
    _, secret = await make_key(guarded, WATCH)
    for _ in range(5):
        text = await ticket(guarded, secret)
        answers = await asyncio.gather(*(poll(guarded, text) for _ in range(16)))
        assert sorted(answer.status for answer in answers) == [200] + [401] * 15


@configs.one_half
async def test_what_a_ticket_does_not_open(guarded):
    key, secret = await make_key(guarded, WATCH)
    _, other = await make_key(guarded, {"actions": ["fetch"]})
    bodies = set()

    async def refused(answer, status):
        assert answer.status == status, answer
        bodies.add((status, answer.body))

    await refused(await poll(guarded, await ticket(guarded, secret), "pay"), 403)
    await refused(await poll(guarded, await ticket(guarded, secret), "PUSH_RC,pay"), 403)
    await refused(await poll(guarded, await ticket(guarded, secret, namespace="firebase")), 403)
    await refused(await poll(guarded, await ticket(guarded, secret, project="demo"), "PUSH_RC&project=other"), 403)
    await refused(await poll(guarded, await ticket(guarded, secret), path="/v1/state"), 401)
    await refused(await poll(guarded, "stt_" + "0" * 32), 401)
    await refused(await poll(guarded, ""), 401)
    await refused(await poll(guarded, await ticket(guarded, secret), headers=bearer(secret)), 400)
    text = await ticket(guarded, secret)
    await refused(await poll(guarded, f"{text}&ticket={text}"), 400)
    text = await ticket(guarded, secret)
    await refused(await fetch(guarded.edge, f"/v1/tickets?ticket={text}", "POST", body=b'{"topics":["PUSH_RC"]}'), 401)
    await refused(await ask(guarded, other), 403)
    await refused(await ask(guarded, "nobody"), 401)
    await refused(await fetch(guarded.edge, "/v1/tickets", "POST", body=b'{"topics":["PUSH_RC"]}'), 401)
    text = await ticket(guarded, secret)
    assert (await change_key(guarded, key, "revoke")).status == 200
    await refused(await poll(guarded, text), 401)
    assert len(bodies) == 3, "one body for all reasons"
    assert "stt_" not in guarded.log_text()


@configs.one_half
async def test_a_projects_number_is_its_id(guarded):
    _, secret = await make_key(guarded, WATCH)
    text = await ticket(guarded, secret, project="demo")
    assert (await poll(guarded, text, "PUSH_RC&project=123456789012")).status == 200


@configs.one_half
async def test_bad_bodies_get_a_sentence(guarded):
    _, secret = await make_key(guarded, WATCH)
    for body in (b"", b"{}", b'{"topics":[]}', b'{"topics":"PUSH_RC"}', b'{"topics":[1]}', b'{"topics":["a b"]}',
                 b'{"topics":["PUSH_RC"],"project":7}', json.dumps({"topics": ["x"] * 65}).encode()):
        answer = await ask(guarded, secret, body)
        assert answer.status == 400 and answer.json()["error"]["message"], body
    assert (await ask(guarded, secret, b'{"topics":["nothing"]}')).status == 404


@configs.one_half
async def test_there_are_so_many_of_one_principal(guarded):
    _, secret = await make_key(guarded, WATCH)
    statuses = []
    while not statuses or statuses[-1] == 200:
        statuses.append((await ask(guarded, secret)).status)
    assert statuses[-1] == 429 and len(statuses) == 1025
    _, other = await make_key(guarded, WATCH)
    assert (await ask(guarded, other)).status == 200


@configs.one_half
async def test_browsers_may_ask(guarded):
    answer = await fetch(guarded.edge, "/v1/tickets", "OPTIONS", [
        ("Origin", PAGE), ("Access-Control-Request-Method", "POST"), ("Access-Control-Request-Headers", "authorization")])
    assert answer.status == 204 and answer.header("access-control-allow-origin") == PAGE
    assert "POST" in answer.header("access-control-allow-methods")
    assert "authorization" in answer.header("access-control-allow-headers")


async def test_without_auth_a_ticket_is_ignored(launch, half):
    for mode in ("off", "observe"):
        daemon = launch(configs.config(half, auth={"mode": mode}), half=half)
        text = await ticket(daemon, "nobody")
        assert (await poll(daemon, text)).status == 200 and (await poll(daemon, text)).status == 200
        daemon.stop()


async def test_over_tls_as_well(launch, tmp_path, half):
    authority = Authority(tmp_path)
    daemon = launch(configs.config(half, auth={"mode": "enforce"}, edge={"tls": tls(authority)}), half=half)
    _, secret = await make_key(daemon, WATCH)
    connection = http.client.HTTPSConnection("127.0.0.1", daemon.edge, context=trusting(authority), timeout=15)
    connection.request("POST", "/v1/tickets", '{"topics":["PUSH_RC"]}', {"X-API-Key": secret})
    text = json.loads(connection.getresponse().read())["ticket"]
    connection.close()
    stream = TLSStream(daemon.edge, trusting(authority), f"/v1/events?topic=PUSH_RC&ticket={text}")
    await stream.open()
    version = await daemon.publish(marked("one"))
    await stream.until(b'"latestTemplateVersionNumber":"%d"' % version)
    stream.close()
