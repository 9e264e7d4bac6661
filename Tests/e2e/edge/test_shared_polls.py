"""Polls that a cache asks once and answers to many clients, behind nginx and Varnish with our files; and configs for ever."""

import asyncio
import time

import pytest

from harness.caches import Cache, Counter
from harness.http1 import Connection, fetch
from harness.templates import marked

SCOPE = "/v1/projects/demo/namespaces/firebase"
WAIT = 3
class Crowd:
    """Clients that poll through a cache as the documentation says, and note what they are told and when."""

    def __init__(self, cache, count):
        self.cache, self.failures, self.asked = cache, 0, 0
        self.told = [[] for _ in range(count)]
        self.tasks = [asyncio.create_task(self.poll(client)) for client in range(count)]
        self.waiting = set()

    async def poll(self, client):
        connection, cursor, number = Connection(self.cache.port), "", 0
        while True:
            target = f"/v1/poll?topic=PUSH_RC&project=demo&wait={WAIT}s&round={number}{cursor}"
            try:
                if cursor:
                    self.waiting.add(client)
                self.asked += 1
                answer = await connection.request("GET", target, timeout=30)
            except ConnectionError:
                self.failures += 1
                await asyncio.sleep(0.2)
                continue
            if answer.status != 200:
                self.failures += 1
                await asyncio.sleep(0.2)
                continue
            body = answer.json()
            cursor, number = f"&cursor={body['cursor']}", body["round"]
            self.told[client] += [(int(m["latestTemplateVersionNumber"]), time.monotonic()) for m in body["messages"]]

    async def rounds(self, count):
        """Until the clients have asked so often each, on average."""
        wanted = self.asked + count * len(self.told)
        while self.asked < wanted:
            await asyncio.sleep(0.05)

    async def all_told(self, version, timeout=15):
        deadline = time.monotonic() + timeout
        while late := [c for c, told in enumerate(self.told) if not told or told[-1][0] < version]:
            assert time.monotonic() < deadline, f"{len(late)} clients were not told version {version}"
            await asyncio.sleep(0.02)
        return max(at for told in self.told for number, at in told if number == version)

    def stop(self):
        for task in self.tasks:
            task.cancel()


@pytest.fixture
def daemon(launch):
    """A daemon whose engine takes what it knows: shared polls go to the Front from there."""
    return launch()


@pytest.fixture
def cache(daemon, tool, tmp_path):
    """`await cache(kind)`: a started cache, and the counter behind it."""
    started = []

    async def start(kind):
        counter = await Counter(daemon.edge).start()
        started.append(Cache(kind, tool, tmp_path, counter.port))
        assert await started[-1].up() == 200
        return started[-1], counter

    yield start
    for each in started:
        each.stop()


@pytest.mark.limit(90)
@pytest.mark.parametrize("kind", ("nginx", "varnish"))
async def test_a_cache_asks_once_for_five_hundred_clients(daemon, cache, kind):
    cache, counter = await cache(kind)
    await daemon.publish(marked("first"))
    crowd = Crowd(cache, 500)
    try:
        while len(crowd.waiting) < 500:
            await asyncio.sleep(0.05)
        await crowd.rounds(1)
        before, began = counter.polls, time.monotonic()
        await crowd.rounds(3)
        reached = counter.polls - before
        asked = reached / (time.monotonic() - began)
        assert 0 < reached <= 18, f"{reached} of 1,500 polls reach Edge while nothing happens"
        for number in range(3):
            begun = time.monotonic()
            version = await daemon.publish(marked(str(number)))
            delay = await crowd.all_told(version) - begun
            print(f"{cache.kind}: all 500 told after {delay * 1000:.0f} ms; {asked:.2f} polls a second in silence")
        cache.stop()
        cache.start()
        version = await daemon.publish(marked("while the cache was away"))
        await crowd.all_told(version)
        for told in crowd.told:
            versions = [number for number, _ in told]
            assert versions == sorted(set(versions)), "a client was told twice, or went back"
            assert versions[-1] == version
    finally:
        crowd.stop()


async def test_the_answer_says_who_may_keep_it(daemon):
    version = await daemon.publish(marked("one"))
    first = await fetch(daemon.edge, "/v1/poll?topic=PUSH_RC&wait=1s&round=0")
    assert first.header("cache-control") == "public, max-age=0, s-maxage=5"
    assert "Authorization" in first.header("vary") and first.header("etag") is None
    cursor = first.json()["cursor"]
    silent = await fetch(daemon.edge, f"/v1/poll?topic=PUSH_RC&wait=1s&round=0&cursor={cursor}")
    assert silent.json()["messages"] == [] and silent.json()["round"] > 0
    at_once = await fetch(daemon.edge, f"/v1/poll?topic=PUSH_RC&wait=0&round=0&cursor={cursor}")
    assert at_once.header("cache-control") == "no-store"
    own = await fetch(daemon.edge, f"/v1/poll?topic=PUSH_RC&wait=0&cursor={cursor}")
    assert own.header("cache-control") == "no-store" and "round" not in own.json()
    refused = await fetch(daemon.edge, "/v1/poll?topic=PUSH_RC&round=0&client=a")
    assert refused.status == 400 and "client" in refused.json()["error"]["message"]
    config = await fetch(daemon.edge, f"{SCOPE}/config?version={version}")
    assert config.status == 200 and config.json()["templateVersion"] == str(version)
    assert config.header("cache-control") == "public, max-age=31536000, immutable"
    later = await fetch(daemon.edge, f"{SCOPE}/config?version={version + 1}")
    assert later.status == 404 and later.header("retry-after") and later.header("cache-control") == "no-store"
    await daemon.publish(marked("two"))
    older = await fetch(daemon.edge, f"{SCOPE}/config?version={version}")
    assert older.status == 404 and older.header("cache-control") == "no-store"
    for query in ("", "?version=", "?version=-1", "?version=x"):
        assert (await fetch(daemon.edge, f"{SCOPE}/config{query}")).status == 400


async def test_a_config_is_the_same_for_everybody(daemon):
    template = {
        "conditions": [{"name": "all", "expression": "percent <= 100"},
                       {"name": "old", "expression": "dateTime < dateTime('2100-01-01T00:00:00')"}],
        "parameters": {"a": {"defaultValue": {"value": "default"},
                             "conditionalValues": {"all": {"value": "percent"}, "old": {"value": "date"}}}},
    }
    version = await daemon.publish(template)
    config = await fetch(daemon.edge, f"{SCOPE}/config?version={version}")
    assert config.json()["entries"] == {"a": "default"}
