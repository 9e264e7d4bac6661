"""Templates that wait for a second person: proposed, read, approved once, rejected, stale; whole after kill -9."""

import asyncio
import json
import subprocess

import pytest

from harness import configs
from harness.cli import MISMATCH, NOT_FOUND, REFUSED, TOKEN, USAGE, Cli
from harness.daemon import BINARY, environment
from harness.keys import make_key
from harness.templates import marked, template

REQUIRED = configs.config(projects=[
    {"id": "demo", "number": 123456789012, "approvals": "required"}, {"id": "shop", "number": 2}])
BASE = "/v1/projects/demo/remoteConfig"
PUBLISHER = {"role": "publisher", "projects": ["demo"]}


async def person(daemon, name, *grants):
    """A client with a key of its own."""
    key, text = await make_key(daemon, *(grants or [PUBLISHER]), name=name)
    client = daemon.client()
    client.token = text
    client.key = key
    return client


async def proposed(client, body, **options):
    answer = await client.put(body, query="?propose=true", **options)
    assert answer.status == 200, answer
    return answer.json()["number"]


def decide(client, number, verb, **body):
    return client.call("POST", f"{BASE}/proposals/{number}:{verb}", json.dumps(body).encode())


async def listed(client, query=""):
    return (await client.call("GET", f"{BASE}/proposals{query}")).json()["proposals"]


def lines(daemon):
    return [json.loads(line) for line in (daemon.data / "audit.jsonl").read_text().splitlines()]


@pytest.fixture
def one(launch):
    return launch(REQUIRED)


async def test_two_principals_make_a_version(one):
    ada, bob = await person(one, "Ada"), await person(one, "Bob")
    alone = await ada.put(marked("x"))
    assert alone.status == 400 and "--propose" in alone.json()["error"]["message"]
    assert (await ada.put(marked("x"), query="?validateOnly=true")).status == 200
    answer = await ada.put(marked("one"), query="?propose=true", headers=[("X-Stalecast-Urgent", "true")])
    proposal = answer.json()
    assert (proposal["number"], proposal["state"], proposal["stale"], proposal["baseVersion"]) == ("1", "OPEN", False, "0")
    assert proposal["author"]["principal"] == f"key:{ada.key}" and proposal["author"]["name"] == "Ada"
    assert await ada.current() == (0, "etag-123456789012-0"), "nothing is published"
    own = await decide(ada, 1, "approve")
    assert own.status == 400 and "another principal" in own.json()["error"]["message"]
    shown = (await bob.call("GET", f"{BASE}/proposals/1")).json()
    assert shown["template"]["parameters"]
    done = await decide(bob, 1, "approve")
    assert done.status == 200 and done.header("etag") == "etag-123456789012-1"
    assert done.json()["decision"]["principal"] == f"key:{bob.key}" and done.json()["decision"]["versionNumber"] == "1"
    version = (await bob.versions())[1]
    assert version["updateUser"] == {"name": "Ada, approved by Bob", "email": f"{ada.key}@key.stalecast"}
    again = await decide(bob, 1, "approve")
    assert again.status == 400 and "approved already" in again.json()["error"]["message"]
    assert "template" not in (await bob.call("GET", f"{BASE}/proposals/1")).json()
    told = [line for line in lines(one) if "roposal" in line["action"] or line["action"] == "proposeTemplate"]
    assert [(line["action"], line["outcome"], line["proposal"]) for line in told] == [
        ("proposeTemplate", "ok", "1"), ("approveProposal", "refused", "1"), ("approveProposal", "ok", "1"),
        ("approveProposal", "refused", "1")]
    assert told[2]["actor"] == f"key:{bob.key}" and told[2]["author"] == f"key:{ada.key}" and told[2]["version"] == "1"


async def test_of_two_who_approve_at_once_one_publishes(one):
    ada = await person(one, "Ada")
    people = [await person(one, f"p{index}") for index in range(6)]
    for number in range(1, 6):
        await proposed(ada, marked(f"v{number}"))
        answers = await asyncio.gather(*(decide(client, number, "approve") for client in people))
        assert sorted(answer.status for answer in answers) == [200] + [400] * 5
        assert (await ada.current())[0] == number


async def test_what_was_published_meanwhile_is_named(launch):
    daemon = launch()
    client = daemon.client()
    await client.publish(template({"a": "1", "b": "1", "c": "1"}))
    number = await proposed(client, template({"a": "2", "b": "2", "c": "1"}))
    assert (await client.put(marked("x"), if_match="etag-123456789012-7", query="?propose=true")).status == 400
    await client.publish(template({"a": "3", "b": "1", "c": "3"}))
    assert [proposal["stale"] for proposal in await listed(client)] == [True]
    shown = (await client.call("GET", f"{BASE}/proposals/{number}")).json()
    assert shown["changedKeys"] == ["a", "b"] and shown["changedSince"] == ["a", "c"]
    refused = await decide(client, number, "approve")
    message = refused.json()["error"]["message"]
    assert refused.status == 409 and "over version 1, and version 2 is current" in message
    assert "since: a, c; by the proposal too: a." in message
    assert (await decide(client, number, "reject", reason="late")).json()["decision"]["reason"] == "late"
    assert (await decide(client, number, "reject")).status == 400
    assert await listed(client, "?state=OPEN") == []


async def test_where_approvals_are_optional_ones_own_is_enough(launch):
    client = launch().client()
    await proposed(client, marked("x"))
    assert (await decide(client, 1, "approve")).status == 200


async def test_a_rollback_goes_around_loudly(one):
    ada, bob = await person(one, "Ada"), await person(one, "Bob")
    for number in (1, 2):
        await proposed(ada, marked(f"v{number}"))
        assert (await decide(bob, number, "approve")).status == 200
    assert await ada.rollback(1) == 3
    last = lines(one)[-1]
    assert (last["action"], last["bypass"], last["actor"]) == ("rollbackTemplate", "approvals", f"key:{ada.key}")
    assert "published without the required approval" in one.log_tail() and ada.key in one.log_tail()


async def test_what_is_not_valid_is_no_proposal(one):
    ada = await person(one, "Ada")
    for body in ({"parameters": {"a": 1}}, [], {"conditions": [{"name": "x", "expression": "((("}]}):
        answer = await ada.put(body, query="?propose=true")
        assert answer.status == 400, answer
    assert (await ada.put(marked("x"), query="?propose=maybe")).status == 400
    assert (await ada.put(marked("x"), if_match=None, query="?propose=true")).status == 400
    assert (await ada.put(marked("x"), query="?propose=true&validateOnly=true")).status == 200
    assert await listed(ada) == []
    for name in ("0", "-1", "99", "x", "9" * 30, "%00", "1%2F2"):
        for answer in (await ada.call("GET", f"{BASE}/proposals/{name}"), await decide(ada, name, "approve")):
            assert answer.status in (400, 404), (name, answer)


async def test_others_learn_nothing(one):
    ada, viewer = await person(one, "Ada"), await person(one, "viewer", {"role": "viewer", "projects": ["demo"]})
    stranger = await person(one, "Eve", {"role": "publisher", "projects": ["shop"]})
    await proposed(ada, marked("s3cret"))
    nothing = await stranger.call("GET", "/v1/projects/nowhere/remoteConfig/proposals/1")
    for method, path in (("GET", "/proposals"), ("GET", "/proposals/1"), ("GET", "/proposals/2"),
                         ("POST", "/proposals/1:approve"), ("POST", "/proposals/2:approve"), ("POST", "/proposals/1:reject")):
        answer = await stranger.call(method, BASE + path, b"{}" if method == "POST" else None)
        assert (answer.status, answer.body) == (403, nothing.body), path
    assert (await viewer.call("GET", f"{BASE}/proposals/1")).status == 200
    for verb in ("approve", "reject"):
        assert (await decide(viewer, 1, verb)).status == 403
    assert (await viewer.put(marked("x"), query="?propose=true")).status == 403
    assert (await stranger.call("GET", "/v1/projects/shop/remoteConfig/proposals")).json() == {"proposals": []}
    assert (await stranger.call("GET", "/v1/projects/shop/remoteConfig/proposals/1")).status == 404


@pytest.mark.limit(120)
async def test_a_thousand_are_bounded(one):
    ada, bob = await person(one, "Ada"), await person(one, "Bob")
    statuses = [(await ada.put(marked(str(number)), query="?propose=true")).status for number in range(1000)]
    assert statuses == [200] * 100 + [429] * 900
    assert len(await listed(bob, "?pageSize=300")) == 100
    page = (await bob.call("GET", f"{BASE}/proposals?pageSize=30")).json()
    assert len(page["proposals"]) == 30 and page["nextPageToken"] == "70"
    assert (await decide(bob, 1, "reject")).status == 200
    assert (await ada.put(marked("again"), query="?propose=true")).json()["number"] == "101"


@pytest.mark.limit(120)
async def test_kill_9_after_an_answer_loses_nothing(one):
    ada, bob = await person(one, "Ada"), await person(one, "Bob")
    for number in range(1, 8, 2):
        await proposed(ada, marked(f"v{number}"))
        await proposed(ada, marked(f"w{number}"))
        assert (await decide(bob, number, "approve")).status == 200
        one.kill()
        one.start()
        ada, bob = again(one, ada), again(one, bob)
        found = {proposal["number"]: proposal for proposal in await listed(ada)}
        assert found[str(number)]["state"] == "APPROVED" and found[str(number + 1)]["state"] == "OPEN"
        assert found[str(number + 1)]["stale"] and (await ada.current())[0] == (number + 1) // 2
        assert (await decide(bob, number, "approve")).status == 400
        assert (await decide(bob, number + 1, "approve")).status == 409


def again(daemon, client):
    other = daemon.client()
    other.token, other.key = client.token, client.key
    return other


async def test_the_commands(one, tmp_path):
    cli = Cli(one)
    _, ada = await make_key(one, PUBLISHER, name="Ada")
    _, bob = await make_key(one, PUBLISHER, name="Bob")
    for name, text in (("ada", ada), ("bob", bob)):
        (tmp_path / name).write_text(text + "\n")
    as_ada, as_bob = ["--token-file", str(tmp_path / "ada")], ["--token-file", str(tmp_path / "bob")]
    file = cli.file(template({"welcome": "one"}))
    assert "stalecast publish --propose" in cli("publish", file, *as_ada, code=REFUSED).err
    cli("publish", file, "--propose", "--wait", *as_ada, code=USAGE)
    assert "no open proposals" in cli("proposals", "list").err
    said = cli("publish", file, "--propose", "--description", "first", *as_ada)
    assert "proposed as 1" in said and "+ parameter" in said, said
    table = cli("proposals", "list")
    assert "Ada (key:" in table and "first" in table and "welcome" in table and "open" in table
    shown = cli("proposals", "show", "1")
    assert "over version 0" in shown and "welcome" in shown
    assert "your own" in cli("proposals", "approve", "1", *as_ada, code=REFUSED).err
    assert "published version 1" in cli("proposals", "approve", "1", *as_bob)
    assert "nothing was proposed. --force proposes it" in cli("publish", file, "--propose", *as_ada)
    proposal = cli.json("set", "welcome=two", "--propose", *as_ada)["proposal"]
    assert proposal["number"] == "2" and proposal["changedKeys"] == ["welcome"]
    assert cli.json("set", "welcome=three", "--propose", *as_ada)["proposal"]["number"] == "3"
    assert "after" in cli("proposals", "reject", "3", "--reason", "after", "--json", *as_bob)
    cli("unset", "welcome", "--propose", *as_ada)
    approved = cli.json("proposals", "approve", "2", *as_bob, "--wait", "50%", "--stage", "sent", "--timeout", "20s")
    assert approved["told"] is not None and approved["wait"]["reason"] == "REACHED"
    assert "takes nothing back" in cli("proposals", "approve", "4", *as_bob, "--wait", "--on-timeout", "rollback", code=USAGE).err
    stale = cli("proposals", "approve", "4", *as_bob, code=MISMATCH).err
    assert "welcome" in stale and "proposed again" in stale
    assert "stale" in cli("proposals", "list") and "another version is current" in cli("proposals", "show", "4")
    assert "approved as version 2 by Bob" in cli("proposals", "show", "2")
    assert [row["number"] for row in cli.json("proposals", "list", "--all")["proposals"]] == ["4", "3", "2", "1"]
    assert "proposals list --all" in cli("proposals", "show", "9", code=NOT_FOUND).err
    cli("proposals", "show", "0", code=USAGE)
    (tmp_path / "wrong").write_text("stc_s_wrong\n")
    cli("proposals", "list", "--token-file", str(tmp_path / "wrong"), code=TOKEN)
    # All holders of the control token count as one person.
    cli("set", "welcome=four", "--propose")
    assert "keys create --role publisher" in cli("proposals", "approve", "5", code=REFUSED).err


async def test_a_backup_has_them(launch, tmp_path):
    daemon = launch()
    client = daemon.client()
    await proposed(client, marked("x"))
    daemon.stop()
    for words in (["backup", "--data", daemon.data, tmp_path / "backup"],
                  ["restore", tmp_path / "backup", "--data", daemon.data, "--yes"]):
        done = subprocess.run([BINARY, *words], env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    daemon.start()
    assert (await decide(daemon.client(), 1, "approve")).status == 200
