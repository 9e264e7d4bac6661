"""Stores of older programs under this one: what clients, receivers and operators had is still theirs."""

import json
import sqlite3
import subprocess
import tarfile

import pytest

from harness import webhooks
from harness.daemon import BINARY, REPOSITORY, environment
from harness.http1 import fetch
from harness.poll import poll, versions_in
from harness.receiver import Receiver
from harness.webhooks import Webhooks

STORES = REPOSITORY / "Tests/Fixtures/upgrade"
# Made by make.py beside them, which says what is in them.
PROGRAMS = sorted(path.name.removesuffix(".tar.gz") for path in STORES.glob("*.tar.gz"))


@pytest.fixture(params=PROGRAMS)
def upgraded(request, launch, tmp_path):
    """A running daemon on a store of an older program; `expected` is what that one told."""
    with tarfile.open(STORES / f"{request.param}.tar.gz") as archive:
        archive.extractall(tmp_path / "old", filter="data")
    projects = [{"id": "demo", "number": 1}, {"id": "shop", "number": 2}]
    daemon = launch(webhooks.config(projects=projects), data=tmp_path / "old")
    daemon.expected = json.loads((daemon.data / "expected.json").read_text())
    return daemon


def test_there_are_stores_of_older_programs():
    assert PROGRAMS == ["3488f50", "61510f9"]


async def test_versions_and_cursors_outlive_an_upgrade(upgraded):
    one = upgraded.client()
    versions = await one.versions()
    assert sorted(versions) == [1, 2, 3, 4, 5, 6]
    assert versions[5]["rollbackSource"] == "3" and all(version["updateTime"] for version in versions.values())
    for number, value in ((6, "v6"), (5, "v3"), (1, "v1")):
        template = (await one.get(number)).json()
        assert template["parameters"]["greeting"]["defaultValue"]["value"] == value
    one.close()
    assert (await upgraded.status())["epoch"] == upgraded.expected["epoch"]

    # Who missed versions hears of the newest at once, who missed none of the next; no client is told to begin anew.
    late = await poll(upgraded.edge, project="demo", cursor=upgraded.expected["cursor2"], wait="0s")
    assert versions_in(late) == [6] and "reset" not in late.body.decode()
    current = await poll(upgraded.edge, project="demo", cursor=upgraded.expected["cursor6"], wait="0s")
    assert versions_in(current) == [] and "reset" not in current.body.decode()
    published = await upgraded.publish({"parameters": {"greeting": {"defaultValue": {"value": "new"}}}})
    assert int(published) == 7
    told = await poll(upgraded.edge, project="demo", cursor=upgraded.expected["cursor6"], wait="20s")
    assert versions_in(told) == [7]
    # The token is the old one: every call above showed it.
    shop = await fetch(upgraded.control, "/v1/projects/shop/remoteConfig",
                       headers=[("Authorization", f"Bearer {upgraded.token}")])
    assert shop.json()["version"]["versionNumber"] == "1"


async def test_what_webhooks_are_owed_outlives_an_upgrade(upgraded):
    hooks = Webhooks(upgraded)
    of = {hook["description"]: hook for hook in await hooks.list()}
    assert sorted(of) == ["all", "fifo", "latest", "paused"] and of["paused"]["state"]["name"] == "paused"
    with Receiver() as receiver:
        for name, hook in of.items():
            await hooks.update(hook, url=f"{receiver.url}/{name}")

        def heard(name):
            return [int(json.loads(arrival.body)["data"]["version"]) for arrival in receiver.arrivals if arrival.path == f"/{name}"]

        receiver.wait(lambda _: len(heard("all")) >= 6 and len(heard("fifo")) >= 6 and heard("latest"))
        assert heard("paused") == []
        await hooks.act(of["paused"], "resume")
        receiver.wait(lambda _: len(heard("paused")) >= 6)
        assert heard("fifo") == heard("paused") == [1, 2, 3, 4, 5, 6]
        assert sorted(heard("all")) == [1, 2, 3, 4, 5, 6] and heard("latest") == [6]


def test_keys_that_are_gone_are_named_with_their_successor(tmp_path):
    def check(text):
        path = tmp_path / "stalecast.yaml"
        path.write_text(text)
        return subprocess.run([BINARY, "check-config", "--config", path], capture_output=True, text=True, check=False,
                              env=environment())

    old = check("edge: {listen: 0.0.0.0:8080, allowPublicBind: true}\n")
    assert old.returncode == 78 and "edge.allowPublicBind" in old.stderr and "edge.proxied" in old.stderr
    assert check("edge: {allowPublicBind: false}\n").returncode == 0


def test_a_store_of_a_newer_program_is_refused_and_not_touched(upgraded):
    upgraded.stop()
    path = upgraded.data / "stalecast.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO grdb_migrations VALUES ('999')")
    database.close()
    before = path.read_bytes()
    upgraded.spawn()
    assert upgraded.wait() != 0
    assert "written by a newer stalecast" in upgraded.log_text() and path.read_bytes() == before
