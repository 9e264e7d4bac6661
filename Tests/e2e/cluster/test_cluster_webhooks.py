"""All nodes of a cluster know each webhook, and one node delivers it."""

import asyncio
import json
from collections import Counter

import pytest

from harness.daemon import LONG
from harness.receiver import Receiver, newest_in
from harness.templates import marked

HOOKS = "/v1/projects/demo/webhooks"
ALLOWED = {"allowedAddresses": ["127.0.0.0/8"]}
TAKEN_OVER = 60  # seconds: a work lease of 45 s, and what comes around it


async def ask(node, method, path, body=None):
    client = node.client()
    try:
        answer = await client.call(method, path, json.dumps(body).encode() if body is not None else None)
        assert answer.status == 200, answer
        return answer.json()
    finally:
        client.close()


def latest(receiver):
    """The newest version that arrived."""
    return max((newest_in(json.loads(arrival.body)) for arrival in list(receiver.arrivals)), default=0)


async def arrived(receiver, version, timeout):
    for _ in range(int(timeout / 0.05)):
        if latest(receiver) >= version:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"version {version} did not arrive within {timeout} s, {latest(receiver)} did")


def doubled(receiver):
    counts = Counter(arrival.headers["webhook-id"] for arrival in receiver.arrivals)
    return [name for name, count in counts.items() if count > 1]


@pytest.mark.limit(240)
async def test_one_node_delivers_what_any_node_publishes(start_cluster, etcd, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    secret.chmod(0o600)
    with Receiver() as configured, Receiver() as made:
        receiver = {"name": "w", "project": "demo", "topics": ["PUSH_RC"], "url": configured.url,
                    "secretFiles": [str(secret)]}
        cluster = start_cluster(etcd, webhooks={**ALLOWED, "receivers": [receiver]})
        a, b, c = cluster.nodes
        hook = await ask(a, "POST", HOOKS, {"url": made.url, "topics": ["PUSH_RC"]})
        for node in (b, c):
            for _ in range(100):
                if hook["id"] in [one["id"] for one in (await ask(node, "GET", HOOKS))["webhooks"]]:
                    break
                await asyncio.sleep(0.1)
            else:
                raise AssertionError(f"{node.name} never listed the webhook of a")
        version = await a.publish(marked("first"))
        for each in (configured, made):
            await arrived(each, version, TAKEN_OVER)
        for number in range(9):
            version = await cluster.nodes[number % 3].publish(marked(f"m{number}"))
            for each in (configured, made):
                await arrived(each, version, 20)
        assert not doubled(configured) and not doubled(made)
        # Any node may be the one that delivers: each is ended in turn, all come back.
        for node in cluster.nodes if LONG else cluster.nodes[:1]:
            node.kill()
            others = [other for other in cluster.nodes if other is not node]
            version = await others[0].publish(marked(f"without {node.name}"))
            for each in (configured, made):
                await arrived(each, version, TAKEN_OVER)
            await asyncio.to_thread(cluster.start)
        for each in (configured, made):
            order = [newest_in(json.loads(arrival.body)) for arrival in each.arrivals]
            seen = [number for index, number in enumerate(order) if number not in order[:index]]
            assert seen == sorted(seen), f"a version arrived for the first time after a newer one: {order}"
