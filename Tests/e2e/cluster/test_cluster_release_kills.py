"""Releases in stages over a cluster whose members and nodes are killed and frozen: the log, what nodes say and what
clients had must agree.

`STALECAST_KILLS` is the number of rounds of each campaign; 100 by default."""

import asyncio
import json
import os
import random
import time
from urllib.parse import quote

import pytest

from harness.cluster_history import ACKNOWLEDGED, DENIED, UNKNOWN, Attempt, acknowledged_lost, doubled, wrongly_denied
from harness.control import version_of
from harness.figures import record
from harness.http1 import Broken, Connection
from harness.release_history import (
    ENDED, ahead_of_stage, going_back, misjudged, not_a_course, releases_of, too_early)
from harness.sse import Stream
from harness.templates import marked
from harness.waiting import eventually, until

ROUNDS = int(os.environ.get("STALECAST_KILLS", "100"))
BASE = "/v1/projects/demo/remoteConfig"
FETCH = "/v1/projects/demo/namespaces/firebase:fetch"
IDS = [f"client-{number}" for number in range(18)]
GATES = quote(json.dumps({"failed": "off", "fetchErrors": "off", "loss": "off"}))
CUT_OFF = (Broken, OSError, asyncio.TimeoutError, asyncio.IncompleteReadError)
STAGES, EVERY, BAKE = ("20%,50%,100%", "10%,100%", "5%,30%,60%,100%"), ("0s", "1s", "1s"), ("0s", "1s", "1h")
DUTY = "/stalecast/default/record/duty/release/demo/firebase"
TAKEN_OVER = 100  # seconds: a lease of 45, which a new leader may renew, and a look


class Campaign:
    """Operators at all nodes, and clients that come to another node at each turn."""

    def __init__(self, cluster, seed=5):
        self.cluster, self.random = cluster, random.Random(seed)
        self.attempts, self.actions = [], []  # publishes; (reason, outcome)
        self.told = {name: [] for name in IDS}  # (version, when)
        self.fetched = {name: [] for name in IDS}
        self.faults, self.counts, self.number, self.over = [], {}, 0, False
        self.offset = time.time() - time.monotonic()

    async def __aenter__(self):
        self.tasks = [asyncio.create_task(self.operate()) for _ in range(2)]
        self.tasks += [asyncio.create_task(self.listen(name)) for name in IDS]
        self.tasks += [asyncio.create_task(self.fetch_on(IDS[start::3])) for start in range(3)]
        return self

    async def __aexit__(self, *_):
        self.over = True
        while [task for task in self.tasks if not task.done()]:
            for task in self.tasks:
                task.cancel()
            await asyncio.wait(self.tasks, timeout=0.2)

    def raise_failures(self):
        for task in self.tasks:
            if task.done():
                task.result()

    def mark(self):
        self.number += 1
        return f"mark-{self.number}"

    # Operators.

    async def operate(self):
        while not self.over:
            client = self.random.choice(self.cluster.nodes).client()
            try:
                for _ in range(20):
                    await self.act(client)
                    await asyncio.sleep(self.random.uniform(0, 0.1))
            except CUT_OFF:
                await asyncio.sleep(0.05)
            finally:
                client.close()

    async def act(self, client):
        answer = await client.call("GET", f"{BASE}/release", timeout=4)
        state = answer.json()["state"] if answer.status == 200 else "RELEASED"
        verb = self.random.choice({
            "RAMPING": ["pause", "advance", "promote", "rollback", "instant", "look", "look"],
            "PAUSED": ["resume", "resume", "advance", "promote", "rollback"],
            "BAKING": ["pause", "rollback", "stage", "look"]}.get(state, ["stage", "stage", "stage", "instant"]))
        if verb in ("stage", "instant"):
            await self.publish(client, verb)
        elif verb != "look":
            await self.change(client, verb)

    async def change(self, client, verb):
        reason = self.mark()
        body = json.dumps({"reason": reason}).encode()
        try:
            answer = await client.call("POST", f"{BASE}/release:{verb}", body, timeout=13)
        except Broken as error:
            self.actions.append((reason, UNKNOWN if error.sent else DENIED))
            raise
        self.actions.append((reason, outcome_of(answer)))
        self.count(verb, answer)

    async def publish(self, client, verb):
        mark = self.mark()
        query = "?release=instant" if verb == "instant" else (
            f"?release=staged&stages={quote(self.random.choice(STAGES))}&every={self.random.choice(EVERY)}"
            f"&bake={self.random.choice(BAKE)}&gates={GATES}&supersede=true")
        try:
            answer = await client.put(marked(mark), query=query, timeout=13)
        except Broken as error:
            self.attempts.append(Attempt(mark, UNKNOWN if error.sent else DENIED))
            raise
        outcome = outcome_of(answer)
        self.attempts.append(Attempt(mark, outcome, version=version_of(answer) if outcome == ACKNOWLEDGED else None))
        self.count(verb, answer)

    def count(self, verb, answer):
        assert answer.status in (200, 400, 404, 409, 412, 503, 504), answer
        self.counts[verb] = self.counts.get(verb, 0) + (answer.status == 200)

    @property
    def done(self):
        return sum(self.counts.values())

    # Clients.

    async def listen(self, name):
        cursor = None
        while not self.over:
            node = self.random.choice(self.cluster.nodes)
            try:
                stream = await Stream.open(node.edge, client=name, last_event_id=cursor, timeout=3)
            except CUT_OFF:
                await asyncio.sleep(0.05)
                continue
            try:
                # A node that stands still says nothing: its clients leave it.
                await stream.until(lambda stream: stream.ended, self.random.uniform(0.5, 3))
            except AssertionError:
                assert not stream.fault, stream.fault
            for frame in stream.events:
                if frame.name == "reset":
                    self.faults.append(f"{name} was reset")
                if frame.version is not None:
                    self.told[name].append((frame.version, frame.at + self.offset))
            cursor = stream.last_id or cursor
            stream.close()

    async def fetch_on(self, names):
        while not self.over:
            connection = Connection(self.random.choice(self.cluster.nodes).edge)
            try:
                for name in names:
                    await self.fetch(connection, name)
                    await asyncio.sleep(0.03)
            except CUT_OFF:
                await asyncio.sleep(0.05)
            finally:
                connection.close()

    async def fetch(self, connection, name):
        body = {"appId": "1:1:web:a", "appInstanceId": name, "appInstanceIdToken": "t"}
        answer = await connection.request(
            "POST", FETCH, [("Content-Type", "application/json")], json.dumps(body).encode(), timeout=4)
        # A node that cannot ask etcd says so, and may be behind.
        if answer.status == 200 and answer.header("x-stalecast-unverified") is None:
            self.fetched[name].append((int(answer.json().get("templateVersion", 0)), time.time()))

    # Rounds.

    async def recovered(self, timeout=90):
        """Until operators get on."""
        begin, before = time.monotonic(), self.done
        while self.done < before + 3:
            self.raise_failures()
            assert time.monotonic() - begin < timeout, f"nothing was acknowledged for {timeout} s"
            await asyncio.sleep(0.02)

    async def finish(self):
        for task in self.tasks[:2]:
            task.cancel()
        await asyncio.wait(self.tasks[:2])
        # An answer that did not come may be of a change that comes yet.
        await self.cluster.settled()
        client = self.cluster.nodes[0].client()
        answer = await client.put(marked("final"), query="?release=instant")
        client.close()
        assert answer.status == 200, answer
        final = version_of(answer)
        shown = await self.cluster.settled()

        async def late():
            return [name for name, seen in self.told.items() if not seen or seen[-1][0] != final]
        assert await eventually(late, [], timeout=20) == [], "not told of the last version"
        self.judge(await asyncio.to_thread(self.cluster.etcd.lines))
        versions = {name: [one.version for one in stored] for name, stored in shown.items()}
        assert len({tuple(one) for one in versions.values()}) == 1, versions

    def judge(self, lines):
        log, records = self.cluster.log(), releases_of(lines)
        self.faults += not_a_course(lines) + misjudged(self.actions, records)
        self.faults += acknowledged_lost(self.attempts, log) + wrongly_denied(self.attempts, log)
        self.faults += [fault for fault in doubled(log) if "Rollback" not in fault]
        for release in records.values():
            self.faults += too_early(release)
            for what, everything in (("told of", self.told), ("served", self.fetched)):
                for name, seen in everything.items():
                    self.faults += ahead_of_stage(release, name, seen, what)
        for what, everything in (("was told of", self.told), ("fetched", self.fetched)):
            for name, seen in everything.items():
                self.faults += going_back(name, seen, what)


def outcome_of(answer):
    if answer.status == 200:
        return ACKNOWLEDGED
    return UNKNOWN if answer.status == 504 or b'"unknown"' in answer.body else DENIED


@pytest.mark.campaign
@pytest.mark.limit(120 + 15 * ROUNDS)
async def test_releases_outlive_members_and_nodes(cluster):
    await cluster.nodes[0].publish(marked("first"))
    await cluster.settled()
    began = time.monotonic()
    async with Campaign(cluster) as campaign:
        faults = [kill_member, kill_leader, freeze_member, kill_node, freeze_node, kill_conductor, stop_node]
        for number in range(ROUNDS):
            await faults[number % len(faults)](campaign)
            await campaign.recovered()
            for node in cluster.nodes:
                node.thaw()
            await cluster.etcd.heal()
            await asyncio.to_thread(cluster.start)
            await campaign.recovered()
            assert not campaign.faults, (number, campaign.faults[:5])
        await campaign.finish()
    lines = await asyncio.to_thread(cluster.etcd.lines)
    releases = releases_of(lines)
    summary = {
        "rounds": ROUNDS, "seconds": round(time.monotonic() - began), "entries": len(lines), "releases": len(releases),
        "actions": len(campaign.actions), "unknown": sum(outcome == UNKNOWN for _, outcome in campaign.actions),
        "messages": sum(map(len, campaign.told.values())), "fetches": sum(map(len, campaign.fetched.values())),
        **campaign.counts}
    print(summary)
    record("cluster_releases", **summary)
    assert not campaign.faults, (len(campaign.faults), campaign.faults[:8])
    assert ROUNDS < 20 or {"stage", "instant", "pause", "resume", "advance", "promote", "rollback"} <= set(campaign.counts)
    assert {release["state"] for release in releases.values()} <= set(ENDED)


async def kill_member(campaign):
    campaign.random.choice(campaign.cluster.etcd.members).kill()


async def kill_leader(campaign):
    (await asyncio.to_thread(campaign.cluster.etcd.leader)).kill()


async def freeze_member(campaign):
    campaign.random.choice(campaign.cluster.etcd.members).freeze()


async def kill_node(campaign):
    campaign.random.choice(campaign.cluster.nodes).kill()


async def freeze_node(campaign):
    campaign.random.choice(campaign.cluster.nodes).freeze()
    await asyncio.sleep(campaign.random.uniform(0.2, 3))


async def stop_node(campaign):
    await asyncio.to_thread(campaign.random.choice(campaign.cluster.nodes).stop, 30)


async def kill_conductor(campaign):
    (await conductor(campaign.cluster)).kill()


async def conductor(cluster):
    """The node that conducts the releases of the scope."""
    async def holder():
        value = (await asyncio.to_thread(cluster.etcd.values, DUTY)).get(DUTY, b"").decode()
        return next((node for node in cluster.nodes if node.name == value.partition(" ")[0]), None)
    return await until(holder)


async def release(node):
    answer = await node.ask_control(f"{BASE}/release")
    assert answer.status == 200, answer
    return answer.json()


@pytest.mark.campaign
@pytest.mark.limit(400)
async def test_a_conductor_that_stood_still_beyond_its_lease_advances_nothing(cluster):
    """Its next step is due while it stands still, and another node takes it: the release is then paused, and what the
    first one decides on waking is of a state that is no more."""
    await cluster.nodes[0].publish(marked("one"))
    await cluster.settled()
    client = cluster.nodes[0].client()
    answer = await client.put(marked("two"), query=f"?release=staged&stages=20%25,40%25,60%25,100%25&every=3s&gates={GATES}")
    client.close()
    assert answer.status == 200, answer
    held = await conductor(cluster)
    other = next(node for node in cluster.nodes if node is not held)

    async def reached():
        return (await release(other))["percent"] >= 40
    assert await eventually(reached, True, timeout=30)
    held.freeze()
    frozen = await release(other)

    async def goes_on():
        return (await release(other))["percent"] > frozen["percent"]
    assert await eventually(goes_on, True, timeout=TAKEN_OVER), "no other node took over"
    client = other.client()
    paused = await client.call("POST", f"{BASE}/release:pause", b'{"reason": "a look"}')
    client.close()
    assert paused.status == 200 and await conductor(cluster) is not held
    held.thaw()

    async def knows():
        return (await release(held))["state"]
    assert await eventually(knows, "PAUSED", timeout=30) == "PAUSED"
    # Longer than a stage lasts, and several looks of the one that woke up.
    for _ in range(20):
        await asyncio.sleep(0.3)
        assert (await release(held))["events"] == (await release(other))["events"] == paused.json()["events"]
    lines = await asyncio.to_thread(cluster.etcd.lines)
    found = not_a_course(lines) + [fault for one in releases_of(lines).values() for fault in too_early(one)]
    assert not found, found
    assert [event["kind"] for event in paused.json()["events"]].count("ADVANCED") == len(
        [one for one in paused.json()["stages"] if "reachedAt" in one]) - 1


def steps():
    """A log: a version, and the release of another in three steps, which is taken back."""
    def at(second):
        return f"2026-11-26T10:00:{second:02}.000000Z"

    def line(sequence, version, sha256=None, **record):
        document = {"sequence": sequence, "version": {"versionNumber": str(version)}}
        if record:
            document["releases"] = [{
                "versionNumber": "2", "baseVersionNumber": "1", "policy": {"every": "5s", "bake": "1h"}, **record}]
        return {**document, "sha256": sha256} if sha256 else document

    began = {"kind": "BEGAN", "by": "key:a", "at": at(0)}
    advanced = {"kind": "ADVANCED", "by": "schedule", "at": at(5)}
    paused = {"kind": "PAUSED", "by": "key:a", "at": at(6), "reason": "mark-1"}
    back = {"kind": "ROLLED_BACK", "by": "key:a", "at": at(7), "reason": "mark-2"}
    first, second = {"percent": 20, "reachedAt": at(0), "sequence": "2"}, {"percent": 50, "reachedAt": at(5), "sequence": "3"}
    whole = [first, second, {"percent": 100}]
    return [
        line(1, 1, "base"), line(2, 2, "new", state="RAMPING", percent=20, events=[began],
                                 stages=[first, {"percent": 50}, {"percent": 100}]),
        line(3, 2, state="RAMPING", percent=50, events=[began, advanced], stages=whole),
        line(4, 2, state="PAUSED", percent=50, events=[began, advanced, paused], stages=whole),
        line(5, 3, "base", state="ROLLED_BACK", percent=0, events=[began, advanced, paused, back], stages=whole,
             successorVersionNumber="3")]


def fault_in(place, **changes):
    """What the checker says when one step's record is otherwise."""
    lines = steps()
    lines[place]["releases"][0].update(changes)
    return not_a_course(lines)


def test_the_checkers_of_releases_see_planted_faults():
    lines = steps()
    assert not_a_course(lines) == [] and not misjudged([("mark-1", ACKNOWLEDGED), ("mark-2", UNKNOWN), ("x", DENIED)],
                                                      releases_of(lines))
    first, second, last = lines[2]["releases"][0]["stages"]
    at = first["reachedAt"]
    assert "told" in fault_in(2, stages=[first, {"percent": 50}, {**last, "reachedAt": at, "sequence": "3"}])[0], "skipped"
    assert "told" in fault_in(3, stages=[first, second, {**last, "reachedAt": at, "sequence": "4"}])[0], "by a pause"
    assert "sequence" in fault_in(2, stages=[first, {**second, "sequence": "2"}, last])[0]
    assert "events" in fault_in(3, events=lines[3]["releases"][0]["events"][1:])[0], "one is lost"
    assert "events" in fault_in(3, events=[*lines[3]["releases"][0]["events"], lines[4]["releases"][0]["events"][-1]])[0]
    assert "became" in fault_in(3, stages=[first, {"percent": 50}, last])[0], "a stage was taken back"
    assert "content" in fault_in(4, successorVersionNumber="2")[0]
    assert "after ROLLED_BACK" in not_a_course([*lines, {**lines[3], "sequence": 6}])[0]
    other = {**lines[2]["releases"][0], "versionNumber": "9", "events": lines[1]["releases"][0]["events"]}
    assert "open together" in "".join(not_a_course([*lines[:4], {**lines[2], "sequence": 5, "releases": [other]}]))
    for actions in ([("mark-1", DENIED)], [("mark-3", ACKNOWLEDGED)]):
        assert misjudged(actions, releases_of(lines))
    twice = releases_of(lines)[2]
    twice["events"].append(twice["events"][-1])
    assert misjudged([("mark-2", UNKNOWN)], {2: twice}), "a rollback happened twice"
