"""Gates of staged releases: streams of told and untold addresses are compared, and servers outside are asked."""

import asyncio
import contextlib
import json
import resource
import socket
import struct
from urllib.parse import quote

import pytest

from harness import configs
from harness.daemon import LONG
from harness.templates import marked
from harness.waiting import eventually, until

BASE = "/v1/projects/demo/remoteConfig"
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
MARK = b'"latestTemplateVersionNumber":"'


def behind_a_proxy(half):
    """A configuration in which this test says for which addresses it speaks, and may be called by the daemon."""
    return configs.config(
        half, edge={"trustedProxies": ["127.0.0.1"], "proxyProtocol": True},
        webhooks={"allowedAddresses": ["127.0.0.0/8"]})


class Crowd(asyncio.Protocol):
    """Streams without an id from many addresses. Each knows the newest version that it was told of."""

    def __init__(self, crowd, address):
        self.crowd, self.address, self.rest, self.version, self.is_ready = crowd, address, b"", 0, False

    @classmethod
    async def open(cls, daemon, addresses, per=1):
        crowd = []
        loop = asyncio.get_running_loop()
        for start in range(0, addresses * per, 200):
            await asyncio.gather(*(
                loop.create_connection(
                    lambda number=number: cls(crowd, 0x0B000001 + number % addresses), "127.0.0.1", daemon.edge)
                for number in range(start, min(start + 200, addresses * per))))
        async def ready():
            return sum(stream.is_ready for stream in crowd)
        assert await eventually(ready, addresses * per, timeout=60) == addresses * per, "not all streams are open"
        return crowd

    def connection_made(self, transport):
        self.transport = transport
        self.crowd.append(self)
        rest = struct.pack(">I", self.address) + socket.inet_aton("127.0.0.1") + struct.pack(">HH", 40000, 443)
        transport.write(SIGNATURE + b"\x21\x11" + struct.pack(">H", len(rest)) + rest
                        + b"GET /v1/events?topic=PUSH_RC HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")

    def data_received(self, data):
        self.rest = (self.rest + data)[-4096:]
        self.is_ready = self.is_ready or b"event: synced" in self.rest
        place = self.rest.rfind(MARK)
        if place >= 0:
            digits = self.rest[place + len(MARK):].split(b'"', 1)
            if len(digits) == 2:
                self.version = int(digits[0])


async def staged(client, body, gates, **query):
    query = {"release": "staged", "anonymous": "address", "gates": json.dumps(gates), **query}
    return await client.put(body, query="?" + "&".join(f"{name}={quote(value)}" for name, value in query.items()))


async def release(client):
    return (await client.call("GET", f"{BASE}/release")).json()


def state(client):
    async def read():
        return (await release(client))["state"]
    return read


async def told(crowd, version, least):
    """Waits until so many streams were told of a version and no more come; returns how many."""
    seen = -1
    async def all_told():
        nonlocal seen
        before, seen = seen, sum(stream.version == version for stream in crowd)
        return least <= seen == before
    await until(all_told)
    return seen


def gate(document, name):
    """What a gate shows; before the daemon's first look it shows nothing."""
    return next((gate for gate in document["gates"] if gate["name"] == name), {})


async def test_a_version_that_makes_clients_vanish_is_paused_before_its_next_stage(launch, half):
    daemon = launch(behind_a_proxy(half), half=half)
    control = daemon.client()
    await control.publish(marked("one"))
    crowd = await Crowd.open(daemon, 300)
    gates = {"loss": {"margin": "2%", "return": "1s"}}
    # A quiet one goes through.
    assert (await staged(control, marked("two"), gates, stages="40%,100%", every="5s", bake="0s")).status == 200
    async def judged():
        return gate(await release(control), "loss").get("verdict")
    assert 60 < await told(crowd, 2, 60) < 180
    assert await eventually(judged, "OK", timeout=10) == "OK"
    assert gate(await release(control), "loss")["limit"] == 2
    assert await eventually(state(control), "RELEASED", timeout=20) == "RELEASED"
    # Another one makes a third of its clients vanish.
    assert (await staged(control, marked("three"), gates, stages="40%,100%", every="1m")).status == 200
    await told(crowd, 3, 60)
    for number, stream in enumerate([stream for stream in crowd if stream.version == 3]):
        if number % 3 == 0:
            stream.transport.abort()
    assert await eventually(state(control), "PAUSED", timeout=20) == "PAUSED"
    now = await release(control)
    event = now["events"][-1]
    assert event["by"] == "gate:loss" and event["kind"] == "PAUSED" and now["percent"] == 40
    assert event["figures"]["told"] > 5 and event["figures"]["untold"] < 2, event
    assert gate(now, "loss")["verdict"] == "TRIPPED"
    assert await daemon.metric("stalecast_release_gate_tripped", gate="loss") == 1
    assert await daemon.metric("stalecast_release_gate_limit", gate="loss") == 2
    assert await daemon.metric("stalecast_release_gate", gate="loss") > 4
    # An operator may go on all the same.
    assert (await control.call("POST", f"{BASE}/release:resume", b"{}")).status == 200
    assert (await control.call("POST", f"{BASE}/release:promote", b"{}")).status == 200
    for stream in crowd:
        stream.transport.abort()


@contextlib.asynccontextmanager
async def server(answer):
    """Answers each request by what `answer(target)` returns: a status and a body."""
    async def handle(reader, writer):
        while head := await reader.readuntil(b"\r\n\r\n"):
            status, body = answer(head.split(b" ", 2)[1].decode())
            writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
    async def quietly(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            await handle(reader, writer)
        writer.close()
    listening = await asyncio.start_server(quietly, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        listening.close()


@configs.one_half
async def test_a_query_of_prometheus_rolls_a_release_back(launch, half):
    daemon = launch(behind_a_proxy(half), half=half)
    control = daemon.client()
    await control.publish(marked("one"))
    asked = []
    def answer(target):
        asked.append(target)
        return 200, '{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"0.2"]}]}}'
    async with server(answer) as url:
        gates = {"prometheus": {"url": url, "query": "errors{a=\"b\"}", "limit": 0.05, "onTrip": "rollback"}}
        assert (await staged(control, marked("two"), gates)).status == 200
        assert await eventually(state(control), "ROLLED_BACK", timeout=20) == "ROLLED_BACK"
    now = await release(control)
    assert now["events"][-1]["by"] == "gate:prometheus" and now["successorVersionNumber"] == "3"
    assert gate(now, "prometheus") == {
        "name": "prometheus", "verdict": "TRIPPED", "value": 0.2, "limit": 0.05, "detail": "the query gives 0.2"}
    assert asked == ["/api/v1/query?query=errors%7Ba%3D%22b%22%7D"]
    lines = [json.loads(line) for line in (daemon.data / "audit.jsonl").read_text().splitlines()]
    line = next(line for line in lines if line["action"] == "rollbackRelease")
    assert [line[name] for name in ("actor", "release", "state", "version", "reason")] == [
        "gate:prometheus", "2", "ROLLED_BACK", "3", "the query gives 0.2"]
    wrong = await staged(control, marked("four"), {"url": "ftp://example.org"})
    assert wrong.status == 400 and "gates.url" in wrong.json()["error"]["message"]
    # A loss of power takes the line, and not the entry in the commit.
    daemon.kill()
    log = daemon.data / "audit.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[: lines.index(line)]))
    daemon.start()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    again = next(line for line in lines if line["action"] == "rollbackRelease")
    assert again["recovered"]
    for name in ("actor", "release", "state", "version", "reason", "rollbackSource", "commit", "outcome"):
        assert again[name] == line[name], name


@pytest.mark.campaign
@pytest.mark.limit(240)
@pytest.mark.skipif(not LONG, reason="20,000 streams for a minute: STALECAST_LONG=1")
async def test_a_fifth_of_the_told_of_20000_streams_vanishes(launch):
    # Where there are fewer descriptors, there are fewer streams.
    addresses = min(2000, resource.getrlimit(resource.RLIMIT_NOFILE)[1] * 4 // 5 // 10)
    daemon = launch(behind_a_proxy("engine"))
    control = daemon.client()
    await control.publish(marked("one"))
    crowd = await Crowd.open(daemon, addresses, per=10)
    assert (await staged(control, marked("two"), {}, stages="1%,10%,100%", every="2m")).status == 200
    assert await told(crowd, 2, 50) < 400
    for number, stream in enumerate([stream for stream in crowd if stream.version == 2]):
        if number % 5 == 0:
            stream.transport.abort()
    assert await eventually(state(control), "PAUSED", timeout=100) == "PAUSED"
    assert (await release(control))["percent"] == 1
    assert await told(crowd, 2, 50) <= 0.02 * len(crowd)
    for stream in crowd:
        stream.transport.abort()
