"""Programs of two versions over one log: what a newer one wrote is kept, and what it asks for is respected.

`STALECAST_OLD_BIN` names an older daemon for the rolling upgrade; without one it is not shown. A newer one does not
exist: etcdctl plays it."""

import asyncio
import json
import os

import pytest

from harness.campaign import Campaign
from harness.cluster import fetched_version
from harness.daemon import LONG
from harness.figures import record
from harness.keys import change_key, make_key
from harness.sse import Stream
from harness.templates import marked
from harness.waiting import until

PREFIX = "/stalecast/default"
FUTURE = {"fromTheFuture": {"kept": [1, "two"]}}
OLD = os.environ.get("STALECAST_OLD_BIN")


def changed(etcd, key, **members):
    """Puts a JSON document back with these members."""
    document = {**json.loads(etcd.values(key)[key]), **members}
    etcd.put({key: json.dumps(document).encode()})


def append(etcd, mark, **members):
    """The newest entry once more, as a newer program would write it after itself."""
    entries = etcd.values(f"{PREFIX}/log/")
    line, _, content = entries[max(entries)].partition(b"\n")
    last = json.loads(line)
    sequence, publish = int(last["sequence"]) + 1, last["publish"][::-1][1:].rjust(26, "a")
    number = str(int(last["version"]["versionNumber"]) + 1)
    version = {**last["version"], "versionNumber": number, "description": mark, **members.pop("version", {})}
    entry = {**last, "sequence": sequence if isinstance(last["sequence"], int) else str(sequence), "publish": publish,
             "previous": f"{last['sequence']} {last['publish']}", "version": version,
             "etag": last["etag"].rpartition("-")[0] + "-" + number, **members}
    etcd.put({f"{PREFIX}/log/{sequence:020}": json.dumps(entry).encode() + b"\n" + content,
              f"{PREFIX}/head": f"{sequence} {publish}".encode()})


async def test_what_a_newer_program_adds_is_ignored_and_kept(cluster):
    etcd, (a, b, c) = cluster.etcd, cluster.nodes
    await a.publish(marked("before"))
    key, _ = await make_key(a, {"role": "viewer"})
    await cluster.settled()
    stream = await Stream.open(b.edge)
    await stream.synced()
    changed(etcd, f"{PREFIX}/charter", **FUTURE)
    changed(etcd, f"{PREFIX}/record/key/{key}", **FUTURE)
    append(etcd, "newer", **FUTURE, version={**FUTURE, "updateOrigin": "FROM_MARS"})
    assert (await stream.version_at_least(2)).version == 2
    shown = await cluster.settled()
    assert all(stored[-1].mark == "newer" for stored in shown.values())
    for number, node in enumerate(cluster.nodes):
        assert await node.publish(marked(f"after {node.name}")) == 3 + number
        assert (await fetched_version(node))[0] == 3 + number
    stream.close()
    assert (await change_key(c, key, "rotate", overlap="0s")).status == 200
    await asyncio.to_thread(c.stop, 30)
    await asyncio.to_thread(cluster.start)
    await cluster.settled()
    assert etcd.lines()[1]["fromTheFuture"] == FUTURE["fromTheFuture"]
    assert json.loads(etcd.values(f"{PREFIX}/record/key/{key}")[f"{PREFIX}/record/key/{key}"]).items() >= FUTURE.items()
    client = a.client()
    for verb in ("upgrade", "newEpoch"):
        assert (await client.call("POST", f"/v1/cluster:{verb}", b"{}")).status == 200
        assert etcd.charter().items() >= FUTURE.items(), verb
    client.close()


async def failed_reads(node):
    """How often a node could not read the log."""
    return await node.metric("stalecast_cluster_follower_failures_total", kind="read")


async def has_failed_again(node, before):
    return await failed_reads(node) >= before + 2


async def test_a_log_that_asks_for_a_newer_program_is_not_touched(cluster):
    etcd, (a, b, c) = cluster.etcd, cluster.nodes
    await a.publish(marked("before"))
    await cluster.settled()
    assert c.stop(30) == 0
    stream = await Stream.open(b.edge)
    await stream.synced()
    changed(etcd, f"{PREFIX}/charter", minimumVersion=3)
    c.spawn()
    assert c.wait(30) == 1
    assert "the log asks for format 3, this program has 2; upgrade it" in c.log_text()
    c.process = None
    client = a.client()
    answer = await client.put(marked("old"), timeout=30)
    client.close()
    assert answer.status == 503 and "upgrade it" in answer.json()["error"]["message"], answer
    before = [await failed_reads(node) for node in (a, b)]
    append(etcd, "newer")
    for node, count in zip((a, b), before):
        await until(lambda: has_failed_again(node, count))
    assert not stream.messages, "what only a newer program understands was announced"
    for node in (a, b):
        assert [one.mark for one in await cluster.stored(node)] == ["before"]
        got, fetched = await fetched_version(node)
        assert got is None or fetched.header("x-stalecast-unverified") is not None
        assert await node.ready() == 200
    # The operator that asked for it takes it back.
    changed(etcd, f"{PREFIX}/charter", minimumVersion=2)
    assert (await stream.version_at_least(2)).version == 2
    stream.close()
    await asyncio.to_thread(c.start)
    assert await a.publish(marked("after")) == 3
    await cluster.settled()


@pytest.mark.campaign
@pytest.mark.limit(600 if LONG else 120)
async def test_nodes_of_an_older_program_are_replaced_one_by_one(start_cluster, etcd):
    if not OLD or not os.access(OLD, os.X_OK):
        pytest.skip("STALECAST_OLD_BIN names no older daemon: the rolling upgrade was not tried")
    cluster = start_cluster(etcd, running=False)
    for node in cluster.nodes:
        node.command = lambda *flags, command=node.command: [OLD, *command(*flags)[1:]]
    cluster.start()
    async with Campaign(cluster) as campaign:
        for there_and_back in range(10 if LONG else 1):
            for node in cluster.nodes:
                await campaign.busy()
                assert await asyncio.to_thread(node.stop, 30) == 0
                node.command = type(node).command.__get__(node)
                await asyncio.to_thread(cluster.start)
                await campaign.recovered()
            client = cluster.nodes[0].client()
            assert (await client.call("POST", "/v1/cluster:upgrade", b"{}")).status == 200
            client.close()
        log, shown = await campaign.finish()
    record("cluster_upgrade", **campaign.summary(), log=len(log))
    faults = campaign.faults(log, shown)
    assert not faults, (len(faults), faults[:8])
    assert campaign.summary()["resets"] == 0
