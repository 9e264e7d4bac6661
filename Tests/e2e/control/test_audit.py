"""The audit log: a line for every change before its answer, chained, without secrets; whole after kill -9."""

import asyncio
import contextlib
import json
import signal
import sqlite3
import subprocess

import pytest

from harness import configs
from harness.daemon import BINARY, environment
from harness.disk import fill, small_disk
from harness.http1 import Broken, fetch
from harness.keys import bearer, change_key, make_key
from harness.templates import marked, template
from harness.waiting import eventually


def lines(daemon):
    return [json.loads(line) for line in (daemon.data / "audit.jsonl").read_text().splitlines()]


def audit(daemon, *words):
    return subprocess.run([BINARY, "audit", *words, "--data", daemon.data], capture_output=True, text=True, timeout=30,
                          env=environment(), check=False)


@pytest.fixture
def one(launch):
    return launch()


async def test_every_change_is_a_line_before_its_answer(one):
    key, text = await make_key(one, {"role": "publisher"}, name="ci")
    client = one.client()
    client.token = text
    assert await client.publish(marked("s3cret-value")) == 1
    assert lines(one)[-1]["version"] == "1", "it is there when the publisher hears"
    assert await client.publish(template({"other": "s3cret-value"})) == 2
    assert await client.rollback(1) == 3
    assert (await client.put(marked("x"), if_match="etag-1-1")).status == 400
    assert (await client.put(marked("x"), query="?validateOnly=true")).status == 200
    assert (await client.send({"a": "s3cret-value"}, topic="PUSH_RC")).status == 200
    assert (await client.call("POST", "/v1/projects/demo/webhooks", b"{}")).status == 403
    assert (await change_key(one, key, "revoke")).status == 200
    found = lines(one)
    assert [(line["action"], line.get("outcome")) for line in found] == [
        ("daemon.start", None), ("createKey", "ok"), ("publishTemplate", "ok"), ("publishTemplate", "ok"),
        ("rollbackTemplate", "ok"), ("publishTemplate", "refused"), ("sendMessage", "ok"), ("revokeKey", "ok")]
    publish = found[3]
    assert publish["actor"] == f"key:{key}" and publish["user"] == "ci" and publish["ip"] == "127.0.0.1"
    assert publish["project"] == "demo" and publish["version"] == "2" and publish["previousVersion"] == "1"
    assert publish["changedKeys"] == ["other", "welcome_text"] and publish["status"] == 200
    assert found[4]["rollbackSource"] == "1" and found[7]["actor"] == "bootstrap" and found[1]["key"] == key
    assert [line["seq"] for line in found] == list(range(1, len(found) + 1))
    words = subprocess.run([BINARY, "logs", "--data", one.data], capture_output=True, text=True, env=environment(), check=True)
    said = [line.split("  ", 2)[1:] for line in words.stdout.splitlines()]
    assert said[2] == [f"ci (key:{key})", "demo/firebase: published version 1 (welcome_text)"]
    assert [f"ci (key:{key})", "demo/firebase: refused (400): publish template"] in said and len(said) == len(found)
    raw = (one.data / "audit.jsonl").read_text()
    assert "s3cret-value" not in raw and text not in raw and one.token not in raw
    assert (one.data / "audit.jsonl").stat().st_mode & 0o777 == 0o600


async def test_a_request_is_found_again_by_its_id(one):
    client = one.client()
    answer = await client.put(marked("x"), headers=[("X-Request-Id", "build-17")])
    assert answer.header("x-request-id") == "build-17" == lines(one)[-1]["requestId"]
    answer = await client.put(marked("y"), headers=[("X-Request-Id", 'a"b\\u0000 c')])
    assert answer.header("x-request-id") == lines(one)[-1]["requestId"] != 'a"b\\u0000 c'


async def test_reloads_token_rotations_and_samples_of_refusals_are_lines(one):
    for _ in range(5):
        await fetch(one.control, "/status", headers=bearer("nonsense"))
    assert subprocess.run([BINARY, "token", "rotate", "--data", one.data], env=environment(), check=False,
                          capture_output=True).returncode == 0

    async def there(action):
        for _ in range(400):
            if found := [line for line in lines(one) if line["action"] == action]:
                return found
            await asyncio.sleep(0.02)
        raise AssertionError(f"no line {action}")

    assert await there("token.rotate") and await there("configuration.reload")
    refused = await there("refused")
    # `token rotate` asks with the new token until the daemon has taken it, which may be refused once more.
    assert len(refused) == 1 and refused[0]["count"] in (5, 6) and "/status" in refused[0]["example"]
    assert audit(one, "verify").returncode == 0


async def test_the_commands_show_and_verify(one):
    await one.publish(marked("x"))
    shown = audit(one)
    assert shown.returncode == 0 and "publishTemplate" in shown.stdout and "version=1" in shown.stdout
    assert [json.loads(line) for line in audit(one, "--json").stdout.splitlines()] == lines(one)
    verified = json.loads(audit(one, "verify", "--json").stdout)
    assert verified["lines"] == len(lines(one)) and verified["torn"] == 0
    await one.publish(marked("y"))
    assert audit(one, "verify", "--expect", verified["hash"]).returncode == 0
    assert audit(one, "verify", "--expect", verified["hash"].upper()).returncode == 0
    assert audit(one, "verify", "--expect", "0" * 63 + "1").returncode == 1
    for word in (verified["hash"][:-1], verified["hash"] + "0", "g" * 64, ""):
        wrong = audit(one, "verify", "--expect", word)
        assert wrong.returncode == 2 and "64 hexadecimal digits" in wrong.stderr, wrong.stderr


async def test_what_is_gone_from_the_end_since_the_start_shows_with_expect_only(one):
    await one.publish(marked("x"))
    one.kill()
    newest = json.loads(audit(one, "verify", "--json").stdout)["hash"]
    file = one.data / "audit.jsonl"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
    assert audit(one, "verify").returncode == 0
    assert audit(one, "verify", "--expect", newest).returncode == 1
    file.write_text("")
    emptied = audit(one, "verify")
    assert emptied.returncode == 1 and "it was emptied or cut off" in emptied.stderr, emptied.stderr


@pytest.mark.parametrize("how", ["deleted", "replaced", "cut off"])
async def test_a_log_that_was_taken_away_is_said_at_the_start_and_never_verifies(one, how):
    await one.publish(marked("x"))
    assert one.stop() == 0
    file = one.data / "audit.jsonl"
    last = json.loads(file.read_text().splitlines()[-1])["seq"]
    if how == "deleted":
        file.unlink()
    elif how == "replaced":
        file.write_bytes(bytes(range(128, 256)) * 4)
    else:
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:-1]))
        cut = audit(one, "verify")
        assert cut.returncode == 1 and f"line {last} was written" in cut.stderr, cut.stderr
    one.start()
    assert "audit log does not go on where it ended" in one.log_text()
    assert audit(one, "verify").returncode == 1
    assert one.stop() == 0
    one.start()
    assert one.log_text().count("audit log does not go on where it ended") == 1
    assert audit(one, "verify").returncode == 1, "a later start does not make it whole"


async def test_a_log_that_cannot_be_read_is_no_broken_one(one):
    one.stop()
    file = one.data / "audit.jsonl"
    file.unlink()
    for _ in range(2):
        done = audit(one, "verify", "--json")
        assert done.returncode == 6 and json.loads(done.stderr)["error"]["code"] == "notFound", done.stderr
        assert audit(one).returncode == 6
        file.mkdir(exist_ok=True)


async def test_follow_shows_what_is_written_from_now_on(one):
    process = await asyncio.create_subprocess_exec(BINARY, "audit", "--follow", "--json", "--data", str(one.data),
                                                   stdout=subprocess.PIPE, env=environment())
    try:
        assert json.loads(await asyncio.wait_for(process.stdout.readline(), 10))["action"] == "daemon.start"
        await one.publish(marked("x"))
        assert json.loads(await asyncio.wait_for(process.stdout.readline(), 10))["action"] == "publishTemplate"
    finally:
        process.kill()
        await process.wait()


def spoil(text, how):
    whole = text.splitlines(keepends=True)
    if how == "changed":
        whole[2] = whole[2].replace('"version":"2"', '"version":"9"')
    elif how == "removed":
        del whole[2]
    elif how == "added":
        whole.insert(2, whole[1])
    elif how == "swapped":
        whole[1], whole[2] = whole[2], whole[1]
    elif how == "nonsense":
        whole.append("nonsense\n")
    return "".join(whole)


@pytest.mark.parametrize("how, line", [("changed", 4), ("removed", 3), ("added", 3), ("swapped", 2), ("nonsense", 6)])
async def test_a_broken_chain_is_code_1_and_the_line(one, how, line):
    for value in range(4):
        await one.publish(marked(str(value)))
    one.stop()
    file = one.data / "audit.jsonl"
    file.write_text(spoil(file.read_text(), how))
    broken = audit(one, "verify")
    assert broken.returncode == 1 and f"line {line} " in broken.stderr, broken.stderr


@pytest.mark.limit(120)
async def test_kill_9_leaves_a_chain_that_holds(one):
    for _ in range(5):
        async def publishing():
            client = one.client()
            for value in range(10_000):
                await client.publish(marked(str(value)))

        tasks = [asyncio.create_task(publishing()) for _ in range(3)]
        await asyncio.sleep(0.3)
        one.kill()
        for outcome in await asyncio.gather(*tasks, return_exceptions=True):
            assert isinstance(outcome, (Broken, ConnectionError)), outcome
        one.start()
    assert audit(one, "verify").returncode == 0
    told = {int(line["version"]) for line in lines(one) if line["action"] == "publishTemplate"}
    newest, _ = await one.client().current()
    assert told == set(range(1, newest + 1)), "what was committed has its line, answered or not"
    assert len(told) == len([line for line in lines(one) if line["action"] == "publishTemplate"]), "and one only"


async def test_lines_that_a_loss_of_power_took_are_written_at_the_start(one):
    key, text = await make_key(one, {"role": "publisher"}, name="ci")
    client = one.client()
    client.token = text
    for value in range(4):
        await client.publish(marked(str(value)))
    await client.rollback(2)
    one.kill()
    file = one.data / "audit.jsonl"
    kept = file.read_text().splitlines(keepends=True)[:-3]
    file.write_text("".join(kept))
    one.start()
    found = lines(one)[len(kept):]
    assert found[0]["action"] == "daemon.start"
    assert [(line["action"], line["version"], line["actor"]) for line in found[1:]] == [
        ("publishTemplate", "3", f"key:{key}"), ("publishTemplate", "4", f"key:{key}"),
        ("rollbackTemplate", "5", f"key:{key}")]
    assert all(line["recovered"] and line["outcome"] == "ok" and line["ip"] == "127.0.0.1" for line in found[1:])
    assert audit(one, "verify").returncode == 0
    one.kill()
    one.start()
    assert [line["action"] for line in lines(one)[len(kept):]] == [line["action"] for line in found] + ["daemon.start"]


@pytest.mark.parametrize("cut", [1, 40, 10_000])
async def test_a_line_that_was_cut_off_is_accounted_for(one, cut):
    await one.publish(marked("x"))
    one.kill()
    file = one.data / "audit.jsonl"
    text = file.read_text()
    last = text.splitlines(keepends=True)[-1]
    file.write_text(text[: -min(cut, len(last) - 5)])
    assert audit(one, "verify").returncode == 0, "what the process was killed in is no fraud"
    one.start()
    await one.publish(marked("y"))
    verified = json.loads(audit(one, "verify", "--json").stdout)
    assert verified["torn"] == (0 if cut == 1 else 1), "without its line feed alone it is whole"
    assert audit(one, "verify").returncode == 0
    assert "log.recovered" in file.read_text()


async def test_what_is_no_audit_log_keeps_the_daemon_from_starting(launch):
    daemon = launch(configs.config(), start=False)
    daemon.data.mkdir(mode=0o700)
    (daemon.data / "audit.jsonl").write_text("x" * (2 << 20))
    daemon.spawn()
    assert daemon.wait() != 0 and "audit.jsonl" in daemon.log_text()


@pytest.mark.parametrize("rotation", ["", "audit:\n  maxBytes: 16KiB\n"], ids=["one file", "rotated"])
async def test_without_room_for_its_line_nothing_is_changed(launch, tmp_path, rotation):
    with small_disk(tmp_path / "disk", "24m") as disk:
        daemon = launch(configs.no_free_space_check("engine") + rotation, data=disk / "data")
        version = await daemon.publish(marked("before"))
        ballast = fill(disk)
        client = daemon.client()
        body = json.dumps({"name": "k", "grants": [{"role": "viewer"}]}).encode()
        # What was set aside takes the lines of refusals for a while.
        for _ in range(300):
            answer = await client.put(marked("full"))
            assert answer.status == 503, answer
            if b"audit log has no room" in answer.body:
                break
        assert b"audit log has no room" in answer.body, answer
        answer = await client.call("POST", "/v1/keys", body)
        assert answer.status == 503 and b"audit log has no room" in answer.body, answer
        assert (await client.call("GET", "/v1/keys")).json().get("keys", []) == []
        ballast.unlink()
        assert await daemon.publish(marked("after")) == version + 1
        assert audit(daemon, "verify").returncode == 0
        assert await daemon.metric("stalecast_audit_failures_total") == 0
        client.close()


SMALL = configs.config(audit={"maxBytes": "16KiB", "keep": 3})


def files(daemon):
    """Names, oldest first."""
    return [path.name for path in sorted(daemon.data.glob("audit-*.jsonl"))] + ["audit.jsonl"]


def every_line(daemon):
    return [json.loads(line) for name in files(daemon) for line in (daemon.data / name).read_text().splitlines()]


async def publish_until(daemon, full):
    """Publishes until so many files are full."""
    client = daemon.client()
    for value in range(1000):
        if len(files(daemon)) > full:
            return
        await client.publish(marked(str(value)))
    raise AssertionError(files(daemon))


async def test_a_full_file_is_named_and_the_chain_goes_on(launch):
    daemon = launch(SMALL)
    await publish_until(daemon, 2)
    first, second, current = files(daemon)
    found = every_line(daemon)
    assert [line["seq"] for line in found] == list(range(1, len(found) + 1))
    last = json.loads((daemon.data / first).read_text().splitlines()[-1])
    begun = json.loads((daemon.data / second).read_text().splitlines()[0])
    assert first == f"audit-{last['seq']:016}.jsonl" and begun["action"] == "log.rotated" and begun["former"] == first
    assert 16384 <= (daemon.data / first).stat().st_size < 16384 + 1024
    assert all((daemon.data / name).stat().st_mode & 0o777 == 0o600 for name in files(daemon))
    verified = json.loads(audit(daemon, "verify", "--json").stdout)
    assert (verified["lines"], verified["firstLine"]) == (len(found), 1)
    assert audit(daemon, "--json").stdout.splitlines() == [
        line for name in files(daemon) for line in (daemon.data / name).read_text().splitlines()]
    daemon.stop()
    daemon.start()
    await daemon.publish(marked("after a restart"))
    assert audit(daemon, "verify", "--expect", verified["hash"]).returncode == 0
    # The first break is named with its file.
    (daemon.data / second).write_text((daemon.data / second).read_text().replace('"status":200', '"status":201', 1))
    broken = audit(daemon, "verify")
    assert broken.returncode == 1 and f"{second} is broken: line " in broken.stderr, broken.stderr


async def test_that_no_other_file_can_be_begun_is_said_once(launch):
    daemon = launch(SMALL)
    obstacle = daemon.data / "audit.jsonl.next"
    obstacle.mkdir()

    async def publish():
        await daemon.publish(marked("more"))
        return (daemon.data / "audit.jsonl").stat().st_size > 16384 + 1024

    def failing():
        return daemon.metric("stalecast_audit_rotation_failing")

    def said(words):
        async def is_said():
            return words in daemon.log_text()

        return is_said

    assert await failing() == 0
    assert await eventually(publish, True, timeout=30)
    assert await failing() == 1 and files(daemon) == ["audit.jsonl"]
    full, again = ("audit log cannot begin a new file and continues in the full one", "audit log continues in a new file")
    assert await eventually(said(full), True, timeout=15)
    obstacle.rmdir()
    # It is tried again as the file grows.
    await publish_until(daemon, 1)
    assert await failing() == 0
    assert await eventually(said(again), True, timeout=15)
    assert daemon.log_text().count(full) == 1 and audit(daemon, "verify").returncode == 0


async def test_old_files_go_and_verify_says_so(launch):
    daemon = launch(SMALL)
    await publish_until(daemon, 3)
    oldest = files(daemon)[0]
    for value in range(400):
        await daemon.publish(marked(f"x{value}"))
        if oldest not in files(daemon):
            break
    assert len(files(daemon)) == 4
    rotated = json.loads((daemon.data / "audit.jsonl").read_text().splitlines()[0])
    assert rotated["removed"] == [oldest]
    done = audit(daemon, "verify")
    assert done.returncode == 0 and f"begins with line {int(oldest[6:-6]) + 1}" in done.stderr
    # A file from the middle, or the head of one, does not go unseen.
    text = (daemon.data / files(daemon)[0]).read_text()
    (daemon.data / files(daemon)[0]).write_text(text.split("\n", 1)[1])
    assert audit(daemon, "verify").returncode == 1
    (daemon.data / files(daemon)[0]).write_text(text)
    (daemon.data / files(daemon)[1]).unlink()
    assert audit(daemon, "verify").returncode == 1


async def test_follow_goes_over_a_rotation(launch):
    daemon = launch(SMALL)
    process = await asyncio.create_subprocess_exec(BINARY, "audit", "--follow", "--json", "--data", str(daemon.data),
                                                   stdout=subprocess.PIPE, env=environment())
    try:
        await publish_until(daemon, 3)
        wanted = every_line(daemon)[-1]["seq"]
        for seq in range(1, wanted + 1):
            assert json.loads(await asyncio.wait_for(process.stdout.readline(), 10))["seq"] == seq
    finally:
        process.kill()
        await process.wait()


@pytest.mark.parametrize("left", ["neither", "next", "both"])
async def test_what_kill_9_left_of_a_rotation_loses_nothing(launch, left):
    """What is there after each of its steps."""
    daemon = launch(SMALL)
    await publish_until(daemon, 1)
    daemon.kill()
    found = every_line(daemon)
    (daemon.data / "audit.jsonl").rename(daemon.data / f"audit-{found[-1]['seq']:016}.jsonl")
    if left == "next":
        (daemon.data / "audit.jsonl.next").touch(mode=0o600)
    if left == "both":
        (daemon.data / "audit.jsonl").touch(mode=0o600)
    daemon.start()
    await publish_until(daemon, 3)
    after = every_line(daemon)
    assert after[: len(found)] == found and after[len(found)]["action"] == "log.rotated"
    assert audit(daemon, "verify").returncode == 0


@pytest.mark.limit(120)
async def test_kill_9_while_files_change_leaves_a_chain_that_holds(launch):
    daemon = launch(configs.config(audit={"maxBytes": "16KiB", "keep": 1000}))
    for _ in range(6):
        async def publishing():
            client = daemon.client()
            for value in range(10_000):
                await client.publish(marked(str(value)))

        tasks = [asyncio.create_task(publishing()) for _ in range(3)]
        await asyncio.sleep(0.4)
        daemon.kill()
        await asyncio.gather(*tasks, return_exceptions=True)
        daemon.start()
    found = [line for line in every_line(daemon) if line["action"] == "publishTemplate"]
    newest, _ = await daemon.client().current()
    missing = set(range(1, newest + 1)) - {int(line["version"]) for line in found if "version" in line}
    assert len(missing) <= 18 and len(files(daemon)) > 2
    assert audit(daemon, "verify").returncode == 0


async def test_lines_that_were_moved_away_are_not_written_again(launch):
    daemon = launch()
    client = daemon.client()
    for value in range(20):
        await client.publish(marked(str(value)))
    (daemon.data / "audit.jsonl").rename(daemon.data / "moved.jsonl")
    daemon.process.send_signal(signal.SIGHUP)

    async def waiting():
        with contextlib.closing(sqlite3.connect(f"file:{daemon.data}/stalecast.sqlite?mode=ro", uri=True)) as store:
            return store.execute("SELECT count(*) FROM auditEntry").fetchone()[0]
    assert await eventually(waiting, 0) == 0
    await client.publish(marked("after"))
    daemon.kill()
    daemon.start()
    moved = [json.loads(line) for line in (daemon.data / "moved.jsonl").read_text().splitlines()]
    versions = [line["version"] for line in moved + lines(daemon) if line["action"] == "publishTemplate"]
    assert versions == [str(number) for number in range(1, 22)], "each has one line"


async def test_logrotate_from_outside_moves_it_and_sends_a_signal(launch):
    daemon = launch()
    await daemon.publish(marked("x"))
    (daemon.data / "audit.jsonl").rename(daemon.data / "audit.jsonl.1")
    await daemon.publish(marked("y"))
    moved = (daemon.data / "audit.jsonl.1").read_text().splitlines()
    assert json.loads(moved[-1])["version"] == "2", "until the signal it goes on there"
    daemon.process.send_signal(signal.SIGHUP)
    for _ in range(400):
        if "audit log continues in a new file" in daemon.log_text():
            break
        await asyncio.sleep(0.02)
    await daemon.publish(marked("z"))
    found = lines(daemon)
    assert found[0]["action"] == "log.reopened" and found[0]["seq"] == len(moved) + 1 and found[-1]["version"] == "3"
    done = audit(daemon, "verify")
    assert done.returncode == 0 and f"begins with line {len(moved) + 1}" in done.stderr
    # Put together again it is one.
    whole = "\n".join(moved) + "\n" + (daemon.data / "audit.jsonl").read_text()
    (daemon.data / "audit.jsonl").write_text(whole)
    assert "begins" not in audit(daemon, "verify").stderr
    # A file of another owner is not written into.
    (daemon.data / "audit.jsonl").rename(daemon.data / "audit.jsonl.1")
    (daemon.data / "audit.jsonl").write_text("theirs\n")
    daemon.process.send_signal(signal.SIGHUP)
    for _ in range(400):
        if "another file and not empty" in daemon.log_text():
            break
        await asyncio.sleep(0.02)
    await daemon.publish(marked("w"))
    assert (daemon.data / "audit.jsonl").read_text() == "theirs\n"
    # The reload's own line may come before or after.
    moved = [json.loads(line) for line in (daemon.data / "audit.jsonl.1").read_text().splitlines()]
    assert [line["version"] for line in moved if "version" in line][-1] == "4"
