"""A disk without one free byte: deliveries go on from memory, the daemon says so, and nothing is lost afterwards."""

import os

import pytest

from harness import webhooks
from harness.disk import fill, small_disk
from harness.pressure import until_metric
from harness.receiver import Answer
from harness.templates import marked
from harness.webhooks import Webhooks, acknowledged, secret_of, switchable, verified, versions

WRITABLE = "stalecast_webhook_database_writable"
pytestmark = [pytest.mark.limit(90), pytest.mark.skipif(os.geteuid() != 0, reason="needs root for mount")]


async def health(daemon):
    return (await daemon.status())["webhooks"]["health"]


async def test_a_full_disk_holds_no_delivery_up_and_costs_none(launch, tmp_path):
    """What is owed when the disk fills up is delivered then; what was acknowledged is not repeated after a restart."""
    with small_disk(tmp_path / "disk", "24m") as disk:
        daemon = launch(webhooks.config(store={"minFreeSpace": "0B"}), data=disk / "data")
        hooks = Webhooks(daemon)
        with switchable(Answer(500)) as receiver:
            modes = ("latest", "fifo", "all")
            made = {mode: await hooks.add(f"{receiver.url}/{mode}", mode=mode) for mode in modes}
            published = [await daemon.publish(marked(str(index))) for index in range(5)]
            receiver.wait(lambda all_: {each.path[1:] for each in all_} == set(modes))
            ballast = fill(disk)
            receiver.now = Answer()
            for hook in made.values():
                await hooks.act(hook, "enable")
            for hook in made.values():
                await hooks.until(hook, acknowledged(published[-1]))
            await until_metric(daemon, WRITABLE, 0, 60)
            assert "degraded" in await health(daemon)
            assert (await daemon.client().put(marked("refused"))).status == 503
            assert await daemon.ready() == 503
            # Nothing new can be registered; the refusal is honest, and what there is goes on.
            with pytest.raises(webhooks.Refused) as refused:
                await hooks.add(receiver.url)
            assert refused.value.status == 503, refused.value
            assert (await hooks.act(made["latest"], "test"))["attempt"]["status"] == 204
            ballast.unlink()
            await until_metric(daemon, WRITABLE, 1, 60)
            assert await health(daemon) == "ok"
            published.append(await daemon.publish(marked("after")))
            for hook in made.values():
                await hooks.until(hook, acknowledged(published[-1]))
            assert await daemon.ready() == 200
            seen = len(receiver.arrivals)
            assert daemon.stop() == 0
            daemon.start()
            last = await daemon.publish(marked("last"))
            for hook in made.values():
                await hooks.until(hook, acknowledged(last))
            assert versions(receiver.arrivals[seen:]) == [last] * 3, "what was acknowledged in memory was written down"
            for mode in ("fifo", "all"):
                taken = [a for a in receiver.arrivals if a.path == f"/{mode}"]
                assert set(versions(taken)) == {*published, last}
            verified(receiver.arrivals[-1], secret_of(made[receiver.arrivals[-1].path[1:]]))
            assert daemon.stop() == 0


async def test_killed_with_a_full_disk_it_repeats_but_loses_nothing(launch, tmp_path):
    with small_disk(tmp_path / "disk", "24m") as disk:
        daemon = launch(webhooks.config(store={"minFreeSpace": "0B"}), data=disk / "data")
        hooks = Webhooks(daemon)
        with switchable(Answer(500)) as receiver:
            made = await hooks.add(receiver.url, mode="fifo")
            published = [await daemon.publish(marked(str(index))) for index in range(5)]
            receiver.wait_for(1)
            ballast = fill(disk)
            receiver.now = Answer()
            await hooks.act(made, "enable")
            await hooks.until(made, acknowledged(published[-1]))
            await until_metric(daemon, WRITABLE, 0, 60)
            daemon.kill()
            ballast.unlink()
            daemon.start()
            published.append(await daemon.publish(marked("after")))
            await hooks.until(made, acknowledged(published[-1]))
            told = versions(receiver.arrivals)
            assert set(told) == set(published)
            second = told[len(told) - told[::-1].index(published[0]) - 1:]
            assert second == sorted(second) and set(second) == set(published), "after the crash: everything, in order"
