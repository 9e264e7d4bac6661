"""G12: what the daemon says and does when fsync fails, and when the disk is full."""

import asyncio
import os
import subprocess

import pytest

from harness import configs
from harness.control import version_of
from harness.disk import failing_fsync, fill, small_disk
from harness.http1 import Broken
from harness.poll import poll
from harness.sse import Stream
from harness.templates import marked, template

pytestmark = [pytest.mark.limit(90), pytest.mark.skipif(os.geteuid() != 0, reason="needs root for mount and strace")]


def is_honest(answer):
    """A refusal that is certainly not committed, or an outcome said to be unknown; never 503 for unknown."""
    if answer.status in (500, 504):
        return b'"outcome"' in answer.body and b"unknown" in answer.body
    return answer.status == 503 or 400 <= answer.status < 500


async def publish_until_it_fails(daemon, most=30):
    """Returns (versions acknowledged, failing answer or None when the connection broke)."""
    client, acknowledged = daemon.client(), []
    for number in range(most):
        try:
            answer = await client.put(marked(f"during-{number}"))
        except Broken:
            return acknowledged, None
        if answer.status != 200:
            return acknowledged, answer
        acknowledged.append(version_of(answer))
    raise AssertionError(f"{most} publishes acknowledged although fsync fails")


@configs.one_half
@pytest.mark.parametrize("when", ("1+", "2+", "3"))
async def test_failing_fsync_stops_acknowledging_says_so_and_exits(launch, half, tool, when):
    daemon = launch(half=half)
    for number in range(3):
        await daemon.publish(marked(f"before-{number}"))
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    with failing_fsync(tool("strace"), daemon.pid, when):
        acknowledged, answer = await publish_until_it_fails(daemon)
        assert answer is None or is_honest(answer), answer
        try:
            assert await daemon.ready() == 503, "readiness must tell"
            again = await daemon.client().put(marked("after"))
            assert again.status != 200 and is_honest(again), "an fsync error is final, also when the disk works later"
        except (Broken, OSError):
            pass
        code = await asyncio.to_thread(daemon.wait, 20)
    assert code != 0, "an operator must see that this was no ordinary end"
    announced = [v for v in stream.versions if v > 3]
    stream.close()
    daemon.start()
    current, _ = await daemon.client().current()
    listed = await daemon.client().versions()
    assert current >= max(acknowledged + announced, default=3), "acknowledged or announced, then gone"
    for version in acknowledged:
        assert listed[version]["description"] == f"during-{version - 4}"
    assert await daemon.publish(marked("healthy again")) == current + 1


async def lives(daemon, version):
    """Streams, polls and reads answer as ever."""
    stream = await Stream.open(daemon.edge, have=0)
    await stream.synced()
    assert stream.versions == [version]
    assert (await poll(daemon.edge, have=0, wait="1s")).status == 200
    assert (await daemon.client().current())[0] == version
    return stream


@configs.one_half
@pytest.mark.parametrize("way", ("below the limit", "not one byte left"))
async def test_a_full_disk_refuses_publishes_honestly_and_recovers_without_restart(launch, half, tmp_path, way):
    with small_disk(tmp_path / "disk", "24m") as disk:
        text = configs.small_disk(half) if way == "below the limit" else configs.no_free_space_check(half)
        daemon = launch(text, half=half, data=disk / "data")
        version = await daemon.publish(marked("before"))
        open_stream = await lives(daemon, version)
        ballast = fill(disk, leave=(512 << 10) if way == "below the limit" else 0)
        large = template({f"p{index}": "x" * 20000 for index in range(40)})
        answers = [await daemon.client().put(large) for _ in range(3)]
        for answer in answers:
            assert answer.status == 503, f"a full disk is certainly not committed: {answer}"
            assert b"unknown" not in answer.body
        await lives(daemon, version)
        assert await daemon.ready() == 503, "it cannot commit, so it is not ready"
        ballast.unlink()
        assert await daemon.publish(marked("after")) == version + 1, "works again without a restart"
        await open_stream.version_at_least(version + 1)
        assert open_stream.versions == [version, version + 1], "refused publishes announce nothing"
        assert await daemon.ready() == 200
        assert daemon.stop() == 0


async def test_a_start_on_a_full_or_read_only_disk_says_so_and_works_when_there_is_room(launch, tmp_path):
    with small_disk(tmp_path / "small", "24m") as small:
        daemon = launch(configs.no_free_space_check("engine"), data=small / "data")
        await daemon.publish(marked("one"))
        daemon.kill()
        # As a copied directory has it: SQLite wants room for this file before anything else.
        (daemon.data / "stalecast.sqlite-shm").unlink()
        ballast = fill(small)
        daemon.spawn()
        assert daemon.wait() == 1 and "no space to open the store" in daemon.log_text(), daemon.log_tail()
        ballast.unlink()
        daemon.start()
        assert await daemon.publish(marked("two")) == 2
        assert daemon.stop() == 0
        subprocess.run(["mount", "-o", "remount,ro", str(small)], check=True)
        daemon.spawn()
        assert daemon.wait() == 1 and "is on a file system that is read-only" in daemon.log_text(), daemon.log_tail()
