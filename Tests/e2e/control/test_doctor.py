"""`stalecast doctor`: what the machine allows, and the same said at the start."""

import contextlib
import json
import os
import sqlite3
import subprocess

import pytest

from harness import configs
from harness.daemon import BINARY, environment
from harness.templates import marked


def limited(descriptors, *command):
    """A command line under a limit of descriptors, in a network of its own when this is root."""
    return ["prlimit", f"--nofile={descriptors}:{descriptors}", *map(str, command)]


def doctor(*arguments, descriptors=20_000, before=()):
    done = subprocess.run(limited(descriptors, *before, BINARY, "doctor", "--json", *arguments), capture_output=True,
                          text=True, check=False, env=environment())
    findings = json.loads(done.stdout)["findings"]
    assert done.returncode == (0 if all(each["isGood"] for each in findings) else 1)
    assert all(each["isGood"] == ("command" not in each) for each in findings)
    return {each["subject"]: each for each in findings}


def test_doctor_says_how_many_streams_the_descriptors_allow(tmp_path):
    found = doctor("--data", tmp_path, descriptors=20_000)
    assert found["descriptors"]["sentence"] == "20,000 descriptors: at most 17,076 streams"
    assert set(found) >= {"descriptors", "memory", "disk"}


def test_doctor_names_what_more_streams_need(tmp_path):
    found = doctor("--data", tmp_path, "--streams", "50000", descriptors=20_000)
    assert "raise LimitNOFILE" in found["descriptors"]["sentence"]
    assert found["descriptors"]["command"] == "ulimit -n 1048576"


def test_doctor_looks_at_the_running_daemons_limit(launch, tmp_path):
    daemon = launch(start=False)
    command = daemon.command
    daemon.command = lambda *flags: limited(5000, *command(*flags))
    daemon.start()
    assert doctor("--data", daemon.data, descriptors=20_000)["descriptors"]["sentence"].startswith("5,000 descriptors")
    assert "at most 3,951 streams; raise LimitNOFILE" in daemon.log_text(), "the start says the same"


async def test_doctor_asks_the_running_daemon(launch, tmp_path):
    daemon = launch()
    found = doctor("--control", f"http://127.0.0.1:{daemon.control}", "--token-file", daemon.data / "control.token")
    assert set(found) == {"daemon", "ready", "version", "configuration", "store", "webhooks"}
    assert all(each["isGood"] for each in found.values()), found
    wrong = tmp_path / "wrong.token"
    wrong.write_text("0" * 64)
    refused = doctor("--data", daemon.data, "--token-file", wrong)
    assert not refused["daemon"]["isGood"] and "descriptors" in refused
    daemon.kill()
    ended = doctor("--data", daemon.data)["daemon"]
    assert "has ended" in ended["sentence"] and "journalctl" in ended["command"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change a network's settings: this check did not run")
def test_doctor_notices_a_short_queue_of_connections(tmp_path):
    before = ["unshare", "--net", "sh", "-c", 'echo 100 >/proc/sys/net/core/somaxconn && exec "$@"', "sh"]
    if subprocess.run([*before, "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no network namespaces here: this check did not run")
    finding = doctor("--data", tmp_path, before=before)["backlog"]
    assert finding["command"] == "sysctl -w net.core.somaxconn=4096" and "100 new connections may wait" in finding["sentence"]


def test_doctor_looks_up_the_names_that_sources_need(tmp_path):
    file = tmp_path / "stalecast.yaml"
    url = "http://nowhere.invalid/template.json"
    file.write_text(configs.config(sources={"scopes": [{"scope": "demo/firebase", "kind": "http", "url": url}]}))
    finding = doctor("--data", tmp_path, "--config", file)["dns"]
    assert finding["sentence"] == "nowhere.invalid cannot be looked up" and "nowhere.invalid" in finding["command"]


@pytest.mark.parametrize(("damage", "sentence"), [
    (lambda file: file.write_bytes(b"not a database"), "is not a SQLite database"),
    (lambda file: file.unlink(), "is missing, and it held 1 commits"),
    (lambda file: file.write_bytes(file.read_bytes()[:4096] + bytes(range(256)) * 48 + file.read_bytes()[16384:]), "is damaged"),
])
async def test_doctor_names_a_stopped_daemon_and_a_store_that_cannot_be_read(launch, damage, sentence):
    daemon = launch()
    await daemon.publish(marked("x"))
    assert daemon.stop() == 0
    stopped = doctor("--data", daemon.data)
    assert stopped["store"]["isGood"] and f"no daemon runs on {daemon.data}" == stopped["daemon"]["sentence"]
    assert stopped["daemon"]["command"] == f"stalecast serve --data '{daemon.data}'"
    before = sorted(path.name for path in daemon.data.iterdir())
    damage(daemon.data / "stalecast.sqlite")
    lost = doctor("--data", daemon.data)
    assert sentence in lost["store"]["sentence"] and not lost["daemon"]["isGood"]
    assert lost["store"]["command"].startswith("stalecast restore FILE --data "), lost["store"]
    left = {path.name for path in daemon.data.iterdir()} | {"stalecast.sqlite"}
    assert left == set(before), "it makes no files, which another account could not write"


async def test_doctor_offers_no_restore_over_a_sound_store_of_a_newer_program(launch):
    daemon = launch()
    assert daemon.stop() == 0
    with contextlib.closing(sqlite3.connect(daemon.data / "stalecast.sqlite")) as database:
        database.execute("PRAGMA user_version = 99")
    newer = doctor("--data", daemon.data)["store"]
    assert "a newer stalecast" in newer["sentence"] and newer["command"].startswith("ls -la "), newer


async def test_doctor_judges_the_store_of_a_daemon_that_was_killed(launch):
    daemon = launch()
    await daemon.publish(marked("x"))
    daemon.kill()

    def files():
        return {path.name: path.read_bytes() for path in daemon.data.iterdir()}

    before = files()
    assert before["stalecast.sqlite-wal"] and doctor("--data", daemon.data)["store"]["isGood"]
    assert files() == before, "it changes nothing, the log included"
    (daemon.data / "stalecast.sqlite-wal").rename(daemon.data / "wal")
    without = doctor("--data", daemon.data)["store"]
    assert "stalecast.sqlite-wal is missing" in without["sentence"] and without["command"].startswith("ls -la "), without
    (daemon.data / "wal").rename(daemon.data / "stalecast.sqlite-wal")
    (daemon.data / "stalecast.sqlite").rename(daemon.data / "lost")
    assert "stalecast.sqlite is missing" in doctor("--data", daemon.data)["store"]["sentence"]
    (daemon.data / "lost").rename(daemon.data / "stalecast.sqlite")
    assert files() == before


def test_doctor_asks_the_daemon_of_the_configurations_directory(launch, tmp_path):
    daemon = launch()
    file = tmp_path / "named.yaml"
    file.write_text(configs.config(data=str(daemon.data)))
    found = doctor("--config", file)
    assert found["daemon"]["isGood"] and "ready" in found, found
    other = tmp_path / "other"
    other.mkdir()
    assert not doctor("--config", file, "--data", other)["daemon"]["isGood"], "the command line is stronger"


def test_doctor_asks_the_daemon_that_all_commands_ask(launch, tmp_path):
    daemon = launch()
    token, control = str(daemon.data / "control.token"), f"http://127.0.0.1:{daemon.control}"

    def asked(*words, **variables):
        done = subprocess.run([BINARY, "doctor", "--json", *words], capture_output=True, text=True, check=False,
                              cwd=tmp_path, env=environment(**{"HOME": str(tmp_path), **variables}))
        return {each["subject"]: each["sentence"] for each in json.loads(done.stdout)["findings"]}

    named = {"STALECAST_CONTROL": control, "STALECAST_TOKEN_FILE": token}
    assert asked(**named)["daemon"] == f"the daemon answers at {control}" and "disk" not in asked(**named)
    other = tmp_path / "other"
    other.mkdir()
    assert "disk" in asked("--data", str(other), **named) and "disk" in asked(**named, STALECAST_DATA=str(other))
    contexts = tmp_path / ".config/stalecast/contexts.json"
    contexts.parent.mkdir(parents=True)
    contexts.write_text(json.dumps({"current": "prod", "contexts": {"prod": {"control": control, "tokenFile": token}}}))
    assert asked()["daemon"] == f"the daemon answers at {control}" and "disk" not in asked()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user: this check did not run")
def test_doctor_does_not_call_a_daemon_stopped_that_it_may_not_see(tmp_path):
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    before = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    if subprocess.run([*before, BINARY, "version"], capture_output=True, check=False).returncode != 0:
        pytest.skip("another user may not run the program here: this check did not run")
    finding = doctor("--data", private, before=before)["daemon"]
    assert "permission denied" in finding["sentence"] and "sudo" in finding["command"]


def test_doctor_speaks_to_people(tmp_path):
    said = subprocess.run(limited(1000, BINARY, "doctor", "--data", tmp_path), capture_output=True, text=True, check=False,
                          env=environment()).stdout.splitlines()
    at = next(index for index, line in enumerate(said) if "1,000 descriptors" in line)
    assert said[at].startswith("!!") and said[at + 1].strip() == "ulimit -n 1048576"


def test_health_checks_need_no_output(launch):
    daemon = launch()
    ask = [BINARY, "status", "--quiet", "--data", str(daemon.data)]
    well = subprocess.run(ask, capture_output=True, text=True, check=False, env=environment())
    assert (well.returncode, well.stdout, well.stderr) == (0, "", "")
    assert daemon.stop() == 0
    assert subprocess.run(ask, capture_output=True, check=False, env=environment()).returncode == 3
