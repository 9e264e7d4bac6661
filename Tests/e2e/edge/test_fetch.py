"""Firebase's fetch and installations as the SDKs use them: bodies byte for byte, over real sockets, on both halves."""

import asyncio
import gzip
import json
import re

import pytest

from harness import configs
from harness.http1 import Connection, fetch
from harness.sse import Stream
from harness.templates import marked, template

PATH = "/v1/projects/demo/namespaces/firebase:fetch"
JS = ('{"sdk_version":"12.18.0","app_instance_id":"cAbCdEfGhIjKlMnOpQrStU","app_instance_id_token":"eyJ.a.b",'
      '"app_id":"1:123456789012:web:0a1b2c3d4e5f","language_code":"en-US","custom_signals":{"plan":"pro"}}').encode()
ANDROID = ('{"appInstanceId":"dAbCdEfGhIjKlMnOpQrStU","appInstanceIdToken":"eyJ.a.b",'
           '"appId":"1:123456789012:android:0a1b2c","countryCode":"US","languageCode":"en-US","platformVersion":"34",'
           '"timeZone":"Europe/Paris","appVersion":"2.1.0","appBuild":"210","packageName":"com.example.app",'
           '"sdkVersion":"23.0.0","analyticsUserProperties":{},"firstOpenTime":"2026-01-05T10:00:00.000Z"}').encode()
IOS = ("{app_instance_id:'eAbCdEfGhIjKlMnOpQrStU', app_instance_id_token:'eyJ.a.b', app_id:'1:123456789012:ios:0a1b2c',"
       " country_code:'us', language_code:'en_US', platform_version:'18.1', time_zone:'Europe/Paris',"
       " package_name:'com.example.app', app_version:'2.1.0', app_build:'210', sdk_version:'12.2.0',"
       " first_open_time:'2026-01-05T10:00:00Z', analytics_user_properties:{\"plan\":\"pro\"},"
       " custom_signals:{\"city\":\"york\"}}").encode()
CPP = ('{"appId":"1:123456789012:android:0a1b2c","appInstanceId":"fAbCdEfGhIjKlMnOpQrStU",'
       '"appInstanceIdToken":"eyJ.a.b","countryCode":"US","languageCode":"en-US","platformVersion":"2",'
       '"packageName":"com.example.desktop","sdkVersion":"12.0.0","analyticsUserProperties":{}}').encode()
TYPE = ("Content-Type", "application/json")
SDKS = {
    "js": ("demo", JS, [TYPE, ("Content-Encoding", "gzip"), ("If-None-Match", "*")]),
    "ios": ("demo", gzip.compress(IOS), [TYPE, ("Content-Encoding", "gzip"), ("X-Firebase-RC-Fetch-Type", "BASE/1")]),
    "android": ("123456789012", ANDROID, [TYPE, ("X-Goog-Api-Key", "AIza"), ("X-Google-GFE-Can-Retry", "yes")]),
    "cpp": ("demo", CPP, [TYPE]),
}
TARGETED = template(
    {"who": {"defaultValue": {"value": "other"},
             "conditionalValues": {name: {"value": name} for name in ("js", "ios", "android")}}},
    conditions=[{"name": "js", "expression": "device.os == 'web' && app.customSignal['plan'].exactlyMatches(['pro'])"},
                {"name": "ios", "expression": "device.os == 'ios' && app.userProperty['plan'].exactlyMatches(['pro'])"},
                {"name": "android", "expression": "app.build.>=(['200'])"}])


async def ask(daemon, body, headers=(TYPE,), path=PATH, connection=None):
    if connection:
        return await connection.request("POST", path, headers, body)
    return await fetch(daemon.edge, path, "POST", headers, body)


@pytest.mark.parametrize("sdk", SDKS)
async def test_each_sdk_gets_what_is_for_it_and_then_no_change(daemon, sdk):
    await daemon.publish(TARGETED)
    project, body, headers = SDKS[sdk]
    path = f"/v1/projects/{project}/namespaces/firebase:fetch?key=AIza"
    answer = await ask(daemon, body, headers, path)
    assert answer.status == 200
    assert answer.json()["state"] == "UPDATE" and answer.json()["templateVersion"] == "1"
    assert answer.json()["entries"] == {"who": {"cpp": "other"}.get(sdk, sdk)}
    etag = answer.header("etag")
    assert re.fullmatch(r"etag-123456789012-firebase-fetch--?\d+-[0-9a-f]{16}", etag)
    headers = [header for header in headers if header[0] != "If-None-Match"]
    again = await ask(daemon, body, headers + [("If-None-Match", etag)], path)
    assert again.status == 200, "304 is an error to most SDKs"
    assert again.json() == {"state": "NO_CHANGE", "templateVersion": "1"} and again.header("etag") == etag


async def test_without_a_template_and_without_parameters_the_state_says_so(daemon):
    answer = await ask(daemon, JS)
    assert answer.json() == {"state": "NO_TEMPLATE", "templateVersion": "0"} and answer.header("etag")
    await daemon.publish(template({}))
    answer = await ask(daemon, JS)
    assert answer.json() == {"state": "EMPTY_CONFIG", "templateVersion": "1"} and answer.header("etag")


@pytest.mark.parametrize("text", ("it's", "'", "l'été, c'est", "a}b", "{x:'y'", "\\n"))
async def test_apostrophes_in_ios_texts(daemon, text):
    await daemon.publish(marked("x"))
    body = IOS.replace(b"com.example.app", text.encode())
    for sent in (body, gzip.compress(body)):
        assert (await ask(daemon, sent)).json()["state"] == "UPDATE"


async def test_nil_of_ios_is_nothing(daemon):
    for value in ("'(null)'", "(null)"):
        body = IOS.replace(b"'eyJ.a.b'", value.encode())
        answer = await ask(daemon, body)
        assert answer.status == 400 and answer.json()["error"]["message"] == "appInstanceIdToken is missing"
        assert (await ask(daemon, IOS.replace(b"'us'", value.encode()))).status == 200


@pytest.mark.parametrize("body,status", (
    (b"", 400), (b"{}", 400), (b"[]", 400), (b"{" * 1000, 400), (b"\x1f\x8b" + b"x" * 40, 400),
    (gzip.compress(b" " * 70_000, mtime=0), 413), (gzip.compress(JS, mtime=0)[:-9], 400), (b" " * 70_000, 413)),
    ids=("empty", "no members", "an array", "braces", "no gzip", "a bomb", "cut gzip", "too long"))
async def test_what_cannot_be_understood_is_refused_in_googles_words(daemon, body, status):
    answer = await ask(daemon, body)
    assert answer.status == status and answer.json()["error"]["code"] == status
    assert answer.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert f'"code": {status}'.encode() in answer.body, "some SDKs search for it, blank included"


@pytest.mark.parametrize("path", (
    "/v1/projects/nobody/namespaces/firebase:fetch", "/v1/projects/demo/namespaces/other:fetch"))
async def test_unknown_projects_and_namespaces_are_404(daemon, path):
    answer = await ask(daemon, JS, path=path)
    assert answer.status == 404 and answer.json()["error"]["status"] == "NOT_FOUND"


SERVER_PATH = "/v1/projects/demo/namespaces/firebase-server:fetch"


async def test_a_server_template_is_served_only_where_the_project_says_so(launch, daemon):
    refusal = await ask(daemon, JS, path=SERVER_PATH)
    assert refusal.status == 403 and "serverTemplateOnEdge" in refusal.json()["error"]["message"]
    project = {"id": "demo", "number": 123456789012, "serverTemplateOnEdge": True}
    open_daemon = launch(configs.config(projects=[project]))
    await open_daemon.client(namespace="firebase-server").publish(template({"model": "large"}))
    answer = await ask(open_daemon, JS, path=SERVER_PATH)
    assert answer.status == 200 and answer.json()["entries"] == {"model": "large"}
    stream = SERVER_PATH.replace(":fetch", ":streamFetchInvalidations")
    reader, writer = await asyncio.open_connection("127.0.0.1", open_daemon.edge)
    writer.write(f"POST {stream} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 2\r\n\r\n{{}}".encode())
    await asyncio.wait_for(reader.readuntil(b'{"latestTemplateVersionNumber":"1"}'), 5)
    writer.close()


async def test_a_verb_may_be_percent_encoded_and_queries_are_ignored(daemon):
    await daemon.publish(marked("x"))
    for path in (PATH.replace(":", "%3A"), PATH + "?alt=json&prettyPrint=false&fields=x&%zz"):
        assert (await ask(daemon, JS, path=path)).json()["state"] == "UPDATE"


@pytest.mark.parametrize("method", ("GET", "HEAD", "PUT"))
async def test_other_methods_are_405(daemon, method):
    answer = await fetch(daemon.edge, PATH, method)
    assert answer.status == 405 and answer.header("allow") == "POST, OPTIONS"


async def test_one_connection_serves_many_fetches(daemon):
    await daemon.publish(template({"welcome_text": "x" * 300_000}))
    connection, used = Connection(daemon.edge), set()
    for _ in range(50):
        answer = await ask(daemon, ANDROID, connection=connection)
        assert len(answer.json()["entries"]["welcome_text"]) == 300_000
        used.add(connection.writer)
    assert len(used) == 1


async def test_browsers_of_allowed_origins_may_read_the_etag(launch, half):
    daemon = launch(configs.origins(half, "https://app.example"), half=half)
    await daemon.publish(marked("x"))
    preflight = await fetch(daemon.edge, PATH, "OPTIONS", headers=[
        ("Origin", "https://app.example"), ("Access-Control-Request-Method", "POST"),
        ("Access-Control-Request-Headers", "content-encoding,content-type,if-none-match")])
    assert preflight.status == 204 and preflight.header("access-control-max-age") == "3600"
    assert preflight.header("access-control-allow-origin") == "https://app.example"
    allowed = preflight.header("access-control-allow-headers")
    for name in ("content-type", "content-encoding", "if-none-match", "x-goog-api-key", "authorization",
                 "x-goog-firebase-installations-auth", "x-firebase-client"):
        assert name in allowed.split(", ")
    assert "POST" in preflight.header("access-control-allow-methods")
    answer = await ask(daemon, JS, [TYPE, ("Origin", "https://app.example")])
    assert answer.header("access-control-allow-origin") == "https://app.example"
    assert "ETag" in answer.header("access-control-expose-headers")
    answer = await ask(daemon, JS, [TYPE, ("Origin", "https://evil.example")])
    assert answer.header("access-control-allow-origin") is None


async def test_api_keys_are_asked_for_when_configured_and_never_logged(launch, half):
    daemon = launch(configs.config(half, edge={"apiKeys": ["right-key"]}, log={"level": "debug"}), half=half)
    await daemon.publish(marked("x"))
    for headers, path in (([TYPE], PATH), ([TYPE, ("X-Goog-Api-Key", "wrong-key")], PATH),
                          ([TYPE], PATH + "?key=wrong-key"), ([TYPE], "/v1/projects/demo/installations")):
        answer = await ask(daemon, JS, headers, path)
        assert answer.status == 403 and b'"code": 403' in answer.body and b"-key" not in answer.body
    assert (await ask(daemon, JS, [TYPE, ("X-Goog-Api-Key", "right-key")])).status == 200
    assert (await ask(daemon, JS, [TYPE], PATH + "?alt=json&key=right-key")).status == 200
    assert "right-key" not in daemon.log_text() and "wrong-key" not in daemon.log_text()


async def test_an_installation_lives_its_life(daemon):
    base = "/v1/projects/demo/installations"
    body = {"fid": "cAbCdEfGhIjKlMnOpQrStU", "authVersion": "FIS_v2", "appId": "1:1:web:0", "sdkVersion": "w:0.6.24"}
    for sent in (json.dumps(body).encode(), gzip.compress(json.dumps(body).encode())):
        made = (await ask(daemon, sent, path=base)).json()
        assert made["fid"] == body["fid"]
        assert made["name"] == f"projects/123456789012/installations/{body['fid']}"
        assert made["refreshToken"] and made["authToken"]["token"] and made["authToken"]["expiresIn"] == "604800s"
    proof = [TYPE, ("Authorization", f"FIS_v2 {made['refreshToken']}")]
    renew = f"{base}/{made['fid']}/authTokens:generate"
    renewed = await ask(daemon, b'{"installation":{"sdkVersion":"w:0.6.24"}}', proof, renew)
    assert renewed.status == 200 and renewed.json()["token"] and renewed.json()["expiresIn"] == "604800s"
    assert (await ask(daemon, b"{}", path=renew)).status == 401
    assert (await ask(daemon, b"{}", proof, renew.replace(made["fid"], "xyz"))).status == 404
    gone = await fetch(daemon.edge, f"{base}/{made['fid']}", "DELETE", headers=proof)
    assert gone.status == 200 and gone.json() == {}
    assert (await fetch(daemon.edge, base, "DELETE")).status == 405


@pytest.mark.parametrize("fid", ("", "short", "xAbCdEfGhIjKlMnOpQrStU", "cAbCdEfGhIjKlMnOpQrSt!"))
async def test_a_fid_that_is_none_is_replaced(daemon, fid):
    made = (await ask(daemon, json.dumps({"fid": fid}).encode(), path="/v1/projects/demo/installations")).json()
    assert re.fullmatch(r"[cdef][A-Za-z0-9_-]{21}", made["fid"])


async def test_who_hears_of_a_version_can_fetch_it(daemon):
    """G6: between the message and the fetch there is no time at all; the fetch is never older."""
    await daemon.publish(marked("0"))
    connection = Connection(daemon.edge)
    await ask(daemon, JS, connection=connection)
    events = await Stream.open(daemon.edge)
    await events.synced()
    publishing = asyncio.create_task(publish_all(daemon, 60))
    seen = 1
    while seen < 61:
        await events.version_at_least(seen + 1)
        seen = events.versions[-1]
        answer = await ask(daemon, JS, connection=connection)
        assert answer.status == 200 and int(answer.json()["templateVersion"]) >= seen
    await publishing
    events.close()


async def publish_all(daemon, count):
    for number in range(1, count + 1):
        await daemon.publish(marked(str(number)))
