"""Networks that lose everything between some: members are cut from their peers, nodes from etcd, in one direction and
in both, while publishers, subscribers and fetches hop between the nodes. Who delivers a webhook is cut from etcd for
longer than its lease, beside all that.

Not shown here: loss of single packets, delays, and real networks."""

import asyncio
import json
import time

import pytest

from harness.campaign import Campaign
from harness.cluster import fetched_version
from harness.cluster_history import Delivery, two_owners
from harness.cuts import NODES, CuttableEtcd
from harness.daemon import LONG
from harness.figures import record
from harness.namespaces import own_network
from harness.receiver import Answer, Receiver, newest_in

LEASE = 45  # seconds: of a duty


@pytest.fixture
def etcd(tmp_path):
    with own_network():
        etcd = CuttableEtcd(tmp_path / "etcd")
        try:
            yield etcd.start()
        finally:
            etcd.dispose()


@pytest.fixture
def cluster(start_cluster, etcd):
    return start_cluster(etcd, endpoints=[etcd.endpoints_of(node) for node in NODES],
                         webhooks={"allowedAddresses": ["127.0.0.0/8"]})


class Slow(Receiver):
    """Takes its time. While it refuses, it does so just before an attempt's timeout of 15 s: one is always under way, or
    will be soon."""

    def __init__(self, random):
        super().__init__(self.decide)
        self.random, self.takes, self.deliveries = random, True, []

    def decide(self, arrival):
        version = newest_in(json.loads(arrival.body))
        taken = self.takes
        delay = self.random.choice((0, 0.5, 2)) if taken else 13
        if version:
            name = arrival.headers["webhook-id"]
            self.deliveries.append(Delivery(name, version, arrival.at, arrival.at + delay, taken))
        return Answer(204 if taken else 503, delay=delay)


async def hook(node, url):
    client = node.client()
    body = json.dumps({"url": url, "topics": ["PUSH_RC"]}).encode()
    answer = await client.call("POST", f"{client.base}/webhooks", body)
    client.close()
    assert answer.status == 200, answer


async def attempts(node):
    """Those that were begun."""
    return await node.metric("stalecast_webhook_(attempts_total|in_flight)")


async def deliverer(nodes):
    """The one of these that makes attempts, when one does."""
    before = [await attempts(node) for node in nodes]
    async with asyncio.timeout(2 * LEASE):
        while True:
            for node, count in zip(nodes, before):
                if await attempts(node) > count:
                    return node
            await asyncio.sleep(0.1)


async def cut(campaign, broken, seconds=10 if LONG else 1):
    """A cut, at a load that counts, until publishes go on, and some seconds more; then until they go on again."""
    await campaign.busy()
    with broken:
        await campaign.recovered()
        await asyncio.sleep(campaign.random.uniform(0, seconds))
    await campaign.recovered()


async def cut_all(campaign):
    """Nothing is acknowledged, and each node is ready and answers what it has, marked."""
    cluster = campaign.cluster
    await campaign.busy()
    with cluster.etcd.nodes_cut(*NODES):
        await asyncio.sleep(2)
        before = len(campaign.acknowledged_at)
        for node in cluster.nodes:
            await says_so(node)
        assert len(campaign.acknowledged_at) == before, "acknowledged without etcd"
    await campaign.recovered()


async def says_so(node):
    """A node that is cut from etcd is ready, and marks what it tells clients without a cursor, or does not tell it."""
    assert await node.ready() == 200
    got, answer = await fetched_version(node)
    assert got is None or answer.header("x-stalecast-unverified") is not None, answer


@pytest.mark.campaign
@pytest.mark.limit(3600 if LONG else 180)
async def test_what_is_cut_loses_nothing_and_one_node_delivers(cluster):
    etcd, told, gone = cluster.etcd, [], []

    async def leader():
        return await asyncio.to_thread(etcd.leader)

    async with Campaign(cluster, writers=4) as campaign:
        with Slow(campaign.random) as receiver:
            await hook(cluster.nodes[0], receiver.url)
            for number in range(4 if LONG else 1):
                await cut(campaign, etcd.peers_cut(await leader()))
                await cut(campaign, etcd.peers_cut(await leader(), both=False))
                owner = await deliverer(cluster.nodes)
                others = [node for node in cluster.nodes if node is not owner]
                receiver.takes = False
                await campaign.busy()
                with etcd.nodes_cut(owner.name):
                    begin = time.monotonic()
                    await campaign.recovered()
                    await cut(campaign, etcd.peers_cut((await asyncio.to_thread(etcd.followers))[number % 2]))
                    await cut(campaign, etcd.nodes_cut(others[number % 2].name, questions=False))
                    await says_so(owner)
                    await cut_all(campaign)
                    await deliverer(others)
                    gone.append(time.monotonic() - begin)
                    # No other node's can have begun by then.
                    told.append(sum(one.end > begin and one.begin < begin + 30 for one in receiver.deliveries))
                    receiver.takes = True
                await campaign.recovered()
        log, shown = await campaign.finish()
    record("cluster_cuts", **campaign.summary(), log=len(log), deliveries=len(receiver.deliveries),
           attempts_while_cut=min(told), handed_over_longest_s=max(gone))
    faults = campaign.faults(log, shown) + two_owners(receiver.deliveries)
    assert not faults, (len(faults), faults[:8])
    assert min(told) > 0, "no attempt of the owner was under way while it was cut off: nothing was shown of it"
    summary = campaign.summary()
    assert campaign.fetches and summary["unverified"], summary
    assert summary["resets"] == 0, "a cut must not cost the epoch"
