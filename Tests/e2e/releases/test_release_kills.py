"""Releases under kill -9: what was acknowledged stays, no client is ahead of its stage, and none goes back.

`STALECAST_KILLS` is how often the daemon is killed; 300 by default."""

import asyncio
import json
import os
import random
import time
from urllib.parse import quote

import pytest

from harness.http1 import Broken, Connection
from harness.release_history import ENDED, ahead_of_stage, bucket, going_back, reached, seconds, too_early
from harness.sse import Stream
from harness.templates import marked

KILLS = int(os.environ.get("STALECAST_KILLS", "300"))
BASE = "/v1/projects/demo/remoteConfig"
FETCH = "/v1/projects/demo/namespaces/firebase:fetch"
IDS = [f"client-{number}" for number in range(24)]
CUT_OFF = (Broken, OSError, asyncio.TimeoutError, asyncio.IncompleteReadError)
GATES = quote(json.dumps({"failed": "off", "fetchErrors": "off", "loss": "off"}))
EVERY, BAKE = ("0s", "0s", "1s"), ("0s", "1s", "1h")
STAGES = ("20%,50%,100%", "10%,100%", "5%,30%,60%,100%", "50%,100%")
def not_continued(before, after, pending):
    """What a restart changed in a release beside the schedule's steps and the action that was cut off."""
    events, known = after["events"], before["events"]
    if events[:len(known)] != known:
        return [f"acknowledged events are lost: {known[-2:]}, but {events[-3:]}"]
    by_others = [event["kind"] for event in events[len(known):] if event["by"] != "schedule"]
    allowed = {"pause": ["PAUSED"], "resume": ["RESUMED"], "promote": ["PROMOTED"], "rollback": ["ROLLED_BACK"],
               "stage": ["SUPERSEDED"], "instant": ["SUPERSEDED"]}.get(pending)
    return [] if by_others in ([], allowed) else [f"{by_others} happened, and {pending} was asked for"]


class Campaign:
    """An operator, streams and fetches that outlive the daemon they talk to."""

    def __init__(self, daemon):
        self.daemon, self.random = daemon, random.Random(11)
        self.alive = asyncio.Event()
        self.known = None  # the release as it was seen last
        self.pending = None  # what the operator asks for, and has no answer to
        self.published = 1  # the newest version that was acknowledged
        self.records = {}  # version: (release, when it was asked for)
        self.told = {name: [] for name in IDS}  # (version, when)
        self.fetched = {name: [] for name in IDS}
        self.faults, self.counts = [], {}
        self.offset = time.time() - time.monotonic()

    # What the operator does.

    async def operate(self):
        while True:
            await self.alive.wait()
            client = self.daemon.client()
            try:
                while self.alive.is_set():
                    await self.act(client)
                    await asyncio.sleep(self.random.uniform(0, 0.08))
            except CUT_OFF:
                await asyncio.sleep(0.005)
            finally:
                client.close()

    def choose(self):
        state = self.known["state"] if self.known else "RELEASED"
        if state in ENDED:
            return self.random.choice(["stage", "stage", "stage", "instant"])
        choices = {"RAMPING": ["pause", "pause", "promote", "rollback", "supersede", "look"],
                   "PAUSED": ["resume", "resume", "promote", "rollback", "supersede"],
                   "BAKING": ["pause", "rollback", "stage", "supersede", "look"]}
        return self.random.choice(choices[state])

    async def act(self, client):
        action = self.choose()
        if action in ("pause", "resume", "promote", "rollback"):
            self.pending = action
            answer = await client.call("POST", f"{BASE}/release:{action}", b"{}")
            if answer.status == 200:
                self.known = answer.json()
                self.published = int(self.known.get("successorVersionNumber", self.published))
        elif action != "look":
            self.pending = "stage" if action == "stage" else "instant"
            query = "?release=instant" if action != "stage" else (
                f"?release=staged&stages={quote(self.random.choice(STAGES))}&every={self.random.choice(EVERY)}"
                f"&bake={self.random.choice(BAKE)}&gates={GATES}&supersede=true")
            answer = await client.put(marked(f"{action} {self.published}"), query=query)
            if answer.status == 200:
                self.published = int(answer.json()["version"]["versionNumber"])
        if action != "look":
            assert answer.status in (200, 404, 409), answer
            self.counts[action, answer.status] = self.counts.get((action, answer.status), 0) + 1
            # Refused: the schedule was first, and nothing was done. Acknowledged: the release shows it from now on.
            self.pending = None
        asked = time.time()
        self.see(await self.release(client), asked)

    async def release(self, client):
        answer = await client.call("GET", f"{BASE}/release")
        assert answer.status in (200, 404), answer
        return answer.json() if answer.status == 200 else None

    def see(self, release, asked):
        if release is None:
            return
        self.known = release
        self.records[int(release["versionNumber"])] = release, asked
        self.faults += too_early(release)

    # What clients do.

    async def listen(self, name):
        cursor, opened = None, {}
        while True:
            try:
                stream = await Stream.open(self.daemon.edge, client=name, last_event_id=cursor, **opened)
            except CUT_OFF:
                await asyncio.sleep(0.01)
                continue
            seen = 0
            while stream.ended is None:
                await stream.until(lambda s, n=len(stream.frames): s.ended or len(s.frames) > n, 600)
                for frame in stream.events[seen:]:
                    if frame.name == "reset":
                        self.faults.append(f"{name} was reset")
                    if frame.version is not None:
                        self.told[name].append((frame.version, frame.at + self.offset))
                seen = len(stream.events)
            assert not stream.fault, stream.fault
            cursor = stream.last_id or cursor
            stream.close()

    async def fetch(self, connection, name):
        before = max((version for version, _ in self.told[name]), default=0)
        body = {"appId": "1:1:web:a", "appInstanceId": name, "appInstanceIdToken": "t"}
        answer = await connection.request(
            "POST", FETCH, [("Content-Type", "application/json")], json.dumps(body).encode())
        assert answer.status == 200, answer
        version = int(answer.json()["templateVersion"])
        if version < before:
            self.faults.append(f"{name} was told of {before} and fetched {version}")
        self.fetched[name].append((version, time.time()))
        return version

    async def fetch_on(self, names):
        while True:
            await self.alive.wait()
            connection = Connection(self.daemon.edge)
            try:
                while self.alive.is_set():
                    for name in names:
                        await self.fetch(connection, name)
                        await asyncio.sleep(0.02)
            except CUT_OFF:
                await asyncio.sleep(0.005)
            finally:
                connection.close()

    # What is looked at after each restart.

    async def round(self):
        await asyncio.sleep(self.random.uniform(0.05, 0.6))
        self.daemon.kill()
        self.alive.clear()
        await asyncio.sleep(0.02)  # Until the operator knows.
        await asyncio.to_thread(self.daemon.start)
        await self.compare()
        self.pending = None
        self.alive.set()

    async def compare(self):
        client, asked = self.daemon.client(), time.time()
        now, (current, _) = await self.release(client), await client.current()
        pending, known = self.pending, self.known
        made = current - self.published
        if made not in ((0, 1) if pending in ("stage", "instant", "rollback") else (0,)):
            self.faults.append(f"version {self.published} was acknowledged, {current} is current, {pending} was asked")
        if known:
            former = now
            if now["versionNumber"] != known["versionNumber"]:
                listed = (await client.call("GET", f"{BASE}/releases?pageSize=2")).json()["releases"]
                former = listed[1] if len(listed) > 1 else known
                if int(now["versionNumber"]) not in (current, self.published) or former["state"] not in ENDED:
                    self.faults.append(f"release {now['versionNumber']} came after {known['versionNumber']}")
            if former["versionNumber"] == known["versionNumber"]:
                # The operator may have had the answer to a publish, and not yet seen its release.
                done = pending or ("stage" if former is not now or now["state"] == "SUPERSEDED" else None)
                self.faults += not_continued(known, former, done)
            self.records[int(former["versionNumber"])] = former, asked
        self.published = current
        self.see(now, asked)
        await self.served(client, now)
        self.check_clients(now, asked)
        client.close()

    async def served(self, client, release):
        """Each client fetches by its stage, and no other version."""
        if release is None:
            return
        connection = Connection(self.daemon.edge)
        found = {name: await self.fetch(connection, name) for name in IDS}
        connection.close()
        if await self.release(client) != release:
            return
        version, base = int(release["versionNumber"]), int(release["baseVersionNumber"])
        for name, got in found.items():
            wanted = self.published
            if release["state"] not in ENDED and bucket(name, version) >= release["percent"] * 100:
                wanted = base
            if got != wanted:
                self.faults.append(f"{name} fetched {got} instead of {wanted}: {release['state']} {release['percent']}")

    def check_clients(self, release, asked):
        """No client had the version before its stage, by what the release was when it was asked for."""
        if release is None:
            return
        for kind, everything in (("told of", self.told), ("served", self.fetched)):
            for name, seen in everything.items():
                # What came after it was asked for may be of a later stage.
                known = [(version, when) for version, when in seen if when <= asked]
                self.faults += ahead_of_stage(release, name, known, kind)

    def finish(self):
        for release, asked in self.records.values():
            self.faults += too_early(release)
            self.check_clients(release, asked)
        for kind, everything in (("told of", self.told), ("fetched", self.fetched)):
            for name, seen in everything.items():
                self.faults += going_back(name, seen, kind)


@pytest.mark.campaign
@pytest.mark.limit(60 + 8 * KILLS)
async def test_a_release_is_where_it_was_after_each_kill(launch):
    daemon = launch()
    await daemon.publish(marked("first"))
    campaign = Campaign(daemon)
    tasks = [asyncio.create_task(campaign.operate())]
    tasks += [asyncio.create_task(campaign.listen(name)) for name in IDS]
    tasks += [asyncio.create_task(campaign.fetch_on(IDS[start::3])) for start in range(3)]
    campaign.alive.set()
    for number in range(KILLS):
        await campaign.round()
        assert not campaign.faults, (number, campaign.faults[:5])
        for task in tasks:
            if task.done():
                task.result()
    tasks[0].cancel()
    await asyncio.sleep(0.2)
    client = daemon.client()
    final = await client.put(marked("final"), query="?release=instant")
    assert final.status == 200, final
    version = int(final.json()["version"]["versionNumber"])
    campaign.see(await campaign.release(client), time.time())
    client.close()
    for _ in range(200):
        if all(seen and seen[-1][0] == version for seen in campaign.told.values()):
            break
        await asyncio.sleep(0.1)
    campaign.finish()
    late = [name for name, seen in campaign.told.items() if not seen or seen[-1][0] != version]
    for task in tasks:
        task.cancel()
    done = {action for (action, status), count in campaign.counts.items() if status == 200 and count}
    print(f"{KILLS} kills, version {version}, {campaign.counts}, {len(campaign.records)} releases, "
          f"{sum(map(len, campaign.told.values()))} messages, {sum(map(len, campaign.fetched.values()))} fetches")
    assert not campaign.faults, campaign.faults[:5]
    assert not late, f"not told of the last version: {late}"
    assert KILLS < 30 or done == {"stage", "instant", "pause", "resume", "promote", "rollback", "supersede"}, done


def planted(**changes):
    """A release at 50 %, whose second stage came by the schedule."""
    def at(second):
        return f"2026-11-26T10:00:{second:02}.000000Z"

    events = [{"kind": "BEGAN", "by": "key:a", "at": at(0)}, {"kind": "ADVANCED", "by": "schedule", "at": at(5)}]
    stages = [{"percent": 20, "reachedAt": at(0)}, {"percent": 50, "reachedAt": at(5)}, {"percent": 100}]
    return {"versionNumber": "2", "percent": 50, "policy": {"every": "5s", "bake": "1h"}, "events": events,
            "stages": stages, **changes}


def test_the_checkers_see_a_planted_fault():
    good = planted()
    paused = {"kind": "PAUSED", "by": "key:a", "at": "2026-11-26T10:00:07.000000Z"}
    assert not too_early(good) and too_early(planted(policy={"every": "6s", "bake": "1h"}))
    assert too_early(planted(policy={"every": "0s", "bake": "1h"})), "only an operator ends such a stage"
    went_on = planted(events=[*good["events"], paused])
    assert not not_continued(good, good, None) and not not_continued(good, went_on, "pause")
    assert not_continued(went_on, good, None), "the pause was acknowledged"
    assert not_continued(good, went_on, "resume") and not_continued(good, went_on, None)
    early, late = (next(name for name in IDS if bucket(name, 2) // 100 in span) for span in (range(20), range(50, 100)))
    assert reached(good, early) == seconds(good["stages"][0]["reachedAt"]) and reached(good, late) is None
    campaign = Campaign(None)
    campaign.told[early].append((2, reached(good, early) + 0.2))
    campaign.check_clients(good, reached(good, early) + 90)
    assert not campaign.faults
    campaign.told[late].append((2, reached(good, early) + 60))
    campaign.fetched[early].append((2, reached(good, early) - 0.2))
    campaign.check_clients(good, reached(good, early) + 90)
    assert len(campaign.faults) == 2
    campaign.fetched[early].append((1, reached(good, early) + 1))
    campaign.finish()
    assert any("an older version" in fault for fault in campaign.faults)
