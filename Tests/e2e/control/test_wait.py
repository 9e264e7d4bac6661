"""What `--wait` says when a command is tried again, and where nothing can be counted."""

import asyncio

from harness import configs
from harness.cli import REFUSED, TIMED_OUT, Cli
from harness.keys import bearer
from harness.sse import Stream
from harness.templates import marked
from harness.waiting import eventually
from test_propagation import crowd, get, propagation


@configs.one_half
async def test_a_second_try_waits_for_what_the_first_one_published(launch, half):
    daemon = launch(half=half)
    await daemon.client().publish(marked("one"))
    cli, names = Cli(daemon), [f"c{number}" for number in range(5)]
    streams = await crowd(daemon, names, have=1)
    file = cli.file(marked("two"))

    async def publish(code, *words):
        return await asyncio.to_thread(cli, "publish", file, "--yes", "--wait", "90%", *words, code=code)

    first = await publish(TIMED_OUT, "--timeout", "500ms")
    assert "published version 2" in first, first
    again = await publish(TIMED_OUT, "--timeout", "500ms", "--on-timeout", "rollback")
    assert "nothing was published" in again and "0.0 % of 5 clients" in again.err, (again, again.err)
    assert "this command did not publish it" in again.err, again.err
    assert (await propagation(daemon))["versionNumber"] == "2", "another command's version stays"
    await get(daemon.edge, *names)
    done = await asyncio.to_thread(cli.json, "publish", file, "--yes", "--wait", "90%")
    assert not done["published"] and done["wait"]["reason"] == "REACHED", done
    for stream in streams:
        stream.close()


async def test_a_version_that_ended_before_a_restart_is_known_to_those_who_wait_and_follow(launch):
    daemon = launch()
    await daemon.client().publish(marked("one"))
    stream = await Stream.open(daemon.edge, client="a", have=1)
    cli = Cli(daemon)
    file = cli.file(marked("two"))
    await asyncio.to_thread(cli, "publish", file, "--yes")
    await get(daemon.edge, "a")
    assert daemon.stop() == 0
    stream.close()
    daemon.start()
    done = await asyncio.to_thread(cli.json, "publish", file, "--yes", "--wait")
    assert done["wait"]["reason"] == "REACHED" and done["wait"]["propagation"]["clients"]["fetched"] == 1, done
    target = "/v1/projects/demo/remoteConfig/propagation:watch?follow=true"
    watch = await Stream.open(daemon.control, target=target, headers=bearer(daemon.token))
    await watch.until(lambda stream: stream.events)
    assert watch.events[0].json()["versionNumber"] == "2", watch.events
    watch.close()


async def test_what_cannot_be_counted_is_refused_before_the_publish(launch):
    daemon = launch()
    await daemon.client().publish(marked("one"))
    cli = Cli(daemon)
    streams = [await Stream.open(daemon.edge) for _ in range(3)] + await crowd(daemon, ["named"], have=1)
    file = cli.file(marked("two"))
    told = await asyncio.to_thread(cli, "publish", file, "--yes", "--wait", "90%", "--stage", "fetched", code=REFUSED)
    assert "3 of 4 streams" in told.err and "nothing was published" in told.err, told.err
    assert (await propagation(daemon))["versionNumber"] == "1"
    await asyncio.to_thread(cli, "publish", file, "--yes", "--wait", "90%", "--stage", "sent")
    for stream in streams:
        stream.close()


async def test_a_stream_of_several_topics_counts_once_among_those_without_an_id(launch):
    daemon = launch(configs.config(topics=[{"name": name, "scopes": ["demo/firebase"]} for name in ("PUSH_RC", "more")]))
    target = "/v1/events?topic=PUSH_RC&topic=more"
    streams = [await Stream.open(daemon.edge, target=f"{target}&client={name}") for name in ("a", "b")]
    streams.append(await Stream.open(daemon.edge))
    client = daemon.client()

    async def own():
        return (await client.call("GET", "/v1/projects/demo/remoteConfig/audience")).json()["thisNode"]

    wanted = {"streams": 3, "unidentifiedStreams": 1}
    assert await eventually(own, wanted) == wanted
    client.close()
    for stream in streams:
        stream.close()


def test_a_release_that_another_command_began_stays(launch):
    cli = Cli(launch())
    cli("publish", cli.file(marked("one")))
    cli("publish", cli.file(marked("two")), "--stages", "10%,100%", "--every", "1h")
    said = cli("set", "welcome_text=two", "--yes", "--wait", "--timeout", "500ms", "--on-timeout", "rollback", code=TIMED_OUT)
    assert "nothing was published" in said and "`stalecast release rollback` takes it back" in said.err, (said, said.err)
    assert cli.json("release")["state"] == "RAMPING"


async def test_where_releases_are_staged_by_default_the_stage_is_not_judged(launch):
    plan = {"scope": "demo/firebase", "default": "staged", "stages": ["1%", "100%"], "every": "100ms", "bake": "0s"}
    daemon = launch(configs.config(releases=[plan]))
    await daemon.client().publish(marked("one"))
    cli = Cli(daemon)
    streams = [await Stream.open(daemon.edge) for _ in range(3)]
    ways = [("publish", cli.file(marked("two"))), ("set", "welcome_text=three", "--yes")]
    for version, words in enumerate(ways, start=2):
        said = await asyncio.to_thread(cli, *words, "--wait", "--stage", "fetched")
        assert f"the release of version {version} is over" in said, (said, said.err)
        assert "waiting for the end of the release" in said.err, said.err
    for stream in streams:
        stream.close()


async def test_propagation_follows_the_newest_version(launch):
    daemon = launch()
    await daemon.client().publish(marked("one"))
    stream = await Stream.open(daemon.edge, client="a", have=1)
    process = Cli(daemon).start("propagation", "--follow")
    try:
        assert (await asyncio.to_thread(process.stdout.readline)).startswith("version 1, ")
        await daemon.client().publish(marked("two"))
        await get(daemon.edge, "a")
        while "fetched 1 of 1 client" not in (line := await asyncio.to_thread(process.stdout.readline)):
            assert line.startswith("version "), line
        assert line.startswith("version 2, "), line
    finally:
        process.kill()
        process.communicate()
    stream.close()
    assert "leave the number out" in Cli(daemon)("propagation", "status", "1", "--follow", code=2).err
