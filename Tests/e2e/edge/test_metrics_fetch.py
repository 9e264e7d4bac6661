"""What /metrics and /status tell of fetches, renderings and installations."""

import json

from harness import configs
from harness.http1 import fetch
from harness.templates import template
from test_fetch import ANDROID, CPP, JS, PATH, SDKS, TYPE
from harness.waiting import eventually

INSTALLATIONS = "/v1/projects/demo/installations"


async def ask(daemon, body, *headers):
    return await fetch(daemon.edge, PATH, "POST", (TYPE, *headers), body)


async def test_fetches_are_counted_by_platform_and_state(daemon):
    await ask(daemon, JS)
    await daemon.publish(template({"welcome_text": "hello"}))
    etag = (await ask(daemon, JS)).header("etag")
    assert (await ask(daemon, JS, ("If-None-Match", etag))).json()["state"] == "NO_CHANGE"
    for sdk in ("ios", "android", "cpp"):
        _, body, headers = SDKS[sdk]
        assert (await fetch(daemon.edge, PATH, "POST", headers, body)).status == 200
    assert (await ask(daemon, b"{}")).status == 400
    wanted = {("web", "no_template"): 1, ("web", "update"): 1, ("web", "no_change"): 1, ("ios", "update"): 1,
              ("android", "update"): 2}
    for (dialect, state), count in wanted.items():
        read = lambda: daemon.metric("stalecast_fetches_total", dialect=dialect, state=state)
        assert await eventually(read, count) == count, (dialect, state)
    assert await daemon.metric("stalecast_fetches_total") == sum(wanted.values())
    # Each loop says its counts by itself.
    assert await eventually(lambda: daemon.metric("stalecast_fetches_refused_total", status="400"), 1) == 1
    assert await daemon.metric("stalecast_fetch_bytes_total") > 5 * 200


async def test_renderings_and_their_hits_are_counted(launch, half):
    # Its fetch, which is not counted, would have been the first.
    daemon = launch(configs.config(half, edge={"canary": False}), half=half)
    await daemon.publish(template({"welcome_text": "hello"}))
    for body in (JS, JS, ANDROID, CPP):
        await ask(daemon, body)
    # no condition: one rendering for all
    assert await eventually(lambda: daemon.metric("stalecast_rendering_hits_total"), 3) == 3
    assert await daemon.metric("stalecast_rendering_seconds_count") == 1
    assert await daemon.metric("stalecast_renderings") == 1
    assert await daemon.metric("stalecast_rendering_bytes") > 200
    status = (await daemon.status())["fetch"]
    assert status["answered"] == 4 and status["states"]["UPDATE"] == 4 and status["rendered"] == 1
    assert status["cacheHits"] == 3 and status["renderings"] == 1


@configs.one_half
async def test_installations_are_counted(daemon):
    made = await fetch(daemon.edge, INSTALLATIONS, "POST", (TYPE,), json.dumps({"fid": "cAbCdEfGhIjKlMnOpQrStU"}).encode())
    fid, refresh = made.json()["fid"], made.json()["refreshToken"]
    headers = (TYPE, ("Authorization", f"FIS_v2 {refresh}"))
    await fetch(daemon.edge, f"{INSTALLATIONS}/{fid}/authTokens:generate", "POST", headers, b"{}")
    await fetch(daemon.edge, f"{INSTALLATIONS}/{fid}", "DELETE", headers)
    for event in ("created", "token", "deleted"):
        assert await eventually(lambda: daemon.metric("stalecast_installations_total", event=event), 1) == 1
    assert (await daemon.status())["fetch"]["installations"] == 3
