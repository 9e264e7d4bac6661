"""A node of a cluster answers as the documents say, with etcd and without."""

import asyncio

import pytest

from harness.http1 import fetch
from harness.openapi import KNOWN, LIMIT, STREAMS, schemathesis, seed
from harness.templates import marked

# It ends the process and begins it anew.
NEW_EPOCH = "newEpoch"


def sees(document, path, method, status):
    """Whether the document knows the answer."""
    return str(status) in document["paths"][path][method]["responses"]


@pytest.mark.limit(2 * LIMIT)
async def test_a_node_answers_as_its_documents_say(start_cluster, etcd, tmp_path):
    node, = start_cluster(etcd, 1).nodes
    await seed(node)
    schemathesis(tmp_path, f"http://127.0.0.1:{node.control}", KNOWN,
                 headers=[f"Authorization: Bearer {node.token}"], exclude=(*STREAMS, NEW_EPOCH))
    schemathesis(tmp_path, f"http://127.0.0.1:{node.edge}", KNOWN, exclude=STREAMS)
    assert await node.ready() == 200


@pytest.mark.limit(180)
async def test_what_is_answered_without_etcd_stands_in_the_document(start_cluster, etcd):
    node, = start_cluster(etcd, 1).nodes
    assert await node.publish(marked("one")) == 1
    assert await node.publish(marked("two")) == 2
    document = (await node.ask_control("/openapi.json")).json()
    project = "/v1/projects/{project}"
    for member in etcd.members:
        member.kill()
    client = node.client()
    calls = [
        ("PUT", "/remoteConfig", b"{}", [("If-Match", "*"), ("Idempotency-Key", "k")]),
        ("POST", "/remoteConfig:rollback", b'{"versionNumber":1}', []),
        ("POST", "/messages:send", b'{"message":{"topic":"PUSH_RC","data":{"a":"b"}}}', []),
        ("GET", "/publishes/aaaaaaaaaaaaaaaaaaaaaaaaaa", None, []),
    ]
    for method, path, body, headers in calls:
        answer = await client.call(method, f"/v1/projects/demo{path}", body, headers, timeout=30)
        named = project + path.replace("aaaaaaaaaaaaaaaaaaaaaaaaaa", "{publish}")
        assert answer.status in (404, 503, 504), answer
        assert sees(document, named, method.lower(), answer.status), f"{answer} is not in the document"
        if answer.status == 503:
            assert answer.header("retry-after"), answer
        elif answer.status == 504:
            detail = answer.json()["error"]["details"][0]
            assert detail["outcome"] == "unknown", answer
    for path in ("/v1/cluster:newEpoch", "/v1/cluster:upgrade"):
        answer = await client.call("POST", path, b"{}", timeout=30)
        assert answer.status in (200, 503, 504) and sees(document, path, "post", answer.status), answer
    shown = (await client.call("GET", "/v1/cluster", timeout=30)).json()
    assert all("error" in member for member in shown["etcd"]) and shown["unverifiedSeconds"] > 0
    client.close()
    edge = (await fetch(node.edge, "/openapi.json")).json()
    values = edge["paths"]["/v1/projects/{project}/namespaces/{namespace}:fetch"]["post"]
    assert "X-Stalecast-Unverified" in values["responses"]["200"]["headers"]
    assert {"X-Stalecast-Cursor", "cursor"} <= {parameter["name"] for parameter in values["parameters"]}
    await asyncio.to_thread(etcd.start)
