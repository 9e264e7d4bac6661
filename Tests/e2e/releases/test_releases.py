"""Versions released in stages: shares, told against served, pause, promote, rollback, restarts, refusals, grants."""

import asyncio
import contextlib
import json

import pytest

from harness import configs, webhooks
from harness.daemon import versions_in_state
from harness.http1 import Connection, fetch
from harness.keys import make_key
from harness.receiver import Answer, Receiver
from harness.sdks import SDKS
from harness.sse import Stream
from harness.templates import marked, parameters_of, template
from harness.waiting import eventually, until
from harness.webhooks import Webhooks, secret_of, switchable, verified, versions

BASE = "/v1/projects/demo/remoteConfig"
IDS = [f"client-{number}" for number in range(200)]


async def staged(client, body, stages="20%,50%,100%", **query):
    """Publishes in stages that wait for an operator, unless `every` says otherwise."""
    query = {"release": "staged", "stages": stages.replace("%", "%25"), "every": "0s", **query}
    return await client.put(body, query="?" + "&".join(f"{name}={value}" for name, value in query.items()))


async def instantly(client, body):
    return await client.put(body, query="?release=instant")


async def release(client):
    answer = await client.call("GET", f"{BASE}/release")
    assert answer.status == 200, answer
    return answer.json()


async def change(client, verb, **body):
    return await client.call("POST", f"{BASE}/release:{verb}", json.dumps(body).encode())


async def holds(fact):
    """Waits until a fact about the streams is true."""
    async def read():
        return bool(fact())
    assert await eventually(read, True, timeout=20), "it did not come about in time"


class Clients:
    """Streams that say `client=`, and a connection for their fetches."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.streams = {}

    async def open(self, ids=IDS):
        streams = await asyncio.gather(*(Stream.open(self.daemon.edge, client=name) for name in ids))
        self.streams = dict(zip(ids, streams))
        await asyncio.gather(*(stream.synced() for stream in streams))

    def told(self, version):
        """Clients that were told of a version, or of a newer one."""
        return {name for name, stream in self.streams.items() if max(stream.versions, default=0) >= version}

    async def fetched(self):
        """The version that each client's fetch answers."""
        connection = Connection(self.daemon.edge)
        found = {}
        for name in self.streams or IDS:
            body = {"appId": "1:1:web:a", "appInstanceId": name, "appInstanceIdToken": "t"}
            answer = await connection.request(
                "POST", "/v1/projects/demo/namespaces/firebase:fetch", [("Content-Type", "application/json")],
                json.dumps(body).encode())
            assert answer.status == 200, answer
            found[name] = int(answer.json()["templateVersion"])
        connection.close()
        return found

    async def served(self, version):
        return {name for name, number in (await self.fetched()).items() if number >= version}

    def close(self):
        for stream in self.streams.values():
            stream.close()


@contextlib.asynccontextmanager
async def crowd(daemon, ids=IDS):
    clients = Clients(daemon)
    await clients.open(ids)
    try:
        yield clients
    finally:
        clients.close()


async def test_a_release_goes_stage_by_stage_and_what_is_told_is_what_is_served(launch):
    daemon = launch()
    control = daemon.client()
    await control.publish(marked("one"))

    async def percent():
        return (await release(control))["percent"]

    async with crowd(daemon) as clients:
        assert (await staged(control, marked("two"), every="2s", bake="1s", first="client-7")).status == 200
        shares = []
        for wanted, tolerance in ((20, 12), (50, 15)):
            assert await eventually(percent, wanted) == wanted
            # A pause gives the time to look.
            now = (await change(control, "pause")).json()
            assert now["state"] == "PAUSED" and now["percent"] == wanted
            served = await clients.served(2)
            await holds(lambda served=served: clients.told(2) == served)
            assert abs(len(served) * 100 / len(IDS) - wanted) <= tolerance and "client-7" in served
            shares.append(served)
            assert (await change(control, "resume")).json()["nextStepAt"]
        assert shares[0] < shares[1], "a stage holds those before it"
        await holds(lambda: clients.told(2) == set(IDS))
        assert await clients.served(2) == set(IDS)
        assert all(stream.versions == [2] for stream in clients.streams.values()), "each is told once"

        async def state():
            return (await release(control))["state"]
        assert await eventually(state, "RELEASED") == "RELEASED"
        events = [(event["kind"], event["by"]) for event in (await release(control))["events"]]
        assert [kind for kind, by in events if by == "schedule"] == ["ADVANCED", "ADVANCED", "RELEASED"]
        assert events[0][0] == "BEGAN"


async def test_a_rollback_reaches_the_told_alone(launch, half):
    daemon = launch(half=half)
    control = daemon.client()
    await control.publish(marked("one"))
    async with crowd(daemon) as clients:
        await staged(control, marked("two"))
        early = await clients.served(2)
        await holds(lambda: clients.told(2) == early)
        answer = await change(control, "rollback", reason="crashes")
        assert answer.status == 200 and answer.json()["state"] == "ROLLED_BACK"
        assert answer.json()["successorVersionNumber"] == "3" and answer.json()["events"][-1]["reason"] == "crashes"
        await holds(lambda: clients.told(3) == early)
        assert set((await clients.fetched()).values()) == {3}
        assert parameters_of(await control.get()) == {"welcome_text": "one"}
        # The next version reaches all, and no client was told of the third because of it.
        await control.publish(marked("four"))
        await holds(lambda: clients.told(4) == set(IDS))
        assert all((3 in stream.versions) == (name in early) for name, stream in clients.streams.items())


async def test_pause_resume_promote_and_their_refusals(launch):
    daemon = launch()
    control = daemon.client()
    missing = await control.call("GET", f"{BASE}/release")
    assert missing.status == 404
    assert (await staged(control, marked("one"))).status == 400, "there is nothing to stage over"
    await control.publish(marked("one"))
    assert (await change(control, "pause")).status == 404
    for query in ("?stages=1%25,100%25", "?release=staged&stages=100%25,1%25", "?release=half", "?release=staged&every=5",
                  "?release=staged&propose=true"):
        assert (await control.put(marked("x"), query=query)).status == 400, query
    assert (await staged(control, marked("two"), every="1s")).status == 200
    alert = {"status": "firing", "alerts": [{"status": "firing", "labels": {"alertname": "Crashes"}}]}
    paused = await change(control, "pause", **alert)
    assert paused.json()["state"] == "PAUSED" and paused.json()["events"][-1]["reason"] == "alert: Crashes"
    assert (await change(control, "pause")).status == 409
    percent = paused.json()["percent"]
    # A release in the next scope that began later, and is not paused, comes to its end meanwhile.
    beside = daemon.client(namespace="firebase-server")
    await beside.publish(marked("one"))
    assert (await staged(beside, marked("two"), every="1s")).status == 200

    async def percent_beside():
        return (await beside.call("GET", f"{beside.base}/remoteConfig/release")).json()["percent"]

    assert await eventually(percent_beside, 100) == 100
    assert (await release(control))["percent"] == percent, "a paused release stays where it is"
    refused = await control.put(marked("three"))
    assert refused.status == 409 and "RELEASE_OPEN" in refused.json()["error"]["message"]
    assert (await control.put(marked("three"), query="?validateOnly=true")).status == 409
    assert (await change(control, "resume")).json()["state"] in ("RAMPING", "BAKING")
    promoted = await change(control, "promote")
    assert promoted.status in (200, 409)
    assert (await release(control))["percent"] == 100
    # At the end of it all an instant publish takes its place, and the audit log says that it did.
    assert (await control.put(marked("three"), query="?release=instant")).status == 200
    assert (await release(control))["state"] == "SUPERSEDED"
    lines = [json.loads(line) for line in (daemon.data / "audit.jsonl").read_text().splitlines()]
    about = [(line["action"], line.get("release"), line.get("reason")) for line in lines if line.get("release")]
    assert ("publishTemplate", "staged", None) in about and ("publishTemplate", "instant", None) in about
    assert ("pauseRelease", "2", "alert: Crashes") in about and ("resumeRelease", "2", None) in about


async def test_a_request_for_one_stage_is_done_once_however_often_it_is_sent(launch):
    control = launch().client()
    await control.publish(marked("one"))
    await staged(control, marked("two"))
    assert (await change(control, "advance", percent="20%")).json()["percent"] == 50
    for verb in ("advance", "pause", "promote", "rollback"):
        again = await change(control, verb, percent=20)
        assert again.status == 409 and "is at 50%, not at 20%; nothing was done" in again.json()["error"]["message"]
    assert (await change(control, "advance", percent="a third")).status == 400
    assert [event["kind"] for event in (await release(control))["events"]] == ["BEGAN", "ADVANCED"]
    assert (await change(control, "rollback", percent=50)).json()["successorVersionNumber"] == "3"
    assert (await change(control, "rollback", percent=50)).status == 404


async def test_an_instant_publish_supersedes_a_release_and_reaches_all(launch):
    daemon = launch()
    control = daemon.client()
    await control.publish(marked("one"))
    async with crowd(daemon) as clients:
        await staged(control, marked("two"))
        again = await staged(control, marked("x"), supersede="true")
        assert again.status == 409 and "promote it or roll it back" in again.json()["error"]["message"]
        assert (await control.put(marked("three"), query="?release=instant")).status == 200
        await holds(lambda: clients.told(3) == set(IDS))
        assert set((await clients.fetched()).values()) == {3}
        assert (await release(control))["state"] == "SUPERSEDED"


async def test_a_release_goes_on_in_its_stage_after_kill_9_in_every_state(launch):
    daemon = launch()
    await daemon.publish(marked("one"))
    seen = []

    async def restart(expected):
        """Kills it, and compares what clients are told and fetch before and after."""
        async with crowd(daemon, IDS[:60]) as clients:
            before = await clients.fetched()
        daemon.kill()
        daemon.start()
        control = daemon.client()
        assert (await release(control))["state"] == expected
        async with crowd(daemon, IDS[:60]) as clients:
            assert await clients.fetched() == before
        for name in IDS[:20]:
            state = (await fetch(daemon.edge, f"/v1/state?topic=PUSH_RC&client={name}")).json()
            assert versions_in_state(state)["demo/firebase"] == before[name] or expected == "ROLLED_BACK"
        seen.append(len({*before.values()}))
        return control

    await staged(daemon.client(), marked("two"), bake="1h")
    control = await restart("RAMPING")
    await change(control, "pause")
    control = await restart("PAUSED")
    await change(control, "promote")
    control = await restart("BAKING")
    await change(control, "rollback")
    control = await restart("ROLLED_BACK")
    assert seen == [2, 2, 1, 1]
    assert (await control.current())[0] == 3


async def test_a_client_that_was_away_is_told_by_its_own_stage(launch, half):
    daemon = launch(half=half)
    control = daemon.client()
    await control.publish(marked("one"))
    async with crowd(daemon, IDS[:40]) as clients:
        cursors = {name: stream.events[-1].id for name, stream in clients.streams.items()}
    await staged(control, marked("two"), stages="50%,100%")
    clients = Clients(daemon)
    early = await clients.served(2)

    async def resumed(name):
        stream = await Stream.open(daemon.edge, client=name, last_event_id=cursors[name])
        await stream.synced()
        versions = stream.versions
        stream.close()
        return versions

    told = {name for name in cursors if await resumed(name) == [2]}
    assert told == early & set(cursors) and 0 < len(told) < 40
    await change(control, "promote")
    assert {name for name in cursors if await resumed(name) == [2]} == set(cursors)


async def test_whoever_may_not_publish_may_not_change_a_release(launch):
    daemon = launch(configs.config(auth={"mode": "enforce"}))
    control = daemon.client()
    await control.publish(marked("one"))
    await staged(control, marked("two"))
    reader = daemon.client()
    _, reader.token = await make_key(daemon, {"role": "viewer", "projects": ["demo"]}, name="reader")
    stranger = daemon.client()
    _, stranger.token = await make_key(daemon, {"role": "publisher", "projects": ["other"]}, name="stranger")
    assert (await reader.call("GET", f"{BASE}/release")).status == 200
    for verb in ("pause", "resume", "advance", "promote", "rollback"):
        assert (await change(reader, verb)).status == 403
        assert (await change(stranger, verb)).status in (403, 404)
    assert (await release(control))["state"] == "RAMPING"


async def test_a_scope_is_staged_by_its_configuration_and_everything_shows_it(launch):
    plan = {"scope": "demo/firebase", "default": "staged", "stages": ["30%", "100%"], "every": "0s", "bake": "0s"}
    daemon = launch(configs.config(releases=[plan]))
    control = daemon.client()
    await control.publish(marked("one"))
    first = await control.call("GET", f"{BASE}/releases")
    assert first.json() == {"releases": []}, "a first version cannot be staged"
    await control.publish(marked("two"))
    now = await release(control)
    assert (now["percent"], now["policy"]["stages"]) == (30, ["30%", "100%"])
    scope = next(scope for scope in (await daemon.status())["scopes"] if scope["namespace"] == "firebase")
    assert scope["release"] == {"versionNumber": "2", "state": "RAMPING", "percent": 30}
    assert scope["releasePolicy"]["default"] == "staged"
    assert await daemon.metric("stalecast_release_percent", namespace="firebase") == 30
    watch = await Stream.open(
        daemon.control, target=f"{BASE}/release:watch", headers=[("Authorization", f"Bearer {daemon.token}")])
    await watch.until(lambda stream: stream.events, what="the release")
    await change(control, "promote")
    await watch.end()
    # An event comes for new figures too.
    assert {event.name for event in watch.events[:-1]} == {"release"} and watch.events[-1].name == "done"
    assert watch.events[-1].json()["state"] == "RELEASED"
    assert await daemon.metric("stalecast_release_events_total", by="operator") == 2
    assert (await control.put(marked("three"), query="?release=instant")).status == 200
    urgent = await control.put(marked("four"), headers=[("X-Stalecast-Urgent", "true")])
    assert urgent.status == 200 and (await release(control))["versionNumber"] == "2"
    listed = (await control.call("GET", f"{BASE}/releases?pageSize=5")).json()["releases"]
    assert [(entry["versionNumber"], entry["state"]) for entry in listed] == [("2", "RELEASED")]
    lines = [json.loads(line) for line in (daemon.data / "audit.jsonl").read_text().splitlines()]
    marks = [line.get("release") for line in lines if line["action"] == "publishTemplate"]
    assert marks == ["instant", "staged", "instant", "instant"]


async def test_webhooks_hear_of_each_change_and_of_the_version_when_all_do(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    control = daemon.client()
    with Receiver() as watcher, Receiver() as receiver:
        watching = await hooks.add(watcher.url, topics=["stalecast.releases"])
        made = await hooks.add(receiver.url)
        await control.publish(marked("one"))
        receiver.wait_for(1)
        await staged(control, marked("two"), bake="1h")
        await change(control, "pause", reason="why")
        await change(control, "promote")
        receiver.wait_for(2)
        await change(control, "rollback")
        watcher.wait_for(4)
        receiver.wait_for(3)
        told = [verified(arrival, secret_of(watching)) for arrival in watcher.arrivals]
        assert [message["type"] for message in told] == [
            "release.began", "release.paused", "release.promoted", "release.rolled-back"]
        assert told[1]["data"]["reason"] == "why" and told[1]["data"]["percent"] == 20
        assert told[3]["data"]["successorVersionNumber"] == "3"
        assert made["id"] and [int(version) for version in versions(receiver.arrivals)] == [1, 2, 3]


@pytest.mark.parametrize("away", [False, True], ids=["in step", "catching up after kill -9"])
async def test_a_webhook_hears_of_no_version_that_was_over_before_all_had_it(launch, away):
    """One release is taken back, one superseded, one promoted."""
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with switchable(Answer(503 if away else 204)) as receiver:
        await daemon.publish(marked("one"))
        made = {mode: await hooks.add(f"{receiver.url}/{mode}", mode=mode) for mode in ("fifo", "all", "latest")}

        def told(mode):
            """Version and changed keys of each message that was taken."""
            bodies = [verified(one, secret_of(made[mode]))["data"] for one in receiver.arrivals[receiver.first:]
                      if one.path == f"/{mode}"]
            return [(int(body["latestTemplateVersionNumber"]), body.get("changedKeys")) for body in bodies]

        async def step(act, *given, **query):
            assert (await act(daemon.client(), *given, **query)).status == 200
            if away:
                daemon.kill()
                receiver.now = Answer(204 if given == ("promote",) else 503)
                receiver.first = len(receiver.arrivals)
                daemon.start()

        receiver.first = len(receiver.arrivals)
        await step(staged, template({"welcome_text": "one", "a": "three"}))
        await step(change, "rollback")
        await step(staged, template({"welcome_text": "one", "b": "five"}))
        await step(instantly, template({"welcome_text": "one", "b": "five", "c": "six"}))
        await step(staged, template({"welcome_text": "seven", "b": "five", "c": "six"}))
        await step(change, "promote")

        async def newest():
            for hook in made.values():
                await hooks.act(hook, "enable")  # Does not wait until the next attempt.
            return all(6 in [version for version, _ in told(mode)] for mode in made)
        await until(newest)
        # What the superseded version changed is new to a receiver that was not told of it.
        everything = [(3, ["a"]), (5, ["b", "c"]), (6, ["welcome_text"])]
        assert told("fifo") == everything and sorted(told("all")) == everything
        assert {version for version, _ in told("latest")} <= {3, 5, 6}


@contextlib.asynccontextmanager
async def apps(daemon, each=6):
    """Apps with Firebase's SDKs, past their first fetch and connected; none may end or find a fault."""
    made = [sdk(daemon, number) for sdk in SDKS.values() for number in range(each)]
    running = [asyncio.create_task(app.run()) for app in made]
    try:
        await holds(lambda: all(app.streams for app in made))
        yield made
        assert not any(task.done() for task in running) and not [app.faults for app in made if app.faults]
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def test_every_firebase_sdk_goes_through_a_release_that_is_taken_back_and_one_that_is_not(launch, half):
    daemon = launch(half=half)
    control = daemon.client()
    await control.publish(marked("one"))

    def at(version, some):
        return all(app.fetched.version == app.active.version == version for app in some)

    async with apps(daemon) as all_apps:
        await staged(control, marked("two"), stages="40%,100%")
        clients = Clients(daemon)
        clients.streams = dict.fromkeys(app.fid for app in all_apps)
        covered = await clients.served(2)
        told = [app for app in all_apps if app.fid in covered]
        others = [app for app in all_apps if app.fid not in covered]
        assert told and others
        await holds(lambda: at(2, told))
        assert all(app.active.entries == {"welcome_text": "two"} for app in told)
        assert at(1, others) and all(app.fetches == 1 for app in others)
        await change(control, "rollback")
        await holds(lambda: at(3, told))
        assert all(app.active.entries == {"welcome_text": "one"} for app in told)
        assert at(1, others) and all(app.fetches == 1 for app in others), "nothing changed for them"
        await staged(control, marked("four"), stages="40%,100%")
        await change(control, "advance")
        await holds(lambda: at(4, all_apps))
        assert all(app.active.entries == {"welcome_text": "four"} for app in all_apps)
