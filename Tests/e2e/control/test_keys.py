"""API keys at Control: roles, scopes, rotation, revocation, restart; one answer for all who have no grant."""

import asyncio
import getpass
import json
import subprocess

import pytest

from harness import configs
from harness.control import Control
from harness.daemon import BINARY, environment
from harness.http1 import fetch
from harness.keys import bearer, change_key, make_key
from harness.sse import Stream
from harness.templates import marked

PROJECTS = [{"id": "demo", "number": 1}, {"id": "shop", "number": 2}]


@pytest.fixture
def two(launch):
    return launch(configs.config(projects=PROJECTS))


def as_key(daemon, text, **scope):
    return Control(daemon.control, text, **scope)


async def ask(daemon, text, method, path, body=None, headers=()):
    return await fetch(daemon.control, path, method, [*bearer(text), *headers], body)


READS = ["/remoteConfig", "/remoteConfig:listVersions", "/topics", "/webhooks", "/namespaces/firebase/remoteConfig"]


async def test_a_viewer_reads_and_changes_nothing(two):
    _, viewer = await make_key(two, {"role": "viewer"})
    for path in READS:
        assert (await ask(two, viewer, "GET", f"/v1/projects/demo{path}")).status == 200, path
    assert (await ask(two, viewer, "GET", "/status")).status == 200
    client = as_key(two, viewer)
    assert (await client.put(marked("x"))).status == 403
    assert (await client.rollback_raw(1)).status == 403
    assert (await client.send({"a": "b"}, topic="PUSH_RC")).status == 403
    assert (await ask(two, viewer, "POST", "/v1/projects/demo/webhooks", b"{}")).status == 403
    assert (await ask(two, viewer, "GET", "/v1/keys")).status == 403
    assert (await ask(two, viewer, "POST", "/v1/keys", b'{"grants":[{"role":"operator"}]}')).status == 403


async def test_a_publisher_publishes_in_its_project_only_and_signs_what_it_publishes(two):
    key, text = await make_key(two, {"role": "publisher", "projects": ["shop"]}, name="ci of shop")
    ours, other = as_key(two, text, project="shop"), as_key(two, text, project="demo")
    assert await ours.publish(marked("x")) == 1
    user = (await ours.versions())[1]["updateUser"]
    assert user == {"name": "ci of shop", "email": f"{key}@key.stalecast"}
    assert (await other.put(marked("x"))).status == 403
    assert (await ours.send({"a": "b"}, topic="PUSH_RC")).status == 200
    assert (await other.send({"a": "b"}, topic="PUSH_RC")).status == 403
    by_number = as_key(two, text, project="1")
    assert (await by_number.put(marked("x"))).status == 403, "a number is another spelling of the project"
    assert (await two.client(project="demo").current())[0] == 0


async def test_the_user_header_is_believed_of_the_control_token_only(two):
    _, text = await make_key(two, {"role": "operator"}, name="robot")
    for token, name in ((two.token, "Ada"), (text, "robot")):
        client = as_key(two, token)
        assert (await client.put(marked(name), headers=[("X-Stalecast-User", "Ada")])).status == 200
        newest = max((versions := await client.versions()))
        assert versions[newest]["updateUser"]["name"] == name


async def test_a_version_names_its_maker_with_the_control_token_too(two):
    client = as_key(two, two.token)
    await client.publish(marked("nobody said who"))
    assert (await client.versions())[1]["updateUser"] == {"name": "control token"}
    # Behind sudo it is the person, and not root.
    for number, (more, name) in enumerate([({}, getpass.getuser()), ({"SUDO_USER": "ada"}, "ada"), ({"STALECAST_USER": "Ada L"}, "Ada L"),
                                           ({"SUDO_USER": "ad\u00e1"}, "control token")], start=2):
        done = subprocess.run([BINARY, "set", f"welcome_text={number}", "--data", two.data, "--yes"], env=environment(**more), capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
        assert (await client.versions())[number]["updateUser"]["name"] == name


async def test_what_a_key_has_no_grant_for_looks_like_what_is_not_there(two):
    _, text = await make_key(two, {"role": "publisher", "projects": ["shop"]})
    answers = [await ask(two, text, "GET", f"/v1/projects/{project}/remoteConfig")
               for project in ("demo", "1", "nowhere", "99", "DEMO", "%64emo", "demo%00", "dem%D0%BE")]
    assert {answer.status for answer in answers[:6]} == {403}
    assert len({answer.body for answer in answers[:6]}) == 1
    assert all(answer.status in (400, 403) for answer in answers[6:])
    gone = await ask(two, text, "GET", "/v1/projects/shop/namespaces/nowhere/remoteConfig")
    assert gone.status == 404 and b"demo" not in gone.body
    topics = (await ask(two, text, "GET", "/v1/projects/shop/topics")).body
    assert b"shop/firebase" in topics and b"demo" not in topics, "PUSH_RC is bound to both"
    assert (await ask(two, text, "GET", "/status")).status == 403, "it tells of all projects"
    assert (await ask(two, text, "GET", "/metrics")).status == 403


async def test_a_namespace_and_a_topic_can_be_all_that_is_granted(two):
    _, text = await make_key(two, {"role": "publisher", "projects": ["demo"], "namespaces": ["firebase"]})
    client = as_key(two, text)
    assert await client.publish(marked("x")) == 1
    assert (await as_key(two, text, namespace="firebase-server").put(marked("x"))).status == 403
    assert (await client.send({"a": "b"}, topic="PUSH_RC")).status == 403, "a message is for the whole project"


def test_a_named_token_counts_also_beside_a_data_directory(two):
    """Else an operator told to act as a key would act as the control token that lies there."""
    def code(**variables):
        return subprocess.run([BINARY, "versions", "--data", two.data], env=environment(**variables), check=False,
                              capture_output=True).returncode

    assert (code(), code(STALECAST_TOKEN="wrong")) == (0, 4)


@pytest.mark.parametrize("end", ["revoked", "good"])
async def test_a_request_is_judged_when_its_body_is_there(two, end):
    """The holder of a key can begin requests ahead of its end."""
    key, text = await make_key(two, {"role": "publisher"})
    body = json.dumps(marked("x")).encode()
    reader, writer = await asyncio.open_connection("127.0.0.1", two.control)
    writer.write(f"PUT /v1/projects/demo/remoteConfig HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {text}\r\n"
                 f"If-Match: *\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
                 + body[:-1])
    await writer.drain()
    await asyncio.sleep(0.2)
    if end == "revoked":
        assert (await change_key(two, key, "revoke")).status == 200
    writer.write(body[-1:])
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    assert head.split(b" ")[1] == (b"401" if end == "revoked" else b"200"), head
    version, _ = await two.client().current()
    assert version == (0 if end == "revoked" else 1)
    writer.close()


async def test_one_body_for_all_who_are_not_known(two):
    _, good = await make_key(two, {"role": "viewer"})
    key, revoked = await make_key(two, {"role": "viewer"})
    assert (await change_key(two, key, "revoke")).status == 200
    typo = good[:-1] + ("0" if good[-1] != "0" else "1")
    path = "/v1/projects/demo/remoteConfig"
    answers = [await ask(two, text, "GET", path) for text in (typo, revoked, "nonsense", "stc_s_x")]
    answers += [await fetch(two.control, path), await fetch(two.control, "/nowhere", headers=bearer(typo)),
                await fetch(two.control, path, headers=[("Authorization", "Basic " + good)]),
                await fetch(two.control, path + f"?key={good}")]
    assert {answer.status for answer in answers} == {401}
    assert len({answer.body for answer in answers}) == 1
    both = await fetch(two.control, path, headers=[*bearer(good), ("X-API-Key", revoked)])
    assert both.status == 400
    twice = await fetch(two.control, path, headers=bearer(good) + bearer(good))
    assert twice.status == 400
    assert await two.metric("stalecast_auth_refusals_total", reason="typo") == 3
    assert await two.metric("stalecast_auth_refusals_total", reason="leaked") == 1


async def test_rotation_overlaps_and_a_restart_forgets_nothing(two):
    key, first = await make_key(two, {"role": "viewer"})
    second = (await change_key(two, key, "rotate")).json()["key"]
    third = (await change_key(two, key, "rotate", overlap="3600s")).json()["key"]
    other, ended = await make_key(two, {"role": "viewer"})
    last = (await change_key(two, other, "rotate", overlap="0s")).json()["key"]
    wanted = {first: 401, second: 200, third: 200, ended: 401, last: 200}

    async def statuses():
        return {text: (await ask(two, text, "GET", "/status")).status for text in wanted}

    assert await statuses() == wanted
    two.kill()
    two.start()
    assert await statuses() == wanted
    assert (await change_key(two, key, "revoke")).status == 200
    assert (await change_key(two, key, "revoke")).status == 400
    assert (await change_key(two, key, "rotate")).status == 400
    two.kill()
    two.start()
    assert await statuses() == {**wanted, second: 401, third: 401}


async def test_no_secret_is_on_disk_or_in_the_log(two):
    key, text = await make_key(two, {"role": "viewer"})
    await fetch(two.control, f"/status?key={text}")
    listed = (await two.ask_control("/v1/keys")).json()["keys"]
    assert [entry["id"] for entry in listed] == [key] and "key" not in listed[0]
    await asyncio.sleep(0.1)
    two.stop()
    secret = text[-49:].encode()
    for path in [*two.data.rglob("*"), two.log]:
        assert not path.is_file() or secret not in path.read_bytes(), f"the key is in {path}"


@pytest.mark.parametrize("body", [
    {}, {"grants": []}, {"grants": [{"role": "root"}]}, {"grants": [{"role": "viewer"}], "note": "x"},
    {"grants": [{"role": "viewer"}], "expires": "2001-01-01T00:00:00Z"}, {"grants": [{"role": "viewer"}] * 33},
    {"grants": [{"role": "viewer"}], "kind": "publishable"}, {"grants": [{"role": "viewer"}], "name": "x" * 129}])
async def test_what_is_no_key_is_refused(two, body):
    client = two.client()
    answer = await client.call("POST", "/v1/keys", json.dumps(body).encode())
    assert answer.status == 400 and answer.json()["error"]["status"] == "INVALID_ARGUMENT"
    assert (await two.ask_control("/v1/keys")).json()["keys"] == []


def command(daemon, *words):
    return subprocess.run([BINARY, *words, "--data", daemon.data], capture_output=True, text=True, timeout=30,
                          env=environment(), check=False)


async def test_the_command_line_makes_lists_rotates_and_revokes(two, tmp_path):
    file = tmp_path / "ci.key"
    made = command(two, "keys", "create", "--name", "ci", "--role", "publisher", "--project", "shop",
                   "--expires", "90d", "--save", str(file), "--json")
    assert made.returncode == 0, made.stderr
    key = json.loads(made.stdout)
    assert "key" not in key and file.stat().st_mode & 0o777 == 0o600
    listed = command(two, "keys", "list").stdout
    assert key["id"] in listed and "publisher on shop" in listed and "active" in listed
    denied = command(two, "get", "--project", "demo", "--token-file", str(file))
    assert denied.returncode == 4 and "permission" in denied.stderr, (denied.returncode, denied.stderr)
    rotated = command(two, "keys", "rotate", key["id"], "--overlap", "1h")
    assert rotated.returncode == 0 and "stc_s_" + key["id"] in rotated.stdout
    assert command(two, "keys", "revoke", key["id"]).stdout == f"revoked {key['id']}\n"
    assert json.loads(command(two, "keys", "list", "--json").stdout)["keys"][0]["state"] == "revoked"
    assert command(two, "keys", "revoke", "0000000000").returncode == 6


async def test_a_key_of_the_configuration_comes_and_goes_with_it(launch, tmp_path):
    file = tmp_path / "declared.key"
    made = subprocess.run([BINARY, "keys", "generate", "--name", "declared", "--role", "viewer", "--save", file],
                          capture_output=True, text=True, check=True, env=environment())
    entry = "auth:\n  keys:\n" + "".join(f"    {line}\n" for line in made.stdout.splitlines())
    daemon = launch(configs.config() + entry)
    text = file.read_text().strip()
    assert (await ask(daemon, text, "GET", "/status")).status == 200
    assert (await change_key(daemon, text.split("_")[2], "revoke")).status == 400
    daemon.configure(configs.config())
    daemon.signal(1)
    for _ in range(200):
        if (await ask(daemon, text, "GET", "/status")).status == 401:
            break
        await asyncio.sleep(0.02)
    else:
        raise AssertionError("the key is taken still")


async def test_token_rotate_goes_on_as_before(two):
    before = two.token
    assert command(two, "token", "rotate").returncode == 0
    for _ in range(200):
        if (await ask(two, before, "GET", "/status")).status == 401:
            break
        await asyncio.sleep(0.02)
    assert (await ask(two, two.token, "GET", "/status")).status == 200


@pytest.mark.parametrize(("words", "sentence"), [
    ([], "--role viewer, publisher or operator"), (["--publishable", "--role", "viewer"], "it can only watch and fetch"),
    (["--publishable", "--action", "read"], "it can only watch and fetch"),
    (["--role", "viewer", "--expires", "2020-01-01T00:00:00Z"], "must be a time to come"),
    (["--role", "viewer", "--name", "x" * 129], "at most 128 bytes")])
def test_generate_refuses_what_create_refuses(tmp_path, words, sentence):
    file = tmp_path / "no.key"
    done = subprocess.run([BINARY, "keys", "generate", *words, "--save", file], capture_output=True, text=True,
                          env=environment(), check=False)
    assert done.returncode == 2 and sentence in done.stderr and not done.stdout, done.stderr
    assert not file.exists()


async def test_a_short_overlap_is_no_none_and_times_are_local(two):
    key = json.loads(command(two, "keys", "create", "--role", "viewer", "--expires", "2099-07-01T12:00:00Z",
                             "--json").stdout)
    rotated = json.loads(command(two, "keys", "rotate", key["id"], "--overlap", "500ms", "--json").stdout)
    # At once: within the second.
    assert (await ask(two, key["key"], "GET", "/status")).status == 200
    assert (await ask(two, rotated["key"], "GET", "/status")).status == 200
    listed = subprocess.run([BINARY, "keys", "list", "--data", two.data], capture_output=True, text=True, check=True,
                            env={**environment(), "TZ": "Asia/Tokyo"}).stdout
    assert "2099-07-01 21:00:00 JST" in listed, listed
    assert "2099-07-01 12:00:00 UTC" in command(two, "keys", "list", "--utc").stdout
