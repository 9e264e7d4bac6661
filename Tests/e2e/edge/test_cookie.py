"""The cookie of pages of the same site: for reading only, and for no page of another site."""

import pytest

from harness import configs
from harness.http1 import fetch
from harness.keys import bearer, change_key, make_key
from harness.sse import Stream
from harness.templates import marked

PAGE = "https://app.shop.example"
GRANT = {"actions": ["watch", "fetch"]}
NAME = "__Host-stalecast"


@pytest.fixture
def guarded(launch, half):
    return launch(configs.config(half, edge={"allowedOrigins": [PAGE]}, auth={"mode": "enforce"}), half=half)


async def session(daemon, text, origin=PAGE):
    headers = [*bearer(text), *([("Origin", origin)] if origin else [])]
    return await fetch(daemon.edge, "/v1/session", "POST", headers)


async def cookie(daemon, text):
    answer = await session(daemon, text)
    assert answer.status == 204, answer
    return answer.header("set-cookie").split(";")[0]


async def ask(daemon, value, path="/v1/poll?topic=PUSH_RC&wait=0s", method="GET", headers=(), body=None):
    return (await fetch(daemon.edge, path, method, [("Cookie", value), *headers], body)).status


async def test_a_page_of_this_site_reads_with_it(guarded):
    key, text = await make_key(guarded, GRANT, kind="publishable")
    answer = await session(guarded, text)
    assert answer.status == 204 and answer.header("access-control-allow-credentials") == "true"
    field = answer.header("set-cookie")
    assert field.startswith(f"{NAME}=")
    assert set(field.split("; ")[1:]) == {"Path=/", "Secure", "HttpOnly", "SameSite=Strict", "Max-Age=43200"}
    value = f"a=b; {field.split(';')[0]}; c=d"
    for path in ("/v1/poll?topic=PUSH_RC&wait=0s", "/v1/state?topic=PUSH_RC"):
        assert await ask(guarded, value, path) == 200
        assert await ask(guarded, value, path, "HEAD") == 200
        assert await ask(guarded, value, path, headers=[("Origin", PAGE)]) == 200
    stream = await Stream.open(guarded.edge, headers=[("Cookie", value), ("Origin", PAGE)])
    await stream.synced()
    assert stream.head.header("access-control-allow-credentials") == "true"
    await stream.version_at_least(await guarded.publish(marked("one")))
    assert (await change_key(guarded, key, "revoke")).status == 200
    await stream.until(lambda s: s.ended, timeout=5, what="the end of a revoked stream")
    assert await ask(guarded, value) == 401
    assert text not in guarded.log_text()


@configs.one_half
async def test_what_it_is_no_good_for(guarded):
    _, text = await make_key(guarded, GRANT, kind="publishable")
    value = await cookie(guarded, text)
    fetching = "/v1/projects/demo/namespaces/firebase:fetch"
    body = b'{"appId":"1:123456789012:web:ab","appInstanceId":"c","appInstanceIdToken":"t"}'
    for origin in ("https://evil.example", "null", "https://app.shop.example.evil.example", PAGE.upper(), "*"):
        assert await ask(guarded, value, headers=[("Origin", origin)]) == 401, origin
    for method, path in (("POST", fetching), ("POST", "/v1/tickets"), ("POST", "/v1/session"), ("POST", "/v1/report")):
        given = b'{"topics":["PUSH_RC"]}' if path == "/v1/tickets" else body
        if path == "/v1/report":
            given = b'{"client":"c","project":"demo","versionNumber":"1","state":"fetched"}'
        assert await ask(guarded, value, path, method, body=given) == 401, path
    assert (await fetch(guarded.edge, fetching, "POST", bearer(text), body)).status == 200
    assert await ask(guarded, f"{value}; {value}") == 401, "of two cookies, one may be another page's"
    assert await ask(guarded, value.replace("__Host-", "")) == 401
    assert await ask(guarded, value[:-1]) == 401
    assert await ask(guarded, value, headers=bearer("nonsense")) == 401, "what the request says goes first"


@configs.one_half
async def test_who_gets_one(guarded):
    _, secret = await make_key(guarded, GRANT)
    _, text = await make_key(guarded, GRANT, kind="publishable")
    refused = await session(guarded, secret)
    assert refused.status == 400 and "secret key" in refused.json()["error"]["message"]
    for origin in ("https://evil.example", "null"):
        answer = await session(guarded, text, origin)
        assert answer.status == 403 and answer.header("set-cookie") is None
    for answer in (await session(guarded, "nonsense"), await fetch(guarded.edge, "/v1/session", "POST")):
        assert answer.status == 401 and answer.header("set-cookie") is None
    assert (await session(guarded, text, None)).status == 204
    ended = await fetch(guarded.edge, "/v1/session", "DELETE", [("Origin", PAGE)])
    assert ended.status == 204 and "Max-Age=0" in ended.header("set-cookie")
    asked = await fetch(guarded.edge, "/v1/session", "OPTIONS", [("Origin", PAGE)])
    assert asked.status == 204 and asked.header("access-control-allow-credentials") == "true"
    assert "DELETE" in asked.header("access-control-allow-methods")


@configs.one_half
async def test_star_lists_nobody(launch, half):
    daemon = launch(configs.config(half, edge={"allowedOrigins": ["*"]}, auth={"mode": "enforce"}), half=half)
    _, text = await make_key(daemon, GRANT, kind="publishable")
    value = (await session(daemon, text, None)).header("set-cookie").split(";")[0]
    assert await ask(daemon, value) == 200 and await ask(daemon, value, headers=[("Origin", PAGE)]) == 401
    answer = await fetch(daemon.edge, "/healthz", headers=[("Origin", PAGE)])
    assert answer.header("access-control-allow-credentials") is None
