"""Clocks that are an hour apart: order and times of the log come from the log."""

import subprocess
from datetime import datetime, timedelta

import pytest

from harness.campaign import Campaign
from harness.cluster import fetched_version
from harness.daemon import LONG, REPOSITORY
from harness.figures import record
from harness.templates import marked


@pytest.fixture
def apart(start_cluster, etcd, tool, tmp_path):
    """Node b is an hour late, c an hour early."""
    library = tmp_path / "clock_offset.so"
    subprocess.run([tool("cc"), "-O2", "-shared", "-fPIC", "-o", library,
                    REPOSITORY / "Tests/e2e/harness/clock_offset.c"], check=True)
    cluster = start_cluster(etcd, running=False)
    for node, offset in zip(cluster.nodes[1:], (-3600, 3600)):
        node.more = {"LD_PRELOAD": str(library), "CLOCK_OFFSET": str(offset)}
    return cluster.start()


@pytest.mark.campaign
@pytest.mark.limit(600 if LONG else 90)
async def test_times_never_go_back_and_nothing_is_lost(apart):
    a, b, c = apart.nodes
    await b.publish(marked("late"))
    await a.publish(marked("now"))
    await c.publish(marked("early"))
    late, now, early = (datetime.fromisoformat(entry.time) for entry in apart.log())
    assert early - now > timedelta(minutes=50) < now - late, "the clocks are not apart"
    for number in range(3):
        for node in (a, b, c):
            version = await node.publish(marked(f"{node.name}{number}"))
            for other in apart.nodes:
                assert (await fetched_version(other))[0] >= version
    async with Campaign(apart) as campaign:
        for _ in range(10 if LONG else 1):
            for node in apart.nodes:
                await campaign.busy()
                node.kill()
                await campaign.recovered()
                apart.start()
        await campaign.recovered()
        log, shown = await campaign.finish()
    record("cluster_clocks", **campaign.summary(), log=len(log))
    faults = campaign.faults(log, shown)
    assert not faults, (len(faults), faults[:8])
    times = [entry.time for entry in log]
    assert times == sorted(set(times)), "times of the log increase over all publishers"
