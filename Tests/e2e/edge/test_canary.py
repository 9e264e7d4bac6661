"""The subscriber of our own in each scope: it sees what clients see, and no figure counts it."""

import asyncio

import pytest

from harness import configs
from harness.http1 import fetch
from harness.templates import marked
from harness.tls import launch_tls



async def seen(daemon, version):
    """What the canary saw of a version, once it has fetched."""
    async def complete():
        canaries = (await daemon.status())["canaries"]
        return [row for row in canaries if row["versionNumber"] == str(version) and row["fetched"]]
    for _ in range(500):
        if found := await complete():
            return found[0]
        await asyncio.sleep(0.02)
    raise AssertionError((await daemon.status())["canaries"])


async def nobody(daemon):
    """It is in no figure: streams, connections, deliveries, fetches, audience."""
    status = await daemon.status()
    edge, fetched = status["edge"], status["fetch"]
    assert (edge["streams"], edge["connections"], edge["deliveries"], edge["written"]["count"]) == (0, 0, 0, 0), edge
    assert (fetched["answered"], fetched["bytes"], status["clients"]["known"]) == (0, 0, 0), fetched
    way = (await daemon.ask_control("/v1/projects/demo/remoteConfig/propagation")).json()
    assert way["streams"]["audience"] == way["streams"]["joined"] == way["fetches"]["answers"] == 0, way
    audience = (await daemon.ask_control("/v1/projects/demo/remoteConfig/audience")).json()
    assert (audience["streams"], audience["clients"], audience["clientsSeen"]) == (0, 0, 0)


def launch_kind(launch, tmp_path, half, kind):
    if kind == "tls":
        return launch_tls(launch, tmp_path, half)[0]
    return launch(configs.config(half, auth={"mode": "enforce"}) if kind == "guarded" else None, half=half)


@pytest.mark.parametrize("kind", ("plain", "tls", "guarded"))
async def test_it_sees_each_version_and_is_counted_nowhere(launch, tmp_path, half, kind):
    daemon = launch_kind(launch, tmp_path, half, kind)
    if kind == "guarded":
        assert (await fetch(daemon.edge, "/v1/events?topic=PUSH_RC")).status == 401, "other clients are refused"
    client = daemon.client()
    # The first version makes it; it misses those that are announced before it has its place.
    while not (await daemon.status())["canaries"]:
        await client.publish(marked("makes it"))
        await asyncio.sleep(0.02)
    for number in range(5):
        version = await client.publish(marked(str(number)))
        row = await seen(daemon, version)
        assert (row["project"], row["namespace"]) == ("demo", "firebase")
        assert 0 < row["received"] <= row["fetched"]
    # Of versions that follow each other faster than it fetches it sees the newest.
    for number in range(20):
        version = await client.publish(marked(f"burst {number}"))
    row = await seen(daemon, version)
    assert 0 < row["received"] <= row["fetched"]
    metrics = await daemon.metrics()
    labels = '{project="demo",namespace="firebase",rung="%s"}'
    assert metrics["stalecast_canary_seconds", labels % "received"] == row["received"]
    assert metrics["stalecast_canary_seconds", labels % "fetched"] == row["fetched"]
    await nobody(daemon)
    # After a restart it is there before the first version.
    await asyncio.to_thread(daemon.stop)
    await asyncio.to_thread(daemon.start)
    client = daemon.client()
    await seen(daemon, await client.publish(marked("after a restart")))
    await nobody(daemon)


async def test_it_can_be_left_out(launch, half):
    daemon = launch(configs.config(half, edge={"canary": False}), half=half)
    for number in range(2):
        await daemon.publish(marked(str(number)))
    assert (await daemon.status())["canaries"] == []
    assert await daemon.metric("stalecast_canary_seconds") == 0
