"""From one daemon to a cluster and back, backups, etcd with certificates and passwords that are replaced while nodes run,
programs that are too old for a log."""

import asyncio
import json
import shutil

import pytest

from harness import configs
from harness.authority import Authority
from harness.cli import REFUSED, Cli
from harness.cluster import Cluster, fetched_version
from harness.daemon import Daemon
from harness.etcd import Etcd
from harness.sse import Stream
from harness.templates import marked, wide
from harness.waiting import until


HOOKS = "/v1/projects/demo/webhooks"
ALLOWED = {"allowedAddresses": ["127.0.0.0/8"]}


def resets(stream):
    return [frame for frame in stream.events if frame.name == "reset"]


async def heard(node, cursor=None):
    """A stream from a cursor on, up to its synced; and its last id."""
    stream = await Stream.open(node.edge, last_event_id=cursor)
    last = (await stream.synced()).id
    stream.close()
    return stream, last


async def hooked(node):
    """A webhook's id."""
    client = node.client()
    answer = await client.call("POST", HOOKS, b'{"url":"http://127.0.0.1:9/","topics":["PUSH_RC"]}')
    client.close()
    assert answer.status == 200, answer
    return answer.json()["id"]


async def lists(node, hook):
    return hook in [one["id"] for one in (await node.ask_control(HOOKS)).json()["webhooks"]]


@pytest.mark.limit(180)
async def test_there_and_back_again(launch, start_cluster, etcd):
    """One daemon becomes a cluster, clients resume with the cursors they have; a node becomes one daemon again."""
    alone = launch(configs.config(webhooks=ALLOWED))
    hook = await hooked(alone)
    for number in range(1, 6):
        await alone.publish(marked(f"m{number}"))
    assert await alone.publish(wide("y" * 9000, count=90)) == 6
    _, middle = await heard(alone)
    assert await alone.rollback(2) == 7
    _, last = await heard(alone)
    before = (await alone.ask_control("/v1/projects/demo/remoteConfig:listVersions?pageSize=300")).json()
    assert alone.stop() == 0

    cluster = start_cluster(etcd, 2, running=False, webhooks=ALLOWED)
    a, b = cluster.nodes
    shutil.copytree(alone.data, a.data)
    # Its secrets were sealed with a key that is the cluster's now.
    shutil.copy(alone.data / "webhooks.key", cluster.key_file)
    words = ("migrate", "--to-etcd", "--config", str(a.config))
    report = json.loads(Cli(a)(*words, "--json"))
    assert report["versions"] == 7 and f"{report['epoch']}.{report['head']}" == last
    again = Cli(a)(*words, code=REFUSED)
    assert "holds a replica already" in again.err
    cluster.start()
    await cluster.settled()
    for node in (a, b):
        stream, end = await heard(node, middle)
        assert end == last and stream.versions == [7] and not resets(stream)
        assert (await node.ask_control("/v1/projects/demo/remoteConfig:listVersions?pageSize=300")).json() == before
        client = node.client()
        assert len((await client.get(version=6)).json()["parameters"]) == 90
        client.close()
        await until(lambda node=node: lists(node, hook))
    assert await b.publish(marked("in the cluster")) == 8
    await cluster.settled()
    other = Daemon(cluster.directory / "other", config=cluster.config("o"), data=alone.data)
    assert "has a log already" in Cli(other)("migrate", "--to-etcd", "--config", str(other.config), code=REFUSED).err

    # Back: node b without store.etcd.
    _, cursor = await heard(b)
    for node in (a, b):
        assert node.stop() == 0
    single = launch(configs.config(webhooks={**ALLOWED, "keyFile": str(cluster.key_file)}), data=b.data)
    stream, end = await heard(single, cursor)
    assert resets(stream) and end.partition(".")[0] != cursor.partition(".")[0], "clients can tell the two apart"
    assert stream.versions == [8]
    assert await single.publish(marked("alone again")) == 9
    assert (await fetched_version(single))[0] == 9
    assert await lists(single, hook)
    assert (await single.ask_control("/v1/cluster")).status == 404
    assert "stalecast_cluster" not in (await single.ask_control("/metrics")).body.decode()


@pytest.mark.limit(180)
async def test_a_backup_of_a_node_becomes_a_new_cluster(start_cluster, etcd, tmp_path):
    cluster = start_cluster(etcd, 1, webhooks=ALLOWED)
    node, = cluster.nodes
    hook = await hooked(node)
    for number in range(1, 4):
        await node.publish(marked(f"m{number}"))
    cli = Cli(node)
    up, down = tmp_path / "up.backup", tmp_path / "down.backup"
    cli("backup", str(up))
    _, cursor = await heard(node)
    for member in etcd.members:
        member.kill()
    cli("backup", str(down))
    await etcd.heal()
    assert await node.publish(marked("lost")) == 4
    assert node.stop() == 0

    data = tmp_path / "restored"
    new = Cluster(tmp_path / "new", etcd, 2, name="again", webhooks=ALLOWED)
    a, b = new.nodes
    for file in (up, down):
        shutil.rmtree(data, ignore_errors=True)
        restored = Daemon(tmp_path / f"from-{file.stem}", config=new.config("a"), data=data)
        Cli(restored)("restore", str(file), "--above", "4", "--yes")
    shutil.copy(cluster.key_file, new.key_file)
    shutil.copytree(data, a.data)
    report = json.loads(Cli(a)("migrate", "--to-etcd", "--config", str(a.config), "--json"))
    assert report["versions"] == 3 and report["epoch"] != cursor.partition(".")[0]
    try:
        new.start()
        for one in (a, b):
            stream, _ = await heard(one, cursor)
            assert resets(stream) and stream.versions == [3]
            await until(lambda one=one: lists(one, hook))
        assert await b.publish(marked("goes on")) == 5, "above what clients may hold"
        await new.settled()
    finally:
        new.dispose()


async def test_a_program_that_is_too_old_takes_no_part(cluster):
    etcd = cluster.etcd
    a, b, _ = cluster.nodes
    await a.publish(marked("one"))
    assert b.stop() == 0
    rules = etcd.charter()
    rules["minimumVersion"] = 3
    rules["later"] = {"than": "us"}
    etcd.call("put", "/stalecast/default/charter", json.dumps(rules))
    b.spawn()
    assert await asyncio.to_thread(b.wait, 30) == 1
    assert "the log asks for format 3, this program has 2; upgrade it" in b.log_text()
    # One that runs goes on to serve what it has, and publishes nothing.
    client = a.client()
    assert (await client.put(marked("two"), timeout=20)).status in (503, 504)
    client.close()
    assert (await fetched_version(a))[1].header("x-stalecast-unverified") is not None
    rules["minimumVersion"] = 2
    etcd.call("put", "/stalecast/default/charter", json.dumps(rules))
    b.start(timeout=40)
    client = b.client()
    for _ in range(100):
        if (await client.put(marked("three"), timeout=20)).status == 200:
            break
        await asyncio.sleep(0.1)
    client.close()
    assert [entry.mark for entry in cluster.log()] == ["one", "three"]
    arguments = ["--control", f"http://127.0.0.1:{a.control}", "--token-file", str(cluster.token_file)]
    Cli(a)("cluster", "upgrade", "--yes", *arguments)
    assert etcd.charter()["later"] == {"than": "us"}, "what this program does not know stays"


# MARK: certificates and passwords

class SecureEtcd(Etcd):
    """Members that ask clients for certificates; `tool` are etcdctl's own."""

    def __init__(self, directory, authority, count=3):
        self.tool = []
        super().__init__(directory, count)
        addresses = [member.address for member in self.members]
        certificate, key = authority.certify("members", *addresses)
        ca = authority.directory / f"{authority.name}.pem"
        self.options = ("--cert-file", certificate, "--key-file", key, "--client-cert-auth", "--trusted-ca-file", ca)
        for member in self.members:
            member.client = member.listens = member.client.replace("http:", "https:")
        mine, its_key = authority.certify("harness")
        self.tool = ["--cacert", str(ca), "--cert", str(mine), "--key", str(its_key)]

    def call(self, *words, **options):
        return super().call(*self.tool, *words, **options)


async def publishes(node, mark, timeout=30):
    """Until it is taken; the number of refusals before."""
    client = node.client()
    try:
        for count in range(int(timeout / 0.1)):
            if (await client.put(marked(mark), timeout=15)).status == 200:
                return count
            await asyncio.sleep(0.1)
        raise AssertionError(f"{mark} was not taken within {timeout} s:\n{node.log_tail()}")
    finally:
        client.close()


@pytest.mark.limit(180)
async def test_certificates_are_replaced_while_nodes_run(start_cluster, tmp_path):
    authority, next_authority = Authority(tmp_path), Authority(tmp_path, "next")
    etcd = SecureEtcd(tmp_path / "etcd", authority)
    try:
        etcd.start()
        ours, key = authority.certify("ours")
        used, used_key, used_ca = (tmp_path / name for name in ("used.pem", "used.key", "used-ca.pem"))
        for source, target in ((ours, used), (key, used_key), (tmp_path / "ca.pem", used_ca)):
            shutil.copy(source, target)
        section = {"endpoints": etcd.endpoints, "caFile": str(used_ca), "certificate": str(used), "key": str(used_key)}
        cluster = start_cluster(etcd, 2, running=False)
        for node in cluster.nodes:
            node.configure(cluster.config(node.name, store={"etcd": section}))
        cluster.start()
        a, b = cluster.nodes
        await publishes(a, "one")
        # The members' authority and ours are replaced; the old one is good no longer.
        certificate, member_key = next_authority.certify("members", *(member.address for member in etcd.members))
        next_ours, next_key = next_authority.certify("ours")
        etcd.options = ("--cert-file", certificate, "--key-file", member_key, "--client-cert-auth",
                        "--trusted-ca-file", tmp_path / "next.pem")
        mine, its_key = next_authority.certify("harness")
        etcd.tool = ["--cacert", str(tmp_path / "next.pem"), "--cert", str(mine), "--key", str(its_key)]
        for member in etcd.members:
            member.kill()
        await asyncio.to_thread(etcd.start)
        client = a.client()
        assert (await client.put(marked("refused"), timeout=20)).status in (503, 504)
        client.close()

        async def said():
            return "look at the CA file" in a.log_text()

        await until(said)
        for source, target in ((next_ours, used), (next_key, used_key), (tmp_path / "next.pem", used_ca)):
            shutil.copy(source, target)
        await publishes(b, "two")
        await publishes(a, "three")
        await cluster.settled()
        assert [entry.mark for entry in cluster.log()] == ["one", "two", "three"]
    finally:
        etcd.dispose()


@pytest.mark.limit(180)
async def test_a_password_is_replaced_while_nodes_run(start_cluster, start_etcd, tmp_path):
    """A user who may do only what a cluster needs."""
    etcd = start_etcd(1)
    for words in (("user", "add", "root:r"), ("user", "grant-role", "root", "root"), ("user", "add", "stalecast:first"),
                  ("role", "add", "cluster"),
                  ("role", "grant-permission", "cluster", "readwrite", "/stalecast/default/", "/stalecast/default0"),
                  ("role", "grant-permission", "cluster", "readwrite", "/stalecast/default~/", "/stalecast/default~0"),
                  ("user", "grant-role", "stalecast", "cluster")):
        etcd.call(*words)
    password = tmp_path / "password"
    password.write_text("first\n")
    password.chmod(0o600)
    section = {"endpoints": etcd.endpoints, "user": "stalecast", "passwordFile": str(password)}
    cluster = start_cluster(etcd, 2, running=False)
    for node in cluster.nodes:
        node.configure(cluster.config(node.name, store={"etcd": section}))
    etcd.call("auth", "enable")
    plain = etcd.call
    etcd.call = lambda *words, **options: plain("--user", "root:r", *words, **options)
    cluster.start()
    a, b = cluster.nodes
    await publishes(a, "one")
    await cluster.settled()
    for words in (("user", "delete", "stalecast"), ("user", "add", "stalecast:second"),
                  ("user", "grant-role", "stalecast", "cluster")):
        etcd.call(*words)
    client = a.client()
    assert (await client.put(marked("refused"), timeout=20)).status in (503, 504)
    client.close()
    assert "look at its user and password" in a.log_text()
    password.write_text("second\n")
    await publishes(b, "two")
    await publishes(a, "three")
    await cluster.settled()
    assert [entry.mark for entry in cluster.log()] == ["one", "two", "three"]
