"""Bodies and queries of strangers in every dialect of Edge: each is answered as the dialect has it, and the next one, too."""

import base64
import gzip
import json
import random

import pytest

from harness import configs
from harness.http1 import fetch
from harness.templates import template

pytestmark = configs.one_half
FETCH = "/v1/projects/demo/namespaces/firebase:fetch"
FLAGS = "/ofrep/v1/evaluate/flags"
CONTEXT = {"targetingKey": "u", "plan": "pro", "platform": "ios", "appVersion": "1.2", "level": 3, "beta": True}
USER = {"kind": "multi", "user": {"key": "u", "plan": "pro", "level": 3}, "device": {"key": "d"}}
APP = {"appId": "1:2:web:3", "appInstanceId": "cAbCdEfGhIjKlMnOpQrStU", "appInstanceIdToken": "t",
       "customSignals": {"plan": "pro"}}
DEEP = b'{"context":' * 40_000
BODIES = [
    b"", b" ", b"{", b"[]", b"null", b"1", b'"x"', b"\x00", b"\xff\xfe{}", b"{}{}", b'{"context":}', DEEP,
    b'{"context":{"a":' + b"[" * 60_000, b'{"context":{"targetingKey":"\\ud800"}}', b'{"key":"\\ud800"}',
    b'{"context":{"targetingKey":"a","targetingKey":"b"}}', b'{"context":{"targetingKey":' + b"9" * 60_000 + b"}}",
    b'{"context":{"n":1e999999999}}', b'{"kind":"user","key":' + b"9" * 60_000 + b"}", b'{"kind":"multi"}',
    json.dumps({"context": {f"k{n}": n for n in range(4000)}}).encode(),
    json.dumps({"kind": "user", "key": "u", **{f"k{n}": n for n in range(4000)}}).encode(),
    b"\x1f\x8b\x08", gzip.compress(b"x" * 50_000_000), gzip.compress(DEEP), gzip.compress(b"{}")[:-5],
]
QUERIES = ["?", "?flagConfigEtag=", "?flagConfigEtag=etag-1-99999999999999999999", "?flagConfigEtag=%00%ff%zz", "?withReasons",
           "?withReasons=%ff", "?key=" + "a" * 9000, "?" + "&".join(f"a{n}={n}" for n in range(900)), "?=&=&&"]


def spelled(context):
    return base64.urlsafe_b64encode(json.dumps(context).encode() if isinstance(context, dict) else context).decode()


# Of each dialect: the method, the path, what is sound, and what is there in each error.
DIALECTS = {
    "fetch": ("POST", FETCH, APP, "error"),
    "flags": ("POST", FLAGS, {"context": CONTEXT}, "errorCode"),
    "flag": ("POST", f"{FLAGS}/welcome", {"context": CONTEXT}, "errorCode"),
    "launchdarkly": ("REPORT", "/sdk/evalx/demo/context", USER, "message"),
}


@pytest.fixture
def daemon(launch, half):
    return launch(configs.config(half, edge={"dialects": ["launchdarkly"]}), half=half)


async def publish(daemon):
    """A template that looks at the context, so that nothing of it is skipped."""
    conditions = [{"name": "pro", "expression": "app.customSignal['plan'].exactlyMatches(['pro'])"},
                  {"name": "new", "expression": "app.version.>=(['1.0'])"}]
    await daemon.publish(template(
        {"welcome": {"defaultValue": {"value": "a"}, "conditionalValues": {"pro": {"value": "b"}, "new": {"value": "c"}}}},
        conditions=conditions))


async def ask(daemon, dialect, body, query=""):
    method, path, _, member = DIALECTS[dialect]
    answer = await fetch(daemon.edge, path + query, method, [("Content-Type", "application/json")], body)
    assert answer.status in (200, 304, 400, 401, 404, 413, 414, 431, 503), (body[:80], query[:80], answer)
    # What is refused before the dialect is asked has the words of Edge.
    assert answer.status in (200, 304, 414, 431) or {member, "error"} & set(answer.json()), answer
    assert answer.status != 400 or member in answer.json(), answer
    return answer.status


def damaged(body, seed):
    """Some bytes are others, are gone, or are there twice."""
    source, body = random.Random(seed), bytearray(body)
    for _ in range(source.randrange(1, 4)):
        place = source.randrange(len(body))
        match source.randrange(3):
            case 0: body[place] = source.choice(b'{}[]:,"\\0eE-.\x00\xff\xc3n ')
            case 1: del body[place:place + source.randrange(9)]
            case _: body[place:place] = body[place:place + source.randrange(30)]
        if not body:
            return b"{"
    return bytes(body)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_hostile_bodies_are_refused_in_the_words_of_the_dialect(daemon, dialect):
    await publish(daemon)
    sound = json.dumps(DIALECTS[dialect][2]).encode()
    assert await ask(daemon, dialect, sound) == 200
    statuses = [await ask(daemon, dialect, body) for body in BODIES]
    assert statuses.count(400) + statuses.count(413) > 10
    statuses = [await ask(daemon, dialect, damaged(sound, seed)) for seed in range(150)]
    assert 200 in statuses and 400 in statuses
    assert await ask(daemon, dialect, sound) == 200


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_hostile_queries_change_nothing_or_are_refused(daemon, dialect):
    await publish(daemon)
    sound = json.dumps(DIALECTS[dialect][2]).encode()
    for query in QUERIES:
        await ask(daemon, dialect, sound, query)
    assert await ask(daemon, dialect, sound) == 200


async def test_hostile_contexts_in_a_path_are_refused(daemon):
    await publish(daemon)
    contexts = [spelled(body)[:6000] for body in BODIES] + ["%", "%zz", "e", "====", "*", "..", "%2e%2e%2f", "a" * 9000]
    for path in ("/sdk/evalx/demo/contexts/", "/eval/demo/", "/sdk/evalx/demo/users/"):
        for context in contexts:
            answer = await fetch(daemon.edge, path + context)
            assert answer.status in (400, 401, 404, 413, 414, 431), (path, context[:80], answer)
    assert (await fetch(daemon.edge, f"/sdk/evalx/demo/contexts/{spelled(USER)}")).status == 200
