"""`GET /v1/audit`: the newest lines of the audit log, in words, for those who may operate the daemon."""

import json
import subprocess

from harness.cli import Cli
from harness.control import Control
from harness.daemon import BINARY, environment
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


async def test_logs_of_a_daemon_elsewhere(launch, tmp_path):
    """Over Control with a token alone, as from another machine: the same words as beside its data directory."""
    daemon = launch("projects: [{id: demo, number: 123456789012}, {id: shop, number: 7}]\n")
    await daemon.publish(template({"a": "1"}))
    await daemon.client(project="shop").publish(template({"b": "1"}))
    (tmp_path / "token").write_text(daemon.token)
    elsewhere = [BINARY, "logs", "--control", f"http://127.0.0.1:{daemon.control}", "--token-file", tmp_path / "token"]

    def logs(*words, code=0):
        done = subprocess.run([*elsewhere, *words], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=20)
        assert done.returncode == code, done
        return done.stdout

    assert logs() == Cli(daemon)("logs") and len(logs().splitlines()) == 3
    for scope in (["--scope", "shop/firebase"], ["--scope", "shop"], ["--project", "shop"]):
        assert logs(*scope) == Cli(daemon)("logs", *scope)
        assert "shop/firebase: published version 1 (b)" in logs(*scope) and "demo" not in logs(*scope)
    assert logs("--refused") == "" and json.loads(logs("--json").splitlines()[-1])["action"] == "publishTemplate"
    logs("--scope", "shop", "--project", "shop", code=2)
    with subprocess.Popen([*elsewhere, "--follow", "--scope", "demo/firebase"], env=environment(), text=True,
                          stdout=subprocess.PIPE) as process:
        assert "the daemon started" in process.stdout.readline()
        assert "published version 1 (a)" in process.stdout.readline()
        await daemon.publish(template({"a": "2"}))
        assert "demo/firebase: published version 2 (a)" in process.stdout.readline(), "each line once"
        process.kill()
