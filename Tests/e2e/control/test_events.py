"""What each feature keeps over a crash, an orderly end, a backup restored elsewhere, and a new history.

`deploy/docs/operating.md` has the table; what an upgrade keeps is in test_upgrade.py, which starts on stores of older
programs.
"""

import json
import shutil
import subprocess

import pytest

from harness import webhooks
from harness.cli import stalecast
from harness.daemon import BINARY, environment
from harness.http1 import fetch
from harness.keys import bearer, change_key, make_key
from harness.poll import poll, versions_in
from harness.receiver import Receiver
from harness.templates import marked
from harness.webhooks import Webhooks

BASE = "/v1/projects/demo/remoteConfig"
EVENTS = ("kill", "stop", "restore", "new-epoch")


async def call(daemon, method, path, body=None):
    client = daemon.client()
    answer = await client.call(method, path, None if body is None else json.dumps(body).encode())
    client.close()
    assert answer.status == 200, answer
    return answer.json()


class World:
    """A daemon in which every feature has something to lose; `before` is what was seen."""

    def __init__(self, daemon):
        self.daemon = daemon

    async def fill(self):
        daemon, hooks = self.daemon, Webhooks(self.daemon)
        self.hook = await hooks.add("http://127.0.0.1:9/", description="owed", mode="fifo")
        for value in ("one", "two"):
            await daemon.publish(marked(value))
        self.cursor = (await poll(daemon.edge, wait="0s")).json()["cursor"]
        await daemon.publish(marked("three"))
        await daemon.rollback(1)
        client = daemon.client()
        assert (await client.put(marked("later"), query="?propose=true")).status == 200
        client.close()
        self.good, self.secret = await make_key(daemon, {"role": "viewer"}, name="good")
        self.gone, _ = await make_key(daemon, {"role": "viewer"}, name="gone")
        assert (await change_key(daemon, self.gone, "revoke")).status == 200
        await call(daemon, "POST", "/v1/projects/demo/messages:send", {"message": {"topic": "PUSH_RC", "data": {"a": "b"}}})
        answer = await fetch(daemon.edge, "/v1/tickets", "POST", bearer(self.secret), b'{"topics": ["PUSH_RC"]}')
        assert answer.status == 200, answer
        self.ticket = answer.json()["ticket"]
        self.before = await self.seen()

    async def seen(self):
        """What must be the same afterwards, by feature."""
        daemon, client = self.daemon, self.daemon.client()
        versions = await client.versions()
        template = (await client.get()).json()["parameters"]
        client.close()
        keys = (await call(daemon, "GET", "/v1/keys"))["keys"]
        return {
            "versions": versions, "template": template,
            "proposals": (await call(daemon, "GET", f"{BASE}/proposals"))["proposals"],
            "keys": {key["id"]: (key["name"], bool(key.get("revokedAt"))) for key in keys},
            "webhooks": [(hook["id"], hook["url"], hook["mode"]) for hook in await Webhooks(daemon).list()],
            "messages": (await call(daemon, "GET", "/v1/projects/demo/messages"))["messages"],
            "rollout": (await call(daemon, "GET", f"{BASE}/propagation"))["versionNumber"],
        }


def pass_through(event, daemon, launch, tmp_path, config):
    """The daemon after the event."""
    if event == "kill":
        daemon.kill()
    if event in ("stop", "new-epoch"):
        assert daemon.stop() == 0
    if event == "new-epoch":
        stalecast("new-epoch", "--above", "15", "--data", daemon.data)
    if event != "restore":
        daemon.start()
        return daemon
    stalecast("backup", tmp_path / "backup", "--data", daemon.data)
    daemon.kill()
    other = launch(config, start=False)
    other.data.mkdir()
    shutil.copy(daemon.data / "webhooks.key", other.data)
    stalecast("restore", tmp_path / "backup", "--data", other.data, "--yes")
    other.start()
    return other


@pytest.mark.parametrize("event", EVENTS)
async def test_each_feature_keeps_what_the_table_says(launch, tmp_path, event):
    config = webhooks.config(auth={"mode": "observe"})
    world = World(launch(config))
    await world.fill()
    epoch = (await world.daemon.status())["epoch"]
    world.daemon = daemon = pass_through(event, world.daemon, launch, tmp_path, config)

    after = await world.seen()
    assert {name: after[name] for name in after} == world.before
    viewer = await fetch(daemon.control, "/v1/projects/demo/remoteConfig", headers=bearer(world.secret))
    assert viewer.status == 200, "the key is good still"

    # A cursor means something in its own history only: who has another's begins anew.
    late = await poll(daemon.edge, cursor=world.cursor, wait="0s")
    is_same = (await daemon.status())["epoch"] == epoch
    assert versions_in(late) == [4] and is_same == (event in ("kill", "stop")) == ("reset" not in late.json())
    # Tickets are in memory, and none is good after it. With `observe` the poll is answered, and counted.
    await fetch(daemon.edge, f"/v1/poll?topic=PUSH_RC&wait=0s&ticket={world.ticket}")
    assert await daemon.metric("stalecast_auth_refusals_total", listener="edge", reason="unknown") == 1

    # What webhooks are owed is sent, in order; after a restore what the history has now is owed once.
    with Receiver() as receiver:
        await Webhooks(daemon).update(world.hook, url=f"{receiver.url}/owed")
        receiver.wait(lambda arrivals: 4 in [int(version) for version in webhooks.versions(arrivals)])
        heard = [int(version) for version in webhooks.versions(receiver.arrivals)]
    assert heard == ([1, 2, 3, 4] if is_same else [4])

    done = subprocess.run([BINARY, "audit", "verify", "--data", daemon.data], capture_output=True, text=True, check=False,
                          env=environment())
    assert done.returncode == 0, done.stderr
    actions = [json.loads(line)["action"] for line in (daemon.data / "audit.jsonl").read_text().splitlines()]
    assert ("createKey" in actions) == (event != "restore"), "the audit log is not in a backup"
    assert int(await daemon.publish(marked("next"))) == (16 if event == "new-epoch" else 5)
