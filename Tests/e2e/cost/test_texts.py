"""Every text of a stranger, on both listeners: four times as many bytes cost about four times as much CPU."""

import asyncio
import gzip
import json

import pytest

from harness import configs
from harness.http1 import fetch
from harness.templates import template

ALPHABETS = {"letters": "a", "flags": "\U0001f1e9\U0001f1ea", "marks": "a" + "\u0315\u0300" * 30,
             "joiners": "\U0001f469\u200d"}
MEMBERS = ["appId", "appInstanceId", "appInstanceIdToken", "countryCode", "languageCode", "timeZone", "platformVersion",
           "appVersion", "appBuild", "packageName", "sdkVersion", "firstOpenTime"]
FETCH = "/v1/projects/demo/namespaces/firebase:fetch"
FLAGS = "/ofrep/v1/evaluate/flags"
LAUNCHDARKLY = "/sdk/evalx/demo/context"


def text(alphabet, size):
    """About `size` bytes."""
    return alphabet * (size // len(alphabet.encode()))


def escaped(alphabet, size):
    piece = "".join(f"%{byte:02x}" for byte in alphabet.encode())
    return piece * (size // len(piece))


async def cost(daemon, request, size):
    """CPU seconds of five requests."""
    begun = daemon.cpu_seconds()
    for _ in range(5):
        await request(size)
    return daemon.cpu_seconds() - begun


async def costs_in_proportion(daemon, request, sizes, plain=None):
    """`request(size)` costs less than ten times as much for four times the size; 16 times would be quadratic. The largest
    also costs less than ten times what `plain(size)` does, whose text nothing looks at. What looks dear is measured
    again: what really is dear is so each time."""
    for _ in range(4):
        costs = [await cost(daemon, request, size) for size in sizes]
        usual = await cost(daemon, plain, sizes[-1]) if plain else costs[-1]
        if all(later < 10 * former for former, later in zip(costs, costs[1:])) and costs[-1] < 10 * usual:
            return
    costs = [round(each / 5 * 1000, 2) for each in (*costs, usual)]
    pytest.fail(f"{sizes} bytes, and as many plain ones, cost {costs} ms of CPU")


async def publish_conditions(daemon):
    """A template that looks at what a fetch says."""
    conditions = [{"name": f"c{number}", "expression": expression} for number, expression in enumerate(
        [f"device.country in ['A{chr(65 + number % 26)}', 'B{chr(65 + number // 26)}']" for number in range(200)]
        + ["app.id == 'x'", "device.language in ['en-US']", "app.version.>=(['2.1.0'])", "app.build.contains(['12'])"])]
    parameters = {entry["name"]: {"conditionalValues": {entry["name"]: {"value": "x"}}} for entry in conditions}
    await daemon.publish(template(parameters, conditions=conditions))


# Every body that a stranger may send to Edge: the path, what is sound, and the members that are texts.
BODIES = {
    "fetch": (FETCH, {"appId": "1:1:android:a", "appInstanceId": "c" + "A" * 21, "appInstanceIdToken": "t"}, MEMBERS),
    "stream": (FETCH.replace(":fetch", ":streamFetchInvalidations"), {},
               ["appId", "appInstanceId", "lastKnownVersionNumber", "namespace", "project", "sdkVersion"]),
    "installation": ("/v1/projects/demo/installations", {"fid": "c" + "A" * 21, "appId": "1:1:android:a"},
                     ["fid", "appId", "authVersion", "sdkVersion"]),
    "ticket": ("/v1/tickets", {"topics": ["PUSH_RC"]}, ["topics", "project", "namespace"]),
    "flags": (FLAGS, {"targetingKey": "u"}, ["targetingKey", "appId", "language", "appVersion", "plan"]),
    "launchdarkly": (LAUNCHDARKLY, {"kind": "user", "key": "u"}, ["key", "kind", "name", "language", "plan"]),
    "report": ("/v1/report", {"client": "a", "versionNumber": "1", "state": "failed", "project": "demo"},
               ["client", "versionNumber", "state", "project", "namespace", "app", "sdk", "error"]),
}


async def post(daemon, path, said):
    """The status alone: what streams has no end."""
    said = {"context": said} if path == FLAGS else said
    body = gzip.compress(json.dumps(said, ensure_ascii=False).encode())
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.edge)
    method = "REPORT" if path == LAUNCHDARKLY else "POST"
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Encoding: gzip\r\n"
                 f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    status = int((await reader.readline()).split()[1])
    writer.close()
    return status


@pytest.mark.parametrize("alphabet", ALPHABETS)
@pytest.mark.parametrize("kind", BODIES)
async def test_every_text_of_a_body(launch, kind, alphabet):
    """In gzip 64 KB of one text are some hundred bytes, so these are the dearest requests for their length."""
    daemon = launch(configs.config(edge={"dialects": ["launchdarkly"]}))
    await publish_conditions(daemon)
    path, sound, members = BODIES[kind]

    async def plain(size):
        await post(daemon, path, {**sound, "unknown": "a" * size})

    for member in members:
        async def request(size, member=member):
            said = text(ALPHABETS[alphabet], size)
            assert await post(daemon, path, {**sound, member: [said] if member == "topics" else said}) < 500

        await costs_in_proportion(daemon, request, (1000, 4000, 16_000, 60_000), plain)


HEADERS = ["Authorization", "X-API-Key", "X-Goog-Api-Key", "Cookie", "Origin", "Last-Event-ID", "X-Stalecast-Client",
           "X-Stalecast-Cursor", "If-None-Match", "X-Firebase-Client", "X-Forwarded-For", "Forwarded", "Accept-Encoding",
           "Content-Type", "User-Agent", "X-Request-Id", "X-Stalecast-User", "Idempotency-Key", "X-Other"]


@pytest.mark.parametrize("piece", ["a", "a,", "a=b; ", '"a", ', "%f0%9f%87", "\xf0\x9f\x87\xa9"])
@pytest.mark.parametrize("half", ["engine"], indirect=True)
async def test_every_header_of_a_request(daemon, piece):
    for port, path in ((daemon.edge, "/v1/poll?topic=PUSH_RC&wait=0s"),
                       (daemon.control, "/v1/projects/demo/remoteConfig")):
        for name in HEADERS:
            async def request(size, port=port, path=path, name=name):
                value = (piece * (size // len(piece))).strip()
                assert (await fetch(port, path, headers=[(name, value)])).status < 500

            await costs_in_proportion(daemon, request, (900, 3500, 14_000))


@pytest.mark.parametrize("alphabet", ALPHABETS)
async def test_every_parameter_of_a_query(daemon, alphabet):
    parameters = ["topic", "client", "app", "sdk", "cursor", "wait", "project", "key", "other", ""]
    for port, path in ((daemon.edge, "/v1/poll?topic=PUSH_RC&client=a&wait=0s&"),
                       (daemon.control, "/v1/projects/demo/remoteConfig?")):
        for name in parameters:
            async def request(size, port=port, path=path, name=name):
                value = escaped(ALPHABETS[alphabet], size)
                target = f"{path}{name}={value}" if name else f"{path}{value}=1"
                assert (await fetch(port, target)).status in (200, 304, 400, 401, 403, 404)

            await costs_in_proportion(daemon, request, (900, 3500, 14_000))
