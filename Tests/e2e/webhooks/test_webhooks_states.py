"""When a webhook is given up, who hears of it, and how it comes back. The waits are the daemon's real ones, so those of
a minute are for long campaigns."""

import json
import signal
import threading
import time

import pytest

from harness import webhooks
from harness.daemon import LONG
from harness.receiver import Answer, Receiver
from harness.templates import marked
from harness.webhooks import Webhooks, acknowledged, secret_of, state_is, switchable, verified, versions

long = pytest.mark.skipif(not LONG, reason="more than a minute: STALECAST_LONG=1")


def news(watcher, watching):
    """The verified operational messages so far."""
    return [verified(arrival, secret_of(watching)) for arrival in watcher.arrivals]


async def fail_again(daemon, receiver, times):
    """A restart does not wait for the backoff: one more attempt for each."""
    for _ in range(times):
        seen = len(receiver.arrivals)
        daemon.stop()
        daemon.start()
        receiver.wait_for(seen + 1)


async def test_a_recovery_after_many_failures_is_told(launch):
    """Five failures in a row, counted over restarts."""
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as watcher, switchable(Answer(500)) as receiver:
        watching = await hooks.add(watcher.url, topics=["stalecast.webhooks"])
        made = await hooks.add(receiver.url)
        version = await daemon.publish(marked("one"))
        receiver.wait_for(1)
        await fail_again(daemon, receiver, 5)
        failing = await hooks.until(made, state_is("failing"))
        assert failing["delivery"]["consecutiveFailures"] >= 5 and not watcher.arrivals
        receiver.now = Answer()
        await fail_again(daemon, receiver, 1)
        assert (await hooks.until(made, acknowledged(version)))["state"] == {"name": "active"}
        watcher.wait_for(1)
        [message] = news(watcher, watching)
        assert message["type"] == "webhook.recovered" and message["data"]["webhook"] == made["id"]
        assert message["data"]["failingSince"] == failing["state"]["since"]


async def test_an_attempt_under_way_at_the_end_is_finished_and_remembered(launch):
    """An orderly end waits two seconds for answers, and what they say is written before the daemon is gone."""
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    is_ending = threading.Event()

    def answer(_):
        is_ending.wait(20)
        return Answer()

    with Receiver(answer) as receiver:
        made = await hooks.add(receiver.url)
        version = await daemon.publish(marked("one"))
        receiver.wait_for(1)
        daemon.signal(signal.SIGTERM)
        while "ending, a second interrupt" not in daemon.log_text():
            await webhooks.pause()
        is_ending.set()
        assert daemon.wait() == 0
        daemon.start()
        assert acknowledged(version)(await hooks.get(made))
        assert [attempt["status"] for attempt in await hooks.attempts(made)] == [204]
        assert len(receiver.arrivals) == 1


async def test_a_recovery_after_enable_is_told(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as watcher, switchable(Answer(204, (("Webhook-Delivery", "disable"),))) as receiver:
        watching = await hooks.add(watcher.url, topics=["stalecast.webhooks"])
        made = await hooks.add(receiver.url)
        await daemon.publish(marked("one"))
        disabled = await hooks.until(made, state_is("disabled"))
        watcher.wait_for(1)
        lines = [json.loads(line) for line in (daemon.data / "audit.jsonl").read_text().splitlines()]
        audited = [(line["webhook"], line["reason"]) for line in lines if line["action"] == "webhook.disable"]
        assert audited == [(made["id"], "refused_by_receiver")]
        receiver.now = Answer()
        await hooks.act(made, "enable")
        watcher.wait_for(2)
        told = news(watcher, watching)
        assert [message["type"] for message in told] == ["webhook.disabled", "webhook.recovered"]
        assert told[1]["data"]["webhook"] == made["id"]
        assert told[1]["data"]["failingSince"] == disabled["state"]["since"]


async def test_one_failure_is_no_news(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as watcher, switchable(Answer(500)) as receiver:
        watching = await hooks.add(watcher.url, topics=["stalecast.webhooks", "PUSH_RC"])
        made = await hooks.add(receiver.url)
        await daemon.publish(marked("one"))
        receiver.wait_for(1)
        receiver.now = Answer()
        await hooks.until(made, state_is("active"))
        version = await daemon.publish(marked("two"))
        await hooks.until(watching, acknowledged(version))
        assert {message["type"] for message in news(watcher, watching)} == {"config.stale"}


@long
@pytest.mark.limit(200)
async def test_the_second_410_after_a_minute_disables_and_enabling_sends_the_newest(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as watcher, switchable(Answer(410)) as receiver:
        watching = await hooks.add(watcher.url, topics=["stalecast.webhooks"])
        made = await hooks.add(receiver.url)
        await daemon.publish(marked("one"))
        disabled = await hooks.until(made, state_is("disabled"), timeout=150)
        assert disabled["state"]["reason"] == "gone"
        assert len(receiver.arrivals) == 2 and receiver.arrivals[1].at - receiver.arrivals[0].at >= 60
        watcher.wait_for(1)
        [message] = news(watcher, watching)
        assert message["type"] == "webhook.disabled"
        assert (message["data"]["webhook"], message["data"]["reason"]) == (made["id"], "gone")
        version = await daemon.publish(marked("two"))
        receiver.now = Answer()
        await hooks.act(made, "enable")
        assert (await hooks.until(made, acknowledged(version)))["state"] == {"name": "active"}
        assert versions(receiver.arrivals)[2:] == [version]


@long
@pytest.mark.limit(200)
async def test_long_failure_in_many_attempts_disables(launch):
    """`disableAfter` at its least; the attempts come from restarts, since the backoff would take too long."""
    daemon = launch(webhooks.config(webhooks={"disableAfter": "1m"}))
    hooks = Webhooks(daemon)
    with Receiver() as watcher, switchable(Answer(500)) as receiver:
        watching = await hooks.add(watcher.url, topics=["stalecast.webhooks"])
        made = await hooks.add(receiver.url)
        begin = time.monotonic()
        await daemon.publish(marked("one"))
        receiver.wait_for(1)
        await fail_again(daemon, receiver, 10)
        assert state_is("failing")(await hooks.get(made)), "ten attempts within seconds are no reason"
        while time.monotonic() - begin < 61:
            await webhooks.pause()
        await fail_again(daemon, receiver, 1)
        disabled = await hooks.until(made, state_is("disabled"))
        assert disabled["state"]["reason"] == "failing"
        watcher.wait_for(1)
        [message] = news(watcher, watching)
        assert (message["type"], message["data"]["reason"]) == ("webhook.disabled", "failing")
        assert message["data"]["failedAttempts"] >= 10
        seen = len(receiver.arrivals)
        version = await daemon.publish(marked("two"))
        receiver.now = Answer()
        await hooks.act(made, "enable")
        await hooks.until(made, acknowledged(version))
        assert versions(receiver.arrivals[seen:]) == [version]


async def test_what_the_store_forgets_before_it_is_delivered_is_told(launch):
    """Every version arrives or is a dead letter."""
    daemon = launch(webhooks.config(store={"maxVersions": 5}))
    hooks = Webhooks(daemon)
    with switchable(Answer(500)) as receiver:
        made = await hooks.add(receiver.url, mode="fifo-advance")
        published = [await daemon.publish(marked(str(index))) for index in range(20)]
        receiver.wait_for(1)
        daemon.stop()
        receiver.now = Answer()
        receiver.arrivals.clear()
        daemon.start()
        await hooks.until(made, acknowledged(published[-1]))
        given_up = [int(letter["versionNumber"]) for letter in await hooks.dead_letters(made)]
        assert versions(receiver.arrivals)[-1] == published[-1]
        assert {*versions(receiver.arrivals), *given_up} == set(published)
