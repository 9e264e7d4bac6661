"""Publishes of which no node can say at once whether they landed, and publishes that are sent again."""

import asyncio

import pytest

from harness.campaign import publish_id
from harness.templates import marked

HEADER = "Idempotency-Key"


async def asked(node, publish):
    """What a node says later, when it has made up its mind."""
    client = node.client()
    try:
        for _ in range(300):
            answer = await client.call("GET", f"{client.base}/publishes/{publish}")
            if answer.status == 200 and answer.json()["state"] != "PENDING":
                return answer.json()["state"]
            await asyncio.sleep(0.1)
        raise AssertionError(f"{node.name} still says {answer} of {publish}")
    finally:
        client.close()


async def degraded(node, token):
    """What `/readyz` says of the log as soon as it says something, to a caller with the token or without."""
    while not (said := (await node.ask_control("/readyz", token=token)).json().get("degraded")):
        await asyncio.sleep(0.05)
    return said[0]


@pytest.mark.limit(120)
@pytest.mark.parametrize("action", ("freeze", "kill"))
async def test_a_publish_without_a_majority_is_denied_or_unknown_and_told_later(cluster, action):
    a, b, _ = cluster.nodes
    await a.publish(marked("before"))
    for member in await asyncio.to_thread(cluster.etcd.followers):
        getattr(member, action)()
    clients = [node.client() for node in (a, b)]
    answers = await asyncio.gather(*(client.put(marked(f"m-{number}"), timeout=30)
                                     for number, client in enumerate(clients)))
    for client in clients:
        client.close()
    assert all(answer.status in (503, 504) for answer in answers), answers
    for node, answer in zip((a, b), answers):
        assert (answer.status == 504) == bool(publish_id(answer)), answer
        if answer.status == 504:
            lines = (node.data / "audit.jsonl").read_text().splitlines()
            assert publish_id(answer) in lines[-1], "the line names what may yet land"
    stranger, operator = [await degraded(a, token) for token in (False, True)]
    assert stranger == "the cluster's log cannot be reached", "what etcd said is not for strangers"
    assert operator.startswith(f"{stranger}: etcd"), operator
    await cluster.etcd.heal()
    version = await a.publish(marked("after"))
    shown = await cluster.settled()
    assert shown["a"] == shown["b"] == shown["c"] and shown["a"][-1].version == version
    marks = [entry.mark for entry in cluster.log()]
    assert len(marks) == len(set(marks))
    for number, answer in enumerate(answers):
        landed = f"m-{number}" in marks
        if answer.status == 503:
            assert not landed, "what was denied is not in the log"
        else:
            node = (a, b)[number]
            assert await asked(node, publish_id(answer)) == ("COMMITTED" if landed else "NOT_COMMITTED")


async def test_a_publish_sent_again_to_another_node_lands_once(cluster):
    a, b, c = cluster.nodes
    key = [(HEADER, "release-2026-11-22.1")]
    answers = []
    for node in (a, b, c, a):
        client = node.client()
        answers.append(await client.put(marked("once"), headers=key))
        client.close()
        await cluster.settled()
    assert {answer.status for answer in answers} == {200}, answers
    assert {answer.header("etag") for answer in answers} == {answers[0].header("etag")}
    assert [entry.mark for entry in cluster.log()] == ["once"]


async def sent_to_all(cluster, number):
    """Answers of all nodes to one publish with one key, which they get at once."""
    clients = [node.client() for node in cluster.nodes]
    answers = await asyncio.gather(*(client.put(marked(f"m-{number}"), headers=[(HEADER, f"k-{number}")])
                                     for client in clients))
    for client in clients:
        client.close()
    assert {answer.status for answer in answers} == {200}, answers
    return answers


async def test_publishes_with_one_key_at_once_land_once(cluster):
    for number in range(10):
        await sent_to_all(cluster, number)
    marks = [entry.mark for entry in cluster.log()]
    assert len(marks) == len(set(marks)) == 10, marks


async def test_one_key_at_two_nodes_leaves_one_version_everywhere(cluster):
    """Each proposes its own; what is stored afterwards is what is in the log, at every node."""
    for number in range(20):
        answers = await sent_to_all(cluster, number)
        assert len({answer.body for answer in answers}) == 1, "the same answer, times and all"
    shown = await cluster.settled()
    assert shown["a"] == shown["b"] == shown["c"]


async def test_a_key_stands_for_one_request_at_every_node(cluster):
    a, b, c = cluster.nodes
    key = [(HEADER, '"release-7"')]

    async def put(node, mark, headers):
        client = node.client()
        try:
            return await client.put(marked(mark), headers=headers)
        finally:
            client.close()

    assert (await put(a, "one", key)).status == 200
    for node in (a, b, c):
        refused = await put(node, "two", [(HEADER, "release-7")])
        assert refused.status == 422 and refused.json()["error"]["details"][0]["reason"] == "IDEMPOTENCY_KEY_REUSED"
    assert b.stop() == 0
    b.start(timeout=40)
    assert (await put(b, "one", key)).status == 200, "also after a restart"
    assert (await put(b, "two", key)).status == 422
    assert (await put(b, "two", [(HEADER, "x" * 256)])).status == 400
    assert [entry.mark for entry in cluster.log()] == ["one"]
    answers = []
    assert (await put(c, "two", [(HEADER, "release-8")])).status == 200
    for node in (a, b, c):
        client = node.client()
        answers.append(await client.call("POST", f"{client.base}/remoteConfig:rollback", b'{"versionNumber":1}',
                                         [(HEADER, "undo")]))
        client.close()
    assert [answer.status for answer in answers] == [200] * 3 and len({answer.body for answer in answers}) == 1
    assert len(cluster.log()) == 3
