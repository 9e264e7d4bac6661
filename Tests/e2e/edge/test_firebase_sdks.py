"""Firebase's SDKs, emulated to the byte, on a daemon that publishes, rolls back and restarts under them."""

import asyncio
import contextlib
import json
import random
import time

import pytest

from harness import configs
from harness.cli import stalecast
from harness.daemon import LONG
from harness.sdk_streams import AndroidParser, AppleParser, ChunkDecoder, JavaScriptParser, Relay
from harness.sdks import SDKS, Apple, JavaScript
from harness.templates import marked, template
from harness.waiting import eventually

CHANGES = 120 if LONG else 40
PER_SDK = 4
PLATFORMS = {"js": "web", "ios": "ios", "android": "android"}
ONE, TWO = b'{"latestTemplateVersionNumber":"1"}\n', b'{"latestTemplateVersionNumber":"2"}\n'


def numbers(parser, *reads):
    return [int(message["latestTemplateVersionNumber"]) for read in reads for message in parser.feed(read)]


def test_the_emulated_parsers_have_the_weaknesses_of_the_real_ones():
    assert numbers(JavaScriptParser(), ONE[:9], ONE[9:], b"\n", TWO) == [1, 2]
    assert numbers(JavaScriptParser(), ONE + TWO, b"\n") == [1], "the second of one read is lost"
    assert numbers(AppleParser(), ONE[:9], ONE[9:], ONE + TWO) == [1], "parts are lost"
    assert numbers(AndroidParser(), ONE[:9], ONE[9:] + TWO) == [1, 2]
    off = {"featureDisabled": False}
    assert [parser.disabled(off) for parser in (JavaScriptParser, AppleParser, AndroidParser)] == [False, True, False]


@pytest.mark.parametrize("step", (1, 2, 3, 7, 100))
def test_chunks_cut_anywhere_are_put_together(step):
    data, decoder = b"1\r\n\n\r\n24\r\n" + ONE + b"\r\n0\r\n\r\n", ChunkDecoder()
    pieces = [piece for start in range(0, len(data), step) for piece in decoder.feed(data[start : start + step])]
    assert b"".join(pieces) == b"\n" + ONE and decoder.ended
    assert step < 100 or pieces == [b"\n", ONE]


class World:
    """One daemon, its clients, and what each version says."""

    def __init__(self, daemon, seed, relay, merged):
        self.daemon, self.random, self.restarts = daemon, random.Random(seed), 0
        self.client, self.values = daemon.client(), {}
        self.apps = [(name, sdk(daemon, seed * 100 + number, relay, merged))
                     for name, sdk in SDKS.items() for number in range(PER_SDK)]

    async def publish(self):
        """A few keys come, go and change; one has a value for each platform."""
        values = {f"k{number}": self.random.choice("abc") for number in self.random.sample(range(8), 4)}
        who = {name: f"{name}{self.random.randrange(3)}" for name in PLATFORMS.values()}
        parameters = {**values, "who": {"defaultValue": {"value": "nobody"}, "conditionalValues": {
            name: {"value": value} for name, value in who.items()}}}
        conditions = [{"name": name, "expression": f"device.os == '{name}'"} for name in who]
        version = await self.client.publish(template(parameters, conditions=conditions))
        self.values[version] = {name: {**values, "who": who[os]} for name, os in PLATFORMS.items()}

    async def rollback(self):
        target = self.random.choice(sorted(self.values)[:-1] or [1])
        self.values[await self.client.rollback(target)] = self.values[target]

    async def change(self):
        if len(self.values) > 2 and self.random.random() < 0.25:
            await self.rollback()
        else:
            await self.publish()

    async def restart(self):
        """Stops and starts in a thread, so that the clients see every moment of it."""
        self.client.close()
        assert await asyncio.to_thread(self.daemon.stop) == 0
        await asyncio.to_thread(self.daemon.start)
        self.client = self.daemon.client()
        self.restarts += 1

    async def live(self, restarts):
        """Changes at random moments, a third of them in bursts; restarts spread among them."""
        stops = set(self.random.sample(range(5, CHANGES - 5), restarts))
        for number in range(CHANGES):
            if number in stops:
                await self.restart()
            await self.change()
            if self.random.random() > 0.35:
                await asyncio.sleep(self.random.uniform(0, 0.25))

    async def settled(self, seconds):
        """Waits until all show the last version; returns who does not."""
        last, deadline = max(self.values), time.monotonic() + seconds
        while time.monotonic() < deadline and not all(app.settled(last) for _, app in self.apps):
            await asyncio.sleep(0.02)
        return [(name, app.fetched.version) for name, app in self.apps if not app.settled(last)]

    async def check(self, directory):
        """Faults, final values by `stalecast evaluate` of what GET answers, and updated keys by our own books."""
        current = directory / "current.json"
        answer = await self.client.get()
        current.write_text(json.dumps(answer.json()))
        for name, app in self.apps:
            assert not app.faults, f"{name}: {app.faults[:5]}"
            context = json.dumps({"appId": app.app, "appInstanceId": app.fid})
            result = stalecast("evaluate", "--json", "--template", current, "--context", context)
            entries = json.loads(result)["entries"]
            assert app.active.entries == entries == self.values[max(self.values)][name]
            assert app.updates, f"{name} never had an update"
            for update in app.updates:
                before, after = self.values[update.before][name], self.values[update.after][name]
                assert update.keys == {key for key, _ in before.items() ^ after.items()}, f"{name}: {update}"


@contextlib.asynccontextmanager
async def world(daemon, seed, relay=None, merged=False):
    """A world with its apps running, all past their first fetch and connected."""
    scene = World(daemon, seed, relay, merged)
    await scene.publish()
    running = [asyncio.create_task(app.run()) for _, app in scene.apps]
    try:
        while not all(app.streams for _, app in scene.apps):
            await asyncio.sleep(0.01)
        yield scene
        for task in running:
            assert not task.done(), f"an app ended: {task}"
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@pytest.mark.parametrize("seed", (1, 2))
async def test_every_sdk_ends_at_the_last_version_on_one_single_connection(daemon, tmp_path, seed):
    """No reconnect helps here: a lost message would be seen."""
    async with world(daemon, seed) as scene:
        await scene.live(restarts=0)
        assert await scene.settled(seconds=30) == []
        await scene.check(tmp_path)
        assert [app.streams for _, app in scene.apps] == [1] * len(scene.apps)
        assert not any(app.failures for _, app in scene.apps)


async def test_every_sdk_ends_at_the_last_version_through_restarts_and_ends_of_streams(launch, half, tmp_path):
    """Streams end after 2 s ± 20 % and with the daemon; what is said meanwhile is said again on the next."""
    daemon = launch(configs.config(half, shutdown={"drain": "300ms"}), half=half)
    async with Relay(daemon, 2) as relay, world(daemon, seed=3, relay=relay, merged=True) as scene:
        begin = time.monotonic()
        await scene.live(restarts=3)
        assert await scene.settled(seconds=30) == []
        await scene.check(tmp_path)
        most = (time.monotonic() - begin) / 1.5 + 2 * scene.restarts + 2
        for name, app in scene.apps:
            # Who waits to connect may sit out a daemon that lives for half a second.
            assert 1 < app.streams <= most, f"{name}: {app.streams} streams, at most {most:.0f} expected"
            assert app.failures <= app.retries * scene.restarts, f"{name}: {app.failures} failed connections"


async def test_a_quiet_client_reconnects_only_when_its_stream_ends(daemon):
    """No publish at all: the hot loop of a daemon that ends streams early would show in the count."""
    async with Relay(daemon, 1) as relay, world(daemon, seed=4, relay=relay) as scene:
        while any(app.streams < 3 for _, app in scene.apps):
            await asyncio.sleep(0.02)
        for name, app in scene.apps:
            assert app.streams <= 5 and app.shortest > 0.7, f"{name}: {app.streams} streams, {app.shortest:.2f} s"
            assert not app.failures and not app.faults and not app.updates


async def test_an_app_that_activated_nothing_newer_hears_it_once_per_connection(daemon):
    """JS counts from what is active: an update without changed values leaves it behind, yet may not make it fetch on
    and on."""
    version = await daemon.publish(marked("same"))
    app = JavaScript(daemon, seed=5)
    running = asyncio.create_task(app.run())
    while not app.streams:
        await asyncio.sleep(0.01)
    last = await daemon.publish(marked("same"))
    while app.fetched.version < last:
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.4)  # an app that fetches on and on would have done so by then
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert app.active.version == version and not app.updates and not app.faults
    assert app.fetches == 2, "the first and one for the update"


def managed(rollout, percent, variant=None, note=""):
    """Values that stay the same for each rollout and experiment."""
    parameters = {"rolled": {"defaultValue": {"value": "same"}, "conditionalValues": {"all": {"rolloutValue": {
        "rolloutId": rollout, "value": "same", "percent": percent}}}}, "plain": "1"}
    if variant:
        parameters["tried"] = {"defaultValue": {"value": "same"}, "conditionalValues": {"all": {"experimentValue": {
            "experimentId": "e1", "exposurePercent": 100, "variantValue": [{"variantId": variant, "noChange": True}]}}}}
    else:
        parameters["tried"] = "same"
    return template(parameters, conditions=[{"name": "all", "expression": "true"}], description=note)


@pytest.mark.parametrize("sdk", SDKS)
async def test_updated_keys_tell_of_rollouts_and_experiments(daemon, sdk):
    """No value changes; what the metadata of each step changes is told."""
    await daemon.publish(managed("r1", 0))
    app = SDKS[sdk](daemon, seed=7)
    running = asyncio.create_task(app.run())
    while not app.streams:
        await asyncio.sleep(0.01)
    steps = [(managed("r1", 100), {"rolled"}), (managed("r2", 100), {"rolled"}),
             (managed("r2", 100, "a"), {"tried"}), (managed("r2", 100, "a", note="nothing else"), None),
             (managed("r2", 100, "b"), {"tried"}), (managed("r3", 0), {"rolled", "tried"})]
    for body, keys in steps:
        count = len(app.updates)  # before the publish: its answer may come after what it causes
        version = await daemon.publish(body)
        while app.fetched.version < version or app.tasks or (keys and len(app.updates) == count):
            assert not running.done()
            await asyncio.sleep(0.01)
        assert [update.keys for update in app.updates[count:]] == ([keys] if keys else [])
        assert app.fetched.entries == {"rolled": "same", "plain": "1", "tried": "same"}
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert not app.faults and not app.failures


class Busy(JavaScript):
    """One publish is heard while it waits to fetch, another right after it has fetched: one read returns both, the
    first of them brings nothing new, and the SDK drops the second."""

    async def fetch(self, kind):
        isolated = kind.startswith("REALTIME") and not self.updates
        if isolated:
            await self.meanwhile()
        done = await super().fetch(kind)
        if isolated:
            await self.meanwhile()
        return done

    async def meanwhile(self):
        heard = max(self.fetched.version, await self.daemon.publish(marked(f"meanwhile {time.monotonic()}")))
        await asyncio.sleep(0.3)  # beyond the distance of messages: this one is in the socket
        assert heard > self.fetched.version


async def test_what_the_javascript_sdk_drops_of_a_burst_is_said_again(daemon):
    """No reconnect helps for minutes, only the repetition some seconds after the burst."""
    await daemon.publish(marked("first"))
    app = Busy(daemon, seed=8, merged=True)
    running = asyncio.create_task(app.run())
    while not app.streams:
        await asyncio.sleep(0.01)
    last = await daemon.publish(marked("second")) + 2
    begin = time.monotonic()
    while app.active.version < last:
        assert time.monotonic() - begin < 30 and not running.done(), f"stays at {app.active.version} of {last}"
        await asyncio.sleep(0.02)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert app.streams == 1 and not app.faults
    assert [update.after for update in app.updates] == [last - 1, last], "the last one came by itself"
    # The Front hands its counts out twice a second.
    assert await eventually(lambda: daemon.metric("stalecast_echoes_total"), 1) >= 1


@pytest.mark.skipif(not LONG, reason="takes five minutes: STALECAST_LONG=1")
@pytest.mark.limit(400)
async def test_streams_end_gracefully_before_ios_gives_up(daemon):
    """With default settings; iOS ends a request after 330 s with an error and a wait of minutes."""
    await daemon.publish(marked("x"))
    app, begin = Apple(daemon, seed=6), time.monotonic()
    running = asyncio.create_task(app.run())
    while app.streams < 2:
        assert time.monotonic() - begin < Apple.life_limit and not running.done()
        await asyncio.sleep(0.1)
    running.cancel()
    assert 235 < app.shortest <= 301 and not app.failures and not app.faults
