"""What people touch first: questions before dangerous commands, single values, contexts, the live screen, examples."""

import json
import os
import re
import shutil
import subprocess

import pytest

from harness import configs
from harness.cli import MISMATCH, NOT_FOUND, REFUSED, TOKEN, UNREACHABLE, USAGE, Cli
from harness.daemon import BINARY, REPOSITORY, Daemon, environment
from harness.receiver import HANG, Receiver
from harness.sse import Stream
from harness.templates import template
from harness.terminal import Terminal


@pytest.fixture
def cli(launch, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    cli = Cli(launch())
    cli("publish", cli.file(template({"max_items": "20", "pay": "on"})))
    return cli


def on_terminal(cli, *words, columns=80, **variables):
    return Terminal([BINARY, *words, "--data", cli.data], {**environment(), "NO_COLOR": "1", **variables}, columns)


def newest(cli):
    return int(cli.json("versions", "--limit", "1")["versions"][0]["versionNumber"])


# Publish safely

@pytest.mark.parametrize("words", (("set", "max_items=21"), ("unset", "pay"), ("rollback", "1"), ("rollback",)))
def test_a_terminal_shows_the_difference_and_asks(cli, words):
    cli("set", "max_items=22")
    for typed, code in (("n\n", REFUSED), ("\n", REFUSED), ("\x04", REFUSED), ("\x03", 130)):
        terminal = on_terminal(cli, *words)
        shown = terminal.read_until("[y/N] ")
        assert "demo/firebase at http://127.0.0.1:" in shown and ("max_items" in shown or "- parameter pay" in shown)
        assert terminal.type(typed).end() == code, terminal.shown
        assert "nothing was changed" in terminal.shown
    assert newest(cli) == 2
    terminal = on_terminal(cli, *words)
    terminal.read_until("[y/N] ")
    assert terminal.type("y\n").end() == 0 and newest(cli) == 3
    assert on_terminal(cli, "set", "max_items=23", "--yes").end() == 0 and newest(cli) == 4


def test_the_difference_is_coloured_and_goes_inside_json(cli):
    cli("set", 'screens={"a":{"price":4.99},"b":1}', "--create", "json")
    terminal = on_terminal(cli, "set", 'screens={"a":{"price":3.99},"b":1}', NO_COLOR="")
    shown = terminal.read_until("[y/N] ")
    assert "a.price: 4.99 -> 3.99" in shown and "\x1b[33m" in shown
    assert terminal.type("n\n").end() == REFUSED


def test_a_rollback_without_a_number_is_agreed_to_by_somebody(cli):
    cli("rollback", code=NOT_FOUND)
    cli("set", "max_items=22")
    assert "`stalecast rollback 1`" in cli("rollback", code=USAGE).err
    assert cli.json("set", "max_items=23", "--wait", "50%", "--stage", "sent")["wait"]["reason"] == "REACHED"
    assert cli.json("rollback", "--yes")["version"]["rollbackSource"] == "2"
    assert cli.json("rollback", "--yes")["version"]["rollbackSource"] == "1", "the second press is no way back to the bad one"
    assert "went back to" in cli("rollback", "--yes", code=NOT_FOUND).err
    # A rollback of a rollback: what the one before went back to is where the content is from.
    cli("set", "max_items=24")
    assert cli.json("rollback", "--yes")["version"]["rollbackSource"] == "5"
    assert "went back to" in cli("rollback", "--yes", code=NOT_FOUND).err


async def test_the_publisher_hears_who_was_told(launch, half):
    daemon = launch(configs.config(half, webhooks={"allowedAddresses": ["127.0.0.0/8"]}), half=half)
    cli = Cli(daemon)
    streams = [await Stream.open(daemon.edge) for _ in range(3)]
    for stream in streams:
        await stream.synced()
    answer = cli.json("publish", cli.file(template({"a": "1"})))
    told = answer["told"]["streams"]
    assert (told["audience"], told["sent"]) == (3, 3) and answer["told"]["milliseconds"] > 0
    assert re.search(r"^told 3 of 3 streams in [\d.,]+ ms$", cli("set", "a=2"), re.MULTILINE)
    with Receiver(answer=lambda arrival: HANG) as receiver:
        cli("webhooks", "add", receiver.url)
        assert "; 1 webhook on its way" in cli("set", "a=3")
    server = cli("publish", "-", "--namespace", "firebase-server", stdin=b'{"parameters":{}}')
    assert "no client is connected" in server


def test_a_webhook_is_removed_after_a_question(cli):
    hook = cli.json("webhooks", "add", "https://example.com/hook")
    name = hook.get("id") or hook["webhook"]["id"]
    for typed, code in (("\x03", 130), ("n\n", REFUSED), ("y\n", 0)):
        terminal = on_terminal(cli, "webhooks", "remove", name)
        assert "of demo at http" in " ".join(terminal.read_until("[y/N] ").split())
        assert terminal.type(typed).end() == code
        assert len(cli.json("webhooks", "list")["webhooks"]) == (code != 0)


# Single values

def test_single_values_are_read_set_and_removed(cli):
    assert cli("get", "max_items") == "20\n" and cli.json("get", "max_items")["defaultValue"] == {"value": "20"}
    assert cli.json("set", "max_items=21", "pay=a=b")["changedKeys"] == ["max_items", "pay"]
    assert cli("get", "pay") == "a=b\n"
    assert cli.json("unset", "pay")["removed"] == ["pay"]
    assert "Did you mean max_items?" in cli("get", "max_itms", code=NOT_FOUND).err
    assert "Did you mean max_items?" in cli("set", "maxitems=1", code=NOT_FOUND).err
    assert cli.json("set", "maxitems=1", "--create", "number")["added"] == ["maxitems"]
    assert "'one' is not a number\n" in cli("set", "maxitems=one", code=REFUSED).err
    assert cli.json("set", "max_items=21")["published"] is False
    for words in (("set",), ("set", "max_items"), ("get", "--condition", "x"), ("unset",)):
        cli(*words, code=USAGE)


def test_values_for_a_condition(cli):
    cli("publish", str(REPOSITORY / "samples/templates/demo.json"), "--allow-removals")
    cli("set", "max_items=50", "--condition", "ios_france")
    assert cli("get", "max_items", "--condition", "ios_france") == "50\n"
    text = cli("get", "max_items")
    assert text == "20\n" and "if ios_france: 50" in text.err
    assert "Did you mean ios_france?" in cli("set", "max_items=1", "--condition", "ios_frnce", code=NOT_FOUND).err
    cli("unset", "max_items", "--condition", "ios_france")
    cli("get", "max_items", "--condition", "ios_france", code=NOT_FOUND)


def editing(cli, script, code, **variables):
    """`edit` with a shell script as the editor, the file as `$1`."""
    path = cli.files / "editor.sh"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    done = subprocess.run([BINARY, "edit", "--data", cli.data], capture_output=True, text=True, timeout=30,
                          env={**environment(), "VISUAL": "", "EDITOR": str(path), "TMPDIR": str(cli.files), **variables})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def drafts(cli):
    return list(cli.files.glob("stalecast-*.json"))


def test_the_template_is_edited(cli):
    assert "published version 2" in editing(cli, "sed -i 's/\"20\"/\"25\"/' \"$1\"", 0)
    assert cli("get", "max_items") == "25\n" and not drafts(cli)
    assert "nothing differs" in editing(cli, "true", 0) and not drafts(cli)


def test_what_is_refused_is_kept(cli):
    said = editing(cli, "printf '{ nonsense' >\"$1\"", REFUSED)
    assert "is not JSON" in said and drafts(cli)[0].read_text() == "{ nonsense" and str(drafts(cli)[0]) in said
    drafts(cli)[0].unlink()
    said = editing(cli, "printf '{\"parameters\":{\"9x\":{}}}' >\"$1\"", REFUSED)
    assert "9x" in said and drafts(cli)
    drafts(cli)[0].unlink()
    # Parameters are gone by the way.
    assert "--allow-removals" in editing(cli, "echo '{}' >\"$1\"", REFUSED) and drafts(cli)
    assert newest(cli) == 1


def test_who_publishes_while_somebody_edits_wins(cli):
    said = editing(cli, f"'{BINARY}' set pay=off --data '{cli.data}'; sed -i 's/\"20\"/\"25\"/' \"$1\"", MISMATCH)
    assert "Another version was published meanwhile" in said and '"25"' in drafts(cli)[0].read_text()
    assert newest(cli) == 2 and cli("get", "max_items") == "20\n"


def test_without_an_editor_nothing_happens(cli):
    assert "no editor" in editing(cli, "", USAGE, EDITOR="")
    assert "exit code 127" in editing(cli, "", REFUSED, EDITOR="/nonexistent/editor")
    assert "exit code 3" in editing(cli, "exit 3", REFUSED) and not drafts(cli)
    assert newest(cli) == 1


def test_a_mistake_is_edited_again(cli):
    path = cli.files / "twice.sh"
    path.write_text("#!/bin/sh\nif [ -e \"$0.once\" ]; then sed -i 's/!//' \"$1\"; else sed -i 's/^{/!{/' \"$1\"; "
                    "sed -i 's/\"20\"/\"26\"/' \"$1\"; touch \"$0.once\"; fi\n")
    path.chmod(0o755)
    terminal = on_terminal(cli, "edit", EDITOR=str(path), VISUAL="")
    terminal.read_until("Edit it again? [y/N] ")
    terminal.type("y\n").read_until("Publish to demo/firebase")
    assert terminal.type("y\n").end() == 0, terminal.shown
    assert cli("get", "max_items") == "26\n"


# Where and who

def bare(*words, code=0, **variables):
    """Without `--data`, in a directory without any."""
    done = subprocess.run([BINARY, *words], capture_output=True, text=True, timeout=30, cwd="/",
                          env={**environment(), **variables})
    assert done.returncode == code, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def test_contexts_are_kept_used_and_shown(cli, tmp_path):
    endpoints = json.loads((cli.data / "endpoints.json").read_text())
    bare("get", "max_items", code=UNREACHABLE)
    bare("context", "use", "prod", code=NOT_FOUND)
    bare("context", "add", "no name", "--data", "x", code=USAGE)
    bare("context", "add", "prod", code=USAGE)
    bare("context", "add", "prod", "--control", endpoints["control"], "--token-file", str(cli.data / "control.token"))
    file = tmp_path / "xdg/stalecast/contexts.json"
    assert file.stat().st_mode & 0o777 == 0o600 and "control.token" in file.read_text()
    assert bare("get", "max_items") == "20\n"
    assert "no address of Edge" in bare("watch", code=UNREACHABLE)
    bare("context", "add", "prod", "--edge", endpoints["edge"])
    bare("watch", "--timeout", "0.2")
    bare("context", "add", "local", "--data", str(cli.data), "--namespace", "firebase-server")
    listed = bare("context", "list")
    assert re.search(r"^\*\s+prod ", listed, re.MULTILINE) and "demo/firebase-server" in listed
    assert "there is no context" in bare("status", "--context", "prd", code=USAGE)
    bare("get", "max_items", "--context", "local", code=NOT_FOUND)
    bare("get", "max_items", "--context", "local", code=NOT_FOUND, STALECAST_DATA="/nonexistent")
    terminal = Terminal([BINARY, "set", "max_items=5"], environment())
    assert "(context prod)? [y/N]" in terminal.read_until("[y/N]").replace("\n", "")
    assert terminal.type("\x03").end() == 130
    assert json.loads(bare("context", "use", "--none", "--json")) == json.loads(file.read_text())
    bare("status", code=UNREACHABLE)
    # A context's token is not shown to another daemon.
    bare("context", "use", "local")
    assert "stalecast-data" in bare("status", "--control", endpoints["control"], code=TOKEN)
    bare("context", "remove", "prod")
    assert list(json.loads(bare("context", "list", "--json"))["contexts"]) == ["local"]
    file.write_text("{")
    assert str(file) in bare("status", code=78)


def test_variables_say_where_the_daemon_is(cli):
    endpoints = json.loads((cli.data / "endpoints.json").read_text())
    token = (cli.data / "control.token").read_text().strip()
    where = {"STALECAST_CONTROL": endpoints["control"], "STALECAST_EDGE": endpoints["edge"]}
    assert bare("get", "max_items", **where, STALECAST_TOKEN=token) == "20\n"
    assert bare("get", "max_items", **where, STALECAST_TOKEN_FILE=str(cli.data / "control.token")) == "20\n"
    assert "$STALECAST_TOKEN" in bare("get", "max_items", **where, STALECAST_TOKEN="wrong", code=TOKEN)
    bare("watch", "--timeout", "0.2", **where)
    server = bare("status", "--json", STALECAST_DATA=str(cli.data))
    assert json.loads(server)["ready"] is True
    said = bare("versions", **where, STALECAST_TOKEN=token, STALECAST_NAMESPACE="firebase-server")
    assert "no version published yet" in said
    bare("versions", **where, STALECAST_TOKEN=token, STALECAST_PROJECT="nowhere", code=NOT_FOUND)


# Words that complete themselves: the word that is being typed, and one that is offered for it.
COMPLETED = [("rollback ", "2"), ("get m", "max_items"), ("unset p", "pay"), ("context use ", "here"), ("watch PUSH_RC_", "PUSH_RC_SERVER"),
             ("status --context ", "here"), ("publish read-m", "read-me.json"), ("set --create n", "number"),
             ("get --namespace firebase-", "firebase-server"), ("webhooks pau", "pause"), ("rollba", "rollback")]


@pytest.fixture
def place(cli, tmp_path):
    """A directory with a file, `stalecast` in the path, and a context; its variables."""
    cli("set", "max_items=22")
    (tmp_path / "read-me.json").write_text("{}")
    (tmp_path / "stalecast").symlink_to(BINARY)
    bare("context", "add", "here", "--data", str(cli.data))
    return {**environment(), "PATH": f"{tmp_path}:{os.environ['PATH']}"}


# fish needs a second of a processor for each word.
@pytest.mark.parametrize("shell,words", (("bash", COMPLETED), ("fish", COMPLETED[1:9:3] + COMPLETED[-1:])))
def test_words_complete_themselves(place, tool, tmp_path, shell, words):
    (tmp_path / "script").write_text(bare("completion", shell))
    asks = ["source ./script"]
    for line, _ in words:
        typed = ["stalecast", *line.split(" ")]
        asks += [f"COMP_WORDS=({' '.join(repr(word) for word in typed)}); COMP_CWORD={len(typed) - 1}; COMPREPLY=(); "
                 f"$(complete -p stalecast | sed 's/.*-F \\([^ ]*\\).*/\\1/') stalecast '{typed[-1]}' '{typed[-2]}'; "
                 "printf '%s\\n' \"${COMPREPLY[@]}\"" if shell == "bash" else f"complete -C 'stalecast {line}'", "echo =="]
    # One shell for all words: the script that it sources is long.
    done = subprocess.run([tool(shell), *(["--no-config"] if shell == "fish" else []), "-c", "\n".join(asks)], cwd=tmp_path,
                          env=place, capture_output=True, text=True, timeout=60)
    for (line, offered), answer in zip(words, done.stdout.split("==\n"), strict=False):
        assert offered in [one.split("\t")[0].strip() for one in answer.splitlines()], f"{line}: {done}"
    assert done.stdout.count("==\n") == len(words)


@pytest.mark.limit(180)
def test_words_complete_themselves_in_zsh(place, tool, tmp_path):
    (tmp_path / "_stalecast").write_text(bare("completion", "zsh"))
    (tmp_path / ".zshrc").write_text(f"PS1='ready> '; fpath=({tmp_path} $fpath); autoload -U compinit; compinit -u -d {tmp_path}/dump\n")
    for words, offered in COMPLETED:
        if words.endswith(" ") or words == "rollba":
            continue  # zsh shows a menu
        terminal = Terminal([tool("zsh"), "-i"], {**place, "ZDOTDIR": str(tmp_path), "HOME": str(tmp_path), "TERM": "dumb"}, 200,
                            cwd=tmp_path)
        terminal.read_until("ready> ")
        terminal.type(f"stalecast {words}\t").read_until(f" {offered}", within=40)
        terminal.hang_up()


# Looking

def test_top_is_a_screen_on_a_terminal_and_a_sample_elsewhere(cli):
    text = cli("top", "--interval", "200ms")
    assert "\x1b" not in text and re.search(r"^deliveries +[\d.]+/s  ▁", text, re.MULTILINE) and "demo/firebase" in text
    sample = cli.json("top", "--interval", "200ms")
    assert sample["ready"] is True and sample["streams"] == 0 and sample["deliveriesPerSecond"] == 0
    lines = cli("top", "--json", "--count", "3", "--interval", "100ms").splitlines()
    assert len([json.loads(line) for line in lines]) == 3
    assert "\x1b[?1049h" not in on_terminal_text(cli, "top", "--count", "1", TERM="dumb")
    for columns in (40, 80):
        terminal = on_terminal(cli, "top", "--interval", "100ms", columns=columns)
        terminal.read_until("demo/fire")
        assert terminal.type("\x03").end() == 0
        assert terminal.shown.startswith("\x1b[?1049h") and terminal.shown.endswith("\x1b[?25h\x1b[?1049l")
        drawn = re.sub(r"\x1b\[[?\d]*[a-zA-Z]", "", terminal.shown.split("\x1b[H")[1])
        assert max(map(len, drawn.splitlines())) <= columns, drawn


def on_terminal_text(cli, *words, **variables):
    terminal = on_terminal(cli, *words, **variables)
    assert terminal.end() == 0
    return terminal.shown


def test_the_terminal_may_be_narrower_than_it_says(cli):
    wide = on_terminal_text(cli, "versions")
    narrow = on_terminal_text(cli, "versions", COLUMNS="40")
    assert max(map(len, narrow.splitlines())) <= 40 < max(map(len, wide.splitlines()))


# Every command

def commands():
    """Every command that does something, as its words, with its help."""
    def walk(command, path):
        children = [child for child in command.get("subcommands", []) if child["commandName"] != "help"]
        for child in children:
            yield from walk(child, [*path, child["commandName"]])
        if path:
            yield " ".join(path), command, bool(children)
    dump = subprocess.run([BINARY, "--experimental-dump-help"], capture_output=True, text=True, timeout=20, check=True)
    return list(walk(json.loads(dump.stdout)["command"], []))


def examples(command):
    found = re.search(r"(?:EXAMPLES|Examples?:)\n((?:  .*\n?)+)", command.get("discussion", ""))
    return [line.strip() for line in re.sub(r" \\\n\s*", " ", found[1]).splitlines()] if found else []


def test_help_is_in_groups_and_every_command_has_an_example():
    text = subprocess.run([BINARY, "help"], capture_output=True, text=True, timeout=20, check=True).stdout
    for group in ("PUBLISH", "WATCH", "WEBHOOKS", "SOURCES", "OPERATE", "MEASURE"):
        assert f"{group} SUBCOMMANDS:" in text
    assert not [name for name, command, _ in commands() if not examples(command)]


# What an example names and no test has, and what stands for it here.
STAND_INS = [
    # A release would go on for minutes; the commands of `release` may then find none.
    (r" --stages 1%,10%,100% --wait", ""),
    (r"--edge https://edge:8443 --ca-file ca.pem --api-key KEY --control http://edge:8081 --token-file token", ""),
    (r"proposals (\w+) 7", r"proposals \1 1"), (r"laggards \d+", "laggards 4"),
    (r"wh_4n3xqv7pqk2yb6l5m7ta", "$HOOK"), (r"sudo -u \w+ ", ""), (r"/etc/stalecast(/stalecast)?\.yaml", "stalecast.yaml"),
    (r"/backup/", ""), (r"/var/lib/stalecast", "$STALECAST_DATA"), (r"jq … \| ", "jq . | "),
    (r"10000|5000\b|1000\b(?!\d)", "4"), (r"--(repeat|rounds|publishes) \d+", r"--\1 1"), (r"60s|10m\b|5s", "1s"),
    (r"--count 60", "--count 2"), (r"--black-holes 100", "--black-holes 1"), (r"/24|--in-flight 1024", ""),
    (r"--streams 500000", "--streams 10"), (r"stalecast load (fanout|fetch|webhooks)", r"stalecast load \1 --yes"),
    (r"--control http://10.0.0.2:8081", ""), (r"http://edge:808[01]", ""), (r"--edge +--control +--token-file token", ""), (r"--edge http://127.0.0.1:8080", ""),
    (r"rollback 3", "rollback 1"), (r"^stalecast rollback$", "stalecast rollback --yes"), (r"number [37]\b", "number 1"), (r"--from 76", "--from 1"),
    (r"~/", "$HOME/"), (r"127.0.0.1:3000/hook", "127.0.0.1:1/hook"), (r"hook.secret\)", "made.secret)"),
    (r"--save-secret \w+.secret", "--save-secret saved.$RANDOM"), (r"stalecast-2026-11-20", "a"),
    (r"code --wait", "true"), (r"--project shop", "--project demo"), (r"--letter 42", "--letter 1"),
    (r"PUSH_RC payments", "PUSH_RC"), (r"context use prod", "context use here"), (r"--context (staging|prod)", "--context here"),
    (r"context remove staging", "context remove prod"), (r"stalecast send --condition .*", "stalecast send PUSH_RC A=1"),
    (r"--id msg_… --timestamp 1792000000 --signature 'v1,…'", "--id msg_a --timestamp 1 --signature v1,AAAA"),
    (r"stalecast unset old_flag", "stalecast set old_flag=1 --create string; stalecast unset old_flag"),
    (r"import firebase .*", 'import firebase --project demo --url "$(jq -r .control "$STALECAST_DATA/endpoints.json")" '
     '--credentials "$STALECAST_DATA/control.token" --dry-run'),
    (r"load idle(?!.*duration)", "load idle --subscribers 4 --duration 1s"),
    # The defaults are a thousand clients and ten rounds.
    *((rf"stalecast load {kind}(?!.*{option})", f"stalecast load {kind} {option} {few}") for kind, option, few in (
        ("fanout", "--subscribers", 4), ("fanout", "--rounds", 1), ("fetch", "--clients", 4), ("fetch", "--window", "100ms"),
        ("webhooks", "--receivers", 2), ("webhooks", "--publishes", 1), ("connect", "--subscribers", 4))),
    (r"4fT0aZ81Qx", "$KEY"), (r"--save \S+\.key", "--save saved.$RANDOM$RANDOM.key"),
    (r"tls check (config.example.com:8443|\S+tls.pem)|(?<=tls check )--ca-file ca.pem --json localhost:8080",
     "tls check tls/localhost.pem"), (r"tls dev --to tls\b", "tls dev --to new.$RANDOM"),
    (r"tls check tls check", "tls check"), (r"context add here .*", "context list"),
    (r"listen +#.*", "listen --listen 127.0.0.1:0"), (r"webhooks listen --(?!forward)", "webhooks listen --listen 127.0.0.1:0 --"),
]
# Commands that run until they are ended; those that say no here, and why that is right.
ENDLESS = r"\bstalecast (serve|emulator|watch|top|webhooks listen|audit( show)? --follow|logs --follow|propagation status --follow)"
MAY_FAIL = {
    "doctor": "this machine may need its owner", "webhooks test": "nobody answers at example.com",
    "webhooks verify": "nobody answers at example.com", "webhooks check-signature": "the signature is made up",
    "webhooks add": "a challenge that nobody answers, an account that is not one", "webhooks redrive": "no dead letter",
    "webhooks sign": "curl finds nobody", "webhooks update": "a topic of its own", "restore": "the daemon runs",
    "webhooks dead-letters": "no dead letter", "webhooks redeliver": "no version of that number was owed",
    "webhooks enable": "it is not disabled", "webhooks resume": "it is not paused", "rollback": "what is current",
    "sources check": "no source can be tried", "diff": "they differ", "backup": "the file is there",
    "audit verify": "no line has that hash", "keys": "its key is revoked by then", "keys rotate": "the same",
    "proposals": "nobody approves alone", "proposals approve": "the same", "proposals reject": "it is rejected by then",
    "release": "no release is open", "release status": "the same", "release pause": "the same", "release resume": "the same",
    "release promote": "the same", "release rollback": "the same",
    "backup make": "the file is there", "tls check": "nobody knows its authority", "load connect": "an address of the example's", "webhooks": "as its parts",
    "cluster": "one by itself", "cluster status": "the same", "cluster upgrade": "the same", "cluster new-epoch": "the same",
    "import": "versions here are not from there", "import firebase": "the same", "migrate": "no etcd is named, and the daemon runs", "new-epoch": "the daemon runs",
}


WEBHOOKS = "webhooks:\n  allowedAddresses: [127.0.0.0/8]\n"


def shell_in(home, data, **more):
    """`run(line)`: a line of bash in `home`, for the daemon of that data directory."""
    variables = {**environment(), "HOME": str(home), "PATH": f"{home}/bin:{os.environ['PATH']}",
                 "STALECAST_DATA": str(data), "XDG_CONFIG_HOME": f"{home}/.config", "EDITOR": "true", "VISUAL": "", **more}

    def run(line):
        return subprocess.run(["bash", "-c", line], cwd=home, env=variables, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)

    return run


def prepare(directory):
    """Makes everything that the examples name: the directory `home`, and the data of a daemon that has ended."""
    daemon, home = Daemon(directory / "daemon", WEBHOOKS), directory / "home"
    daemon.start()
    for folder in ("bin", "config", ".zfunc", ".config/fish/completions", ".config/stalecast"):
        (home / folder).mkdir(parents=True)
    (home / "samples").symlink_to(REPOSITORY / "samples")
    (home / "bin/stalecast").symlink_to(BINARY)
    sample = (REPOSITORY / "samples/templates/demo.json").read_text()
    winter = (REPOSITORY / "samples/templates/demo-winter.json").read_text()
    for name, body in {
        "winter.json": winter, "winter.yaml": winter, "config/all.json": winter, "deployed.json": winter, "t.json": sample,
        "a.json": sample, "b.json": winter, "context.json": '{"countryCode":"FR"}',
        "contexts.jsonl": '{"countryCode":"FR"}\n', "stalecast.yaml": "log:\n  level: info\n", "body.json": "{}",
        "body.bin": "{}", "push.json": "{}", "prod.token": "x", "bob.key": daemon.token, "refetch.sh": "#!/bin/sh\n",
        "screens.schema.json": '{"type":["array","object"]}\n',
    }.items():
        (home / name).write_text(body)
    (home / "refetch.sh").chmod(0o755)
    run = shell_in(home, daemon.data)
    for line in ("publish samples/templates/demo.json", "set max_items=3", "set --schema screens='{}'",
                 "backup stalecast.backup", "backup a.backup",
                 "webhooks new-secret > hook.secret; cp hook.secret old.secret; cp hook.secret new.secret",
                 "webhooks add https://example.com/hook --json > hook.json",
                 "keys create --name k --action watch --save app.key --json > key.json",
                 "tls dev --to tls && cp tls/localhost.pem tls.pem && cp tls/localhost.key tls.key"):
        done = run(f"stalecast {line}")
        assert done.returncode == 0, f"{line}: {done.stderr}"
    assert daemon.stop() == 0


@pytest.fixture
def shell(launch, once, tmp_path):
    """`shell(line)`: a line of bash where everything that the examples name is there, with a daemon of its own."""
    made, home, data = once("first-hour", prepare), tmp_path / "home", tmp_path / "data"
    for source, place in ((made / "home", home), (made / "daemon/data", data)):
        shutil.copytree(source, place, symlinks=True)
    launch(WEBHOOKS, data=data)
    hook, key = (json.loads((home / f"{name}.json").read_text()) for name in ("hook", "key"))
    run = shell_in(home, data, HOOK=hook.get("id") or hook["webhook"]["id"], KEY=key["id"])
    # Only a version of this process has a rollout status, and the proposal is made over it.
    for line in (f"context add here --data {data}", "set max_items=4 --condition ios_france",
                 "publish winter.json --propose --allow-removals"):
        done = run(f"stalecast {line}")
        assert done.returncode == 0, f"{line}: {done.stderr}"
    return run


PARTS = sorted({name.split()[0] for name, _, _ in commands()})


@pytest.mark.limit(240)
@pytest.mark.parametrize("part", PARTS)
def test_the_examples_of_the_help_run(shell, part):
    """An example may be told no by what is there; it is never wrong use of the command line."""
    ours = [(name, command) for name, command, _ in commands() if name.split()[0] == part]
    for name, command in sorted(ours, key=lambda one: one[0].endswith(" remove")):
        for line in examples(command):
            for wanted, instead in STAND_INS:
                line = re.sub(wanted, instead, line)
            # Of the first word that is ours, the commands that never end get two seconds.
            isEndless = re.search(ENDLESS, line)
            if isEndless:
                line = re.sub(ENDLESS, lambda found: f"timeout -s INT 2 {found[0]}", line)
                line = re.sub(r"stalecast (serve|emulator)", r"stalecast \1 --edge 127.0.0.1:0 --control 127.0.0.1:0", line)
            done = shell(line)
            allowed = {0, 124, 130, 1} if isEndless else {0, 1, 6, 7} if name in MAY_FAIL else {0, 78} if name == "check-config" else {0}
            assert done.returncode in allowed, f"{name}: {line}\nended with {done.returncode}: {done.stdout}{done.stderr}"
            assert "Usage:" not in done.stderr and "Error:" not in done.stderr, f"{line}\n{done.stderr}"


def test_every_command_speaks_json(shell):
    """What is printed with --json is JSON, one document or one on each line; failures are JSON too."""
    without = {"serve", "completion"}
    words = {
        "publish": "winter.json", "rollback": "1", "set": "max_items=7", "unset": "max_items", "get": "", "diff": "1 2",
        "evaluate": "--template t.json --context context.json", "watch": "--have 1 --count 1 --timeout 20",
        "send": "PUSH_RC A=1", "webhooks add": "https://example.com/2", "webhooks update": "$HOOK --timeout 9s",
        "webhooks sign": "--secret-file hook.secret body.json",
        "webhooks check-signature": "body.json --secret-file hook.secret --id a --timestamp 1 --signature v1,AA",
        "webhooks recover": "$HOOK --since 1h", "webhooks list": "", "webhooks new-secret": "",
        "webhooks listen": "--listen nowhere:x", "emulator": "--edge nowhere", "import firebase": "--project demo", "sources check": "--config stalecast.yaml", "backup make": "j.backup",
        "backup verify": "a.backup", "restore": "a.backup --dry-run", "top": "--interval 100ms",
        "load fanout": "--yes --rounds 1 --subscribers 2",
        "load webhooks": "--yes --receivers 1 --publishes 1", "load connect": "--subscribers 2",
        "load idle": "--subscribers 2 --duration 1s", "context add": "other --data x", "context use": "other",
        "context remove": "other", "token rotate": "",
    }
    order = {"webhooks remove": 1, "context use": 1, "context remove": 2, "token rotate": 3}
    leaves = [name for name, _, hasChildren in commands() if not hasChildren and name not in without]
    for name in sorted(leaves, key=lambda name: order.get(name, 0)):
        given = words.get(name, "$HOOK" if name.startswith("webhooks ") else "")
        done = shell(f"stalecast {name} {given} --json")
        said = done.stdout.strip() or done.stderr.strip()
        documents = [said] if not said.startswith("{") or "\n" not in said or said.startswith("{\n") else said.splitlines()
        try:
            parsed = [json.loads(document) for document in documents]
        except ValueError:
            pytest.fail(f"{name} {given} ended with {done.returncode}: {said}")
        if done.returncode not in (0, 1) or not done.stdout:
            assert parsed[-1]["exitCode"] == done.returncode and parsed[-1]["error"]["message"], said
