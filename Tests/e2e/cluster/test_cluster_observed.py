"""What an operator sees of a cluster: figures, and nodes that are not alike."""

import asyncio
import json
import secrets

import pytest

from harness.cli import Cli
from harness.cluster import fetched_version
from harness.sse import Stream
from harness.templates import marked
from harness.waiting import until


async def sums(nodes, name, **labels):
    return [await node.metric(name, **labels) for node in nodes]


async def a_cursor_from_the_future_reads_no_log(node, epoch):
    """An invented one costs the cluster a look at the head of the log at most."""
    kind = {"name_pattern": "stalecast_cluster_etcd_requests_total", "kind": "read", "outcome": "ok"}
    before = await node.metric(**kind)
    for _ in range(100):
        version, _ = await fetched_version(node, cursor=f"{epoch}.1005")
        assert version == 5
    read = await node.metric(**kind) - before
    assert read < 20, f"100 fetches made {read} reads of the log"


async def test_figures_of_a_cluster(cluster):
    a, b, c = cluster.nodes
    for number in range(5):
        await a.publish(marked(f"m{number}"))
    await cluster.settled()
    for node in cluster.nodes:
        await fetched_version(node)
    assert await sums(cluster.nodes, "stalecast_cluster_head") == [5, 5, 5]
    assert await sums(cluster.nodes, "stalecast_cluster_log_head") == [5, 5, 5]
    assert await sums(cluster.nodes, "stalecast_cluster_lag_entries") == [0, 0, 0]
    assert await sums(cluster.nodes, "stalecast_cluster_ready") == [1, 1, 1]
    assert await sums(cluster.nodes, "stalecast_cluster_appends_total", outcome="committed") == [5, 0, 0]
    assert all(value >= 1 for value in await sums(
        cluster.nodes, "stalecast_cluster_waits_total", outcome="fresh", **{"for": "newest"}))
    assert all(value > 0 for value in await sums(cluster.nodes, "stalecast_cluster_head_checks_total", outcome="current"))
    assert await a.metric("stalecast_cluster_etcd_requests_total", kind="append", outcome="ok") >= 5
    assert await a.metric("stalecast_cluster_etcd_request_seconds_count", kind="append") >= 5
    assert all(value < 15 for value in await sums(cluster.nodes, "stalecast_cluster_unverified_seconds"))
    assert [sum(one) for one in zip(*[await sums(cluster.nodes, "stalecast_cluster_etcd_members", verdict=word)
                                      for word in ("good", "old")])] == [3, 3, 3]
    assert all(value > 1000 for value in await sums(cluster.nodes, "stalecast_cluster_etcd_database_bytes"))
    epochs = {text for node in cluster.nodes for name, text in await node.metrics() if name == "stalecast_cluster_info"}
    assert len({text.partition('epoch="')[2] for text in epochs}) == 1 and len(epochs) == 3

    async def every_duty_has_one_owner():
        held = await sums(cluster.nodes, "stalecast_cluster_duties", state="held")
        wanted = await sums(cluster.nodes, "stalecast_cluster_duties", state="wanted")
        unowned = await sums(cluster.nodes, "stalecast_cluster_duties_unowned")
        return sum(held) > 64 and held == wanted and not sum(unowned)  # of webhooks there are 64

    await until(every_duty_has_one_owner)
    assert all(0 < left <= 45 for left in await sums(cluster.nodes, "stalecast_cluster_lease_seconds"))
    assert await sums(cluster.nodes, "stalecast_cluster_nodes") == [3, 3, 3]
    assert await sums(cluster.nodes, "stalecast_cluster_nodes_different") == [0, 0, 0]
    await a_cursor_from_the_future_reads_no_log(a, epochs.pop().partition('epoch="')[2].partition('"')[0])
    assert c.stop() == 0

    async def one_is_gone():
        return await sums((a, b), "stalecast_cluster_nodes") == [2, 2]

    await until(one_is_gone)


async def test_a_daemon_by_itself_has_no_line_of_it(launch):
    daemon = launch()
    assert "cluster" not in (await daemon.ask_control("/metrics")).body.decode()


@pytest.mark.limit(120)
async def test_figures_while_etcd_is_away(start_cluster, etcd):
    cluster = start_cluster(etcd, 1, cluster={"maxUnverified": "1s"})
    node, = cluster.nodes
    await node.publish(marked("before"))
    for member in etcd.members:
        member.kill()

    async def refused():
        got, _ = await fetched_version(node)
        return got is None

    await until(refused)
    client = node.client()
    assert (await client.get()).status == 503, "Control has the limit that fetches have"
    assert (await client.get(1)).status == 200, "a version is the same for ever"
    assert (await client.put(marked("lost"), timeout=20)).status in (503, 504)
    client.close()
    assert await node.metric("stalecast_cluster_waits_total", outcome="refused", **{"for": "newest"}) >= 1
    assert await node.metric("stalecast_cluster_unverified_seconds") > 1
    assert await node.metric("stalecast_cluster_follower_failures_total", kind="read") >= 1
    assert await node.metric("stalecast_cluster_etcd_requests_total", outcome="denied") >= 1
    assert await node.metric("stalecast_cluster_etcd_moves_total") >= 1
    assert await node.metric("stalecast_publishes_total", outcome="unknown") == 0, "that one is for disks that fail"
    await etcd.heal()

    async def well():
        return await node.metric("stalecast_cluster_ready") and (await fetched_version(node))[0]

    await until(well)


async def test_a_new_history_is_seen(cluster):
    a, *_ = cluster.nodes
    await a.publish(marked("first"))
    await cluster.settled()
    assert await sums(cluster.nodes, "stalecast_cluster_former_copies") == [0, 0, 0]
    client = a.client()
    assert (await client.call("POST", "/v1/cluster:newEpoch", b"{}")).status == 200
    client.close()

    async def copies():
        try:
            return await sums(cluster.nodes, "stalecast_cluster_former_copies") == [1, 1, 1]
        except OSError:
            return False

    await until(copies)


async def test_nodes_that_are_not_alike_are_told_apart(cluster):
    a, b, _ = cluster.nodes
    d = cluster.add("d", topics=[{"name": "OTHER", "scopes": ["demo/firebase"]}])
    token = cluster.directory / "other.token"
    token.write_text(secrets.token_hex(32) + "\n")
    token.chmod(0o600)
    d.configure(d.config.read_text().replace(str(cluster.token_file), str(token)))
    d.token_file = token
    d.start(timeout=40)

    async def differs():
        nodes = (await a.ask_control("/v1/cluster")).json()["nodes"]
        return [node.get("differs") for node in nodes] == [None, None, None, ["control.token", "topics"]]

    await until(differs)

    async def counted():
        return await sums((a, b, d), "stalecast_cluster_nodes_different") == [1, 1, 3]

    await until(counted)
    assert "a node is configured differently" in a.log_text() and "control.token" in a.log_text()
    arguments = ["--control", f"http://127.0.0.1:{a.control}", "--token-file", str(cluster.token_file)]
    page = Cli(a)("cluster", "status", *arguments)
    assert "2 different configurations; from this one differ d in control.token, topics" in page
    secret = token.read_text().strip()
    for value in cluster.etcd.values("/stalecast/").values():
        assert secret.encode() not in value, "no secret goes to etcd"


async def test_topics_tell_of_subscribers_elsewhere(cluster):
    a, b, _ = cluster.nodes
    streams = [await Stream.open(b.edge) for _ in range(3)]
    arguments = ["--control", f"http://127.0.0.1:{a.control}", "--token-file", str(cluster.token_file)]

    async def heard():
        topics = Cli(a).json("topics", *arguments)["topics"]
        return [topic["subscribers"].get("otherNodes") for topic in topics if topic["name"] == "PUSH_RC"] == [3]

    await until(heard)
    lines = Cli(a)("topics", *arguments).splitlines()
    assert "OTHER NODES" in lines[0]
    row = next(line.split() for line in lines if line.startswith("PUSH_RC "))
    assert row[1:4] == ["0", "0", "3"]
    for stream in streams:
        stream.close()


# MARK: the key of webhooks' secrets

def refused(cluster, node):
    """What a node says that must not start."""
    node.spawn()
    assert node.wait(30) == 1
    return node.log_text()


async def test_a_node_with_another_key_is_refused(cluster):
    async def known():
        return cluster.etcd.charter().get("keyCheck")

    check = await until(known)
    key = cluster.key_file.read_text().strip()
    assert len(check) == 64 and check != key
    other = cluster.directory / "other.key"
    other.write_text(secrets.token_hex(32) + "\n")
    other.chmod(0o600)
    d = cluster.add("d", webhooks={"keyFile": str(other)})
    said = refused(cluster, d)
    assert f"the key file {other} is not that of the cluster default" in said and "copy the key file of a node" in said
    assert "d" not in [node["id"] for node in (await cluster.nodes[0].ask_control("/v1/cluster")).json()["nodes"]]
    # One that would make its own does not: with a key of its own its registry could never be opened with the right one.
    e = cluster.add("e", webhooks={})
    said = refused(cluster, e)
    assert "is not there, and the cluster default has one" in said
    assert not list(e.data.glob("webhooks.*"))
    other.write_text(key + "\n")
    d.start(timeout=40)

    async def ready():
        return await d.metric("stalecast_cluster_ready") == 1

    await until(ready)


async def test_a_charter_of_before_is_given_the_check(cluster):
    etcd = cluster.etcd

    async def known():
        return etcd.charter().get("keyCheck")

    check = await until(known)
    rules = etcd.charter()
    del rules["keyCheck"]
    etcd.call("put", "/stalecast/default/charter", json.dumps(rules))
    assert await until(known) == check
    assert await cluster.nodes[1].publish(marked("after")) == 1
    await cluster.settled()


@pytest.mark.limit(120)
async def test_a_wrong_key_is_found_when_etcd_is_back(cluster):
    async def known():
        return cluster.etcd.charter().get("keyCheck")

    await until(known)
    c = cluster.nodes[2]
    assert c.stop() == 0
    for member in cluster.etcd.members:
        member.kill()
    # Its registry is sealed with its key: it goes, too, as when a disk was replaced.
    for file in c.data.glob("webhooks.*"):
        file.unlink()
    other = cluster.directory / "other.key"
    other.write_text(secrets.token_hex(32) + "\n")
    other.chmod(0o600)
    c.configure(c.config.read_text().replace(str(cluster.key_file), str(other)))
    c.start(timeout=40)
    await cluster.etcd.heal()
    assert await asyncio.to_thread(c.wait, 40) == 1
    assert "is not that of the cluster default" in c.log_text()
