"""What holds over nodes while nothing fails: publish here, hear there; cursors, fetches and If-Match at any node."""

import asyncio
import json
import time

from harness.cli import NOT_FOUND, Cli
from harness.cluster import fetched_version
from harness.cluster_history import one_winner
from harness.http1 import Broken, fetch
from harness.poll import poll, versions_in
from harness.sse import Stream
from harness.templates import marked, wide

ROUNDS = 30


async def test_a_publish_at_one_node_is_heard_and_read_at_all(cluster):
    a, *others = cluster.nodes
    streams = [await Stream.open(node.edge) for node in cluster.nodes]
    for stream in streams:
        await stream.synced()
    for number in range(1, 6):
        assert await a.publish(marked(f"m{number}")) == number
        for stream in streams:
            frame = await stream.version_at_least(number)
            assert frame.version == number
    ids = {tuple(frame.id for frame in stream.messages) for stream in streams}
    assert len(ids) == 1, "a version has the same cursor at every node"
    shown = await cluster.settled()
    assert len({tuple(stored) for stored in shown.values()}) == 1
    assert [entry.mark for entry in cluster.log()] == [f"m{number}" for number in range(1, 6)]
    assert await others[0].rollback(2) == 6
    for stream in streams:
        await stream.version_at_least(6)
        stream.close()


async def test_a_cursor_of_one_node_is_good_at_another(cluster):
    a, b, c = cluster.nodes
    stream = await Stream.open(a.edge)
    await stream.synced()
    for number in range(1, 4):
        await b.publish(marked(f"m{number}"))
        await stream.version_at_least(number)
    stream.close()
    cursors = [frame.id for frame in stream.messages]
    await cluster.settled()
    for node in (b, c):
        again = await Stream.open(node.edge, last_event_id=cursors[0])
        assert (await again.synced()).id == cursors[2]
        assert again.versions == [3] and not [frame for frame in again.events if frame.name == "reset"]
        again.close()
        answer = await poll(node.edge, cursor=cursors[2], wait="0s")
        assert not versions_in(answer) and answer.json()["cursor"] == cursors[2]


async def test_one_if_match_at_all_nodes_wins_once(cluster):
    clients = [node.client() for node in cluster.nodes]
    await clients[0].publish(marked("first"))
    await cluster.settled()
    rounds = []
    for number in range(ROUNDS):
        version, etag = await clients[number % 3].current()
        answers = await asyncio.gather(*(client.put(marked(f"r{number}-{who}"), if_match=etag)
                                         for who, client in enumerate(clients)))
        rounds.append([answer.status for answer in answers])
    for client in clients:
        client.close()
    assert not one_winner(rounds)
    assert len(cluster.log()) == ROUNDS + 1


async def test_a_fetch_at_another_node_is_never_older_than_the_message(cluster):
    a, b, c = cluster.nodes
    stream = await Stream.open(a.edge)
    await stream.synced()
    for number in range(1, 101):
        publisher, reader = cluster.nodes[number % 3], cluster.nodes[(number + 1) % 3]
        version = await publisher.publish(marked(f"m{number}"))
        got, answer = await fetched_version(reader)
        assert got == version and answer.header("x-stalecast-unverified") is None
        frame = await stream.version_at_least(version)
        got, _ = await fetched_version(cluster.nodes[(number + 2) % 3], cursor=frame.id)
        assert got >= version
    stream.close()


async def test_a_long_template_reaches_every_node(cluster):
    body = wide("x" * 9000, count=90)
    version = await cluster.nodes[0].publish(body)
    shown = await cluster.settled()
    assert {stored[-1].version for stored in shown.values()} == {version}
    for node in cluster.nodes:
        client = node.client()
        assert (await client.get()).json()["parameters"] == body["parameters"]
        client.close()


async def test_a_node_that_comes_late_has_everything(cluster):
    a, b, c = cluster.nodes
    assert c.stop() == 0
    client = a.client()
    for number in range(200):
        await client.publish(marked(f"m{number}"))
    client.close()
    c.start(timeout=40)
    shown = await cluster.settled()
    assert len(shown["c"]) == 200


def patiently(command):
    """Output of a command that ends with 0 at last."""
    for left in range(100, -1, -1):
        try:
            return command()
        except AssertionError:
            if not left:
                raise
            time.sleep(0.2)


def test_the_command_line_tells_of_the_cluster(cluster, launch):
    arguments = ["--control", f"http://127.0.0.1:{cluster.nodes[1].control}", "--token-file", str(cluster.token_file)]
    cli = Cli(cluster.nodes[1])
    # A node listens before it is ready.
    status = patiently(lambda: cli.json("cluster", "status", *arguments))
    assert status["node"] == "b" and status["ready"] and len(status["etcd"]) == 3
    assert [member["isLeader"] for member in status["etcd"]].count(True) == 1
    page = cli("cluster", "status", *arguments)
    assert page.startswith("node b of cluster default: ready") and "leader" in page
    before = status["epoch"]
    changed = json.loads(cli("cluster", "new-epoch", "--yes", "--json", *arguments))
    assert changed["epoch"] != before
    # Nodes begin anew in their processes' places, and do not listen meanwhile.
    assert "format" in patiently(lambda: cli("cluster", "upgrade", "--yes", *arguments))
    alone = launch()
    told = Cli(alone)("cluster", "status", code=NOT_FOUND)
    assert "one by itself" in told.err


async def open_again(node, cursor):
    """A stream at a node that begins anew, which closes its listeners for a moment."""
    for _ in range(200):
        try:
            stream = await Stream.open(node.edge, last_event_id=cursor)
            if stream.head.status == 200:
                return stream
            stream.close()
        except (Broken, OSError):
            pass
        await asyncio.sleep(0.05)
    raise AssertionError(f"node {node.name} does not listen again:\n{node.log_tail()}")


async def test_a_new_epoch_resets_every_client_at_every_node(cluster):
    a, *_ = cluster.nodes
    await a.publish(marked("first"))
    await cluster.settled()
    streams = [await Stream.open(node.edge) for node in cluster.nodes]
    cursor = (await streams[0].synced()).id
    for stream in streams[1:]:
        await stream.synced()
    answer = await fetch(a.control, "/v1/cluster:newEpoch", "POST", [("Authorization", f"Bearer {a.token}")], b"{}")
    assert answer.status == 200, answer
    for node, stream in zip(cluster.nodes, streams):
        await stream.until(lambda s: s.ended or any(frame.name == "reset" for frame in s.events), 20)
        stream.close()
        again = await open_again(node, cursor)
        # A node that etcd does not answer at its start goes on with what it has, until etcd does.
        if (await again.synced(20)).id.partition(".")[0] == cursor.partition(".")[0]:
            await again.until(lambda s: s.ended or any(frame.name == "reset" for frame in s.events), 20)
            again.close()
            again = await open_again(node, cursor)
        assert (await again.synced(20)).id.partition(".")[0] == answer.json()["epoch"]
        assert [frame.name for frame in again.events][0] == "reset"
        again.close()
    await cluster.settled()
    assert await a.publish(marked("second")) == 2
    await cluster.settled()
