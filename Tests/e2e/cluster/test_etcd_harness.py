"""The harness does to etcd what it says: otherwise a fault in a campaign would be none."""

import time

import pytest

from harness.etcd import Etcd


@pytest.fixture(scope="module")
def etcd(tmp_path_factory):
    etcd = Etcd(tmp_path_factory.mktemp("etcd"), options=["--quota-backend-bytes", str(16 << 20)])
    yield etcd.start()
    etcd.dispose()


def value(etcd, key, member=None):
    found = etcd.values(key) if member is None else etcd.call("get", key, "--print-value-only", member=member)
    return found.get(key) if member is None else found.strip()


def test_a_killed_leader_is_followed_by_another(etcd):
    leader = etcd.leader()
    leader.kill()
    assert etcd.leader() is not leader
    assert etcd.wait_for_leader() in etcd.members
    etcd.start(leader)
    assert len(etcd.followers()) == 2


def test_a_frozen_leader_is_followed_by_another_and_comes_back(etcd):
    leader = etcd.leader()
    leader.freeze()
    assert etcd.status(leader) is None
    assert etcd.wait_for_leader() is not leader
    leader.thaw()
    etcd.call("put", "/after", "thaw")
    assert value(etcd, "/after", leader) == b"thaw"


def test_without_a_majority_nothing_is_written(etcd):
    for member in etcd.followers():
        member.kill()
    assert etcd.call("put", "/lonely", "x", timeout=1, check=False) is None
    etcd.start()


def test_compaction_forgets(etcd):
    with etcd.compacting(0.05) as done:
        before = etcd.revision()
        etcd.call("put", "/compacted", "x")
        deadline = time.monotonic() + 20
        while len(done) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert etcd.call("get", "/compacted", "--rev", str(before), check=False) is None


def test_a_restored_snapshot_has_the_same_identity_and_an_older_revision(etcd, tmp_path):
    etcd.call("put", "/kept", "x")
    etcd.save(tmp_path / "snapshot")
    for number in range(20):
        etcd.call("put", f"/lost/{number}", "x")
    before, revision = etcd.status(etcd.members[0])["header"], etcd.revision()
    etcd.restore(tmp_path / "snapshot")
    after = etcd.status(etcd.members[0])["header"]
    assert before["cluster_id"] == after["cluster_id"] and etcd.revision() < revision
    assert value(etcd, "/kept") == b"x" and not etcd.values("/lost/")


def test_a_full_etcd_takes_nothing_until_there_is_room(etcd):
    etcd.fill()
    assert etcd.call("put", "/more", "x" * 1000, check=False) is None
    etcd.make_room()
    etcd.call("put", "/more", "x")
