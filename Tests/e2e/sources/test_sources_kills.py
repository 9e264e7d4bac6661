"""A daemon that is killed between "seen" and "announced", and one that watches fifty scopes for long."""

import asyncio
import random
import time
from pathlib import Path

import pytest

from harness.daemon import LONG
from harness.figures import record
from harness.origins import HTTPOrigin
from harness.sources import fed, file_feed, http_feed, subscribe, version
from harness.templates import encoded, marked
from harness.waiting import until

KILLS = 200 if LONG else 6
SCOPES = 50
SOAK_SECONDS = 3600 if LONG else 20


@pytest.mark.limit(1800)
async def test_kills_lose_nothing_and_double_nothing(launch):
    """The origin changes, the daemon dies at a random moment, and a client comes back with its cursor."""
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")
    dice = random.Random(seed)
    with HTTPOrigin(encoded(marked("0"))) as origin:
        daemon = launch(fed(http_feed(origin.url, interval="100ms"), edge={"retry": "100ms"}))
        await version(daemon, 1)
        stream = await subscribe(daemon)
        cursor, heard = stream.last_id, []
        for round_ in range(1, KILLS + 1):
            origin.put(marked(str(round_)))
            await asyncio.sleep(dice.uniform(0, 0.16))
            daemon.kill()
            await stream.end()
            heard += stream.versions
            cursor = stream.last_id or cursor
            stream.close()
            daemon.start()
            stream = await subscribe(daemon, last_event_id=cursor)
        newest = await until(lambda: holds(daemon, str(KILLS)), "the newest content")
        if newest > max(heard + stream.versions, default=0):
            await stream.version_at_least(newest)
        heard += stream.versions
        stream.close()
        assert all(a <= b for a, b in zip(heard, heard[1:])), f"versions went back: {heard}"
        assert all(heard.count(v) <= 2 for v in heard), f"more than one doubled: {heard}"
        assert heard[-1] == newest
        client = daemon.client()
        contents = []
        for number in sorted(await client.versions()):
            contents.append((await client.get(number)).json()["parameters"]["welcome_text"]["defaultValue"]["value"])
        client.close()
        assert contents == sorted(set(contents), key=int), "a content was committed twice or out of order"
        # What was coalesced was overtaken by something newer; nothing else is missing.
        assert contents[-1] == str(KILLS)
        record("kills", kills=KILLS, versions=newest, heard=len(heard), doubled=len(heard) - len(set(heard)))


async def holds(daemon, marker):
    """The version number once the newest content is this one."""
    client = daemon.client()
    try:
        answer = await client.get()
        body = answer.json()
        value = body.get("parameters", {}).get("welcome_text", {}).get("defaultValue", {}).get("value")
        return int(body["version"]["versionNumber"]) if value == marker else None
    finally:
        client.close()


def descriptors(daemon):
    return len(list(Path(f"/proc/{daemon.pid}/fd").iterdir()))


@pytest.mark.limit(4000)
async def test_fifty_scopes_that_change_each_second_leak_nothing(launch, tmp_path):
    """Half files, half HTTP; descriptors and memory are the same at the end as after the warm-up."""
    with HTTPOrigin(encoded(marked("0"))) as origin:
        namespaces = [f"ns-{index}" for index in range(SCOPES)]
        feeds = []
        for index, name in enumerate(namespaces):
            if index % 2:
                path = tmp_path / f"{name}.json"
                path.write_bytes(encoded(marked("0")))
                feeds.append({"scope": f"demo/{name}", **file_feed(path)})
            else:
                feeds.append({"scope": f"demo/{name}", **http_feed(f"{origin.url}/{name}", interval="500ms")})
        project = {"id": "demo", "number": 123456789012, "namespaces": ["firebase", *namespaces]}
        daemon = launch(fed(*feeds, projects=[project], store={"maxVersions": 10}))
        stream = await subscribe(daemon)
        begin, rounds, marks = time.monotonic(), 0, []
        while time.monotonic() - begin < SOAK_SECONDS:
            rounds += 1
            origin.put(marked(str(rounds)))
            for index in range(1, SCOPES, 2):
                (tmp_path / f"ns-{index}.json").write_bytes(encoded(marked(str(rounds))))
            await asyncio.sleep(max(0, begin + rounds - time.monotonic()))
            if rounds >= 4:
                marks.append((descriptors(daemon), daemon.memory()))
        await until(lambda: settled(daemon, namespaces, str(rounds)), "the newest content everywhere", 20)
        used = [fds for fds, _ in marks]
        grown = marks[-1][1] - marks[0][1]
        record("soak", seconds=SOAK_SECONDS, scopes=SCOPES, changes=rounds * SCOPES, messages=len(stream.versions),
               descriptors=used[-1], grown_mb=grown / 2**20)
        assert max(used[len(used) // 2:]) <= max(used[:len(used) // 2]) + 8, f"descriptors: {used}"
        assert grown < 64 << 20
        assert stream.ended is None or LONG
        stream.close()


async def settled(daemon, namespaces, marker):
    for name in namespaces:
        client = daemon.client(namespace=name)
        try:
            answer = await client.get()
            if answer.json()["parameters"]["welcome_text"]["defaultValue"]["value"] != marker:
                return False
        finally:
            client.close()
    return True
