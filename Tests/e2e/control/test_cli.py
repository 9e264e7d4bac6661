"""The command line against a running daemon: what people read, what scripts read, and every exit code."""

import contextlib
import json
import os
import re
import sqlite3
import subprocess
from pathlib import Path

import pytest

from harness import configs
from harness.cli import MISMATCH, NOT_FOUND, REFUSED, TIMED_OUT, TOKEN, UNREACHABLE, USAGE, Cli, environment, stalecast
from harness.daemon import BINARY, REPOSITORY
from harness.http1 import fetch
from harness.templates import encoded, marked, template
from harness.terminal import Terminal
from harness.tokens import Key, auth, issuer, key_set

SAMPLES = REPOSITORY / "samples/templates"
@pytest.fixture
def running(launch):
    return launch()


@pytest.fixture
def cli(running):
    return Cli(running)


@pytest.fixture
def watch(cli):
    """`watch(word…)`: a started `stalecast watch` that is connected when this returns."""
    started = []

    def start(*words):
        process = cli.start("watch", *words)
        started.append(process)
        assert "up to date" in process.stderr.readline()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_yaml_and_a_folder_are_templates_too(cli, tmp_path):
    cli.json("publish", str(SAMPLES / "demo.json"))
    saved = tmp_path / "demo.yaml"
    cli("get", "-o", str(saved))
    assert "\nparameters:\n" in "\n" + saved.read_text() and cli("get", "--yaml") == saved.read_text()
    assert cli("get", "-o", "yaml") == saved.read_text() and cli("get", "-o", "json") == cli("get")
    assert not any(os.path.exists(name) for name in ("yaml", "json"))
    assert "two formats" in cli("get", "-o", "json", "--yaml", code=USAGE).err
    cli("get", "-o", f"{tmp_path}/yaml")
    assert json.loads((tmp_path / "yaml").read_text())["parameters"]
    assert "no difference" in cli("diff", str(saved), "current", "--exit-code").err
    folder = tmp_path / "config"
    folder.mkdir()
    (folder / "shop.yaml").write_text("parameters:\n  title:\n    defaultValue: {value: Winter}\n")
    (folder / "limits.json").write_text('{"parameters": {"rows": {"defaultValue": {"value": "20"}}}}')
    (folder / "notes.txt").write_text("no template")
    made = cli.json("apply", str(folder), "--allow-removals")
    assert {"title", "rows"} <= set(made["changedKeys"])
    assert cli("get", "title") == "Winter\n"
    (folder / "twice.yaml").write_text("parameters:\n  title: {defaultValue: {value: Spring}}\n")
    refused = cli("publish", str(folder), "--yes", code=REFUSED)
    assert "title" in refused.err and "twice.yaml" in refused.err and "shop.yaml" in refused.err
    (folder / "twice.yaml").write_text("parameters: [\n")
    assert "twice.yaml" in cli("publish", str(folder), code=REFUSED).err
    cli("publish", "-", "--allow-removals", stdin=b"parameters: {title: {defaultValue: {value: Piped}}}")
    assert cli("get", "title") == "Piped\n"


def test_the_samples_are_published_compared_and_rolled_back(cli):
    first = cli.json("publish", str(SAMPLES / "demo.json"), "--description", "first")
    assert first["version"]["versionNumber"] == "1" and first["version"]["description"] == "first"
    assert "max_items" in first["changedKeys"] and "pay_by_invoice" in first["changedKeys"]
    winter = cli.json("publish", str(SAMPLES / "demo-winter.json"))
    assert winter["changedKeys"] == ["banner", "dark_mode", "pay_timeout_s", "screens", "update_version", "welcome_text"]
    changed = cli.json("diff", "1", "2")
    assert [entry["name"] for entry in changed["parameters"]] == winter["changedKeys"]
    back = cli.json("rollback", "1")
    assert back["version"]["updateType"] == "ROLLBACK" and back["version"]["rollbackSource"] == "1"
    assert back["version"]["versionNumber"] == "3" and back["changedKeys"] == winter["changedKeys"]
    assert "no difference" in cli("diff", "1", "current", "--exit-code").err
    cli("diff", "1", str(SAMPLES / "demo-winter.json"), "--exit-code", code=REFUSED)


def test_people_read_which_keys_a_publish_changed(cli):
    text = cli("publish", cli.file(template({"pay": "1", "color": "red"})))
    assert "published version 1 of demo/firebase" in text and "2 parameters added" in text
    assert "  + parameter color" in text.splitlines() and '      default: "red"' in text.splitlines()
    assert "\x1b" not in text
    text = cli("publish", cli.file(template({"pay": "2", "new": "x"})), "--allow-removals")
    assert "1 parameter added, 1 changed, 1 removed" in text
    assert [line for line in text.splitlines()[2:] if line[2] != " "] == [
        "  - parameter color", "  + parameter new", "  ~ parameter pay"]
    assert '      default: "1" -> "2"' in text


def test_removals_are_not_published_by_the_way(cli):
    """Without a terminal they take a flag; on one they take a yes."""
    cli("publish", cli.file(template({"a": "1", "b": "2"})))
    for body in ({}, template({"a": "1"})):
        text = cli("publish", cli.file(body), code=REFUSED)
        assert "of 2 parameters" in text.err and "--allow-removals" in text.err
    assert "2 parameters removed" in cli("publish", "-", "--validate-only", stdin=b"{}")
    assert len(cli.json("versions")["versions"]) == 1
    path = cli.file(template({"a": "1"}))
    for answer, words in (("n\n", "nothing was changed"), ("y\n", "1 parameter removed")):
        shown = on_terminal(cli, "publish", path, typed=answer)
        assert "this removes 1 of 2 parameters: b" in shown and "Publish to demo/firebase at http" in shown and words in shown
    assert cli.json("publish", "-", "--allow-removals", stdin=b"{}")["removed"] == ["a"]


def test_a_rollback_to_what_is_current_needs_force(cli):
    for marker in ("one", "two", "one"):
        cli("publish", cli.file(marked(marker)), "--description", "d")
    assert cli.json("rollback", "1")["published"] is False
    assert cli.json("rollback", "1", "--force")["version"]["rollbackSource"] == "1"
    assert "not a version number" in cli("publish", cli.file(marked("x")), "--if-match", "1", code=USAGE).err


def test_failures_are_json_where_results_are(cli):
    text = cli("rollback", "99", "--json", code=NOT_FOUND)
    failure = json.loads(text.err)
    assert text == "" and failure["exitCode"] == NOT_FOUND and failure["error"]["code"] == "notFound"
    many = template({f"{number}th": "x" for number in range(30)})
    assert "and 10 more" in cli("publish", cli.file(many), code=REFUSED).err
    failure = json.loads(cli("publish", cli.file(many), "--json", code=REFUSED).err)
    assert failure["error"]["problems"][-1] == "… and 10 more"
    failure = json.loads(cli("versions", "--limit", "none", "--json", code=USAGE).err)
    assert failure["exitCode"] == USAGE and "--limit" in failure["error"]["message"]


def test_a_check_publishes_nothing(cli):
    answer = cli.json("publish", cli.file(marked("one")), "--validate-only")
    assert answer["validateOnly"] is True and answer["changedKeys"] == ["welcome_text"]
    assert cli.json("versions") == {"versions": []}


def test_all_problems_of_a_template_are_listed_and_nothing_is_sent(cli):
    body = template({"9th": "x", "__proto__": "y", "n": {"defaultValue": {"value": "ten"}, "valueType": "NUMBER"}})
    text = cli("publish", cli.file(body), code=REFUSED)
    for name in ("9th", "__proto__", "parameters.n"):
        assert name in text.err
    assert cli.json("versions") == {"versions": []}


def test_a_file_that_is_no_json_is_refused_with_its_line(cli):
    path = cli.files / "broken.json"
    path.write_text('{\n  "parameters": [,]\n}')
    assert "line 2" in cli("publish", str(path), code=REFUSED).err
    assert "no such file" in cli("publish", str(path) + ".gone", code=REFUSED).err


def test_an_etag_out_of_date_is_exit_code_5(cli):
    etag = cli.json("publish", cli.file(marked("one")))["etag"]
    cli("publish", cli.file(marked("two")), "--if-match", etag)
    text = cli("publish", cli.file(marked("three")), "--if-match", etag, code=MISMATCH)
    assert "version 2 is current, etag-" in text.err
    cli("publish", cli.file(marked("four")), "--if-match", "*")
    assert cli.json("versions")["versions"][0]["updateType"] == "FORCED_UPDATE"


def test_what_get_saves_can_be_published_again(cli):
    cli("publish", cli.file(marked("one")), "--description", "of version one")
    saved = str(cli.files / "saved.json")
    assert "version 1" in cli("get", "-o", saved).err
    again = cli.json("publish", saved)
    assert again["published"] is False and "version" not in again and "nothing differs" in cli("publish", saved)
    again = cli.json("publish", saved, "--force")
    assert again["changedKeys"] == [] and "description" not in again["version"]
    assert "no difference" in cli("diff", "1", "2").err
    assert cli.json("get", "--version-number", "1")["version"]["description"] == "of version one"
    from_pipe = cli.json("publish", "-", stdin=encoded(marked("two")))
    assert from_pipe["version"]["versionNumber"] == "3" and from_pipe["version"]["description"] == "two"


def test_get_keeps_what_a_file_is(cli):
    """A device, a FIFO or a symbolic link is not replaced by a file, and a file keeps its mode."""
    cli("publish", cli.file(marked("one")))
    real, link, fifo = (cli.files / name for name in ("real.json", "link.json", "fifo"))
    real.write_text("old")
    real.chmod(0o600)
    link.symlink_to(real)
    cli("get", "-o", str(link))
    assert link.is_symlink() and real.stat().st_mode & 0o777 == 0o600
    assert json.loads(real.read_text())["version"]["versionNumber"] == "1"
    os.mkfifo(fifo)
    reader = subprocess.Popen(["cat", str(fifo)], stdout=subprocess.PIPE)
    cli("get", "-o", str(fifo))
    assert json.loads(reader.communicate(timeout=10)[0])["version"]["versionNumber"] == "1"
    assert fifo.is_fifo()
    cli("get", "-o", "/dev/null")
    assert not os.path.isfile("/dev/null")
    assert "no space left" in cli("get", "-o", "/dev/full", code=REFUSED).err
    assert sorted(path.name for path in cli.files.iterdir() if "draft" in path.name) == []


def test_what_get_prints_cannot_steer_a_terminal(cli):
    """On a terminal as JSON's escapes, which mean the same; in a pipe as it is."""
    cli("publish", cli.file(template({"a": "x\u009b31m\u202e\x7f"})))
    assert cli.json("get")["parameters"]["a"]["defaultValue"]["value"] == "x\u009b31m\u202e\x7f"
    shown = on_terminal(cli, "get")
    assert "\\u009b31m\\u202e\\u007f" in shown and not set(shown) & set("\u009b\u202e\x7f")


def on_terminal(cli, *words, columns=80, typed="", **variables):
    """What a command prints on a terminal."""
    terminal = Terminal([BINARY, *words, "--data", cli.data], {**environment(), **variables}, columns).type(typed)
    terminal.end()
    return terminal.shown


def test_watch_says_where_it_is_and_in_which_zone(cli, watch, monkeypatch):
    cli("publish", cli.file(marked("one")))
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    process = cli.start("watch", "--count", "1")
    first = process.stderr.readline()
    assert "connected to http://127.0.0.1:" in first and "PUSH_RC, demo/firebase version 1" in first, first
    cli("publish", cli.file(marked("two")))
    assert " JST  PUSH_RC" in process.stdout.readline()
    assert process.wait(10) == 0
    process = watch("--utc", "--count", "1")
    cli("publish", cli.file(marked("three")))
    assert " UTC  PUSH_RC" in process.stdout.readline()


def test_what_cannot_be_taken_back_is_asked_about(cli, tmp_path):
    token = Path(cli.data, "control.token")
    before = token.read_text()
    for answer, is_new in (("n\n", False), ("y\n", True)):
        shown = on_terminal(cli, "token", "rotate", columns=40, typed=answer)
        assert "Make a new one? [y/N]" in " ".join(shown.split())
        assert ("nothing was changed" in shown) is not is_new and (token.read_text() != before) is is_new
    key = cli.json("keys", "create", "--name", "app", "--publishable", "--action", "watch")["id"]
    for verb, answer, state in (("rotate", "n\n", "active"), ("revoke", "n\n", "active"), ("revoke", "y\n", "revoked")):
        shown = " ".join(on_terminal(cli, "keys", verb, key, typed=answer).split())
        assert f'the publishable key {key} ("app", watch on *, not used since' in shown and "[y/N]" in shown, shown
        assert cli.json("keys", "list")["keys"][0]["state"] == state
    made = [cli.json("keys", "create", "--name", name, "--action", "watch")["id"] for name in ("app", "twin", "twin")]
    assert f"key {made[0]} " in cli("keys", "rotate", "app", "--yes"), "the one of that name that was not revoked"
    assert "revoked" in cli("keys", "revoke", "app", "--yes")
    assert all(word in cli("keys", "revoke", "twin", "--yes", code=USAGE).err for word in made[1:])
    assert 'the name "nobody"' in cli("keys", "revoke", "nobody", "--yes", code=NOT_FOUND).err
    assert [key["state"] for key in cli.json("keys", "list")["keys"]] == ["revoked", "revoked", "active", "active"]
    cli("publish", cli.file(marked("one")))
    cli("backup", tmp_path / "kept")
    other = tmp_path / "other"
    for answer, is_there in (("n\n", False), ("y\n", True)):
        terminal = Terminal([BINARY, "restore", tmp_path / "kept", "--data", other], environment()).type(answer)
        assert (terminal.end() == 0) is is_there, terminal.shown
        assert "1 version in all" in terminal.shown and terminal.shown.count("[y/N]") == 1
        assert (other / "stalecast.sqlite").exists() is is_there


def test_errors_on_a_narrow_terminal_break_at_blanks(cli):
    lines = on_terminal(cli, "rollback", "99", "--yes", columns=40).splitlines()
    assert len(lines) > 1 and all(len(line) <= 40 for line in lines), lines
    assert "`stalecast versions` lists those" in " ".join(lines)


def test_tables_fit_the_terminal(cli):
    cli("publish", cli.file(marked("one")), "--description", "d" * 200)
    for columns in (40, 100):
        lines = on_terminal(cli, "versions", columns=columns, NO_COLOR="1").splitlines()
        assert len(lines) == 2 and max(map(len, lines)) <= columns
    assert "…" in lines[1] and "…" not in on_terminal(cli, "versions", columns=40, NO_COLOR="1")
    assert "d" * 200 in on_terminal(cli, "versions", "--wide", NO_COLOR="1")
    assert "d" * 200 in cli("versions")


def test_colours_are_for_terminals_that_know_them(cli):
    cli("publish", cli.file(marked("one")))
    assert "\x1b[" in on_terminal(cli, "versions", TERM="xterm")
    assert "\x1b[" not in on_terminal(cli, "versions", TERM="dumb")


def test_a_wrong_word_or_place_is_explained(running, cli):
    assert "stalecast publish" in cli("pubish", "x", code=USAGE).err
    assert "data is missing" in cli("send", "PUSH_RC", code=USAGE).err
    assert "speak TLS" in cli("topics", "--control", f"https://127.0.0.1:{running.control}", code=UNREACHABLE).err
    edge, control = (f"http://127.0.0.1:{port}" for port in (running.edge, running.control))
    assert "Control's address" in cli("topics", "--control", edge, code=NOT_FOUND).err
    assert "names Edge's" in cli("watch", "--edge", control, code=TOKEN).err


def test_the_completion_scripts_name_commands_and_files(cli):
    for shell in ("bash", "zsh", "fish"):
        done = subprocess.run([BINARY, "completion", shell], capture_output=True, text=True, timeout=20)
        assert done.returncode == 0 and "rotate-secret" in done.stdout and "webhooks list --json" in done.stdout
        # Every word that has only a few values, and every id that the daemon knows.
        for word in ("fifo-advance", "cloudevents-structured", "challenge", "internal", "firebase-server", "critical",
                     "topics --json", "versions --json", "status --json"):
            assert word in done.stdout, word
    script = subprocess.run([BINARY, "completion", "bash"], capture_output=True, text=True, timeout=20).stdout
    assert subprocess.run(["bash", "-n"], input=script, text=True, timeout=20).returncode == 0


def test_a_load_does_not_publish_to_others_by_the_way(cli, watch):
    cli("publish", cli.file(marked("one")))
    process = watch()
    for load in ("fanout", "webhooks"):
        text = cli("load", load, code=REFUSED)
        assert "1 subscriber listens to or fetches demo/firebase" in text.err and "--yes" in text.err
    assert len(cli.json("versions")["versions"]) == 1
    cli("load", "fanout", "--yes", "--rounds", "1", "--subscribers", "2", "--json")
    history = cli.json("versions")["versions"]
    assert history[1]["description"].startswith("load, round 1")
    process.kill()


async def test_a_load_does_not_publish_to_apps_that_only_fetch(cli, running):
    cli("publish", cli.file(marked("one")))
    body = {"appInstanceId": "cAbCdEfGhIjKlMnOpQrStU", "appId": "1:2:ios:ab", "appInstanceIdToken": "t"}
    assert (await fetch(running.edge, "/v1/projects/demo/namespaces/firebase:fetch", "POST", body=encoded(body))).status == 200
    text = cli("load", "fanout", "--rounds", "1", "--subscribers", "2", code=REFUSED)
    assert "1 app listens to or fetches demo/firebase" in text.err
    cli("load", "fanout", "--rounds", "1", "--subscribers", "2", "--namespace", "firebase-server")


@pytest.fixture
def shops(launch):
    """A daemon with two projects: on it a subscription must say which one it means."""
    return Cli(launch(configs.config(projects=[{"id": "demo", "number": 1}, {"id": "load", "number": 2}])))


@pytest.mark.parametrize("how", ((), ("--poll",)), ids=("stream", "poll"))
def test_watch_hears_the_scope_it_names(shops, how):
    process = shops.start("watch", "--project", "load", "--json", "--count", "1", *how)
    assert "up to date" in process.stderr.readline()
    shops("publish", shops.file(marked("of demo")))
    shops("publish", shops.file(marked("of load")), "--project", "load", "--namespace", "firebase-server")
    shops("publish", shops.file(marked("of load")), "--project", "load")
    out, _ = process.communicate(timeout=20)
    assert [json.loads(out)[key] for key in ("project", "namespace")] == ["load", "firebase"]
    server = shops.json("watch", "--project", "2", "--namespace", "firebase-server", "--have", "0", "--count", "1")
    assert (server["topic"], server["project"]) == ("PUSH_RC_SERVER", "load")
    assert "no such project" in shops("watch", "--project", "nobody", code=NOT_FOUND).err
    assert "demo/firebase has no such topic" in shops("watch", "PUSH_RC_SERVER", code=NOT_FOUND).err


def test_a_load_has_a_scope_of_its_own(shops):
    """A watcher of another project is not asked, hears nothing and finds nothing in the history."""
    process = shops.start("watch", "--count", "1", "--json")
    assert "up to date" in process.stderr.readline()
    for transport in ("sse", "poll"):
        report = shops.json("load", "fanout", "--project", "load", "--rounds", "2", "--subscribers", "3",
                            "--transport", transport)
        assert all(round["delivered"] == 3 for round in report["rounds"])
    shops("load", "connect", "--project", "load", "--subscribers", "2")
    shops("load", "idle", "--project", "load", "--subscribers", "2", "--duration", "100ms")
    shops("publish", shops.file(marked("for people")))
    out, _ = process.communicate(timeout=20)
    assert json.loads(out)["latestTemplateVersionNumber"] == "1"


def test_versions_come_in_pages(cli):
    for number in range(1, 24):
        cli("publish", cli.file(marked(str(number))), "--if-match", "*")
    numbers = [int(v["versionNumber"]) for v in cli.json("versions")["versions"]]
    assert numbers == list(range(23, 3, -1))
    text = cli("versions", "--limit", "3")
    assert [line.split()[0] for line in text.splitlines()] == ["VERSION", "23", "22", "21"]
    assert "--from 20" in text.err
    assert [line.split()[0] for line in cli("versions", "--limit", "2", "--from", "20").splitlines()[1:]] == ["20", "19"]
    assert len(cli.json("versions", "--limit", "100")["versions"]) == 23


def test_text_from_strangers_cannot_steer_the_terminal(cli):
    cli("publish", cli.file(marked("\u202e\u2028gone VERSION")))
    text = cli("versions")
    assert len(text.splitlines()) == 2 and not set(text) & set("\u202e\u2028")


def test_what_is_not_there_is_exit_code_6(cli):
    cli("publish", cli.file(marked("one")))
    assert "`stalecast versions` lists" in cli("rollback", "7", code=NOT_FOUND).err
    assert "`stalecast webhooks list` shows" in cli("webhooks", "pause", "wh_nobody", code=NOT_FOUND).err
    cli("get", "--version-number", "7", code=NOT_FOUND)
    cli("get", "--project", "nobody", code=NOT_FOUND)
    assert "NO_SUCH" in cli("watch", "NO_SUCH", code=NOT_FOUND).err
    cli("send", "NO_SUCH", "A=1")  # as in FCM: an undeclared topic has no subscribers


def test_wrong_use_is_exit_code_2(cli):
    for words in (["publish"], ["frobnicate"], ["rollback", "0"], ["versions", "--limit", "none"],
                  ["watch", "not a topic"], ["send", "PUSH_RC", "novalue"], ["get", "--control", "ftp://x"]):
        cli(*words, code=USAGE)


def test_a_wrong_or_missing_token_is_exit_code_4_and_names_the_file(cli):
    (cli.files / "other").write_text("not the token\n".replace(" ", "-"))
    text = cli("versions", "--token-file", str(cli.files / "other"), code=TOKEN)
    assert str(cli.files / "other") in text.err and "not-the-token" not in text.err
    missing = cli("versions", "--token-file", "nope.key", code=TOKEN).err
    assert "nope.key (no such file)" in missing and "first start" not in missing
    (cli.data / "control.token").unlink()
    text = cli("versions", code=TOKEN)
    assert str(cli.data / "control.token") in text.err and "first start" in text.err and "--token-file" in text.err


def test_whoever_lacks_a_grant_is_not_sent_to_the_control_token(cli):
    key = str(cli.files / "viewer.key")
    cli("keys", "create", "--role", "viewer", "--save", key)
    refused = cli("publish", cli.file(marked("x")), "--token-file", key, code=TOKEN).err
    assert f"from {key} has no grant" in refused and "keys create --role" in refused and "control.token" not in refused
    (cli.files / "jwt").write_text("e30.e30.e30")
    refused = cli("versions", "--token-file", str(cli.files / "jwt"), code=TOKEN).err
    assert "auth.issuers" in refused and "keys list" not in refused


def test_a_file_that_wait_takes_for_its_share_is_said(cli):
    said = cli("publish", "--wait", cli.file(marked("x")), code=USAGE).err
    assert "template.json --wait`" in said and "--wait=99%" in said and "Missing" not in said
    for words in (("--wait", "150%"), ("--wait=150%",), ("--wait=0",)):
        assert "a share, for example 99%" in cli("publish", cli.file(marked("y")), *words, code=USAGE).err, words
    cli("publish", cli.file(marked("y")), "--wait=50%")


@pytest.mark.skipif(not os.access(BINARY, os.X_OK), reason=f"no binary at {BINARY}")
def test_a_rotation_that_cannot_be_written_says_why(tmp_path):
    (tmp_path / "file").write_text("")
    done = subprocess.run([BINARY, "token", "rotate", "--data", str(tmp_path / "file")], env=environment(),
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == REFUSED and "Not a directory" in done.stderr, done.stderr


def test_a_proxy_in_the_environment_is_not_asked_for_this_machine(cli, monkeypatch):
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    cli("versions")
    cli("watch", "--timeout", "1")


def test_an_absent_daemon_is_exit_code_3_and_says_where_was_looked(running, cli):
    running.kill()
    for command in (["status"], ["publish", cli.file(marked("x"))], ["watch"], ["watch", "--poll"]):
        text = cli(*command, code=UNREACHABLE)
        assert str(cli.data) in text.err and "stalecast serve" in text.err
        assert "ended" in text.err, "the process in endpoints.json is known to be gone"
    (cli.data / "endpoints.json").unlink()
    assert "endpoints.json" in cli("topics", code=UNREACHABLE).err


@pytest.mark.parametrize("how", ([], ["--poll"]))
def test_watch_prints_one_line_per_message(cli, watch, how):
    cli("publish", cli.file(marked("one")))
    assert "nothing differs" in cli("rollback", "1")
    process = watch("--count", "2", *how)
    cli("publish", cli.file(marked("two")))
    line = process.stdout.readline()
    assert "PUSH_RC  demo/firebase  version 2  INCREMENTAL_UPDATE  changed: welcome_text" in line
    cli("rollback", "1")
    assert "version 3  ROLLBACK to 1" in process.stdout.readline()
    assert process.wait(10) == 0 and process.stdout.read() == ""


def test_watch_runs_a_command_for_messages_about_keys(cli, watch, tmp_path):
    cli("publish", cli.file(template({"title": "one", "pay_limit": "1"})))
    command = f"""echo "$STALE_VERSION $STALE_CHANGED_KEYS" >>{tmp_path}/ran; cat >>{tmp_path}/read; exit 3"""
    process = watch("--keys", "pay_*", "--exec", command, "--count", "2")
    cli("set", "pay_limit=2")
    cli("set", "title=two")
    cli("set", "pay_limit=3", "title=three")
    assert process.wait(20) == 0
    assert (tmp_path / "ran").read_text() == "2 pay_limit\n4 pay_limit,title\n"
    assert [json.loads(line)["latestTemplateVersionNumber"] for line in (tmp_path / "read").read_text().splitlines()] == ["2", "4"]
    assert process.stderr.read().count("the command ended with 3") == 2
    assert "key pattern" in cli("watch", "--keys", "a b", code=USAGE).err


@pytest.mark.parametrize("how", ([], ["--poll"]))
def test_what_a_stream_says_beside_messages_is_no_message(cli, how):
    cli("publish", cli.file(marked("one")))
    told = cli("watch", "PUSH_RC", "NO_SUCH", "--have", "0", "--json", "--count", "1", *how)
    assert json.loads(told)["latestTemplateVersionNumber"] == "1", "one line, and it is a message"
    assert "no such topic: NO_SUCH" in told.err


@pytest.mark.parametrize("how", ([], ["--poll"]))
def test_watch_resumes_over_a_killed_daemon_without_loss(running, cli, watch, how):
    cli("publish", cli.file(marked("one")))
    process = watch("--json", "--count", "2", *how)
    cli("publish", cli.file(marked("two")))
    assert json.loads(process.stdout.readline())["latestTemplateVersionNumber"] == "2"
    running.kill()
    assert "again in" in process.stderr.readline()
    running.start()
    cli("publish", cli.file(marked("three")))
    assert json.loads(process.stdout.readline())["latestTemplateVersionNumber"] == "3"
    assert process.wait(10) == 0


def test_watch_is_told_at_once_that_what_it_holds_is_old(cli):
    for marker in ("one", "two"):
        cli("publish", cli.file(marked(marker)))
    message = cli.json("watch", "--have", "1", "--count", "1", "--timeout", "20")
    assert message["latestTemplateVersionNumber"] == "2" and message["sinceTemplateVersionNumber"] == "1"
    cli("watch", "--have", "2", "--count", "1", "--timeout", "1", code=TIMED_OUT)
    assert "(malformed)" in cli("watch", "--since", "nonsense", "--count", "1", "--timeout", "20").err


def test_watch_without_a_count_ends_well_when_its_time_is_up(cli):
    assert cli("watch", "--timeout", "500ms") == ""


def test_sent_data_arrives_as_it_was_sent(cli, watch):
    process = watch("--json", "--count", "1")
    assert "projects/demo/messages/" in cli("send", "PUSH_RC", "CONFIG_STATE=STALE", "note=a=b")
    assert json.loads(process.stdout.readline()) == {"CONFIG_STATE": "STALE", "note": "a=b"}
    assert process.wait(10) == 0
    process = watch("--json", "--count", "1")
    cli("send", "--condition", "'PUSH_RC' in topics", "A=1")
    assert json.loads(process.stdout.readline()) == {"A": "1"}


def test_status_and_topics_show_who_is_there(cli, watch):
    cli("publish", cli.file(marked("one")))
    watch()
    assert cli.json("topics")["topics"][0]["subscribers"]["sse"] == 1
    lines = cli("topics").splitlines()
    assert lines[0].split() == ["TOPIC", "STREAMS", "POLLS", "SCOPES", "KEYS"]
    assert lines[1].split()[:3] == ["PUSH_RC", "1", "0"]
    status = cli("status")
    assert "webhooks none" in status and "sources  none" in status
    assert ": ready" in status and "demo/firebase" in status and "streams 1," in status
    assert cli.json("status")["scopes"][0]["versionNumber"] == "1"


def test_a_backup_of_a_live_store_is_restored_under_a_new_identity(running, cli):
    cli("publish", cli.file(marked("one")))
    cursor = cli.json("status")["cursor"]
    backup = str(cli.files / "store.backup")
    cli("backup", backup)
    assert "backup" in cli("backup", backup, code=REFUSED).err, "an existing file is not overwritten"
    sent, wrong = cli.files / "sent.backup", cli.files / "wrong"
    wrong.write_text("w" * 43)
    elsewhere = [BINARY, "backup", sent, "--control", f"http://127.0.0.1:{running.control}", "--token-file"]
    right = running.data / "control.token"
    for token, code in ((wrong, TOKEN), (right, 0), (right, REFUSED)):
        done = subprocess.run([*elsewhere, token], capture_output=True, text=True, timeout=20, env=environment())
        assert done.returncode == code, done
        assert sent.exists() == (token != wrong) and not list(cli.files.glob("*unfinished*"))
    assert "demo/firebase at version 1" in stalecast("backup", "verify", sent)
    assert sent.stat().st_mode & 0o777 == 0o600
    cli("publish", cli.file(marked("two")))
    cli("restore", backup, code=REFUSED)
    assert running.stop() == 0
    # A directory for temporary files that has no room says nothing about the backup.
    verified = subprocess.run([BINARY, "backup", "verify", backup], capture_output=True, text=True, timeout=20,
                              env=environment(TMPDIR="/nowhere"))
    assert verified.returncode == 0 and "demo/firebase at version 1" in verified.stdout
    with open(backup, "rb") as whole:
        (cli.files / "broken").write_bytes(whole.read(6000))
    broken = subprocess.run([BINARY, "backup", "verify", cli.files / "broken"], capture_output=True, text=True, timeout=20,
                            env=environment())
    assert broken.returncode == REFUSED and "use another backup" in broken.stderr and "--data" not in broken.stderr, broken.stderr
    rehearsal = cli("restore", backup, "--dry-run")
    assert "the next one is 3" in rehearsal and "nothing was changed" in rehearsal
    restored = cli("restore", backup)
    assert "the next one is 3" in restored and "the replaced store is " in restored
    running.start()
    assert [v["versionNumber"] for v in cli.json("versions")["versions"]] == ["1"]
    text = cli("watch", "--since", cursor, "--count", "1", "--timeout", "20")
    assert "(unknown-epoch)" in text.err and "version 1" in text
    cli("publish", cli.file(marked("three")))
    assert cli.json("versions")["versions"][0]["versionNumber"] == "3", "clients may hold a version 2"


def test_backup_and_restore_speak_json(running, cli):
    cli("publish", cli.file(marked("one")))
    backup = str(cli.files / "store.backup")
    made = cli.json("backup", backup)
    assert made["scopes"] == [{"scope": "demo/firebase", "version": 1, "versions": 1}] and made["file"] == backup
    assert "control.token" in made["notInIt"] and "webhooks.key" not in made["notInIt"]
    verified = subprocess.run([BINARY, "backup", "verify", backup, "--json"], capture_output=True, timeout=20)
    assert json.loads(verified.stdout) == {key: made[key] for key in ("file", "madeAt", "scopes", "webhooks", "checksum")}
    assert json.loads(cli("backup", backup, "--json", code=REFUSED).err)["exitCode"] == REFUSED
    cli("publish", cli.file(marked("two")))
    assert running.stop() == 0
    rehearsal = cli.json("restore", backup, "--dry-run")
    assert rehearsal["restored"] is False and rehearsal["nextVersion"] == {"demo/firebase": 3}
    done = cli.json("restore", backup)
    assert done["restored"] and done["nextVersion"] == {"demo/firebase": 3} and os.path.exists(done["kept"])
    (running.data / "stalecast.sqlite").rename(running.data / "stalecast.sqlite-wal")
    assert "the log of the lost store is " in cli("restore", backup)


def test_a_broken_template_is_told_with_places_and_near_names(cli):
    path = cli.file(b'{"paramters": {},\n "parameters": {"a": {"defaultValue": {"value": "1"}, "valueType": "NUMBR"}}}')
    for command in (["publish", path], ["publish", path, "--validate-only"]):
        text = cli(*command, code=REFUSED).err
        assert 'there is no "paramters" here; did you mean "parameters"? (line 1, column 2)' in text
        assert 'did you mean "NUMBER"? (line 2, column 55)' in text
    conditions = [{"name": f"c{n}", "expression": "nonsense"} for n in range(501)]
    text = cli("publish", cli.file({"conditions": conditions, "parameters": {}}), code=REFUSED).err
    assert text.count("\n  - ") == 21 and "… and 481 more" in text


def test_evaluate_says_what_decided_and_what_to_send(cli):
    demo = str(SAMPLES / "demo.json")
    run = lambda context: subprocess.run([BINARY, "evaluate", "--template", demo, "--context", context],
                                         capture_output=True, text=True, timeout=20)
    lines = run('{"countryCode": "FR", "appId": "1:123456789012:ios:0a1b"}').stdout.splitlines()
    welcome = next(line for line in lines if line.startswith("welcome_text"))
    assert welcome.split() == ["welcome_text", "Bonjour", "ios_france"]
    dark = next(line for line in lines if line.startswith("dark_mode"))
    assert "(in-app default)" in dark
    text = run('{"countryCode": "FR"}').stdout
    assert "it needs appId, such as" in text and "percent is missing: it needs appInstanceId" in text
    assert "known: analyticsUserProperties" in run('{"country": "FR"}').stderr


@pytest.mark.parametrize("content", (b"no database at all " * 50, None), ids=("text", "foreign"))
def test_a_foreign_database_is_told_without_sql(running, content):
    assert running.stop() == 0
    path = os.path.join(running.data, "webhooks.sqlite")
    for name in (path, path + "-wal", path + "-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(name)
    if content is None:
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.execute("CREATE TABLE webhook (a)")
            other.commit()
    else:
        with open(path, "wb") as file:
            file.write(content)
    done = subprocess.run([BINARY, "serve", "--data", str(running.data), "--edge", "127.0.0.1:0", "--control", "127.0.0.1:0"],
                          env=environment(), capture_output=True, text=True, timeout=20)
    said = done.stdout + done.stderr
    assert done.returncode == 1 and "none of Stalecast's" in said and "move it and its -wal away" in said
    assert not re.search(r"PRAGMA|SELECT|INSERT|CREATE|while executing", said), said


def test_a_store_that_is_gone_is_not_an_empty_one(running, cli):
    cli("publish", cli.file(marked("one")))
    assert running.stop() == 0
    os.remove(os.path.join(running.data, "stalecast.sqlite"))
    done = subprocess.run([BINARY, "serve", "--data", str(running.data), "--edge", "127.0.0.1:0", "--control", "127.0.0.1:0"],
                          env=environment(), capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and "is missing, and it held 1 commits" in done.stderr + done.stdout
    assert "--begin-empty" in done.stderr + done.stdout


def check_config(*words, code=0, variables=()):
    done = subprocess.run([BINARY, "check-config", *words], env={**environment(), **dict(variables)},
                          capture_output=True, text=True, timeout=20)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.skipif(not os.access(BINARY, os.X_OK), reason=f"no binary at {BINARY}")
def test_check_config_reports_all_problems_with_their_lines(tmp_path):
    file = tmp_path / "stalecast.yaml"
    file.write_text("edge:\n  heartbeet: 25s\n  retry: soon\n")
    text = check_config("--config", str(file), code=78, variables={"STALECAST_LOG_LEVEL": "loud"}.items())
    assert ":2:" in text and "edge.heartbeat" in text and ":3:" in text and "STALECAST_LOG_LEVEL" in text
    check_config("--config", str(REPOSITORY / "samples/stalecast.yaml"))
    assert "no file was read; check one with `stalecast check-config --config " in check_config()
    file.write_text(check_config("--explain"))
    check_config("--config", str(file))


@pytest.mark.skipif(not os.access(BINARY, os.X_OK), reason=f"no binary at {BINARY}")
def test_check_config_reads_key_sets_in_files(tmp_path):
    file, keys = tmp_path / "stalecast.yaml", tmp_path / "keys.json"
    file.write_text(json.dumps({"auth": auth(issuer(keys))}))
    text = check_config("--config", str(file), code=78)
    assert "auth.issuers[0].jwks" in text and f"{keys} cannot be read" in text
    keys.write_text("{}")
    assert "no key set" in check_config("--config", str(file), code=78)
    keys.write_bytes(key_set(Key()))
    check_config("--config", str(file))
