"""Nodes of other regions, which only follow the log."""

from harness.http1 import fetch


def add_edge(cluster, name, endpoints=None, etcd=None, **own):
    """One more node of the cluster, not started: an edge. `endpoints`: ways to etcd; `etcd`: further keys of
    `store.etcd`; `own`: further keys of `cluster`."""
    section = {"name": cluster.name, "node": name, "role": "edge", **own}
    store = {"store": {**cluster.sections.get("store", {}), "etcd": {"endpoints": list(endpoints or cluster.etcd.endpoints), **(etcd or {})}}}
    # It needs no key of webhooks.
    edge = cluster.add(name, cluster=section, webhooks={}, **store)
    edge.is_edge = True
    return edge


async def ask(node, method, path, body=b"", **fields):
    """One request to a node's Control with the cluster's token."""
    headers = [("Authorization", f"Bearer {node.token}")] + [(name.replace("_", "-"), text)
                                                             for name, text in fields.items()]
    return await fetch(node.control, path, method, headers, body)
