"""A daemon by itself becomes the beginning of a cluster: what its webhooks were owed is owed still, once, and its
release goes on."""

import asyncio
import json
import shutil

import pytest

from harness import configs
from harness.cli import stalecast
from harness.receiver import Receiver
from harness.templates import marked
from harness.webhooks import Webhooks, acknowledged
from test_cluster_releases import agreed, change, release, shows
from test_cluster_webhooks import ALLOWED, TAKEN_OVER, arrived, newest_in


@pytest.mark.limit(150)
async def test_webhooks_go_on_where_the_daemon_left_them(launch, start_cluster, etcd):
    with Receiver() as receiver:
        cluster = start_cluster(etcd, count=2, running=False, webhooks=ALLOWED)
        single = launch(configs.config(webhooks={**ALLOWED, "keyFile": str(cluster.key_file)}))
        desk = Webhooks(single)
        hook = await desk.add(receiver.url, topics=["PUSH_RC"], mode="fifo")
        delivered = [await single.client().publish(marked(f"before {number}")) for number in range(3)]
        await desk.until(hook, acknowledged(delivered[-1]))
        await desk.act(hook, "pause")
        owed = [await single.client().publish(marked(f"owed {number}")) for number in range(4)]
        single.stop()
        node = cluster.nodes[0]
        shutil.copytree(single.data, node.data, dirs_exist_ok=True)
        await asyncio.to_thread(stalecast, "migrate", "--to-etcd", "--config", node.config, "--data", node.data)
        await asyncio.to_thread(cluster.start)
        await Webhooks(node).act(hook, "resume")
        await arrived(receiver, owed[-1], TAKEN_OVER)
        order = [newest_in(json.loads(arrival.body)) for arrival in receiver.arrivals]
        assert order == delivered + owed, "each once, in order"


def kept(release):
    """The release as it is stored; its gates and clients are read anew by each process."""
    return {name: value for name, value in release.items() if name not in ("gates", "clients")}


@pytest.mark.limit(150)
async def test_an_open_release_goes_on_in_its_stage(launch, start_cluster, etcd):
    cluster = start_cluster(etcd, count=2, running=False)
    single = launch(configs.config(webhooks={"keyFile": str(cluster.key_file)}))
    await single.publish(marked("one"))
    client = single.client()
    query = "?release=staged&stages=20%25,50%25,100%25&every=2s&bake=1h"
    assert (await client.put(marked("two"), query=query)).status == 200
    await shows(single, percent=50)
    # The newest commit is a stage's, and no version has it.
    paused = await change(single, "pause")
    single.stop()
    node = cluster.nodes[0]
    shutil.copytree(single.data, node.data, dirs_exist_ok=True)
    await asyncio.to_thread(stalecast, "migrate", "--to-etcd", "--config", node.config, "--data", node.data)
    await asyncio.to_thread(cluster.start)
    for node in cluster.nodes:
        assert kept(await release(node)) == kept(paused)
    assert set((await agreed(cluster.nodes)).values()) == {1, 2}
    assert (await change(cluster.nodes[1], "promote"))["percent"] == 100
    assert set((await agreed(cluster.nodes)).values()) == {2}
