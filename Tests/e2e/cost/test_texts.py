"""Texts of strangers, on both listeners: four times as many bytes cost about four times as much CPU."""

import gzip
import json

import pytest

from harness.http1 import fetch
from harness.templates import template

pytestmark = pytest.mark.busy

ALPHABETS = {"letters": "a", "flags": "\U0001f1e9\U0001f1ea", "marks": "a" + "\u0315\u0300" * 30,
             "joiners": "\U0001f469\u200d"}
MEMBERS = ["appId", "appInstanceId", "appInstanceIdToken", "countryCode", "languageCode", "timeZone", "platformVersion",
           "appVersion", "appBuild", "packageName", "sdkVersion", "firstOpenTime"]
FETCH = "/v1/projects/demo/namespaces/firebase:fetch"


def text(alphabet, size):
    """About `size` bytes."""
    return alphabet * (size // len(alphabet.encode()))


def escaped(alphabet, size):
    piece = "".join(f"%{byte:02x}" for byte in alphabet.encode())
    return piece * (size // len(piece))


async def costs_in_proportion(daemon, request, small, large):
    """`request(size)` costs less than ten times as much for four times the size; 16 times would be quadratic. What looks
    dear is measured again: what really is quadratic is so each time."""
    for _ in range(4):
        cost = []
        for size in (small, large):
            begun = daemon.cpu_seconds()
            for _ in range(5):
                await request(size)
            cost.append(daemon.cpu_seconds() - begun)
        if cost[1] < 10 * cost[0]:
            return
    pytest.fail(f"{small} bytes cost {cost[0] / 5 * 1000:.1f} ms of CPU, {large} bytes {cost[1] / 5 * 1000:.1f} ms")


async def publish_conditions(daemon):
    """A template that looks at what a fetch says."""
    conditions = [{"name": f"c{number}", "expression": expression} for number, expression in enumerate(
        [f"device.country in ['A{chr(65 + number % 26)}', 'B{chr(65 + number // 26)}']" for number in range(200)]
        + ["app.id == 'x'", "device.language in ['en-US']", "app.version.>=(['2.1.0'])", "app.build.contains(['12'])"])]
    parameters = {entry["name"]: {"conditionalValues": {entry["name"]: {"value": "x"}}} for entry in conditions}
    await daemon.publish(template(parameters, conditions=conditions))


@pytest.mark.parametrize("alphabet", ALPHABETS)
async def test_every_text_of_a_fetch(daemon, alphabet):
    await publish_conditions(daemon)
    for member in MEMBERS:
        async def request(size, member=member):
            said = {"appId": "1:1:android:a", "appInstanceId": "c" + "A" * 21, "appInstanceIdToken": "t",
                    member: text(ALPHABETS[alphabet], size)}
            body = gzip.compress(json.dumps(said, ensure_ascii=False).encode())
            assert (await fetch(daemon.edge, FETCH, "POST", (), body)).status == 200

        await costs_in_proportion(daemon, request, 15_000, 60_000)


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

            await costs_in_proportion(daemon, request, 3500, 14_000)
