"""Webhooks on Control, in the configuration file and on the command line: what can be registered, shown and changed."""

import asyncio
import json
import os
import re
import signal
import sqlite3
import subprocess

import pytest

from harness import configs, webhooks
from harness.cli import stalecast
from harness.daemon import BINARY, environment
from harness.http1 import fetch
from harness.receiver import Answer, Receiver
from harness.templates import marked, template
from harness.webhooks import Refused, Webhooks, acknowledged, secret_of, state_is, switchable, verified, versions

FIELDS = [
    ({"url": "ftp://a.example/"}, "url"), ({"url": "https://u:p@a.example/"}, "url"), ({"url": "https://a.example/#x"}, "url"),
    ({"url": "http://10.0.0.1/"}, "url"), ({"url": "http://169.254.169.254/latest"}, "url"), ({"url": "http://[::1]/"}, "url"),
    ({"url": "http://[::ffff:10.0.0.1]/"}, "url"), ({"url": "http://0x0a000001/"}, "url"), ({"url": 1}, "url"), ({}, "url"),
    ({"topics": ["nobody"]}, "topics[0]"), ({"topics": []}, "topics"), ({"topics": ["a b"]}, "topics[0]"),
    ({"format": "xml"}, "format"), ({"mode": "none"}, "mode"),
    ({"headers": {"X-A": "a\r\nX-B: b"}}, "headers[X-A]"), ({"headers": {"X-A": "a\nb"}}, "headers[X-A]"),
    ({"headers": {"X-A": "a\0b"}}, "headers[X-A]"), ({"headers": {"X A": "a"}}, "headers[X A]"),
    ({"headers": {"X-A\r\nB": "a"}}, "headers[X-A\r\nB]"), ({"headers": {"Host": "a"}}, "headers[Host]"),
    ({"headers": {"Webhook-Id": "a"}}, "headers[Webhook-Id]"), ({"headers": {"ce-type": "a"}}, "headers[ce-type]"),
    ({"headers": {"Content-Length": "1"}}, "headers[Content-Length]"),
    ({"limits": {"maxPerSecond": 0}}, "limits.maxPerSecond"), ({"limits": {"timeout": "0s"}}, "limits.timeout"),
    ({"limits": {"timeout": "15"}}, "limits.timeout"), ({"limits": {"minInterval": "-1s"}}, "limits.minInterval"),
    ({"tls": {"caFile": "ca.pem"}}, "tls.caFile"), ({"addressProfile": "all"}, "addressProfile"),
    ({"verification": {"method": "ask"}}, "verification.method"), ({"format": "fcm"}, "fcm.serviceAccountFile"),
    ({"description": "x" * 257}, "description"), ({"paused": "yes"}, "paused"), ({"colour": "red"}, "colour"),
    ({"signing": {"secret": "whsec_short"}}, "signing.secret"), ({"signing": {"algorithm": "md5"}}, "signing.algorithm"),
]




async def test_a_webhook_lives_from_registration_to_removal(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as receiver:
        made = await hooks.add(receiver.url, description="first", headers={"X-Team": "apps", "Authorization": "Bearer s3cret"})
        secret = secret_of(made)
        assert re.fullmatch(r"wh_[a-z2-7]{20}", made["id"]) and made["name"] == f"projects/demo/webhooks/{made['id']}"
        assert made["topics"] == ["PUSH_RC"] and made["format"] == "standard" and made["mode"] == "latest"
        assert made["state"] == {"name": "active"} and made["origin"] == "api"
        shown = await hooks.get(made)
        assert "secret" not in shown["signing"], "a secret is shown once"
        assert shown["headers"] == {"X-Team": "apps", "Authorization": "(hidden)"}
        assert [hook["id"] for hook in await hooks.list()] == [made["id"]]
        version = await daemon.publish(marked("one"))
        arrival = receiver.wait(lambda all_: versions(all_) == [version] and all_[-1])
        assert arrival.headers["x-team"] == "apps" and arrival.headers["authorization"] == "Bearer s3cret"
        body = verified(arrival, secret)
        assert body["type"] == "config.stale" and body["data"]["CONFIG_STATE"] == "STALE"
        assert body["data"]["latestTemplateVersionNumber"] == str(version) and body["data"]["topic"] == "PUSH_RC"
        changed = await hooks.update(made, description="second", headers={"X-Team": "web", "Authorization": "(hidden)"},
                                     limits={"timeout": "5s"})
        assert changed["description"] == "second" and changed["limits"]["timeout"] == "5s" and changed["etag"] != made["etag"]
        await daemon.publish(marked("two"))
        again = receiver.wait(lambda all_: versions(all_)[-1:] == [version + 1] and all_[-1])
        assert again.headers["x-team"] == "web" and again.headers["authorization"] == "Bearer s3cret"
        await hooks.remove(made)
        with pytest.raises(Refused) as gone:
            await hooks.get(made)
        assert gone.value.status == 404
        await daemon.publish(marked("three"))
        # A second webhook hears of the next version; by then the first would have.
        await hooks.add(receiver.url + "/second")
        await daemon.publish(marked("four"))
        receiver.wait(lambda all_: any(each.path == "/second" for each in all_))
        assert not [each for each in receiver.arrivals if each.path == "/" and versions([each])[0] > version + 1]


@pytest.mark.limit(90)
async def test_what_is_wrong_is_refused_with_its_field(launch):
    daemon = launch()
    hooks = Webhooks(daemon)
    for settings, field in FIELDS:
        body = {"url": "https://a.example/", **settings} if settings else {}
        if "format" in settings and settings["format"] == "fcm":
            del body["url"]
        with pytest.raises(Refused) as refused:
            await hooks.call("POST", body=body)
        assert (refused.value.status, refused.value.word) == (400, "INVALID_ARGUMENT"), settings
        assert refused.value.field == field, f"{settings}: {refused.value}"
    assert await hooks.list() == []


async def test_of_two_updates_with_one_etag_the_second_is_refused(launch):
    hooks = Webhooks(launch())
    made = await hooks.add("https://a.example/")
    await hooks.update(made, if_match=made["etag"], description="mine")
    with pytest.raises(Refused) as refused:
        await hooks.update(made, if_match=made["etag"], description="yours")
    assert (refused.value.status, refused.value.word) == (409, "ABORTED")
    assert (await hooks.get(made))["description"] == "mine"


async def test_an_update_resets_what_its_mask_names(launch):
    hooks = Webhooks(launch())
    made = await hooks.add("https://a.example/", description="x", limits={"maxPerSecond": 2, "timeout": "5s"})
    after = await hooks.update(made, mask="limits.maxPerSecond,description")
    assert "maxPerSecond" not in after["limits"] and "description" not in after and after["limits"]["timeout"] == "5s"


async def test_many_webhooks_come_in_pages(launch):
    hooks = Webhooks(launch())
    made = [(await hooks.add(f"https://a.example/{index}"))["id"] for index in range(7)]
    seen, token = [], ""
    while True:
        page = await hooks.call("GET", f"?pageSize=3&pageToken={token}")
        seen += [hook["id"] for hook in page["webhooks"]]
        if not (token := page.get("nextPageToken", "")):
            break
    assert seen == made


async def test_secrets_are_nowhere_in_the_clear(launch):
    """Not on disk, not in the log, not in any answer after the first."""
    daemon = launch(webhooks.config(log={"level": "trace"}))
    hooks = Webhooks(daemon)
    with Receiver() as receiver:
        made = await hooks.add(receiver.url, headers={"Authorization": "Bearer not-for-the-disk"})
        await daemon.publish(marked("one"))
        receiver.wait_for(1)
        rotated = await hooks.act(made, "rotateSecret")
    secrets = [secret_of(each).removeprefix("whsec_") for each in (made, rotated)] + ["not-for-the-disk"]
    daemon.stop()
    files = [file for file in daemon.data.rglob("*") if file.is_file()] + [daemon.log]
    for file in files:
        for secret in secrets:
            assert secret.encode() not in file.read_bytes(), f"{secret} is in {file}"
    assert (daemon.data / "webhooks.key").stat().st_mode & 0o077 == 0


async def test_without_the_key_or_with_another_the_daemon_does_not_start(launch):
    daemon = launch()
    await Webhooks(daemon).add("https://a.example/")
    daemon.stop()
    key = daemon.data / "webhooks.key"
    kept = key.read_bytes()
    for change in (lambda: key.unlink(), lambda: key.write_text("A" * 43 + "=\n")):
        change()
        daemon.spawn()
        assert daemon.wait() == 1
        assert "webhooks.key" in daemon.log_tail(3)
    key.write_bytes(kept)
    daemon.start()
    assert len(await Webhooks(daemon).list()) == 1


def configured(directory, url, **fields):
    secret = directory / "hook.secret"
    if not secret.exists():
        secret.write_text(stalecast("webhooks", "new-secret"))
    return {"receivers": [{"name": "deploy", "url": url, "secretFiles": [str(secret)], **fields}]}


async def test_the_files_webhooks_are_there_and_change_with_sighup(launch, tmp_path):
    with Receiver() as old, Receiver() as new:
        daemon = launch(webhooks.config(webhooks=configured(tmp_path, old.url)))
        hooks = Webhooks(daemon)
        secret = (tmp_path / "hook.secret").read_text().strip()
        [hook] = await hooks.list()
        assert hook["configuredAs"] == "deploy" and hook["origin"] == "configuration"
        with pytest.raises(Refused) as refused:
            await hooks.update(hook, description="x")
        assert refused.value.word == "FAILED_PRECONDITION" and "configuration file" in refused.value.message
        await daemon.publish(marked("one"))
        verified(old.wait_for(1)[0], secret)
        daemon.configure(webhooks.config(webhooks=configured(tmp_path, new.url, description="moved")))
        daemon.signal(signal.SIGHUP)
        await hooks.until(hook, lambda document: document["url"] == f"{new.url}/" and document.get("description") == "moved")
        version = await daemon.publish(marked("two"))
        verified(new.wait(lambda all_: version in versions(all_) and all_[-1]), secret)
        daemon.configure(webhooks.config())
        daemon.signal(signal.SIGHUP)
        while await hooks.list():
            await webhooks.pause()


async def test_a_reload_with_a_bad_webhook_changes_nothing(launch, tmp_path):
    with Receiver() as receiver:
        daemon = launch(webhooks.config(webhooks=configured(tmp_path, receiver.url)))
        hooks = Webhooks(daemon)
        bad = configured(tmp_path, receiver.url)
        bad["receivers"][0]["secretFiles"] = [str(tmp_path / "nowhere")]
        daemon.configure(webhooks.config(webhooks=bad))
        daemon.signal(signal.SIGHUP)
        while "configuration not reloaded" not in daemon.log_text():
            await webhooks.pause()
        assert "nowhere" in daemon.log_text()
        assert [hook["configuredAs"] for hook in await hooks.list()] == ["deploy"]
        await daemon.publish(marked("one"))
        receiver.wait_for(1)


async def test_a_new_secret_file_takes_effect_with_sighup(launch, tmp_path):
    with Receiver() as receiver:
        daemon = launch(webhooks.config(webhooks=configured(tmp_path, receiver.url)))
        await daemon.publish(marked("one"))
        receiver.wait_for(1)
        (tmp_path / "hook.secret").write_text(stalecast("webhooks", "new-secret"))
        daemon.signal(signal.SIGHUP)
        while "configuration reloaded" not in daemon.log_text():
            await webhooks.pause()
        version = await daemon.publish(marked("two"))
        arrival = receiver.wait(lambda all_: version in versions(all_) and all_[-1])
        verified(arrival, (tmp_path / "hook.secret").read_text().strip())


@pytest.mark.parametrize("fields, sentence", [
    ({"url": "ftp://a.example"}, "url"), ({"topics": ["nobody"]}, "no scope of demo is bound to nobody"),
    ({"project": "other"}, "there is no project other"), ({"headers": {"Host": "x"}}, "set by the daemon itself"),
    ({"mode": "sometimes"}, "mode"), ({"secretFiles": []}, "secretFiles"), ({"colour": "red"}, "colour"),
])
def test_a_bad_webhook_of_the_file_is_named_with_its_line(tmp_path, fields, sentence):
    entry = configured(tmp_path, "https://a.example/")["receivers"][0] | fields
    file = tmp_path / "stalecast.yaml"
    file.write_text(configs.config(webhooks={"receivers": [entry]}))
    with pytest.raises(AssertionError) as refused:
        stalecast("check-config", "--config", file)
    assert re.search(rf"stalecast\.yaml:\d+: .*{re.escape(sentence)}", str(refused.value)), refused.value


async def test_the_command_line_does_it_all(launch, tmp_path):
    daemon = launch(webhooks.config())

    def cli(*words):
        return stalecast("webhooks", *words, "--data", daemon.data)

    with switchable() as receiver:
        added = json.loads(cli("add", receiver.url, "--description", "cli", "--header", "X-Team: apps", "--timeout", "10s",
                               "--save-secret", tmp_path / "secret", "--json"))
        assert "secret" not in added["signing"]
        hook, secret = added["id"], (tmp_path / "secret").read_text().strip()
        assert (tmp_path / "secret").stat().st_mode & 0o077 == 0
        assert hook in cli("list") and receiver.url in cli("list")
        version = await daemon.publish(marked("one"))
        verified(receiver.wait_for(1)[0], secret)
        await Webhooks(daemon).until(hook, acknowledged(version))
        page = cli("show", hook)
        assert "active" in page and "X-Team: apps" in page and re.search(rf"firebase +{version} +{version}", page), page
        assert "204" in cli("test", hook)
        assert "204" in cli("attempts", hook)
        assert "1 delivery is owed" in cli("redeliver", hook)
        receiver.wait(lambda all_: versions(all_).count(version) == 2)
        assert "1 delivery is owed" in cli("recover", hook, "--since", "1h")
        receiver.wait(lambda all_: versions(all_).count(version) == 3)
        assert "whsec_" in cli("rotate-secret", hook, "--grace-period", "1h")
        assert "an older key until" in cli("show", hook)
        assert "paused" in cli("pause", hook)
        await daemon.publish(marked("two"))
        assert "active" in cli("resume", hook)
        receiver.wait(lambda all_: version + 1 in versions(all_))
        assert "cli changed" in cli("update", hook, "--description", "cli changed")
        assert cli("dead-letters", hook) == ""
        assert "removed" in cli("remove", hook)
        receiver.now = Answer(status=500)
    for words, code in [(("show", hook), 6), (("show", "x/y"), 2), (("add", "ftp://a"), 1), (("update", hook), 2)]:
        with pytest.raises(AssertionError, match=f"ended with {code}:"):
            cli(*words)


async def test_a_failed_test_message_is_exit_code_1_and_says_why(launch):
    daemon = launch(webhooks.config())
    with Receiver(lambda _: Answer(status=503, body=b"closed on sundays")) as receiver:
        made = await Webhooks(daemon).add(receiver.url)
        with pytest.raises(AssertionError, match="ended with 1:") as failed:
            stalecast("webhooks", "test", made["id"], "--data", daemon.data)
    assert "closed on sundays" in str(failed.value) and "503" in str(failed.value)


async def test_paused_webhooks_stay_paused_over_a_restart_and_owe(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as receiver:
        made = await hooks.add(receiver.url)
        await daemon.publish(marked("one"))
        receiver.wait_for(1)
        assert (await hooks.act(made, "pause"))["state"] == {"name": "paused"}
        for marker in ("two", "three", "four"):
            version = await daemon.publish(marked(marker))
        daemon.stop()
        daemon.start()
        assert state_is("paused")(await hooks.get(made)) and len(receiver.arrivals) == 1
        await hooks.act(made, "resume")
        arrival = receiver.wait_for(2)[1]
        body = verified(arrival, secret_of(made))["data"]
        assert (body["version"], body["sinceVersion"], body["coalesced"]) == (version, version - 3, 2)


async def test_the_built_in_receiver_shows_what_came_and_judges_it(launch, tmp_path):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    made = await hooks.add("http://127.0.0.1:1/", paused=True, verification={"method": "challenge"})
    secret = tmp_path / "secret"
    secret.write_text(secret_of(made))
    command = [BINARY, "webhooks", "listen", "--listen", "127.0.0.1:0", "--secret-file", str(secret), "--count", "2", "--json"]
    listener = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment())
    try:
        url = next(word for word in listener.stderr.readline().split() if word.startswith("http://")).rstrip(",.;")
        # It consents to the challenge, then gets the version.
        await hooks.update(made, url=url, paused=False)
        await hooks.until(made, state_is("active"))
        version = await daemon.publish(marked("one"))
        output, _ = listener.communicate(timeout=20)
    finally:
        listener.kill()
    challenge, message = [json.loads(line) for line in output.splitlines()]
    assert challenge["body"]["type"] == "webhook.verification" and challenge["signature"] == "ok"
    assert message["body"]["data"]["version"] == version and message["signature"] == "ok"
    assert message["headers"]["webhook-id"].startswith("msg_")


async def test_a_database_that_hangs_stops_nobody_else_on_control(launch):
    """More callers wait for `deliveries.sqlite` than there are cores; all others are answered meanwhile."""
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as receiver:
        made = await hooks.add(receiver.url)
        await daemon.publish(marked("one"))
        receiver.wait(lambda all_: len(all_) > 0)
        other = sqlite3.connect(os.path.join(daemon.data, "deliveries.sqlite"), isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        waiting = [asyncio.create_task(hooks.act(made, "redrive")) for _ in range(2 * os.cpu_count())]
        for _ in range(20):
            assert (await fetch(daemon.control, "/healthz", timeout=2)).status == 200
            await asyncio.sleep(0.02)
        assert not any(task.done() for task in waiting), "nothing was waited for"
        other.execute("ROLLBACK")
        assert await asyncio.gather(*waiting) == [{"deliveries": 0}] * len(waiting)


async def test_a_webhook_of_some_keys_is_told_nothing_of_others(launch):
    """G13: neither names of parameters that are not its topic's, nor versions that no topic of it announces."""
    daemon = launch(webhooks.config(topics=[configs.topic("PAY", keys=("pay_*",))]))
    hooks = Webhooks(daemon)
    client = daemon.client()
    with Receiver() as receiver:
        fifo = await hooks.add(receiver.url + "/fifo", topics=["PAY"], mode="fifo")
        latest = await hooks.add(receiver.url + "/latest", topics=["PAY"])
        await client.publish(template({"pay_a": "1", "secret_launch": "1"}))
        for hook in (fifo, latest):
            await hooks.until(hook, acknowledged(1))
        other = await client.publish(template({"pay_a": "1", "secret_launch": "2"}))
        last = await client.publish(template({"pay_a": "2", "secret_launch": "3"}))
        for hook in (fifo, latest):
            await hooks.until(hook, acknowledged(last))
        with pytest.raises(Refused, match="none of the webhook's topics"):
            await hooks.act(fifo, "redeliver", versionNumber=str(other))
        assert (await hooks.act(fifo, "recover", since="2020-01-01T00:00:00Z"))["deliveries"] == 2
        receiver.wait_for(6)
        sent = [json.loads(arrival.body)["data"] for arrival in receiver.arrivals]
    assert {int(one["latestTemplateVersionNumber"]) for one in sent} == {1, last}
    assert {tuple(one["changedKeys"]) for one in sent} == {("pay_a",)}
    client.close()


async def test_a_damaged_ledger_is_refused_and_without_it_the_newest_is_sent_once(launch):
    """`trouble.md`: without `deliveries.sqlite` the webhooks are there, and each is owed the newest version."""
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as receiver:
        made = await hooks.add(receiver.url, mode="fifo")
        published = [await daemon.publish(marked(str(index))) for index in range(3)]
        await hooks.until(made, acknowledged(published[-1]))
        assert daemon.stop() == 0
        ledger = daemon.data / "deliveries.sqlite"
        ledger.write_text("nothing that SQLite wrote\n" * 400)
        daemon.spawn()
        assert daemon.wait() == 1
        assert "deliveries.sqlite cannot be opened: it is damaged" in daemon.log_text()
        ledger.unlink()
        seen = len(receiver.arrivals)
        daemon.start()
        last = await daemon.publish(marked("last"))
        await hooks.until(made, acknowledged(last))
        assert versions(receiver.arrivals[seen:]) == [published[-1], last], "the newest once, and nothing older"
    assert "attempts and dead letters of webhooks are gone with their file" in daemon.log_text()


async def test_a_registry_that_was_taken_away_is_told(launch):
    """The daemon starts without the webhooks, and its log says which file is gone; a first start says nothing."""
    daemon = launch(webhooks.config())
    with Receiver() as receiver:
        await Webhooks(daemon).add(receiver.url)
    assert daemon.stop() == 0 and "are gone with their file" not in daemon.log_text()
    registry = daemon.data / "webhooks.sqlite"
    kept = registry.read_bytes()
    registry.unlink()
    daemon.start()
    assert await Webhooks(daemon).list() == [] and daemon.stop() == 0
    assert re.search(r"webhooks of API and command line are gone with their file.*webhooks\.sqlite", daemon.log_text())
    registry.write_bytes(kept)
    daemon.start()
    assert len(await Webhooks(daemon).list()) == 1


@pytest.mark.parametrize("kept, told", ((("ALPHA", "BETA"), [1, 4]), (("BETA",), [1, 2, 3, 4])))
async def test_the_place_of_a_webhook_is_its_scopes(launch, kept, told):
    """`webhooks.md`: it moves on with a topic that stays, and waits when the only topic of the scope is taken away."""
    alone = kept == ("BETA",)
    topics = [configs.topic("ALPHA", keys=("alpha_*",)), configs.topic("BETA", keys=("beta_*",))]
    elsewhere = configs.topic("ELSEWHERE", scopes=("demo/firebase-server",))
    daemon = launch(webhooks.config(topics=[*topics, elsewhere]))
    hooks = Webhooks(daemon)
    client = daemon.client()
    with Receiver() as receiver:
        made = await hooks.add(receiver.url, topics=list(kept), mode="fifo")
        await client.publish(template({"beta_a": "1"}))
        await hooks.until(made, acknowledged(1))
        made = await hooks.update(made, topics=["ELSEWHERE"] if alone else ["ALPHA"])
        for value in ("2", "3", "4"):
            await client.publish(template({"beta_a": value}))
        await hooks.update(made, topics=list(kept))
        receiver.wait(lambda all_: 4 in versions(all_))
        assert versions(receiver.arrivals) == told
