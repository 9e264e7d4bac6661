"""An etcd for each test, and clusters over it that are gone afterwards."""

import pytest

from harness.cluster import Cluster
from harness.etcd import Etcd


@pytest.fixture
def start_etcd(tmp_path):
    """`start_etcd(count=3, options=())`."""
    started = []

    def start(count=3, options=()):
        etcd = Etcd(tmp_path / f"etcd{len(started)}", count, options)
        started.append(etcd)
        return etcd.start()

    yield start
    for etcd in started:
        etcd.dispose()


@pytest.fixture
def etcd(start_etcd):
    return start_etcd()


@pytest.fixture
def start_cluster(request, tmp_path, launch):
    """`start_cluster(etcd, count=3, **sections)`; the nodes' logs show on failure, but of those that are added."""
    started = []

    def start(etcd, count=3, running=True, **sections):
        cluster = Cluster(tmp_path / f"cluster{len(request.node.daemons)}", etcd, count, **sections)
        request.node.daemons += cluster.nodes
        started.append(cluster)
        return cluster.start() if running else cluster

    yield start
    for cluster in started:
        cluster.dispose()


@pytest.fixture
def cluster(start_cluster, etcd):
    return start_cluster(etcd)
