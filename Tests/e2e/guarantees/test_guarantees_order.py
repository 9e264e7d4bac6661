"""G2–G7 under load: many subscribers come and go while versions are published and rolled back in two scopes."""

import asyncio
import random

import pytest

from harness import configs, history
from harness.daemon import LONG, versions_in_state
from harness.history import Stored
from harness.poll import Poller
from harness.sse import Stream
from harness.templates import marked

PUBLISHES = 1500 if LONG else 250
SUBSCRIBERS = 30 if LONG else 12


class Load:
    """Publishers of both scopes and subscribers that reconnect at random; everything is recorded."""

    def __init__(self, daemon, seed):
        self.daemon, self.random = daemon, random.Random(seed)
        self.links, self.acknowledged, self.reads, self.open = [], [], [], {}
        self.publishing = True

    async def publish(self, namespace, publishes):
        client = self.daemon.client(namespace=namespace)
        scope = f"demo/{namespace}"
        for number in range(publishes):
            if number > 5 and self.random.random() < 0.2:
                answer = await client.rollback_raw(self.random.randint(max(1, number - 50), number - 1))
            else:
                answer = await client.put(marked(f"{namespace}-{number}"))
            assert answer.status == 200, f"publish answered {answer}"
            self.acknowledged.append(stored(answer.json()["version"], answer.header("etag"), scope))

    async def subscribe(self, name):
        """One subscriber: reconnects with its cursor after random times until publishing ends, then stays."""
        cursor = None
        while True:
            stream = await Stream.open(self.daemon.edge, last_event_id=cursor)
            self.open[name] = stream
            await stream.synced()
            last = not self.publishing
            if not last:
                await asyncio.sleep(self.random.uniform(0.0, 0.3))
            if last:
                return
            self.links.append(history.link_of(stream, name, cursor or ""))
            cursor = stream.last_id
            stream.close()

    async def read_after_messages(self):
        """G6: watches a stream; after each message asks Control and Edge at once."""
        stream = await Stream.open(self.daemon.edge)
        client = self.daemon.client()
        while self.publishing:
            count = len(stream.messages)
            await stream.until(lambda s: len(s.messages) > count or not self.publishing, 20)
            ours = [m for m in stream.messages if m.json()["namespace"] == "firebase"]
            if ours:
                announced = ours[-1].version
                state = await self.daemon.state("PUSH_RC")
                self.reads.append((announced, versions_in_state(state)["demo/firebase"]))
                self.reads.append((announced, (await client.current())[0]))
        stream.close()

    async def run(self):
        subscribers = [asyncio.create_task(self.subscribe(f"s{i}")) for i in range(SUBSCRIBERS)]
        reader = asyncio.create_task(self.read_after_messages())
        await asyncio.gather(self.publish("firebase", PUBLISHES), self.publish("firebase-server", PUBLISHES // 2))
        self.publishing = False
        await asyncio.gather(*subscribers)
        final = await self.daemon.publish(marked("final"))
        for stream in self.open.values():
            await stream.version_at_least(final)
        await reader
        self.links += [history.link_of(stream, name) for name, stream in self.open.items()]
        return final


def stored(metadata, etag, scope):
    return Stored(int(metadata["versionNumber"]), metadata.get("description", ""), etag, metadata["updateTime"], scope)


async def shown_by_store(daemon, namespace):
    """What :listVersions shows, in the words of `Stored`; the ETag is a function of number and project."""
    client = daemon.client(namespace=namespace)
    return [stored(entry, f"etag-123456789012-{number}", f"demo/{namespace}")
            for number, entry in (await client.versions()).items()]


@pytest.mark.limit(300 if LONG else 90)
async def test_versions_order_convergence_and_reads_hold_under_load(daemon):
    load = Load(daemon, seed=daemon.half)
    final = await load.run()
    listed = await shown_by_store(daemon, "firebase") + await shown_by_store(daemon, "firebase-server")
    assert not history.not_a_function(load.acknowledged + listed), "G2"
    assert not history.acknowledged_lost(
        [a for a in load.acknowledged if a.version > PUBLISHES - 250], listed), "G1, without a crash"
    assert not history.disorder_on_connection(load.links), "G3 on one connection"
    assert not history.decrease_across_connections(load.links), "G3 across reconnects"
    newest = {name: max(stream.versions, default=None) for name, stream in load.open.items()}
    assert not history.not_converged(newest, final), "G4"
    assert not history.phantoms(load.links, load.acknowledged + listed), "G5"
    assert load.reads and not history.stale_reads(load.reads), "G6"
    assert not history.bookmark_lies(load.links, history.sequences_in(load.links)), "G7 and synced"
    assert sum(len(link.seen) for link in load.links) > PUBLISHES, "the load saw too little to prove anything"


async def test_a_long_poller_converges_and_never_sees_a_decrease(daemon):
    pollers = [Poller(daemon.edge).start() for _ in range(8)]
    client = daemon.client()
    for number in range(PUBLISHES // 2):
        final = await client.publish(marked(str(number)))
    for poller in pollers:
        await poller.version_at_least(final)
        assert poller.versions == sorted(set(poller.versions)), "versions strictly increase over the polls of a client"
        poller.stop()


async def test_message_names_the_version_its_etag_and_its_changed_keys(daemon):
    first = await daemon.publish({"parameters": {"a": {"defaultValue": {"value": "1"}}}})
    stream = await Stream.open(daemon.edge, have=first)
    await stream.synced()
    second = await daemon.publish({"parameters": {"a": {"defaultValue": {"value": "2"}},
                                                  "b": {"defaultValue": {"value": "1"}}}})
    frame = await stream.version_at_least(second)
    message = frame.json()
    assert message.pop("updateTime").endswith("Z")
    assert message == {
        "CONFIG_STATE": "STALE", "type": "refetchEvaluation", "topic": "PUSH_RC", "project": "demo",
        "namespace": "firebase", "latestTemplateVersionNumber": "2", "sinceTemplateVersionNumber": "1",
        "etag": "etag-123456789012-2", "updateType": "FORCED_UPDATE", "updateOrigin": "REST_API",
        "changedKeys": ["a", "b"], "fetchWindowMs": 0,
    }
    assert frame.id and len(frame.id) <= 64


async def test_publish_then_rollback_to_equal_content_makes_two_messages(daemon):
    client = daemon.client()
    one = await client.publish(marked("same"))
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    two = await client.publish(marked("same"))
    three = await client.rollback(one)
    await stream.version_at_least(three)
    assert stream.versions == [two, three]
    assert stream.messages[-1].json()["updateType"] == "ROLLBACK"
    assert stream.messages[-1].json()["rollbackSource"] == str(one)
    assert stream.messages[-1].json()["changedKeys"] == []


async def test_two_topics_of_one_commit_survive_a_cut_between_their_messages(launch, half):
    """Resuming from the id in force after any of them must bring the other topics' messages too."""
    daemon = launch(configs.many_topics(half), half=half)
    topics = ("PUSH_RC", "OTHER", "THIRD")
    stream = await Stream.open(daemon.edge, topics)
    await stream.synced()
    version = await daemon.publish(marked("x"))
    await stream.until(lambda s: len(s.messages) == 3, what="one message per topic")
    for cut in range(1, 4):
        got = {frame.json()["topic"] for frame in stream.messages[:cut]}
        again = await Stream.open(daemon.edge, topics, last_event_id=stream.messages[cut - 1].last_id)
        await again.synced()
        got |= {frame.json()["topic"] for frame in again.messages if frame.version == version}
        assert got == set(topics), f"cut after message {cut} of 3 loses {set(topics) - got}"
        again.close()
