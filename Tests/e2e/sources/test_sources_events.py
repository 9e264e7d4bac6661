"""Inbound events: every form in which a sender may say that an origin changed, made by foreign encoders."""

import base64
import datetime
import json
import time

import pytest
import standardwebhooks
from cloudevents.conversion import to_binary, to_structured
from cloudevents.http import CloudEvent

from harness.daemon import LONG
from harness.figures import percentile, record
from harness.http1 import fetch
from harness.origins import HTTPOrigin
from harness.sources import fed, http_feed, subscribe, version
from harness.templates import encoded, marked
from harness.waiting import until

TOKEN = "trigger-token-of-32-characters-ok"
UPDATED = "google.firebase.remoteconfig.remoteConfig.v1.updated"


@pytest.fixture
def origin():
    with HTTPOrigin(encoded(marked("one"))) as origin:
        yield origin


@pytest.fixture
def secret():
    return "whsec_" + base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()


@pytest.fixture
def watching(launch, origin, tmp_path, secret):
    """A daemon that looks once an hour: each look that comes sooner was triggered."""
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "secret").write_text(secret + "\n")
    return launch(fed(http_feed(
        origin.url, interval="1h", triggerTokenFiles=[str(tmp_path / "token")],
        triggerSecretFiles=[str(tmp_path / "secret")])))


async def post(daemon, body=b"", headers=(), query="", operator=False):
    headers = list(headers.items() if isinstance(headers, dict) else headers)
    if operator:
        headers.append(("Authorization", f"Bearer {daemon.token}"))
    return await fetch(
        daemon.control, f"/v1/projects/demo/triggers{query}", method="POST", headers=headers, body=body)


def cloud_event(**more):
    return CloudEvent({"type": UPDATED, "source": "//firebaseremoteconfig.googleapis.com/projects/demo", **more},
                      {"updateOrigin": "CONSOLE", "updateType": "INCREMENTAL_UPDATE"})


def binary():
    return to_binary(cloud_event())


def structured():
    return to_structured(cloud_event())


def batched():
    bodies = [to_structured(cloud_event())[1] for _ in range(3)]
    return {"content-type": "application/cloudevents-batch+json"}, b"[" + b",".join(bodies) + b"]"


def cloud_function():
    context = {"eventId": f"id-{time.time_ns()}", "eventType": "google.firebase.remoteconfig.update",
               "timestamp": datetime.datetime.now(datetime.timezone.utc).isoformat(), "resource": "projects/demo"}
    return {"content-type": "application/json"}, json.dumps({"context": context, "data": {}}).encode()


def pub_sub():
    data = base64.b64encode(b'{"updateOrigin":"CONSOLE"}').decode()
    message = {"message": {"data": data, "messageId": str(time.time_ns())},
               "subscription": "projects/demo/subscriptions/s"}
    return {"content-type": "application/json"}, json.dumps(message).encode()


def plain():
    return {}, b""


FORMS = [binary, structured, batched, cloud_function, pub_sub, plain]


@pytest.mark.parametrize("credential", ["operator", "query", "header"])
async def test_every_form_makes_the_source_look_now(watching, origin, credential):
    await version(watching, 1)
    stream = await subscribe(watching)
    for number, form in enumerate(FORMS, 2):
        origin.put(marked(form.__name__))
        headers, body = form()
        headers = dict(headers)
        if credential == "header":
            headers["Authorization"] = f"Bearer {TOKEN}"
        answer = await post(watching, body, headers, f"?token={TOKEN}" if credential == "query" else "",
                            operator=credential == "operator")
        assert answer.status == 202, (form.__name__, answer)
        assert {event["result"] for event in answer.json()["events"]} <= {"looking", "duplicate"}
        await stream.version_at_least(number)
    assert TOKEN not in watching.log_text()
    stream.close()


async def test_an_event_is_taken_once(watching, origin):
    await version(watching, 1)
    headers, body = structured()
    first = await post(watching, body, headers, operator=True)
    again = await post(watching, body, headers, operator=True)
    assert (first.status, again.status) == (202, 200)
    assert again.json()["events"][0]["result"] == "duplicate"
    assert await watching.metric("stalecast_trigger_events_total", result="duplicate") == 1


async def test_a_signed_post_by_the_reference_library(watching, origin, secret):
    await version(watching, 1)
    stream = await subscribe(watching)
    origin.put(marked("two"))
    body = json.dumps({"type": "config.changed"}).encode()
    now = datetime.datetime.now(datetime.timezone.utc)
    signature = standardwebhooks.Webhook(secret).sign("msg_1", now, body.decode())
    headers = {"webhook-id": "msg_1", "webhook-timestamp": str(int(now.timestamp())), "webhook-signature": signature,
               "content-type": "application/json"}
    assert (await post(watching, body, headers)).status == 202
    await stream.version_at_least(2)
    assert (await post(watching, body, headers)).json()["events"][0]["result"] == "duplicate"
    assert (await post(watching, body + b" ", {**headers, "webhook-id": "msg_2"})).status == 401
    old = {**headers, "webhook-timestamp": str(int(now.timestamp()) - 3600)}
    assert (await post(watching, body, old)).status == 401
    stream.close()


async def test_strangers_learn_nothing_and_trigger_nothing(watching, origin):
    await version(watching, 1)
    asked = len(origin.arrivals)
    for query in ("", "?token=wrong-token-of-32-characters-long"):
        answer = await post(watching, b"{}", query=query)
        assert answer.status == 401
    elsewhere = await fetch(
        watching.control, f"/v1/projects/unknown/triggers?token={TOKEN}", method="POST", headers=[], body=b"")
    assert elsewhere.status == 401
    assert len(origin.arrivals) == asked


async def test_what_is_no_event_is_told(watching):
    answer = await post(
        watching, b"{", {"content-type": "application/cloudevents+json"}, operator=True)
    assert answer.status == 400 and "JSON" in answer.json()["error"]["message"]


async def test_a_trigger_is_heard_within_100_ms(watching, origin):
    await version(watching, 1)
    stream = await subscribe(watching)
    delays = []
    for number in range(2, 102 if LONG else 22):
        origin.put(marked(str(number)))
        begin = time.monotonic()
        await post(watching, operator=True)
        await stream.version_at_least(number)
        delays.append(time.monotonic() - begin)
    delays.sort()
    record("triggered: event to STALE", p50_ms=percentile(delays, 0.5) * 1000, max_ms=delays[-1] * 1000)
    assert origin.full == len(delays) + 1
    stream.close()


async def test_a_flood_of_triggers_makes_few_looks(watching, origin):
    await version(watching, 1)
    asked = len(origin.arrivals)
    for _ in range(100):
        assert (await post(watching, operator=True)).status == 202

    async def quiet():
        return await watching.metric("stalecast_source_looks_total") == len(origin.arrivals)

    await until(quiet, "end of looking")
    assert len(origin.arrivals) - asked <= 100
