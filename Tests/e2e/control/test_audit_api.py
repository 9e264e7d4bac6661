"""`GET /v1/audit`: the newest lines of the audit log, in words, for those who may operate the daemon."""

import json

from harness.cli import Cli
from harness.control import Control
from harness.templates import template


async def test_the_newest_lines_are_read_over_the_api(launch):
    daemon = launch("projects: [{id: demo, number: 123456789012}, {id: shop, number: 7}]\n")
    control = daemon.client()
    await control.publish(template({"a": "1"}))
    await daemon.client(project="shop").publish(template({"b": "1"}))
    await control.put(template({"a": "2"}), "etag-123456789012-9")

    async def read(query=""):
        answer = await control.call("GET", f"/v1/audit{query}")
        assert answer.status == 200, answer.body
        return json.loads(answer.body)["entries"]

    lines = await read()
    assert [line["seq"] for line in lines] == sorted((line["seq"] for line in lines), reverse=True)
    assert lines[0]["outcome"] != "ok" and "publish template" in lines[0]["sentence"]
    assert [line["seq"] for line in await read("?pageSize=2")] == [line["seq"] for line in lines[:2]]
    assert [line["sentence"] for line in await read("?refused=true")] == [lines[0]["sentence"]]
    shop = [line["sentence"] for line in await read("?project=shop")]
    assert "shop/firebase: published version 1 (b)" in shop and not any(text.startswith("demo") for text in shop)
    assert not [line for line in await read("?project=shop&namespace=firebase-server") if line["action"] == "publishTemplate"]
    for query in ("?pageSize=0", "?pageSize=x", "?refused=perhaps", "?namespace=firebase"):
        assert (await control.call("GET", f"/v1/audit{query}")).status == 400, query
    key = Cli(daemon).json("keys", "create", "--name", "reader", "--role", "viewer")["key"]
    assert (await Control(daemon.control, key).call("GET", "/v1/audit")).status == 403
