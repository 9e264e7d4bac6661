"""`publish --at TIME`: a proposal that publishes itself, once, also after a restart; cancelled, refused, and told of."""

import json
from datetime import datetime, timedelta, timezone

import pytest

from harness.cli import MISMATCH, NOT_FOUND, REFUSED, USAGE, Cli
from harness.templates import marked
from harness.waiting import until

PATH = "/v1/projects/demo/remoteConfig"


def moment(seconds):
    return (datetime.now(timezone.utc) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def newest(daemon):
    return int((await daemon.ask_control("/status")).json()["scopes"][0]["versionNumber"])


async def proposal(daemon, number):
    return (await daemon.ask_control(f"{PATH}/proposals/{number}")).json()


async def lines(daemon, action):
    entries = (await daemon.ask_control("/v1/audit")).json()["entries"]
    return [entry for entry in entries if entry["action"] == action]


@pytest.mark.limit(90)
async def test_it_publishes_itself_once_also_after_kill_9(launch, tmp_path):
    daemon = launch()
    cli = Cli(daemon)
    cli("publish", cli.file(marked("one")), "--user", "Ada")
    said = cli("publish", cli.file(marked("two")), "--at", "3s", "--user", "Ada", "--description", "nine o'clock")
    assert "publishes itself at" in said and "stalecast proposals reject 1" in said, said
    assert "publishes itself at" in cli("proposals", "show", "1")
    assert await newest(daemon) == 1
    daemon.kill()
    daemon.start()

    async def is_published():
        return await newest(daemon) == 2
    await until(is_published)
    found = await proposal(daemon, 1)
    assert (found["state"], found["decision"]["principal"], found["decision"]["versionNumber"]) == ("APPROVED", "schedule", "2")
    version = cli.json("versions", "--limit", "1")["versions"][0]
    assert (version["updateUser"]["name"], version["description"]) == ("Ada", "nine o'clock")
    [line] = await lines(daemon, "publishProposal")
    assert (line["actor"], line["author"], line["version"], line["outcome"]) == ("schedule", "bootstrap", "2", "ok")
    assert line["sentence"].startswith("demo/firebase: published proposal 1")
    # A loss of power takes the line, and not the entry in the commit.
    daemon.kill()
    log = daemon.data / "audit.jsonl"
    kept = log.read_text().splitlines(keepends=True)
    assert json.loads(kept[-1])["commit"] == line["commit"]
    log.write_text("".join(kept[:-1]))
    daemon.start()
    [again] = await lines(daemon, "publishProposal")
    assert again["recovered"] and [again[name] for name in ("actor", "author", "version", "commit")] == [
        "schedule", "bootstrap", "2", line["commit"]]


@pytest.mark.limit(90)
async def test_a_version_in_between_and_a_rejection_end_it(launch):
    daemon = launch()
    cli = Cli(daemon)
    cli("publish", cli.file(marked("one")))
    cli("publish", cli.file(marked("two")), "--at", "2s")
    cli("set", "welcome_text=other", "--at", "2s")
    cli("proposals", "reject", "2")
    cli("publish", cli.file(marked("three")))

    async def has_ended():
        return (await proposal(daemon, 1))["state"] == "REJECTED"
    await until(has_ended)
    assert await newest(daemon) == 2
    reason = (await proposal(daemon, 1))["decision"]["reason"]
    assert reason == "version 2 is current, but the proposal was made over version 1: propose it again"
    [line] = await lines(daemon, "publishProposal")
    assert (line["outcome"], line["reason"]) == ("refused", reason)
    assert (await proposal(daemon, 2))["decision"]["principal"] == "bootstrap"


@pytest.mark.limit(90)
async def test_a_revoked_key_publishes_nothing_later(launch):
    daemon = launch()
    cli = Cli(daemon)
    cli("publish", cli.file(marked("one")))
    key = cli.json("keys", "create", "--name", "ci", "--role", "publisher")
    client = daemon.client()
    client.token = key["key"]
    answer = await client.call("PUT", f"{PATH}?publishTime={moment(2)}", json.dumps(marked("two")).encode(), [("If-Match", "*")])
    assert answer.status == 200, answer.body
    cli("keys", "revoke", key["id"], "--yes")

    async def has_ended():
        return (await proposal(daemon, 1))["state"] == "REJECTED"
    await until(has_ended)
    assert (await proposal(daemon, 1))["decision"]["reason"] == "its author's key may not publish any more"
    assert await newest(daemon) == 1


async def test_what_cannot_be_is_refused_with_a_sentence(launch):
    daemon = launch()
    cli = Cli(daemon)
    file = cli.file(marked("one"))
    assert "is over" in cli("publish", file, "--at", "2020-01-01T00:00:00Z", code=REFUSED).err
    assert "30 days" in cli("publish", file, "--at", "31d", code=REFUSED).err
    cli("publish", file, "--at", "tomorrow", code=USAGE)
    assert "nothing to wait for" in cli("publish", file, "--at", "2h", "--wait", code=USAGE).err
    cli("publish", file, "--at", "2h", "--stages", "1%,100%", code=USAGE)
    cli("publish", file, "--at", "2h", "--if-match", "etag-123456789012-9", code=MISMATCH)
    cli("proposals", "show", "1", code=NOT_FOUND)
    for query in ("publishTime=x", "publishTime=2026-13-01T00:00:00Z", "publishTime=", "PublishTime=2030-01-01T00:00:00Z",
                  f"publishTime={moment(60)}&publishTime={moment(90)}"):
        assert (await daemon.client().call("PUT", f"{PATH}?{query}", b"{}", [("If-Match", "*")])).status == 400, query
    assert await newest(daemon) == 0, "nothing was published at once instead"


async def test_where_versions_need_an_approval_the_clock_gives_none(launch):
    daemon = launch("projects: [{id: demo, number: 123456789012, approvals: required}]\n")
    cli = Cli(daemon)
    assert "need an approval" in cli("publish", cli.file(marked("one")), "--at", "2h", code=REFUSED).err
