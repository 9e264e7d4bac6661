"""What the daemon does about every way a receiver can answer, or not, and what it never does to the others."""

import json
import random
import time
from datetime import datetime
from email.utils import formatdate

import pytest

from harness import webhooks
from harness.cli import stalecast
from harness.daemon import LONG
from harness.receiver import GARBAGE, HANG, RESET, Answer, Receiver, flood
from harness.templates import marked
from harness.webhooks import Webhooks, acknowledged, id_of, scope_of, state_is, switchable, versions

ORDINARY = Answer(204)

# name: (answer, what the attempt list calls it, how soon at the earliest the next attempt is, in seconds)
FAILURES = {
    "301": (Answer(301, (("Location", "http://127.0.0.1:1/"),)), "3xx", 0.2),
    "307": (Answer(307, (("Location", "/elsewhere"),)), "3xx", 0.2),
    "400": (Answer(400, body=b"no"), "4xx", 0.2),
    "401": (Answer(401), "4xx", 0.2),
    "404": (Answer(404), "4xx", 0.2),
    "429": (Answer(429), "4xx", 29),
    "429 seconds": (Answer(429, (("Retry-After", "3"),)), "4xx", 2.9),
    "500": (Answer(500, body=b"\xff not utf-8 \x00"), "5xx", 0.2),
    "502": (Answer(502), "5xx", 29),
    "503": (Answer(503), "5xx", 0.2),
    "503 seconds": (Answer(503, (("Retry-After", "2"),)), "5xx", 1.9),
    "503 absurd": (Answer(503, (("Retry-After", "99999999999999999999"),)), "5xx", 0.2),
    "503 nonsense": (Answer(503, (("Retry-After", "soon"),)), "5xx", 0.2),
    "504": (Answer(504), "5xx", 29),
    "reset": (RESET, "no_connection", 0.2),
    "garbage": (GARBAGE, "bad_answer", 0.2),
    "closed at once": (Answer(raw=b"", then="close"), None, 0.2),
    "hang": (HANG, "timeout_response", 0.2),
    "slow drip": (Answer(200, body=b"x" * 600, drip=0.05), "timeout_response", 0.2),
    "half a head": (Answer(raw=b"HTTP/1.1 200 OK\r\nX-Half: ", then="hang"), "timeout_response", 0.2),
}


def stamp(text):
    """Seconds since 1970 of one of the API's times."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@pytest.mark.limit(90)
async def test_every_way_to_fail_is_retried_with_patience_and_told(launch):
    """All at once, one receiver each; while they fail, one that is well hears of every publish at once."""
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    answers = {f"/{index}": answer for index, (answer, _, _) in enumerate(FAILURES.values())}
    with Receiver(lambda arrival: answers[arrival.path]) as bad, Receiver() as good:
        well = await hooks.add(good.url)
        made = {name: await hooks.add(f"{bad.url}/{index}", limits={"timeout": "1s"}) for index, name in enumerate(FAILURES)}
        with daemon.growth_below(48 << 20):
            version = await daemon.publish(marked("one"))
            await hooks.until(well, acknowledged(version))
            for name, (_, outcome, wait) in FAILURES.items():
                attempts = await hooks.until_attempts(made[name], lambda found: found)
                first = attempts[-1]
                assert outcome in (None, first["outcome"]), f"{name}: {first}"
                assert first["outcome"] != "2xx" and first["problem"], f"{name}: {first}"
                # The whole attempt counts: a hang's wait begins at its end.
                begin = stamp(first["startTime"]) + first["phasesMs"]["total"] / 1000
                assert stamp(first["nextAttemptTime"]) - begin >= wait - 0.15, f"{name}: {first}"
                document = await hooks.get(made[name])
                assert document["state"]["name"] in ("failing", "active"), f"{name}: {document['state']}"
                assert scope_of(document)["lag"] == 1, name
        for name in ("301", "307"):
            problem = (await hooks.attempts(made[name]))[-1]["problem"]
            assert "redirect" in problem.lower() or "location" in problem.lower(), f"{name}: {problem}"
        # What the receivers said is shown, cut and made printable.
        assert (await hooks.attempts(made["400"]))[-1]["response"] == "no"
        json.dumps((await hooks.attempts(made["500"]))[-1])
        # No redirect was followed.
        assert all(arrival.path in answers for arrival in bad.arrivals)


async def test_retry_after_as_a_date_is_kept(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)

    def answer(arrival):
        if len(receiver.arrivals) > 1:
            return ORDINARY
        # A date has whole seconds: at least two from now.
        return Answer(503, (("Retry-After", formatdate(time.time() + 3, usegmt=True)),))

    with Receiver(answer) as receiver:
        made = await hooks.add(receiver.url)
        version = await daemon.publish(marked("one"))
        await hooks.until(made, acknowledged(version))
        first, second = receiver.arrivals
    assert second.at - first.at >= 1.9


async def test_a_receiver_that_recovers_gets_only_the_newest(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with switchable(Answer(500)) as receiver:
        receiver.now = ORDINARY
        made = await hooks.add(receiver.url)
        known = await daemon.publish(marked("one"))
        await hooks.until(made, acknowledged(known))
        receiver.now = Answer(500)
        await daemon.publish(marked("two"))
        receiver.wait_for(3)
        failing = await hooks.until(made, state_is("failing"))
        assert failing["state"]["since"]
        for index in range(20):
            version = await daemon.publish(marked(str(index)))
        seen = len(receiver.arrivals)
        receiver.now = ORDINARY
        document = await hooks.until(made, acknowledged(version), timeout=50)
        assert document["state"] == {"name": "active"}
        last = json.loads(receiver.arrivals[-1].body)["data"]
        assert (last["version"], last["sinceVersion"], last["coalesced"]) == (version, known, version - known - 1)
        assert len(receiver.arrivals) - seen <= 2, "what was published meanwhile is folded into one message"


async def test_every_attempt_for_a_version_has_one_id_and_a_fresh_time(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with switchable(Answer(500)) as receiver:
        made = await hooks.add(receiver.url)
        await daemon.publish(marked("one"))
        attempts = receiver.wait_for(3)
        ids = {each.headers["webhook-id"] for each in attempts}
        times = [int(each.headers["webhook-timestamp"]) for each in attempts]
        assert len(ids) == 1 and times == sorted(times) and abs(times[-1] - time.time()) < 5
        daemon.kill()
        daemon.start()
        receiver.now = ORDINARY
        before = len(receiver.arrivals)
        after = receiver.wait_for(before + 1)[-1]
        assert after.headers["webhook-id"] in ids, "also after a crash"
        await hooks.until(made, state_is("active"))
        version = await daemon.publish(marked("two"))
        newer = receiver.wait(lambda all_: version in versions(all_) and all_[-1])
        assert newer.headers["webhook-id"] not in ids


@pytest.mark.limit(30)
async def test_one_410_may_be_a_mistake(launch):
    """Two at least a minute apart disable; one does not. (The minute is Delivery's unit test.)"""
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with switchable(Answer(410)) as receiver:
        made = await hooks.add(receiver.url)
        await daemon.publish(marked("one"))
        receiver.wait_for(1)
        attempts = await hooks.until_attempts(made, lambda found: found)
        assert attempts[-1]["status"] == 410
        assert (await hooks.get(made))["state"]["name"] != "disabled"


async def test_a_receiver_can_say_that_it_wants_no_more(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with switchable(Answer(200, (("Webhook-Delivery", "disable"),))) as receiver:
        made = await hooks.add(receiver.url)
        await daemon.publish(marked("one"))
        disabled = await hooks.until(made, state_is("disabled"))
        assert disabled["state"]["reason"] == "refused_by_receiver" and disabled["state"]["since"]
        assert f"demo: disabled webhook {id_of(made)}: refused_by_receiver" in stalecast("logs", "--data", daemon.data)
        version = await daemon.publish(marked("two"))
        daemon.stop()
        daemon.start()
        assert (await hooks.get(made))["state"] == disabled["state"]
        receiver.now = ORDINARY
        assert state_is("active")(await hooks.act(made, "enable"))
        await hooks.until(made, acknowledged(version))
        assert versions(receiver.arrivals)[-1] == version and len(receiver.arrivals) == 2


@pytest.mark.parametrize("status", [413, 415])
async def test_what_a_receiver_will_never_take_is_given_up_and_can_be_redriven(launch, status):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with switchable(Answer(status)) as receiver:
        made = await hooks.add(receiver.url, mode="all")
        version = await daemon.publish(marked("one"))
        receiver.wait_for(1)
        letters = await poll_dead_letters(hooks, made, 1)
        assert letters[0]["versionNumber"] == str(version) and letters[0]["reason"] == "rejected"
        assert letters[0]["lastStatus"] == status
        receiver.now = ORDINARY
        assert await hooks.act(made, "redrive") == {"deliveries": 1}
        receiver.wait(lambda all_: versions(all_).count(version) == 2)
        assert await hooks.dead_letters(made) == []


async def poll_dead_letters(hooks, webhook, count):
    deadline = time.monotonic() + 20
    while len(letters := await hooks.dead_letters(webhook)) < count:
        assert time.monotonic() < deadline, f"{letters} after 20 s"
        await webhooks.pause()
    return letters


@pytest.mark.limit(60)
async def test_huge_answers_cost_neither_memory_nor_time(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    size = 100 << 20
    with Receiver(lambda _: flood(size)) as receiver, Receiver() as good:
        made, well = await hooks.add(receiver.url, limits={"timeout": "5s"}), await hooks.add(good.url)
        with daemon.growth_below(24 << 20):
            version = await daemon.publish(marked("one"))
            await hooks.until(well, acknowledged(version))
            attempt = (await hooks.until_attempts(made, lambda found: found))[-1]
        # 200 came: the rest is not waited for.
        assert attempt["status"] == 200 and len(attempt.get("response", "")) <= 4096
        await hooks.until(made, acknowledged(version))


@pytest.mark.limit(60)
async def test_black_holes_do_not_delay_the_others(launch):
    """Thirty receivers that never answer, thirty that do, sixteen places: the latter are told as if alone."""
    daemon = launch(webhooks.config(webhooks={"maxInFlight": 16}))
    hooks = Webhooks(daemon)
    with Receiver(lambda _: HANG) as hole, Receiver() as good:
        for index in range(30):
            await hooks.add(f"{good.url}/{index}")
        version = await daemon.publish(marked("first"))
        good.wait(lambda all_: versions(all_).count(version) == 30)
        for index in range(30):
            await hooks.add(f"{hole.url}/{index}")
        for index in range(5):
            version = await daemon.publish(marked(str(index)))
            good.wait(lambda all_: versions(all_).count(version) == 30, timeout=10, what=f"version {version} at all thirty")


async def test_in_mode_all_every_version_arrives_and_in_fifo_in_order(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with switchable() as every, switchable() as order:
        await hooks.add(every.url, mode="all")
        line = await hooks.add(order.url, mode="fifo")
        published = [await daemon.publish(marked(str(index))) for index in range(15)]
        every.wait(lambda all_: set(published) <= set(versions(all_)))
        order.wait(lambda all_: len(all_) >= 15)
        assert versions(order.arrivals) == published
        # One that fails holds up those after it; nothing is skipped, nothing overtakes.
        order.now = Answer(500)
        published += [await daemon.publish(marked("held")) for _ in range(5)]
        order.wait(lambda all_: len(all_) >= 17)
        assert set(versions(order.arrivals)[15:]) == {published[15]}
        order.now = ORDINARY
        await hooks.until(line, acknowledged(published[-1]), timeout=50)
        told = versions(order.arrivals)
        assert told == sorted(told) and sorted(set(told)) == published


async def test_versions_to_one_webhook_never_decrease(launch):
    """Under answers that fail at random, for every mode that promises order."""
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    dice = random.Random(7)
    with Receiver(lambda _: dice.choice([ORDINARY, ORDINARY, Answer(500), RESET, Answer(204, delay=0.05)])) as receiver:
        made = {mode: await hooks.add(f"{receiver.url}/{mode}", mode=mode) for mode in ("latest", "fifo")}
        for index in range(40 if not LONG else 400):
            version = await daemon.publish(marked(str(index)))
        await hooks.until(made["latest"], acknowledged(version), timeout=50)
        for mode in made:
            told = versions([each for each in receiver.arrivals if each.path == f"/{mode}"])
            assert told == sorted(told), mode


async def test_a_limit_of_rate_is_kept(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as receiver:
        made = await hooks.add(receiver.url, mode="all", limits={"maxPerSecond": 5})
        for index in range(12):
            version = await daemon.publish(marked(str(index)))
        receiver.wait_for(12)
        await hooks.until(made, acknowledged(version))
        at = [each.at for each in receiver.arrivals]
    # A burst of one second's worth, then one every 0.2 s.
    assert at[11] - at[0] >= (12 - 5 - 1) * 0.2 - 0.1


async def test_keep_alive_connections_are_used_again(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as receiver:
        made = await hooks.add(receiver.url)
        for index in range(20):
            version = await daemon.publish(marked(str(index)))
            await hooks.until(made, acknowledged(version))
        assert receiver.connections == 1, f"{len(receiver.arrivals)} requests over {receiver.connections} connections"
        assert await daemon.metric("stalecast_webhook_connections_total", kind="reused") >= 19


async def test_what_is_under_way_at_sigterm_is_finished_and_nothing_is_lost(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with switchable(Answer(204, delay=1)) as receiver:
        made = await hooks.add(receiver.url)
        version = await daemon.publish(marked("one"))
        receiver.wait_for(1)
        assert daemon.stop() == 0
        receiver.now = ORDINARY
        daemon.start()
        assert acknowledged(version)(await hooks.get(made)), "the answer came before the end and was written down"
        assert len(receiver.arrivals) == 1


async def test_the_removed_are_told_no_more_and_their_attempts_are_gone(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver(lambda _: Answer(500)) as receiver:
        made = await hooks.add(receiver.url)
        await daemon.publish(marked("one"))
        receiver.wait_for(1)
        await hooks.remove(made)
        with pytest.raises(webhooks.Refused):
            await hooks.attempts(id_of(made))
        assert await daemon.metric("stalecast_webhooks") == 0
