"""Firebase's streams are told over the herd window, because their SDKs fetch at once; other clients are told now."""

import asyncio
import json
import signal
import time

import pytest

from harness import configs
from harness.poll import poll
from harness.sdk_streams import ChunkDecoder, first_object
from harness.sse import Stream
from harness.templates import marked, template
from harness.waiting import until

STREAMS = 300


class Firebase:
    """One real-time stream: `heard` has (time, version) of each message, `retries` what it was told at its end."""

    def __init__(self, port, known):
        self.port, self.known = port, known
        self.heard, self.retries, self.ended = [], [], False

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        body = json.dumps({"lastKnownVersionNumber": str(self.known), "appId": "1:1:web:a"}).encode()
        self.writer.write(b"POST /v1/projects/demo/namespaces/firebase:streamFetchInvalidations HTTP/1.1\r\nHost: localhost\r\n"
                          b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        self.task = asyncio.create_task(self._read())
        return self

    async def _read(self):
        decoder, text = ChunkDecoder(), ""
        try:
            while data := await self.reader.read(1 << 16):
                text += b"".join(decoder.feed(data)).decode()
                *lines, text = text.split("\n")
                for message in [message for line in lines for message in first_object(line)]:
                    self.heard.append((time.monotonic(), int(message["latestTemplateVersionNumber"])))
                    if "retryIntervalSeconds" in message:
                        self.retries.append(message["retryIntervalSeconds"])
        except OSError:
            pass
        self.ended = True

    @property
    def versions(self):
        """What it heard, without the echo of a burst."""
        return list(dict.fromkeys(version for _, version in self.heard))

    def when(self, version):
        return next((at for at, heard in self.heard if heard == version), None)

    def close(self):
        self.task.cancel()
        self.writer.close()


async def crowd(daemon, known, count=STREAMS):
    streams = [Firebase(daemon.edge, known) for _ in range(count)]
    for start in range(0, count, 50):
        await asyncio.gather(*(stream.open() for stream in streams[start:start + 50]))
    return streams


async def herd(daemon):
    return (await daemon.status())["herds"][0]


async def way(daemon):
    return (await daemon.ask_control("/v1/projects/demo/remoteConfig/propagation")).json()


async def counted(daemon, subscribers):
    """Waits until the hub knows of all of them: loops tell it each second."""
    async def known():
        return (await herd(daemon))["subscribers"] == subscribers
    await until(known)


def herded(budget, half="engine", **more):
    return configs.config(half, sources={"scopes": [
        {"scope": "demo/firebase", "kind": "store", "herdBudget": budget}]}, **more)


def told(streams, version):
    return [stream for stream in streams if stream.when(version)]


async def all_told(streams, version, timeout=40):
    await until(lambda: len(told(streams, version)) == len(streams), timeout=timeout)




@pytest.mark.limit(120)
async def test_the_walk_takes_the_window_and_misses_nobody(launch, half):
    daemon = launch(herded(100, half), half=half)
    held = await daemon.publish(marked("held"))
    streams = await crowd(daemon, held)
    watcher = await Stream.open(daemon.edge, have=held)
    await counted(daemon, STREAMS + 1)
    assert await herd(daemon) == {
        "project": "demo", "namespace": "firebase", "windowMs": 3010, "pacedOverMs": 3010, "subscribers": STREAMS + 1,
        "configuredBudget": 100, "budget": 100, "fetchesPerStream": None}
    cursor = (await daemon.state())["cursor"]
    waiting = asyncio.create_task(poll(daemon.edge, cursor=cursor, wait="30s"))
    await asyncio.sleep(0)
    begin = time.monotonic()
    version = await daemon.publish(marked("paced"))
    await watcher.version_at_least(version)
    answered = await waiting
    assert len(told(streams, version)) < STREAMS, "server-sent events and polls do not wait for the walk"
    assert watcher.messages[-1].json()["fetchWindowMs"] == 3010 and answered.json()["messages"]
    found = (await way(daemon))["streams"]
    assert found["audience"] == STREAMS + 1 and found["sent"] + found["backlogged"] == STREAMS + 1
    await all_told(streams, version)
    times = sorted(stream.when(version) - begin for stream in streams)
    assert times[-1] >= 3.0, "the last turn is at the end of the window"
    for number, at in enumerate(times):
        assert number <= 100 * at + 1, f"{number} were told after {at:.3f} s: faster than the budget"
    assert [stream.versions for stream in streams] == [[version]] * STREAMS

    async def settled():
        return (await way(daemon))["streams"]["sent"] == STREAMS + 1
    await until(settled)
    found = await way(daemon)
    assert found["streams"]["backlogged"] == found["streams"]["left"] == 0 and found["state"] == "CONVERGED"
    assert found["times"]["sent"]["t50"] < found["times"]["sent"]["t99"]
    assert found["times"]["sent"]["last"] >= 3.0 and found["milliseconds"] >= 3000
    # No echo, and no second turn.
    assert max(len(stream.heard) for stream in streams) == 1


@pytest.mark.limit(120)
async def test_a_new_version_supersedes_the_rest_of_a_walk(launch):
    daemon = launch(herded(60))
    held = await daemon.publish(marked("held"))
    streams = await crowd(daemon, held)
    await counted(daemon, STREAMS)
    first = await daemon.publish(marked("first"))
    await until(lambda: len(told(streams, first)) >= 60)
    second = await daemon.publish(marked("second"))
    await all_told(streams, second)
    early, rest = told(streams, first), [stream for stream in streams if not stream.when(first)]
    assert 60 <= len(early) < STREAMS, "what it had not come to is never told of the first"
    assert {tuple(stream.versions) for stream in early} == {(first, second)}
    assert {tuple(stream.versions) for stream in rest} == {(second,)}
    middle = sorted(stream.when(second) for stream in rest)[len(rest) // 2]
    assert middle < sorted(stream.when(second) for stream in early)[len(early) // 2], "who waited longest comes first"
    for number in (first, second):
        found = (await daemon.ask_control(
            f"/v1/projects/demo/remoteConfig/propagation?versionNumber={number}")).json()
        assert found["streams"]["audience"] == STREAMS

    async def both():
        return (await way(daemon))["streams"]["sent"] == STREAMS
    await until(both)


@pytest.mark.limit(120)
@pytest.mark.parametrize("cure", ("rollback", "urgent"))
async def test_a_cure_goes_to_all_at_once(launch, cure):
    daemon = launch(herded(20))
    held = await daemon.publish(marked("held"))
    streams = await crowd(daemon, held)
    await counted(daemon, STREAMS)
    version = await daemon.publish(marked("bad"))
    await until(lambda: len(told(streams, version)) >= 10)
    if cure == "rollback":
        newest = await daemon.rollback(held)
    else:
        newest = await daemon.publish(template({"welcome_text": "off"}, description="[urgent] kill switch"))
    await all_told(streams, newest)
    times = sorted(stream.when(newest) for stream in streams)
    assert times[-1] - times[0] < STREAMS / 20, "a paced walk takes no less"
    assert {tuple(stream.versions) for stream in streams} <= {(version, newest), (newest,)}
    found = await way(daemon)
    assert found["streams"]["sent"] == STREAMS and found["streams"]["left"] == 0, found["streams"]


@pytest.mark.limit(120)
async def test_who_comes_back_during_a_walk_hears_it_at_once(launch):
    daemon = launch(herded(20))
    held = await daemon.publish(marked("held"))
    streams = await crowd(daemon, held)
    await counted(daemon, STREAMS)
    version = await daemon.publish(marked("paced"))
    await until(lambda: told(streams, version))
    untold = [stream for stream in streams if not stream.when(version)][:40]
    for stream in untold:
        stream.close()
    again = await crowd(daemon, held, len(untold))
    await all_told(again, version)
    assert len(told(streams, version)) < STREAMS - len(untold), "the walk goes on"

    async def gone():
        return (await way(daemon))["streams"]["left"] == len(untold)
    await until(gone)
    found = (await way(daemon))["streams"]
    assert (found["audience"], found["joined"]) == (STREAMS, len(untold)), found
    await all_told([stream for stream in streams if stream not in untold], version)
    assert {tuple(stream.versions) for stream in again} == {(version,)} and max(len(s.heard) for s in again) == 1


@pytest.mark.limit(120)
async def test_a_drain_ends_a_walk_with_the_version_said(launch):
    daemon = launch(herded(20, shutdown={"drain": "500ms"}))
    held = await daemon.publish(marked("held"))
    streams = await crowd(daemon, held)
    await counted(daemon, STREAMS)
    version = await daemon.publish(marked("paced"))
    await until(lambda: told(streams, version))
    assert await asyncio.to_thread(daemon.stop) == 0
    await until(lambda: all(stream.ended for stream in streams))
    assert [stream.versions for stream in streams] == [[version]] * STREAMS
    assert all(len(stream.retries) == 1 for stream in streams)


@pytest.mark.limit(120)
async def test_after_a_kill_the_rest_hears_it_when_it_comes_back(launch, half):
    daemon = launch(herded(20, half), half=half)
    held = await daemon.publish(marked("held"))
    streams = await crowd(daemon, held)
    await counted(daemon, STREAMS)
    version = await daemon.publish(marked("paced"))
    await until(lambda: told(streams, version))
    daemon.signal(signal.SIGKILL)
    daemon.process.wait()
    rest = [stream for stream in streams if not stream.when(version)]
    assert rest
    await asyncio.to_thread(daemon.start)
    again = await crowd(daemon, held, len(rest))
    await all_told(again, version)
    known = await crowd(daemon, version, 5)
    later = await daemon.publish(marked("later"))
    await all_told(again + known, later)
    assert {tuple(stream.versions) for stream in known} == {(later,)}
