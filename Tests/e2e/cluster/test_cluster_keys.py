"""API keys of a cluster: made, rotated and revoked at any node, good at all."""

import asyncio
import json

from harness.etcd import PREFIX
from harness.http1 import fetch
from harness.keys import bearer, change_key, make_key


async def status(node, text):
    return (await fetch(node.control, "/status", "GET", bearer(text))).status


async def until(nodes, text, wanted):
    """Waits until all nodes answer the key so."""
    async with asyncio.timeout(20):
        while [await status(node, text) for node in nodes] != [wanted] * len(nodes):
            await asyncio.sleep(0.05)


async def test_a_key_is_known_to_all_nodes(cluster):
    a, b, c = cluster.nodes
    key, text = await make_key(a, {"role": "viewer"})
    assert await status(a, text) == 200, "where it was made it counts at once"
    await until(cluster.nodes, text, 200)
    rotated = await change_key(b, key, "rotate", overlap="0s")
    assert rotated.status == 200, rotated
    second = rotated.json()["key"]
    await until(cluster.nodes, second, 200)
    await until(cluster.nodes, text, 401)
    c.stop()
    other, third = await make_key(b, {"role": "viewer"})
    c.start()
    await until(cluster.nodes, third, 200)
    assert (await change_key(c, other, "revoke")).status == 200
    await until(cluster.nodes, third, 401)
    assert (await change_key(a, other, "revoke")).status == 400, "it is revoked already"
    await revoked_by_a_newer_program(cluster)


async def revoked_by_a_newer_program(cluster):
    """A record with grants that this program does not know, and a revocation: the revocation counts."""
    key, text = await make_key(cluster.nodes[0], {"role": "viewer"})
    await until(cluster.nodes, text, 200)
    (name, value), = [(n, v) for n, v in cluster.etcd.values(PREFIX).items() if key in n]
    record = json.loads(value)
    record |= {"grants": [{"actions": ["fly"]}], "revoked": "2026-11-25T12:00:00.000000Z"}
    cluster.etcd.put({name: json.dumps(record).encode()})
    await until(cluster.nodes, text, 401)
