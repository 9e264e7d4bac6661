"""Scopes fed from Firebase's REST API: a stand-in with OAuth, and another Stalecast with its real-time stream."""

import asyncio
import time
from email.utils import formatdate

import pytest

from harness.daemon import LONG
from harness.faulty_network import FaultyNetwork
from harness.figures import percentile, record
from harness.origins import FirebaseOrigin, google_error
from harness.sources import fed, problem, source_of, subscribe, version, well
from harness.templates import marked
from harness.waiting import eventually, until


@pytest.fixture
def origin():
    with FirebaseOrigin() as origin:
        yield origin


def firebase_feed(origin, tmp_path, **more):
    key = origin.key_file(tmp_path / "robot.json")
    return {"kind": "firebase", "url": origin.url, "originProject": origin.project,
            "serviceAccountFile": str(key), "interval": "200ms", **more}


async def test_versions_come_with_their_numbers_and_everything_said_about_them(launch, origin, tmp_path):
    for name in ("one", "two", "three"):
        origin.publish(marked(name))
    daemon = launch(fed(firebase_feed(origin, tmp_path)))
    assert await version(daemon, 3) == {"welcome_text": "three"}
    stream = await subscribe(daemon)
    origin.rollback(1)
    message = (await stream.version_at_least(4)).json()
    assert message["updateType"] == "ROLLBACK" and message["rollbackSource"] == "1"
    assert message["updateOrigin"] == "CONSOLE" and message["updateTime"].endswith(".123456Z")
    assert "fence" not in message and message["fetchWindowMs"] == 0
    assert await version(daemon, 4) == {"welcome_text": "one"}
    client = daemon.client()
    stored = (await client.versions())[4]
    assert stored["updateUser"]["email"] == "ann@example.test"
    assert stored["description"] == "Rollback to version 1"
    client.close()
    assert (await source_of(daemon))["originVersionNumber"] == "4"
    stream.close()


async def test_polling_costs_one_short_request(launch, origin, tmp_path):
    origin.publish(marked("one"))
    daemon = launch(fed(firebase_feed(origin, tmp_path, interval="100ms")))
    await version(daemon, 1)
    await until(lambda: origin.asked["list"] >= 8, "looks")
    assert origin.asked["get"] == 1 and origin.asked["token"] == 1


async def test_an_expired_token_is_renewed_within_the_look(launch, origin, tmp_path):
    origin.publish(marked("one"))
    daemon = launch(fed(firebase_feed(origin, tmp_path)))
    await version(daemon, 1)
    origin.expire_tokens()
    origin.publish(marked("two"))
    await version(daemon, 2)
    assert origin.asked["token"] == 2
    assert "source cannot be used" not in daemon.log_text()


async def test_a_wrong_clock_is_corrected_by_the_token_server(launch, origin, tmp_path):
    origin.publish(marked("one"))
    origin.clock_skew = 7200
    origin.fault["token"] = lambda arrival: with_date(origin, arrival)
    daemon = launch(fed(firebase_feed(origin, tmp_path)))
    assert await version(daemon, 1) == {"welcome_text": "one"}


def with_date(origin, arrival):
    """The origin's own answer, with the time its clock shows."""
    answer = origin._token(arrival)
    answer.headers = (*answer.headers, ("Date", formatdate(time.time() + origin.clock_skew, usegmt=True)))
    return answer


async def test_refusals_are_named_and_end(launch, origin, tmp_path):
    origin.publish(marked("one"))
    daemon = launch(fed(firebase_feed(origin, tmp_path)))
    await version(daemon, 1)
    for kind, fault, reason in (
            ("list", google_error(403, "PERMISSION_DENIED"), "unauthorized"),
            ("list", google_error(429, "RESOURCE_EXHAUSTED"), "throttled"),
            ("get", google_error(500, "INTERNAL"), "server_error")):
        origin.fault[kind] = fault
        origin.publish(marked(reason))
        await problem(daemon, reason)
        del origin.fault[kind]
        await well(daemon)
        assert await version(daemon, len(origin.versions)) == {"welcome_text": reason}


async def test_a_listed_version_that_cannot_be_read_yet_is_read_soon(launch, origin, tmp_path):
    origin.publish(marked("one"))
    daemon = launch(fed(firebase_feed(origin, tmp_path)))
    await version(daemon, 1)
    origin.lag = 1
    origin.publish(marked("two"))
    await problem(daemon, "not_found")
    origin.lag = 0
    assert await version(daemon, 2) == {"welcome_text": "two"}


async def test_publishes_between_two_polls_are_one_message(launch, origin, tmp_path):
    origin.publish(marked("one"))
    daemon = launch(fed(firebase_feed(origin, tmp_path, interval="1s")))
    await version(daemon, 1)
    stream = await subscribe(daemon)
    for name in "abcde":
        origin.publish(marked(name))
    await stream.version_at_least(6)
    assert stream.versions[-1] == 6 and len(stream.versions) <= 2
    await version(daemon, 6)
    stream.close()


async def asks_for_time(daemon):
    """Whether the hub knows of so many streams that it spreads their fetches."""
    return await daemon.metric("stalecast_herd_window_seconds") >= 3


async def test_an_urgent_publish_says_so_in_its_description(launch, origin, tmp_path):
    origin.publish(marked("one"))
    daemon = launch(fed(firebase_feed(origin, tmp_path, herdBudget=1)))
    await version(daemon, 1)
    streams = [await subscribe(daemon) for _ in range(4)]
    assert await eventually(lambda: asks_for_time(daemon), True)
    origin.publish(marked("two"))
    calm = (await streams[0].version_at_least(2)).json()
    assert 3000 <= calm["fetchWindowMs"] <= 5000
    origin.publish(marked("three"), description="[urgent] payment is down")
    assert (await streams[0].version_at_least(3)).json()["fetchWindowMs"] == 0
    for stream in streams:
        stream.close()


async def test_an_origin_that_begins_anew_needs_counted_versions(launch, origin, tmp_path):
    for name in "abc":
        origin.publish(marked(name))
    daemon = launch(fed(firebase_feed(origin, tmp_path)))
    await version(daemon, 3)
    origin.versions.clear()
    origin.publish(marked("anew"))
    assert "versions: counted" in (await problem(daemon, "older_version"))["message"]
    daemon.stop()
    daemon.configure(fed(firebase_feed(origin, tmp_path, versions="counted")))
    daemon.start()
    assert await version(daemon, 4) == {"welcome_text": "anew"}


# Another Stalecast as the origin


def chained(upstream, tmp_path, **more):
    """A feed that watches another daemon's Control, and with `apiKey` its real-time stream as well."""
    token = tmp_path / "upstream.token"
    token.write_text(upstream.token)
    return {"kind": "firebase", "url": f"http://127.0.0.1:{upstream.control}", "tokenFile": str(token),
            "interval": "200ms", **more}


async def test_a_second_stalecast_is_polled(launch, tmp_path):
    upstream = launch()
    await upstream.publish(marked("one"))
    daemon = launch(fed(chained(upstream, tmp_path)))
    assert await version(daemon, 1) == {"welcome_text": "one"}
    stream = await subscribe(daemon)
    await upstream.publish(marked("two"))
    await upstream.rollback(1)
    message = (await stream.version_at_least(3)).json()
    assert message["updateType"] == "ROLLBACK" and message["rollbackSource"] == "1"
    upstream.stop()
    await problem(daemon, "unreachable")
    upstream.start()
    await well(daemon)
    stream.close()


async def test_its_real_time_stream_is_the_trigger(launch, tmp_path):
    upstream = launch()
    await upstream.publish(marked("one"))
    feed = chained(upstream, tmp_path, apiKey="any", realtimeUrl=f"http://127.0.0.1:{upstream.edge}", interval="1h")
    daemon = launch(fed(feed))
    await version(daemon, 1)

    async def listening():
        return (await source_of(daemon))["stream"]["open"]

    await until(listening, "real-time stream")
    stream = await subscribe(daemon)
    delays = []
    for index in range(2, 42 if LONG else 8):
        # Edge spreads what it tells Firebase's clients after a burst.
        await asyncio.sleep(0.45)
        begin = time.monotonic()
        await upstream.publish(marked(str(index)))
        await stream.version_at_least(index)
        delays.append(time.monotonic() - begin)
    delays.sort()
    record("chained, real-time: publish to STALE", p50_ms=percentile(delays, 0.5) * 1000, max_ms=delays[-1] * 1000)
    upstream.kill()
    await until(lambda: closed(daemon), "end of the real-time stream")
    upstream.start()
    await upstream.publish(marked("after"))
    await stream.version_at_least(len(delays) + 2)
    stream.close()


async def test_when_the_stream_is_cut_polls_take_its_place(launch, tmp_path):
    """While it is open they are ten times as seldom; that must not outlive it."""
    upstream = launch()
    await upstream.publish(marked("one"))
    with FaultyNetwork(upstream.edge) as network:
        daemon = launch(fed(chained(upstream, tmp_path, apiKey="any", realtimeUrl=network.url, interval="5s")))
        await version(daemon, 1)

        async def listening():
            return (await source_of(daemon))["stream"]["open"]

        await until(listening, "real-time stream")
        stream = await subscribe(daemon)
        network.mode = "reset"
        await until(lambda: closed(daemon), "end of the real-time stream")
        await upstream.publish(marked("two"))
        await stream.version_at_least(2, 40)  # 50 s is the pause with a stream
        stream.close()


async def test_a_source_with_a_stream_is_as_young_as_promised(launch, tmp_path):
    upstream = launch()
    await upstream.publish(marked("one"))
    daemon = launch(fed(chained(
        upstream, tmp_path, apiKey="any", realtimeUrl=f"http://127.0.0.1:{upstream.edge}", interval="300ms",
        maxAge="2s")))
    await version(daemon, 1)

    async def age_at_the_next_look():
        source = await source_of(daemon)
        age = source["ageSeconds"] + (source["nextLookSeconds"] or 0)
        # Without a stream looks are at most 0.33 s apart. One that is overdue says nothing.
        return age if source["stream"]["open"] and source["nextLookSeconds"] and age > 0.4 else None
    # Ten times as seldom would be 3 s.
    assert await until(age_at_the_next_look, "look with an open stream") <= 2
    assert (await daemon.ask_control("/readyz")).status == 200


async def closed(daemon):
    return not (await source_of(daemon))["stream"]["open"]


async def test_a_fence_holds_the_message_until_clients_would_get_it(launch, tmp_path):
    """The upstream's Edge answers clients; the fence asks it as one of them."""
    upstream = launch()
    await upstream.publish(marked("one"))
    fence = f"http://127.0.0.1:{upstream.edge}/v1/projects/demo/namespaces/firebase:fetch"
    daemon = launch(fed(chained(upstream, tmp_path, fenceUrl=fence, fenceProof="fetch")))
    await version(daemon, 1)
    stream = await subscribe(daemon)
    await upstream.publish(marked("two"))
    message = (await stream.version_at_least(2)).json()
    assert "fence" not in message
    assert (await source_of(daemon))["fenceTimeouts"] == 0
    stream.close()

