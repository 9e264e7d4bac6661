"""What only the node can say or do that delivers to a webhook is asked at any node."""

import asyncio
import json

import pytest

from harness.control import version_of
from harness.receiver import Receiver, newest_in
from harness.templates import marked
from harness.waiting import until
from harness.webhooks import Refused, Webhooks
from test_cluster_webhooks import ALLOWED, TAKEN_OVER, arrived


async def owner_of(nodes, hook):
    """The node that delivers, when all nodes agree on it; `nodes` are those that answer."""
    for _ in range(TAKEN_OVER * 5):
        shown = {}
        for node in nodes:
            try:
                shown[node.name] = await Webhooks(node).get(hook)
            except Refused as refused:
                assert refused.status == 404, refused
        owners = {document.get("deliveryNode", name) for name, document in shown.items()
                  if "deliveryProblem" not in document}
        if len(owners) == 1 and len(shown) == len(nodes) and all("delivery" in one for one in shown.values()):
            return next(node for node in nodes if node.name in owners)
        await asyncio.sleep(0.2)
    raise AssertionError(f"no node delivers: {shown}")


async def published(node, marker):
    """Publishes until the log has said in time that it was done: on a busy machine it may not at first (503: not done, 504:
    not known). The key makes it one publish."""
    client = node.client()
    while (answer := await client.put(marked(marker), headers=[("Idempotency-Key", marker)])).status in (503, 504):
        await asyncio.sleep(0.1)
    client.close()
    assert answer.status == 200, answer
    return version_of(answer)


@pytest.mark.limit(240)
async def test_what_is_published_anywhere_after_it_was_made_is_owed(start_cluster, etcd):
    """Made at one node, published at another at once, while a third is frozen; where that one delivers, it hears of both at
    once, in either order."""
    with Receiver() as receiver:
        cluster = start_cluster(etcd, webhooks=ALLOWED)
        for number in range(12):
            here, there, owner = (cluster.nodes[(number + step) % 3] for step in range(3))
            mode = ("latest", "all", "fifo-advance")[number // 3 % 3]
            owner.freeze()
            await Webhooks(here).add(f"{receiver.url}/{number}", topics=["PUSH_RC"], mode=mode)
            version = await published(there, f"at-once-{number}")
            owner.thaw()

            def told(arrivals, path=f"/{number}", version=version):
                return any(one.path == path and newest_in(json.loads(one.body)) >= version for one in arrivals)

            await asyncio.to_thread(receiver.wait, told, TAKEN_OVER, f"version {version} at webhook {number}")


@pytest.mark.limit(240)
async def test_every_node_answers_for_the_one_that_delivers(start_cluster, etcd):
    with Receiver() as receiver:
        cluster = start_cluster(etcd, webhooks=ALLOWED)
        hook = await Webhooks(cluster.nodes[0]).add(receiver.url, topics=["PUSH_RC"], mode="fifo-advance")
        version = await cluster.nodes[1].publish(marked("first"))
        await arrived(receiver, version, TAKEN_OVER)
        for node in cluster.nodes:
            await until(Webhooks(node).list)
        # Once the nodes have been the same for ten seconds, duties move; the answers are the same before and after.
        for round in range(2):
            for node in cluster.nodes:
                desk = Webhooks(node)
                sent = len(receiver.arrivals)
                attempt = (await desk.act(hook, "test"))["attempt"]
                assert attempt["status"] == 204 and attempt["kind"] == "test"
                assert len(receiver.arrivals) > sent
                assert (await desk.act(hook, "redeliver", versionNumber=str(version)))["deliveries"] == 1
                assert (await desk.act(hook, "enable"))["state"]["name"] == "active"
                assert (await desk.list())[0]["state"]["name"] == "active"
                assert await desk.dead_letters(hook) == []
                with pytest.raises(Refused) as refused:
                    await desk.act(hook, "redrive", id="7")
                assert refused.value.status == 400 and "dead letter 7" in refused.value.message
                with pytest.raises(Refused) as refused:
                    await desk.act(hook, "recover")
                assert refused.value.field == "since"
            await until(lambda: shared_evenly(cluster.nodes))
        owner = await owner_of(cluster.nodes, hook)
        others = [node for node in cluster.nodes if node is not owner]
        # A page of any node is the owner's, in pieces that fit.
        own = await Webhooks(owner).attempts(hook)
        for node in others:
            pages, token = [], ""
            while token is not None:
                page = await Webhooks(node).call("GET", f"/{hook['id']}/attempts?pageSize=2{token}")
                pages += page["attempts"]
                token = f"&pageToken={page['nextPageToken']}" if "nextPageToken" in page else None
            assert pages == own
        # Paused at one, it is everywhere.
        await Webhooks(others[0]).act(hook, "pause")
        for node in cluster.nodes:
            await Webhooks(node).until(hook, lambda document: document["state"]["name"] == "paused")
        await Webhooks(others[1]).act(hook, "resume")
        await Webhooks(owner).until(hook, lambda document: document["state"]["name"] == "active")
        await frozen_owner(owner, others, hook, receiver)
        # Stopped, it hands its duties over.
        owner.stop()
        successor = await owner_of(others, hook)
        assert successor is not owner
        version = await others[0].publish(marked("second"))
        await arrived(receiver, version, 20)
        for node in others:
            assert (await Webhooks(node).act(hook, "redeliver"))["deliveries"] == 1
            assert [one for one in await Webhooks(node).attempts(hook) if one.get("versionNumber") == str(version)]


async def shared_evenly(nodes):
    """Whether each node has its share of the 64 duties, and all that it should have."""
    counts = [[await node.metric("stalecast_cluster_duties", state=state) for state in ("wanted", "held")] for node in nodes]
    return all(wanted == held > 10 for wanted, held in counts)


async def frozen_owner(owner, others, hook, receiver):
    """Its lease lives on, so no other node may act: the others name the node that does not answer, and go on listing."""
    desk = Webhooks(others[0])
    owner.freeze()
    sent = len(receiver.arrivals)
    for ask in (lambda: desk.act(hook, "enable"), lambda: desk.attempts(hook), lambda: desk.dead_letters(hook)):
        with pytest.raises(Refused) as refused:
            await ask()
        assert refused.value.status == 503 and f"Node {owner.name}, which delivers" in refused.value.message
    document = (await desk.list())[0]
    assert f"node {owner.name}," in document["deliveryProblem"] and "delivery" not in document
    owner.thaw()
    await owner_of([owner, *others], hook)
    assert (await desk.act(hook, "test"))["attempt"]["status"] == 204
    assert len(receiver.arrivals) == sent + 1
