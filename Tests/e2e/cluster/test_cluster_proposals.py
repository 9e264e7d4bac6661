"""All nodes share proposals: made at one node, decided once, at any other, also when the first is gone."""

import asyncio
import json
import random
import secrets
import shutil
from datetime import datetime, timedelta, timezone

import pytest

from harness import configs
from harness.cli import stalecast
from harness.templates import encoded, marked, template

BASE = "/v1/projects/demo/remoteConfig"


async def call(node, method, path, body=None, headers=()):
    client = node.client()
    try:
        return await client.call(method, f"{BASE}{path}", body, list(headers))
    finally:
        client.close()


async def proposed(node, content):
    current = await call(node, "GET", "")
    answer = await call(node, "PUT", "?propose=true", encoded(content), [("If-Match", current.header("etag"))])
    assert answer.status == 200, answer
    return answer.json()["number"]


async def known(node, number, state="OPEN"):
    for _ in range(200):
        answer = await call(node, "GET", f"/proposals/{number}")
        if answer.status == 200 and answer.json()["state"] == state:
            return answer.json()
        await asyncio.sleep(0.05)
    raise AssertionError(f"{node.name} shows {answer} of proposal {number}")


@pytest.mark.limit(150)
async def test_one_decision_of_all_nodes_counts(start_cluster, etcd):
    cluster = start_cluster(etcd)
    a, b, c = cluster.nodes
    await a.publish(marked("first"))
    await cluster.settled()
    # Made at different nodes, no number is given twice; a long one comes whole.
    wide = template({f"key_{number}": secrets.token_hex(40) for number in range(1900)})
    numbers = [await proposed(node, content) for node, content in ((a, marked("x")), (b, wide), (c, marked("z")))]
    assert len(set(numbers)) == 3
    for node in cluster.nodes:
        for number in numbers:
            await known(node, number)
    long = [(await known(node, numbers[1]))["template"] for node in cluster.nodes]
    assert long[0] == long[1] == long[2] and len(long[0]["parameters"]) == 1900
    # Approved at all nodes at the same time: one wins, and it is published once.
    answers = await asyncio.gather(*(call(node, "POST", f"/proposals/{numbers[0]}:approve") for node in cluster.nodes))
    assert [answer.status for answer in answers].count(200) == 1, answers
    for node in cluster.nodes:
        assert (await known(node, numbers[0], "APPROVED"))["decision"]["versionNumber"] == "2"
    shown = await cluster.settled()
    assert [len(versions) for versions in shown.values()] == [2, 2, 2]
    # It survives its node; approve and reject at the same time: one of them counts.
    number = await proposed(c, marked("last"))
    for node in (a, b):
        await known(node, number)
    c.kill()
    approval, rejection = await asyncio.gather(
        call(a, "POST", f"/proposals/{number}:approve"), call(b, "POST", f"/proposals/{number}:reject"))
    assert [approval.status, rejection.status].count(200) == 1, (approval, rejection)
    state = "APPROVED" if approval.status == 200 else "REJECTED"
    for node in (a, b):
        await known(node, number, state)
    # A proposal over a version that is not current any more is never published.
    refused = await call(b, "POST", f"/proposals/{numbers[2]}:approve")
    assert refused.status == 409 and "VERSION_MISMATCH" in json.dumps(refused.json()), refused
    await asyncio.to_thread(cluster.start)
    await known(c, number, state)
    assert (await call(c, "POST", f"/proposals/{numbers[2]}:reject")).status == 200
    await known(a, numbers[2], "REJECTED")


@pytest.mark.limit(150)
async def test_more_keys_than_a_record_holds(start_cluster, etcd):
    cluster = start_cluster(etcd)
    a, b, _ = cluster.nodes
    await a.publish(marked("first"))
    await cluster.settled()
    long = template({f"key_{number}_{'k' * 100}": "" for number in range(1500)})
    number = await proposed(a, long)
    shown = await known(b, number)
    assert len(shown["template"]["parameters"]) == 1500
    assert 0 < len(shown["changedKeys"]) < 1500
    assert (await call(b, "POST", f"/proposals/{number}:approve")).status == 200
    await known(a, number, "APPROVED")


@pytest.mark.limit(150)
async def test_proposals_of_a_migrated_store_keep_their_numbers(launch, start_cluster, etcd):
    cluster = start_cluster(etcd, count=2, running=False)
    single = launch(configs.config(webhooks={"keyFile": str(cluster.key_file)}))
    await single.client().publish(marked("first"))
    opened, rejected = [await proposed(single, marked(text)) for text in ("open", "rejected")]
    assert (await call(single, "POST", f"/proposals/{rejected}:reject")).status == 200
    single.stop()
    node, other = cluster.nodes
    shutil.copytree(single.data, node.data, dirs_exist_ok=True)
    await asyncio.to_thread(stalecast, "migrate", "--to-etcd", "--config", node.config, "--data", node.data)
    await asyncio.to_thread(cluster.start)
    await known(other, rejected, "REJECTED")
    new = await proposed(node, marked("new"))
    assert new not in (opened, rejected)
    for shown in cluster.nodes:
        await known(shown, rejected, "REJECTED")
        assert (await known(shown, opened))["template"]
        await known(shown, new)


@pytest.mark.limit(90)
async def test_the_contents_of_open_proposals_have_a_bound_together(start_cluster, etcd):
    """Every node holds them in memory, 15 MB at most: these have about 1.8 MB each when they are packed."""
    cluster = start_cluster(etcd, 1)
    node, = cluster.nodes
    await node.publish(marked("first"))
    current = await call(node, "GET", "")
    statuses = []
    while len(statuses) < 20 and 429 not in statuses:
        wide = template({f"key_{number}": "".join(map(chr, random.choices(range(0x4E00, 0x9E00), k=3600)))
                         for number in range(250)})
        answer = await call(node, "PUT", "?propose=true", encoded(wide), [("If-Match", current.header("etag"))])
        statuses.append(answer.status)
    assert 6 <= statuses.count(200) <= 12 and statuses[-1] == 429, statuses
    assert (await call(node, "POST", "/proposals/1:reject")).status == 200
    await proposed(node, marked("there is room again"))


@pytest.mark.limit(150)
async def test_a_version_at_a_time_comes_once_also_without_the_node_that_took_it(start_cluster, etcd):
    cluster = start_cluster(etcd)
    a, b, c = cluster.nodes
    await a.publish(marked("first"))
    await cluster.settled()
    time = (datetime.now(timezone.utc) + timedelta(seconds=4)).strftime("%Y-%m-%dT%H:%M:%SZ")
    current = await call(a, "GET", "")
    answer = await call(a, "PUT", f"?publishTime={time}", encoded(marked("later")), [("If-Match", current.header("etag"))])
    assert answer.json()["publishTime"] == time.replace("Z", ".000000Z"), answer.body
    number = answer.json()["number"]
    for node in (b, c):
        await known(node, number)
    a.kill()
    for node in (b, c):
        decided = await known(node, number, "APPROVED")
        assert (decided["decision"]["principal"], decided["decision"]["versionNumber"]) == ("schedule", "2")
    told = [entry for node in (b, c) for entry in (await node.ask_control("/v1/audit")).json()["entries"]
            if entry["action"] == "publishProposal"]
    assert [entry["outcome"] for entry in told] == ["ok"], "one node has published it, and tells of it"
    for node in (b, c):
        listed = (await call(node, "GET", ":listVersions")).json()["versions"]
        assert [version["versionNumber"] for version in listed] == ["2", "1"]
