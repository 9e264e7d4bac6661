"""Members and nodes are killed, frozen, restarted and starved while publishers, subscribers and fetches hop between the
nodes; afterwards the record and the log must agree.

Not shown here: real disks and networks, machines that go away, etcd 3.6."""

import asyncio

import pytest

from harness.campaign import Campaign
from harness.daemon import LONG
from harness.figures import record


async def kill_member(campaign, member):
    member.kill()
    await campaign.recovered()


async def freeze_member(campaign, member):
    member.freeze()
    await campaign.recovered()


async def kill_node(campaign, node):
    node.kill()
    await campaign.recovered()


async def freeze_node(campaign, node):
    node.freeze()
    await asyncio.sleep(campaign.random.uniform(0.2, 15 if LONG else 3))
    node.thaw()
    await campaign.recovered()


async def stop_node(campaign, node):
    await asyncio.to_thread(node.stop, 30)
    await campaign.recovered()


async def restart(campaign):
    """Everything that was done is undone."""
    cluster = campaign.cluster
    for node in cluster.nodes:
        node.thaw()
    await cluster.etcd.heal()
    await asyncio.to_thread(cluster.start)


async def run(campaign, faults, rounds):
    """`rounds` times each fault in turn, each at a load that counts."""
    for _ in range(rounds):
        for fault in faults:
            await campaign.busy()
            await fault()
            await restart(campaign)
    await campaign.recovered()


def leader(campaign):
    return asyncio.to_thread(campaign.cluster.etcd.leader)


async def judged(campaign, name, **figures):
    log, shown = await campaign.finish()
    record(name, **campaign.summary(), log=len(log), **figures)
    faults = campaign.faults(log, shown)
    assert not faults, (len(faults), faults[:8])
    assert campaign.fetches, "no fetch was checked"
    return campaign.summary()


@pytest.mark.limit(3600 if LONG else 120)
async def test_members_that_are_killed_and_frozen_lose_nothing(cluster):
    async with Campaign(cluster) as campaign:

        async def of_leader(action):
            await action(campaign, await leader(campaign))

        async def of_any(action):
            await action(campaign, campaign.random.choice(cluster.etcd.members))

        await run(campaign, [lambda: of_leader(kill_member), lambda: of_leader(freeze_member),
                             lambda: of_any(kill_member)], 10 if LONG else 1)
        summary = await judged(campaign, "cluster_members")
        assert summary["resets"] == 0, "a member that dies must not cost the epoch"


@pytest.mark.limit(3600 if LONG else 120)
async def test_nodes_that_are_killed_frozen_and_stopped_lose_nothing(cluster):
    async with Campaign(cluster) as campaign:
        turn = iter(range(10_000))

        def node():
            return cluster.nodes[next(turn) % 3]

        await run(campaign, [lambda: kill_node(campaign, node()), lambda: freeze_node(campaign, node()),
                             lambda: stop_node(campaign, node())], 10 if LONG else 2)
        summary = await judged(campaign, "cluster_nodes")
        assert summary["resets"] == 0, "a node that dies must not cost the epoch"


@pytest.mark.campaign
@pytest.mark.limit(3600 if LONG else 120)
async def test_without_a_majority_publishes_wait_and_readers_go_on(cluster):
    async with Campaign(cluster) as campaign:
        for _ in range(10 if LONG else 1):
            await campaign.busy()
            for member in await asyncio.to_thread(cluster.etcd.followers):
                member.kill()
            await asyncio.sleep(3)
            for node in cluster.nodes:
                assert await node.ready() == 200, "nodes stay ready, degraded"
            before = len(campaign.acknowledged_at)
            await asyncio.sleep(2)
            assert len(campaign.acknowledged_at) == before, "nothing is acknowledged without a majority"
            await restart(campaign)
            await campaign.recovered()
        summary = await judged(campaign, "cluster_majority")
        assert summary["unverified"] > 0 or not LONG
        assert summary["resets"] == 0


@pytest.mark.campaign
@pytest.mark.limit(3600 if LONG else 120)
async def test_compaction_all_the_time_changes_nothing(cluster):
    async with Campaign(cluster) as campaign:
        with cluster.etcd.compacting(0.2) as compactions:
            await run(campaign, [lambda: kill_node(campaign, cluster.nodes[1]),
                                 lambda: freeze_node(campaign, cluster.nodes[2])], 10 if LONG else 1)
        summary = await judged(campaign, "cluster_compaction", compactions=len(compactions))
        assert len(compactions) > 5 and summary["resets"] == 0


@pytest.mark.campaign
@pytest.mark.limit(3600 if LONG else 120)
async def test_an_etcd_that_is_full_denies_and_then_takes_again(start_etcd, start_cluster):
    cluster = start_cluster(start_etcd(options=["--quota-backend-bytes", str(24 << 20)]))
    async with Campaign(cluster) as campaign:
        for _ in range(5 if LONG else 1):
            await campaign.busy()
            await asyncio.to_thread(cluster.etcd.fill)
            await asyncio.sleep(1)
            before = len(campaign.acknowledged_at)
            await asyncio.sleep(1)
            assert len(campaign.acknowledged_at) == before, "nothing is acknowledged by a full etcd"
            await asyncio.to_thread(cluster.etcd.make_room)
            await campaign.recovered()
        await judged(campaign, "cluster_nospace")


@pytest.mark.campaign
@pytest.mark.limit(7200 if LONG else 120)
async def test_rolling_restarts_lose_nothing(cluster):
    async with Campaign(cluster) as campaign:
        for number in range(50 if LONG else 1):
            for node in cluster.nodes:
                await campaign.busy()
                assert await asyncio.to_thread(node.stop, 30) == 0
                await restart(campaign)
            if number % 10 == 9:
                for member in cluster.etcd.members:
                    await campaign.busy()
                    member.kill()
                    await restart(campaign)
        await campaign.recovered()
        summary = await judged(campaign, "cluster_rolling")
        assert summary["resets"] == 0


@pytest.mark.limit(600 if LONG else 120)
async def test_a_restored_snapshot_begins_a_new_history(cluster, tmp_path):
    """Same token, so etcd says that it is the same cluster, and its revision goes back: what was published since the
    snapshot is gone, every node notices by itself, every client is reset, and all agree again."""
    async with Campaign(cluster) as campaign:
        for number in range(3 if LONG else 1):
            await campaign.busy()
            epoch = (await asyncio.to_thread(cluster.etcd.charter))["epoch"]
            await asyncio.to_thread(cluster.etcd.save, tmp_path / f"snapshot{number}")
            await campaign.recovered()  # something that the snapshot does not have
            await campaign.busy()
            await campaign.pause()
            restored_at = len(campaign.attempts)
            await asyncio.to_thread(cluster.etcd.restore, tmp_path / f"snapshot{number}")
            campaign.paused.set()
            await campaign.recovered(90)
            for _ in range(300):
                if (await asyncio.to_thread(cluster.etcd.charter))["epoch"] != epoch:
                    break
                await asyncio.sleep(0.1)
            else:
                raise AssertionError("the epoch stayed after a restore")
        log, shown = await campaign.finish()
        record("cluster_restore", **campaign.summary(), log=len(log))
        faults = campaign.faults(log, shown, since=restored_at)
        assert not faults, (len(faults), faults[:8])
        assert campaign.summary()["resets"] >= 1
