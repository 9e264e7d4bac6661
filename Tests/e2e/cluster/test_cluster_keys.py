"""API keys of a cluster: made, rotated and revoked at any node, good at all."""

import asyncio

from harness.http1 import fetch
from harness.keys import bearer, change_key, make_key


async def status(node, text):
    return (await fetch(node.control, "/status", "GET", bearer(text))).status


async def until(nodes, text, wanted):
    """Waits until all nodes answer the key so."""
    async with asyncio.timeout(20):
        while [await status(node, text) for node in nodes] != [wanted] * len(nodes):
            await asyncio.sleep(0.05)


async def test_a_key_is_everybodys(cluster):
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
