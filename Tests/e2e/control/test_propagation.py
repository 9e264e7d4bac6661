"""Who has a version: every number of the answer equals what the test knows, and waiting ends for the right reason."""

import asyncio
import contextlib
import json
import random
import socket
import sqlite3

import pytest

from harness import configs, webhooks
from harness.cli import MISMATCH, REFUSED, TIMED_OUT, Cli
from harness.http1 import Connection, fetch
from harness.keys import bearer, change_key, make_key
from harness.receiver import Answer, Receiver
from harness.sse import Stream
from harness.templates import marked, template, wide
from harness.webhooks import Webhooks, switchable

CLIENTS = 2000
TENTH = CLIENTS // 10


async def propagation(daemon, place="propagation", **query):
    pairs = "&".join(f"{name}={value}" for name, value in query.items())
    answer = await daemon.ask_control(f"/v1/projects/demo/remoteConfig/{place}?{pairs}")
    assert answer.status == 200, answer
    return answer.json()


async def until(read, is_good, timeout=5):
    """Waits until what is read is good, and returns it; the last one when that never happens."""
    for _ in range(int(timeout / 0.05)):
        if is_good(value := await read()):
            return value
        await asyncio.sleep(0.05)
    return await read()


async def stored(daemon):
    """The rows of rollouts that are in the store."""
    with contextlib.closing(sqlite3.connect(f"file:{daemon.data}/stalecast.sqlite?mode=ro", uri=True)) as store:
        return [record for record, in store.execute("SELECT record FROM propagation")]


async def get(port, *clients, **more):
    """Fetches as Firebase's SDKs do."""
    connection = Connection(port)
    for client in clients:
        body = {"appId": "1:123456789012:web:ab", "appInstanceId": client, "appInstanceIdToken": "t", **more}
        answer = await connection.request("POST", "/v1/projects/demo/namespaces/firebase:fetch",
                                          [("Content-Type", "application/json")], json.dumps(body).encode())
        assert answer.status == 200, answer
    connection.close()


async def report(port, client, version, state="fetched", **more):
    body = {"client": client, "project": "demo", "versionNumber": str(version), "state": state, **more}
    return await fetch(port, "/v1/report", "POST", [("Content-Type", "text/plain")], json.dumps(body).encode())


def kill(stream):
    """Ends a stream as a dead process does: with a reset."""
    sock = stream._writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    stream._writer.transport.abort()


async def crowd(daemon, names, **options):
    streams = []
    for start in range(0, len(names), 100):
        streams += await asyncio.gather(
            *(Stream.open(daemon.edge, client=name, timeout=30, **options) for name in names[start:start + 100]))
    return streams


@pytest.mark.limit(240)
async def test_every_count_is_what_two_thousand_clients_did(launch):
    daemon = launch(configs.config(edge={"writeStallLimit": "60s"}, clients={"max": 65536}))
    client = daemon.client()
    held = await client.publish(marked("held"))
    names = [f"client-{number}" for number in range(CLIENTS)]
    stalled, older, killed, rest = (names[:TENTH], names[TENTH:2 * TENTH], names[2 * TENTH:3 * TENTH], names[3 * TENTH:])
    streams = dict(zip(stalled, await crowd(daemon, stalled, have=held, receive_buffer=4096, reading=False)))
    streams |= zip(names[TENTH:], await crowd(daemon, names[TENTH:], have=held))
    await get(daemon.edge, *names)
    # Until the sockets of those that read nothing are full.
    for number in range(400):
        await client.publish(wide(str(number)))
        if (await daemon.status())["edge"]["stalled"] == TENTH:
            break
    before, _ = await client.current()
    await get(daemon.edge, *names)
    version = await client.publish(marked("the version"))
    assert version == before + 1

    async def streams_of(wanted=version):
        return (await propagation(daemon, versionNumber=wanted))["streams"]

    found = await until(streams_of, lambda found: found["sent"] == CLIENTS - TENTH, 20)
    assert (found["audience"], found["backlogged"], found["left"]) == (CLIENTS, TENTH, 0), found
    await until(streams_of, lambda found: found["received"] == CLIENTS - TENTH, 10)
    for name in older:
        assert (await report(daemon.edge, name, before)).status == 204
    for name in killed:
        kill(streams[name])
    await get(daemon.edge, *rest)
    late = await crowd(daemon, [f"late-{number}" for number in range(50)], have=before)
    await get(daemon.edge, *(f"late-{number}" for number in range(25)))

    async def clients_of(wanted=version):
        return (await propagation(daemon, versionNumber=wanted))["clients"]

    found = await until(clients_of, lambda found: found["left"] == TENTH, 25)
    assert found["audience"] == CLIENTS and found["fetched"] == 7 * TENTH and found["behind"] == 2 * TENTH, found
    assert found["lost"] == TENTH, "they had been told"
    assert found["unidentifiedStreams"] == 0 and found["sampling"] == {"rate": 1, "error": 0}
    assert (await streams_of())["joined"] == 50
    laggards = await propagation(daemon, "propagation:laggards", pageSize=1000)
    states = {row["client"]: row["state"] for row in laggards["laggards"]}
    assert states == dict.fromkeys(stalled + older, "behind") | dict.fromkeys(killed, "lost")
    assert laggards["total"] == 3 * TENTH and {row["held"] for row in laggards["laggards"]} == {str(before)}
    groups = await propagation(daemon, "propagation:laggards", groupBy="held")
    assert groups["groups"] == [{"key": str(before), "count": 3 * TENTH}]

    times = (await propagation(daemon))["times"]
    assert times["fetched"]["t50"] and times["fetched"]["t99"] is None, "1,400 of 2,000 is no 99 %"
    # Half of those that are left leave in the middle, the stalled ones untold.
    for name in stalled + rest[:CLIENTS // 2]:
        kill(streams[name])
    found = await until(clients_of, lambda found: found["left"] == 2 * TENTH, 25)
    assert found["fetched"] == 7 * TENTH and found["behind"] == TENTH, "who fetched and left stays"
    assert found["lost"] == TENTH, "the stalled ones had not been told"
    assert (await streams_of())["left"] == TENTH
    await get(daemon.edge, *older)
    found = await propagation(daemon)
    assert found["state"] == "LEFT" and found["clients"]["behind"] == 0, found
    assert found["times"]["fetched"]["t50"] and found["times"]["fetched"]["t99"] is None, "1,600 of 1,800 is no 99 %"
    curve = found["curve"]
    assert curve["fetched"][-1] == 8 * TENTH and len(curve["at"]) == len(curve["sent"]) == len(curve["fetched"])
    for stream in late:
        stream.close()


async def waited(cli, *words, code):
    """`publish` with `--wait`, in a thread: the test goes on meanwhile."""
    return await asyncio.to_thread(lambda: cli(*words, code=code))


@pytest.mark.limit(120)
async def test_waiting_ends_for_the_right_reason(launch):
    daemon = launch()
    cli = Cli(daemon)
    held = await daemon.client().publish(marked("held"))
    streams = await crowd(daemon, ["a", "b", "c", "d"], have=held)
    watch = ["--stage", "fetched", "--timeout", "20s"]

    async def publishing(marker, *words, code):
        file = cli.file(marked(marker), f"{marker}.json")
        task = asyncio.create_task(waited(cli, "publish", file, "--allow-removals", *words, code=code))
        await streams[0].version_at_least(held + publishing.count)
        publishing.count += 1
        return task

    publishing.count = 1
    task = await publishing("reached", "--wait", *watch, code=0)
    await get(daemon.edge, "a", "b", "c", "d")
    text = await task
    assert "100.0 % of 4 clients have fetched version 2 (50 % after" in text, text
    task = await publishing("timeout", "--wait", "--stage", "fetched", "--timeout", "1s", code=TIMED_OUT)
    await get(daemon.edge, "a")
    text = await task
    assert "25.0 % of 4 clients" in text.err and "stalecast propagation laggards 3" in text.err, text.err
    assert "fetched" in text.err.splitlines()[0], "a line without a terminal"
    task = await publishing("superseded", "--wait", *watch, code=MISMATCH)
    await daemon.client().publish(marked("newer"))
    publishing.count += 1
    assert "newer version" in (await task).err
    task = await publishing("audience", "--wait", "--min-clients", "5", code=REFUSED)
    assert "fewer were there" in (await task).err
    task = await publishing("warned", "--wait", "--timeout", "1s", "--on-timeout", "warn", "--stage", "fetched", code=0)
    await task
    before = publishing.count + held
    task = await publishing("back", "--wait", "--timeout", "1s", "--on-timeout", "rollback", "--stage", "fetched",
                            code=TIMED_OUT)
    said = (await task).err
    assert f"rolled back to the content of version {before - 1}" in said
    assert f"The content of version {before - 1} is back as version" in said and "stays, and goes on" not in said
    for stream in streams:
        stream.close()
    await asyncio.sleep(0)
    done = json.loads(await waited(cli, "publish", cli.file(marked("nobody")), "--wait", "--stage", "sent", "--json",
                                   "--allow-removals", code=0))
    assert done["wait"]["reason"] == "REACHED" and done["wait"]["propagation"]["streams"]["audience"] <= 4, done


@pytest.mark.limit(120)
async def test_a_version_that_ends_its_clients_is_rolled_back(launch):
    """Clients that hear of the version and die count against it, whether four of ten live or none."""
    daemon = launch()
    cli = Cli(daemon)
    held = await daemon.client().publish(marked("held"))
    wait = ["--wait", "90%", "--stage", "fetched", "--timeout", "14s", "--on-timeout", "rollback"]
    # The same in each round: a client that has just closed its stream counts as present for ten seconds more.
    names = [f"client-{number}" for number in range(10)]

    async def attempt(marker, version, alive, *words, code):
        streams = await crowd(daemon, names, have=version - 1)
        file = cli.file(marked(marker), f"{marker}.json")
        task = asyncio.create_task(waited(cli, "publish", file, "--allow-removals", *wait, *words, code=code))
        await asyncio.gather(*(stream.version_at_least(version) for stream in streams))
        await get(daemon.edge, *names[:alive])
        for stream in streams[alive:]:
            kill(stream)
        said = await task
        for stream in streams[:alive]:
            stream.close()
        return said

    said = (await attempt("four", held + 1, 4, code=TIMED_OUT)).err
    assert "40.0 % of 10 clients have fetched version 2" in said and "6 left after they were told" in said, said
    assert f"The content of version {held} is back as version {held + 2}" in said, said
    rows = {row["versionNumber"]: row for row in (await propagation(daemon, "propagation:list"))["propagations"]}
    assert rows[str(held + 1)]["state"] == "LEFT" and rows[str(held + 1)]["clients"]["lost"] == 6, rows
    done = json.loads(await attempt("none", held + 3, 0, "--json", code=TIMED_OUT))
    assert done["wait"]["reason"] == "TIMEOUT" and done["wait"]["share"] == 0, done
    clients = done["wait"]["propagation"]["clients"]
    assert clients["lost"] == 10 and done["rolledBackTo"]["rollbackSource"] == str(held + 2), clients
    nine = await attempt("nine", held + 5, 9, code=0)
    assert "90.0 % of 10 clients have fetched" in nine, nine


@pytest.mark.limit(90)
async def test_a_killed_daemon_keeps_the_counts_of_superseded_versions(launch):
    daemon = launch()
    await daemon.client().publish(marked("one"))
    streams = await crowd(daemon, ["a", "b"], have=1)
    await daemon.client().publish(marked("two"))
    await get(daemon.edge, "a")
    await daemon.client().publish(marked("three"))
    kill(streams[1])

    async def row(version="2"):
        rows = (await propagation(daemon, "propagation:list"))["propagations"]
        return next(row for row in rows if row["versionNumber"] == version)

    before = await until(row, lambda found: found["clients"]["left"] == 1, 25)
    assert before["state"] == "SUPERSEDED" and before["times"]["fetched"]["t50"] is not None, before
    await until(lambda: stored(daemon), lambda rows: any('"l":1' in record for record in rows), 25)
    daemon.kill()
    daemon.start()
    after = await row()
    assert (after["state"], after["clients"]) == (before["state"], before["clients"]), after
    # A row has whole milliseconds.
    assert after["times"]["fetched"]["t50"] == pytest.approx(before["times"]["fetched"]["t50"], abs=0.001)
    streams[0].close()


async def test_anonymous_streams_are_waited_for_until_sent(launch):
    daemon = launch()
    await daemon.client().publish(marked("one"))
    streams = [await Stream.open(daemon.edge) for _ in range(3)]
    version = await daemon.client().publish(marked("two"))
    await streams[0].version_at_least(version)
    path = "/v1/projects/demo/remoteConfig/propagation:watch"
    refused = await daemon.ask_control(f"{path}?stage=fetched")
    assert refused.status == 400 and "client=" in refused.json()["error"]["message"]
    answer = await daemon.ask_control(f"{path}?timeout=5s")
    *_, done = answer.body.decode().strip().split("\n\n")
    assert "event: done" in done and '"reason":"REACHED"' in done and '"atStage":"sent"' in done, done


async def test_an_emulated_web_sdk_climbs_every_rung_by_its_own_requests(launch):
    daemon = launch()
    fid = "dAbCdEfGhIjKlMnOpQrStU"
    await daemon.client().publish(marked("one"))

    async def stream(known):
        body = json.dumps({"appId": "1:123456789012:web:ab", "appInstanceId": fid, "sdkVersion": "12.4.0",
                           "lastKnownVersionNumber": known}).encode()
        connection = await asyncio.open_connection("127.0.0.1", daemon.edge)
        connection[1].write(b"POST /v1/projects/demo/namespaces/firebase:streamFetchInvalidations HTTP/1.1\r\nHost: localhost\r\n"
                            b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        await connection[0].readuntil(b"\r\n\r\n")
        return connection

    first = await stream("1")
    await until(lambda: propagation(daemon, "audience"), lambda found: found["clients"] == 1)
    version = await daemon.client().publish(marked("two"))

    async def clients():
        return (await propagation(daemon))["clients"]

    found = await clients()
    assert (found["audience"], found["fetched"], found["active"]) == (1, 0, 0), found
    await get(daemon.edge, fid)
    assert ((await clients())["fetched"], (await clients())["active"]) == (1, 0)
    first[1].close()
    second = await stream(str(version))
    await until(clients, lambda found: found["active"] == 1)
    row = (await propagation(daemon, "propagation:laggards", client=fid))["laggards"][0]
    assert row["state"] == "current" and row["sdk"] == "12.4.0" and row["live"], row
    second[1].close()


@pytest.mark.limit(90)
async def test_after_a_kill_it_is_counted_from_reconnects_without_times(launch, half):
    daemon = launch(half=half)
    await daemon.client().publish(marked("one"))
    streams = await crowd(daemon, ["a", "b"], have=1)
    version = await daemon.client().publish(marked("two"))
    await get(daemon.edge, "a")
    assert (await propagation(daemon))["clients"]["fetched"] == 1
    killed = "the previous run was killed"
    assert killed not in daemon.log_text()
    daemon.kill()
    daemon.start()
    assert killed in daemon.log_text()
    found = await propagation(daemon)
    assert found["partial"] and found["versionNumber"] == str(version) and found["clients"]["audience"] == 0, found
    again = [await Stream.open(daemon.edge, client="a", have=version), await Stream.open(daemon.edge, client="b", have=1)]
    await get(daemon.edge, "c")
    found = await until(lambda: propagation(daemon), lambda found: found["clients"]["audience"] == 2)
    assert found["clients"]["fetched"] == 1 and found["streams"]["audience"] == 2, found
    assert all(time is None for rung in found["times"].values() for time in rung.values()), found["times"]
    for stream in streams + again:
        stream.close()


async def test_an_orderly_restart_keeps_what_was_known_and_claims_no_more(launch, half):
    daemon = launch(half=half)
    await daemon.client().publish(marked("one"))
    streams = await crowd(daemon, ["a", "b", "c"], have=1)
    await daemon.client().publish(marked("two"))
    version = await daemon.client().publish(marked("three"))
    await get(daemon.edge, "a")
    await until(lambda: propagation(daemon), lambda found: found["clients"]["fetched"] == 1)
    assert daemon.stop() == 0
    for stream in streams:
        stream.close()
    daemon.start()
    again = [await Stream.open(daemon.edge, client="a"), await Stream.open(daemon.edge, client="b", have=version)]
    found = await until(lambda: propagation(daemon), lambda found: found["clients"]["audience"] == 2)
    assert found["partial"] and found["state"] == "SPREADING" and "curve" not in found, found
    clients = found["clients"]
    assert (clients["fetched"], clients["unknown"], clients["behind"]) == (1, 1, 0), clients
    before = found["beforeRestart"]["clients"]
    assert (before["audience"], before["fetched"], before["behind"], before["left"]) == (3, 1, 2, 0), before
    ways = (await propagation(daemon, "propagation:list"))["propagations"]
    assert [(way["versionNumber"], way["state"]) for way in ways] == [
        ("3", "SPREADING"), ("2", "SUPERSEDED"), ("1", "NO_AUDIENCE")], ways
    for stream in again:
        stream.close()


@pytest.mark.limit(120)
async def test_what_ended_is_in_the_store_and_names_can_be_off(launch):
    daemon = launch(configs.config(clients={"names": False}))
    stream = await Stream.open(daemon.edge, client="a-name-nobody-may-see")
    version = await daemon.client().publish(marked("one"))
    row = (await propagation(daemon, "propagation:laggards"))["laggards"][0]
    assert "client" not in row and "address" not in row and row["state"] == "behind"
    await get(daemon.edge, "a-name-nobody-may-see")
    assert (await propagation(daemon))["state"] == "CONVERGED"
    await until(lambda: stored(daemon), lambda rows: any('"CONVERGED"' in row for row in rows), 60)
    daemon.kill()
    daemon.start()
    found = await propagation(daemon)
    assert not found["partial"] and found["versionNumber"] == str(version) and found["state"] == "CONVERGED", found
    assert found["clients"]["fetched"] == 1 and found["times"]["fetched"]["t99"] is not None and "curve" not in found
    assert [way["versionNumber"] for way in (await propagation(daemon, "propagation:list"))["propagations"]] == ["1"]
    assert "a-name-nobody-may-see" not in daemon.log_text()
    stream.close()


@pytest.mark.limit(120)
async def test_floods_of_ids_and_reports_are_bounded(launch):
    daemon = launch(configs.config(clients={"max": 1024}))
    version = await daemon.client().publish(marked("one"))
    with daemon.growth_below(24 << 20):
        for start in range(0, 20_000, 2000):
            await asyncio.gather(*(get(daemon.edge, *(f"id-{number}" for number in range(first, first + 250)))
                                   for first in range(start, start + 2000, 250)))
        connection = Connection(daemon.edge)
        statuses = set()
        body = {"client": "x" * 128, "project": "demo", "versionNumber": str(version), "state": "active"}
        for number in range(5000):
            body["error"] = str(random.random())
            answer = await connection.request("POST", "/v1/report", (), json.dumps(body).encode())
            statuses.add(answer.status)
        connection.close()
    assert statuses <= {204, 429}, statuses
    clients = (await daemon.status())["clients"]
    assert clients["samplingRate"] < 1 and clients["reports"]["active"] == 0, clients
    counted = 1024 / clients["samplingRate"]
    assert abs(clients["known"] - 20_000) < 4 * (20_000 / clients["samplingRate"]) ** 0.5, (clients, counted)
    for bad in (b"{}", b'{"client":"a b"}', b"x" * 2000, b'{"client":"a","project":"none","versionNumber":"1","state":"active"}'):
        assert (await fetch(daemon.edge, "/v1/report", "POST", (), bad)).status in (400, 404, 413), bad
    assert (await fetch(daemon.edge, "/v1/events?topic=PUSH_RC&client=a%20b")).status == 400


async def test_a_topic_that_the_change_misses_is_not_concerned(launch, half):
    daemon = launch(configs.many_topics(half), half=half)
    await daemon.client().publish(template({"welcome_text": "1", "pay_now": "1"}))
    streams = [await Stream.open(daemon.edge, ("PAY",), client="pays"), await Stream.open(daemon.edge, client="all")]
    await daemon.client().publish(template({"welcome_text": "2", "pay_now": "1"}))
    found = await until(lambda: propagation(daemon), lambda found: found["streams"]["sent"] == 1)
    assert found["streams"]["audience"] == found["clients"]["audience"] == 1, found
    audience = await propagation(daemon, "audience", topic="PAY")
    assert audience["clients"] == audience["streams"] == 1, audience
    for stream in streams:
        stream.close()


async def test_grants_decide_who_reads_and_who_reports_and_a_watch_ends_with_its_key(launch):
    daemon = launch(configs.config(auth={"mode": "enforce"}))
    version = await daemon.client().publish(marked("one"))
    viewer, text = await make_key(daemon, {"role": "viewer", "projects": ["demo"]})
    _, stranger = await make_key(daemon, {"role": "viewer", "projects": ["other"]})
    _, app = await make_key(daemon, {"actions": ["watch", "fetch"], "projects": ["demo"]})
    base = "/v1/projects/demo/remoteConfig"
    for place in ("/propagation", "/propagation:list", "/propagation:laggards", "/audience", "/propagation:watch"):
        for key, status in ((stranger, 403), (app, 403)):
            answer = await fetch(daemon.control, base + place, headers=bearer(key))
            assert answer.status == status, (place, answer)
        assert (await daemon.ask_control(base + place, token=False)).status == 401
    assert (await fetch(daemon.control, f"{base}/propagation", headers=bearer(text))).json()["versionNumber"] == str(version)
    claim = json.dumps({"client": "a", "project": "demo", "versionNumber": str(version), "state": "active"}).encode()
    for headers, status in (([], 401), (bearer(stranger), 403), (bearer(app), 204)):
        assert (await fetch(daemon.edge, "/v1/report", "POST", headers, claim)).status == status, headers
    watch = await Stream.open(daemon.control, target=f"{base}/propagation:watch?follow=true", headers=bearer(text))
    await watch.until(lambda stream: any(frame.name == "progress" for frame in stream.events))
    assert watch.head.status == 200 and watch.ended is None
    assert (await change_key(daemon, viewer, "revoke")).status == 200
    assert await watch.end() == "clean"
    assert not any(frame.name == "done" for frame in watch.events)


async def test_rungs_and_webhooks_are_figures_too(launch):
    """Each stream and client is one observation of the histogram; a webhook is owed, delivered, or failing."""
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    held = await daemon.client().publish(marked("held"))
    streams = await crowd(daemon, [f"c{number}" for number in range(20)], have=held)
    with Receiver() as good, switchable(Answer(500)) as bad:
        await hooks.add(good.url)
        failing = await hooks.add(bad.url)
        version = await daemon.publish(marked("the version"))
        for stream in streams:
            await stream.version_at_least(version)
        await get(daemon.edge, *(f"c{number}" for number in range(15)))
        for number in range(5):
            assert (await report(daemon.edge, f"c{number}", version, "active")).status == 204
        good.wait_for(1)
        bad.wait_for(1)

        async def figures():
            return (await propagation(daemon))["webhooks"]
        wanted = {"owed": 1, "delivered": 1, "failing": 1}
        assert await until(figures, lambda found: found == wanted) == wanted
        bad.now = Answer()
        await hooks.act(failing, "redeliver")
        wanted = {"owed": 0, "delivered": 2, "failing": 0}
        assert await until(figures, lambda found: found == wanted, 20) == wanted

    async def counts():
        metrics = await daemon.metrics()
        return [metrics["stalecast_propagation_seconds_count", f'{{stage="{stage}"}}']
                for stage in ("sent", "fetched", "active")]
    assert await until(counts, lambda found: found == [20, 15, 5]) == [20, 15, 5]
    metrics = await daemon.metrics()
    for stage, count in (("sent", 20), ("fetched", 15), ("active", 5)):
        assert metrics["stalecast_propagation_seconds_bucket", f'{{stage="{stage}",le="+Inf"}}'] == count
        assert ("stalecast_propagation_seconds_bucket", f'{{stage="{stage}",le="0.005"}}') in metrics
        assert ("stalecast_propagation_seconds_bucket", f'{{stage="{stage}",le="300.0"}}') in metrics
    found = await propagation(daemon)
    assert found["fetches"] == {"answers": 15, "errors": 0, "peakPerSecond": found["fetches"]["peakPerSecond"]}
    assert "herd" not in found, "no budget is configured"
