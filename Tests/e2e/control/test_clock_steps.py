"""The system's clock is set while the daemon runs: nothing hangs, nothing happens twice, no age is below 0."""

import asyncio
import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from harness.cli import Cli
from harness.http1 import Connection, fetch
from harness.keys import bearer, make_key
from harness.receiver import Answer, Receiver
from harness.sse import Stream
from harness.templates import marked
from harness.waiting import eventually

HOUR = 3600


def started(launch, clock, config=None):
    daemon = launch(config, start=False)
    daemon.more = clock.more
    daemon.start()
    return daemon


def ages(value):
    """All numbers of a report that are spans of time."""
    if isinstance(value, dict):
        for key, each in value.items():
            if isinstance(each, (int, float)) and key.lower().endswith(("seconds", "ms", "milliseconds")):
                yield key, each
            yield from ages(each)
    elif isinstance(value, list):
        for each in value:
            yield from ages(each)


async def read(daemon, path):
    answer = await daemon.ask_control(path)
    assert answer.status == 200, (path, answer.status, answer.body)
    return answer.json()


@pytest.mark.limit(120)
@pytest.mark.parametrize("step", [-3 * HOUR, 3 * HOUR, 40 * 24 * HOUR], ids=["back", "forward", "forty days"])
async def test_streams_webhooks_and_reports_go_on(launch, clock, step):
    with Receiver(lambda _: Answer(200)) as receiver:
        daemon = started(launch, clock, "webhooks:\n  allowedAddresses: [127.0.0.0/8]\n")
        cli = Cli(daemon)
        cli("webhooks", "add", f"{receiver.url}/hook")
        await daemon.publish(marked("before"))
        stream = await Stream.open(daemon.edge)
        await daemon.publish(marked("also before"))
        await stream.version_at_least(2)
        clock(step)
        for number in (3, 4):
            assert await daemon.publish(marked(f"after {number}")) == number
            await stream.version_at_least(number)
        clock(0)
        assert await daemon.publish(marked("right again")) == 5
        await stream.version_at_least(5)
        await asyncio.to_thread(receiver.wait, lambda arrivals: any(b'"5"' in one.body for one in arrivals))
        clock(step)
        for path in ("/status", "/v1/projects/demo/remoteConfig/propagation", "/v1/projects/demo/remoteConfig/propagation:list",
                     "/v1/timeline", "/v1/projects/demo/webhooks"):
            wrong = [(name, age) for name, age in ages(await read(daemon, path)) if age < 0]
            assert not wrong, (path, wrong)
        listed = await read(daemon, "/v1/projects/demo/remoteConfig:listVersions")
        assert [version["versionNumber"] for version in listed["versions"]] == ["5", "4", "3", "2", "1"], "none was removed"
        stream.close()
        for words in (["propagation"], ["propagation", "list"], ["versions"], ["status"], ["webhooks", "list"], ["topics"]):
            assert "-" not in {word[:1] for word in cli(*words).split() if word[1:2].isdigit()}, words
        heard = [arrival.headers["webhook-id"] for arrival in receiver.arrivals]
        assert len(heard) == len(set(heard)), "nothing was delivered twice"
        assert daemon.stop() == 0
        clock(0)
        daemon.start()
        clock(step)
        found = await read(daemon, "/v1/projects/demo/remoteConfig/propagation")
        assert found["versionNumber"] == "5" and found["ageSeconds"] >= 0, found


@pytest.mark.limit(90)
async def test_a_scheduled_version_is_published_once(launch, clock):
    daemon = started(launch, clock)
    cli = Cli(daemon)
    cli("publish", cli.file(marked("one")))
    at = (datetime.now(UTC) + timedelta(minutes=40)).strftime("%Y-%m-%dT%H:%M:%SZ")
    cli("publish", "--at", at, cli.file(marked("two")))
    async def current():
        return int((await read(daemon, "/v1/projects/demo/remoteConfig:listVersions"))["versions"][0]["versionNumber"])

    clock(-HOUR)
    await asyncio.sleep(0.4)
    assert await current() == 1, "its time has not come"
    clock(41 * 60)
    assert await eventually(current, 2, timeout=15) == 2
    for seconds in (0, 41 * 60, -HOUR, 50 * 60):
        clock(seconds)
        await daemon.publish(marked(f"at {seconds}"))
    assert await current() == 6, "each publish once, the scheduled one too"
    assert (await read(daemon, "/v1/projects/demo/remoteConfig/proposals?state=OPEN"))["proposals"] == []


@pytest.mark.limit(60)
async def test_keys_and_sessions_follow_the_clock(launch, clock):
    daemon = started(launch, clock)
    end = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    _, key = await make_key(daemon, {"role": "viewer"}, expires=end)
    async def status():
        connection = Connection(daemon.control)
        answer = await connection.request("GET", "/v1/projects/demo/remoteConfig", bearer(key))
        connection.close()
        return answer.status

    assert await status() in (200, 404)
    clock(2 * HOUR)
    assert await status() == 401
    clock(-2 * HOUR)
    assert await status() in (200, 404), "a clock that was wrong ends no key for good"
    for seconds in (48 * HOUR, -48 * HOUR, 0):
        clock(seconds)
        assert (await fetch(daemon.control, "/healthz")).status == 200
    assert json.loads(Cli(daemon)("status", "--json"))["ready"] is True


@pytest.mark.limit(60)
async def test_sign_ins_are_not_counted_on_after_the_clock_was_put_back(launch, clock):
    daemon = started(launch, clock)
    async def sign_in():
        connection = Connection(daemon.control)
        answer = await connection.request("POST", "/console/session", [("Sec-Fetch-Site", "same-origin")],
                                          json.dumps({"token": daemon.token}).encode())
        connection.close()
        return answer.status

    clock(3 * HOUR)
    statuses = [await sign_in() for _ in range(21)]
    assert statuses == [200] * 20 + [429]
    clock(0)
    assert await sign_in() == 200


@pytest.mark.limit(60)
async def test_a_start_behind_the_last_run_says_so(launch, clock):
    said = "the system clock is behind the last audit line"
    daemon = started(launch, clock)
    await daemon.publish(marked("one"))
    daemon.kill()
    daemon.start()
    assert said not in daemon.log_text()
    daemon.stop()
    clock(-3 * HOUR)
    daemon.start()
    line = next(line for line in daemon.log_text().splitlines() if said in line)
    # Less the time between the last line and the start, which load makes longer.
    assert 2 * HOUR < int(re.search(r"seconds=(\d+)", line)[1]) <= 3 * HOUR, line
    cli = Cli(daemon)
    assert " s behind the last audit line of the run before" in cli("status")
    assert "timedatectl" in [one.get("command") for one in cli.json("doctor", code=1)["findings"] if one["subject"] == "clock"]
    await daemon.publish(marked("two"))
    cli("audit", "verify")
    clock(0)
    assert "behind the last audit line" not in cli("status")
