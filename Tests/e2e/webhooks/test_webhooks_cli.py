"""`stalecast webhooks` as people get it wrong: sentences, exit codes, JSON, and the help's examples, run as printed."""

import asyncio
import contextlib
import json
import os
import re
import subprocess

import pytest
import standardwebhooks

from harness import webhooks
from harness.daemon import BINARY, environment
from harness.receiver import RESET, Answer, Receiver
from harness.templates import marked
from harness.webhooks import Webhooks, id_of, secret_of

REFUSED, USAGE, UNREACHABLE, NOT_FOUND = 1, 2, 3, 6
EXAMPLE_ID = "wh_4n3xqv7pqk2yb6l5m7ta"
NOBODY = "wh_aaaaaaaaaaaaaaaaaaaa"
NASTY = "\x1b]0;pwned\x07\x1b[31mred\u202e\r\n\x9b31m"


class Cli:
    def __init__(self, daemon):
        self.daemon = daemon

    def __call__(self, *words, code=0):
        """Standard output, and what was said on standard error."""
        done = subprocess.run([BINARY, "webhooks", *map(str, words), "--data", self.daemon.data], capture_output=True,
                              timeout=50, env=environment())
        out, err = done.stdout.decode(), done.stderr.decode()
        assert done.returncode == code, f"{words} ended with {done.returncode}:\n{out}\n{err}"
        return out, err

    def start(self, *words):
        return subprocess.Popen([BINARY, "webhooks", *map(str, words), "--data", self.daemon.data], env=environment(),
                                text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


# arguments after the webhook's id, or with ID in them; exit code; what the sentence must name
MISTAKES = [
    (("add",), REFUSED, "url"), (("add", ""), REFUSED, "https://"), (("add", "a", "b"), USAGE, "'b'"),
    (("add", "http://10.0.0.1/"), REFUSED, "allowedAddresses"), (("add", "http://[fe80::1%25lo]/"), REFUSED, "zone"),
    (("add", "http://me:pw@a.example/"), REFUSED, "user name"), (("add", "http://a.example:65536/"), REFUSED, "url"),
    (("add", "http://a.example/", "--header", "X: a\r\nY: b"), REFUSED, "headers[X]"),
    (("add", "http://a.example/", "--header", "no colon"), USAGE, "NAME: VALUE"),
    (("add", "http://a.example/", "--header", "Host: x"), REFUSED, "headers[Host]"),
    (("add", "http://a.example/", "--timeout", "5x"), USAGE, "--timeout"),
    (("add", "http://a.example/", "--timeout", "0s"), REFUSED, "limits.timeout"),
    (("add", "http://a.example/", "--max-per-second=-1"), REFUSED, "limits.maxPerSecond"),
    (("add", "http://a.example/", "--secret-file", "/nowhere"), REFUSED, "/nowhere"),
    (("add", "http://a.example/", "--save-secret", "/nowhere/x"), REFUSED, "/nowhere/x"),
    (("add", "http://a.example/", "--project", "nope"), NOT_FOUND, "demo"),
    (("add", "http://a.example/", "--topic", "nobody"), REFUSED, "topics[0]"),
    (("add", "http://a.example/", "--format", "fcm"), REFUSED, "fcm.serviceAccountFile"),
    (("add", "http://a.example/", "--receiver-ca-file", "x.pem"), REFUSED, "webhooks.filesDirectory"),
    (("show", "../control.token"), USAGE, "no webhook's id"), (("show", NOBODY), NOT_FOUND, NOBODY),
    (("show", NOBODY, "--json"), NOT_FOUND, NOBODY), (("remove", NOBODY), NOT_FOUND, NOBODY),
    (("pause", NOBODY), NOT_FOUND, NOBODY), (("resume", NOBODY), NOT_FOUND, NOBODY),
    (("enable", NOBODY), NOT_FOUND, NOBODY), (("test", NOBODY), NOT_FOUND, NOBODY),
    (("attempts", NOBODY), NOT_FOUND, NOBODY), (("rotate-secret", NOBODY), NOT_FOUND, NOBODY),
    (("redeliver", NOBODY), NOT_FOUND, NOBODY), (("recover", NOBODY, "--since", "1h"), NOT_FOUND, NOBODY),
    (("update", "ID"), USAGE, "nothing to change"), (("update", "ID", "--reset", "colour"), REFUSED, "colour"),
    (("update", "ID", "--reset", "url"), REFUSED, "url"), (("update", "ID", "--reset", "signing"), REFUSED, "signing"),
    (("attempts", "ID", "--limit", "0"), USAGE, "--limit"), (("redeliver", "ID", "--version-number", "0"), USAGE, "1"),
    (("redeliver", "ID", "--version-number", "99"), REFUSED, "99"),
    (("redeliver", "ID", "--namespace", "nowhere"), REFUSED, "nowhere"), (("recover", "ID"), USAGE, "--since"),
    (("recover", "ID", "--since", "yesterday"), USAGE, "yesterday"),
    (("recover", "ID", "--since", "100000000000d"), USAGE, "--since"),
    (("add", "http://a.example/", "--timeout", "9000000000000000s"), USAGE, "--timeout"),
    (("rotate-secret", "ID", "--grace-period", "8d"), USAGE, "--grace-period"),
    (("rotate-secret", "ID", "--algorithm", "md5"), REFUSED, "algorithm"),
    (("redrive", "ID", "--letter", "42"), REFUSED, "42"),
    (("redrive", "ID", "--letter", "abc"), REFUSED, 'no dead letter "abc"'), (("verify", "ID"), REFUSED, "verification.method"),
]


@pytest.mark.limit(90)
async def test_every_mistake_has_its_code_and_names_what_is_wrong(launch):
    daemon = launch(webhooks.config())
    hooks, cli = Webhooks(daemon), Cli(daemon)
    made = await hooks.add("http://127.0.0.1:1/", paused=True)
    await daemon.publish(marked("one"))
    before = await hooks.list()
    for words, code, named in MISTAKES:
        out, err = cli(*[id_of(made) if word == "ID" else word for word in words], code=code)
        assert named in err and not out, f"{words}: {out}{err}"
        assert "whsec_" not in err
    assert await hooks.list() == before, "nothing was registered or changed"


async def test_scripts_get_json_from_every_command(launch, tmp_path):
    daemon = launch(webhooks.config())
    cli = Cli(daemon)
    await daemon.publish(marked("one"))
    with Receiver() as receiver:
        made = json.loads(cli("add", receiver.url, "--json")[0])
        hook = made["id"]
        assert secret_of(made).startswith("whsec_")
        answers = {words[0]: json.loads(cli(*words, "--json")[0]) for words in [
            ("show", hook), ("update", hook, "--name", "x"), ("pause", hook), ("resume", hook), ("enable", hook),
            ("test", hook), ("redeliver", hook), ("recover", hook, "--since", "1h"), ("attempts", hook), ("list",),
            ("dead-letters", hook), ("redrive", hook), ("rotate-secret", hook), ("remove", hook)]}
    assert answers["test"]["attempt"]["status"] == 204 and answers["attempts"]["attempts"]
    assert answers["update"]["description"] == "x" and answers["pause"]["state"] == {"name": "paused"}
    assert answers["redeliver"] == answers["recover"] == {"deliveries": 1} and answers["redrive"] == {"deliveries": 0}
    assert [each["id"] for each in answers["list"]["webhooks"]] == [hook]
    shown = [name for name, answer in answers.items() if "whsec_" in json.dumps(answer)]
    assert shown == ["rotate-secret"], "a secret is shown once"


def test_without_a_daemon_it_says_so_and_leaves_no_file(launch, tmp_path):
    daemon = launch(webhooks.config())
    cli = Cli(daemon)
    daemon.stop()
    for words in (("list",), ("list", "--json"), ("show", NOBODY), ("test", NOBODY), ("remove", NOBODY),
                  ("add", "http://a.example/", "--save-secret", tmp_path / "secret")):
        out, err = cli(*words, code=UNREACHABLE)
        assert not out and "no daemon" in err and "stalecast serve" in err
    assert not (tmp_path / "secret").exists()
    assert "no server answers" in cli("list", "--control", "http://127.0.0.1:1", code=UNREACHABLE)[1]


def test_a_daemon_that_was_killed_is_unreachable_too(launch):
    daemon = launch(webhooks.config())
    daemon.kill()
    out, err = Cli(daemon)("list", code=UNREACHABLE)
    assert not out and "has ended" in err


async def test_what_a_receiver_says_cannot_play_with_the_terminal(launch):
    daemon = launch(webhooks.config())
    hooks, cli = Webhooks(daemon), Cli(daemon)
    location = NASTY.replace("\r\n", "").encode().decode("latin-1")
    with Receiver(lambda _: Answer(302, (("Location", f"http://x/{location}"),), NASTY.encode())) as receiver:
        made = await hooks.add(receiver.url, paused=True)
        texts = cli("test", id_of(made), code=REFUSED) + cli("attempts", id_of(made)) + cli("show", id_of(made))
    assert "302" in texts[0]
    for text in texts:
        assert not set(text) & set("\x1b\x07\x9b\u202e\r"), repr(text)


async def test_a_description_cannot_play_with_the_terminal(launch):
    daemon = launch(webhooks.config())
    made = await Webhooks(daemon).add("https://a.example/", description=NASTY.replace("\r\n", ""))
    out, _ = Cli(daemon)("show", id_of(made))
    assert "red" in out and not set(out) & set("\x1b\x07\x9b\u202e"), repr(out)


def test_files_may_be_pipes(tmp_path, tool):
    tool("bash")
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    line = f"{BINARY} webhooks sign --secret-file <(echo {secret}) --id msg_a --timestamp 1792000000 <(echo '{{}}')"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=50, env=environment())
    assert done.returncode == 0 and "webhook-signature: v1," in done.stdout, done.stderr


def examples(command):
    """The commands in the help's examples, a backslash at a line's end taken as the shell does."""
    text = subprocess.run([BINARY, "webhooks", command, "--help"], capture_output=True, text=True, check=True,
                          env=environment(COLUMNS="250")).stdout
    part = re.search(r"^Examples?:\n((?:  .*\n)+)", text, re.M)
    assert part, f"the help of {command} has no example"
    return [line.strip() for line in part[1].replace("\\\n", "").splitlines()]


def test_signing_answers_in_json_too(tmp_path):
    (tmp_path / "hook.secret").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    (tmp_path / "body").write_text("{}")

    def run(*words, code=0):
        done = subprocess.run([BINARY, "webhooks", *words, "body", "--secret-file", "hook.secret", "--json"],
                              cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=20)
        assert done.returncode == code, done
        return json.loads(done.stdout or done.stderr)

    headers = run("sign")
    given = [word for name in ("id", "timestamp", "signature") for word in (f"--{name}", headers[f"webhook-{name}"])]
    assert run("check-signature", *given) == {"fits": True}
    (tmp_path / "body").write_text("{ }")
    assert run("check-signature", *given, code=REFUSED)["exitCode"] == REFUSED


async def test_a_secret_of_ones_own_is_not_shown_again(launch, tmp_path):
    cli = Cli(launch(webhooks.config()))
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    (tmp_path / "own.secret").write_text(secret + "\n")
    for how in ([], ["--json"]):
        out, err = cli("add", "http://127.0.0.1:1/", "--secret-file", tmp_path / "own.secret", *how)
        assert secret not in out + err and "wh_" in out
    out, err = cli("add", "http://127.0.0.1:1/", "--header", "X: 1", "--header", "x: 2", code=USAGE)
    assert "twice" in err


@contextlib.contextmanager
def forwarding(daemon, url, *words):
    """`webhooks listen --forward-to`, once it watches; it prints its secret first."""
    with Cli(daemon).start("listen", "--forward-to", url, *words) as process:
        try:
            said = process.stderr.readline()
            assert f"new versions of demo/firebase go to {url}" in said, said
            assert "up to date" in process.stderr.readline()
            yield process, re.search(r"whsec_\S+", said)
        finally:
            process.kill()


@pytest.mark.limit(60)
async def test_versions_are_sent_to_an_app_that_is_not_registered(launch):
    """On a daemon as it comes: no address is allowed, nothing is registered, and nothing is left behind."""
    answers = iter([RESET, Answer(500, body=b"busy"), Answer(200)])
    with Receiver(lambda _: next(answers, Answer())) as receiver:
        daemon = launch()
        with forwarding(daemon, f"{receiver.url}/hook?a=b", "--count", "2") as (process, secret):
            await daemon.publish(marked("one"))
            first = [process.stdout.readline() for _ in range(3)]
            assert "version 1" in first[0] and "no answer, " in first[0] and "again in" in first[0], first
            assert "500: busy; again in" in first[1] and first[2].endswith("the app answered 200\n"), first
            await daemon.publish(marked("two"))
            assert "version 2 since 1: the app answered 204" in process.stdout.readline()
            assert process.wait(40) == 0, process.stderr.read()
        assert await Webhooks(daemon).list() == []
    *_, last = receiver.arrivals
    assert (last.method, last.path, last.headers["content-type"]) == ("POST", "/hook?a=b", "application/json")
    heard = standardwebhooks.Webhook(secret[0]).verify(last.body, last.headers)
    assert heard["type"] == "config.stale" and heard["data"]["version"] == 2 and heard["data"]["sinceVersion"] == 1
    assert len({one.headers["webhook-id"] for one in receiver.arrivals[:3]}) == 1


@pytest.mark.limit(60)
async def test_an_app_gets_what_a_registered_webhook_gets(launch, tmp_path):
    """The same body and id; and while it fails only the newest version, which stands for those before."""
    (tmp_path / "own.secret").write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    isDown = True
    with Receiver() as registered, Receiver(lambda _: Answer(503) if isDown else Answer()) as app:
        daemon = launch(webhooks.config())
        await daemon.publish(marked("one"))
        await Webhooks(daemon).add(registered.url)
        with forwarding(daemon, app.url, "--secret-file", tmp_path / "own.secret", "--json") as (process, shown):
            assert shown is None
            isDown = False
            await daemon.publish(marked("two"))
            attempt = json.loads(process.stdout.readline())
            assert attempt["versionNumber"] == "2" and attempt["status"] == 204 and attempt["outcome"] == "2xx"
            await asyncio.to_thread(registered.wait, lambda arrivals: any(b'"version":2' in one.body for one in arrivals))
            theirs = next(one for one in registered.arrivals if b'"version":2' in one.body)
            assert (theirs.body, theirs.headers["webhook-id"]) == (app.arrivals[-1].body, app.arrivals[-1].headers["webhook-id"])
            isDown = True
            for name in ("three", "four", "five"):
                await daemon.publish({"parameters": {name: {"defaultValue": {"value": "1"}}}})
            # The newest one fails too: if an older one were taken before it, it would not stand for that.
            while json.loads(process.stdout.readline())["versionNumber"] != "5":
                pass
            isDown = False
            while json.loads(process.stdout.readline())["outcome"] != "2xx":
                pass
    data = json.loads(app.arrivals[-1].body)["data"]
    assert (data["version"], data["sinceVersion"], data["coalesced"]) == (5, 2, 2)
    assert set(data["changedKeys"]) >= {"three", "four", "five"}


def test_forwarding_says_what_is_wrong(launch):
    daemon = launch()
    cli = Cli(daemon)
    assert "--forward-to" in cli("listen", "--forward-to", "nonsense", code=USAGE)[1]
    assert "--listen" in cli("listen", "--forward-to", "http://127.0.0.1:1/", "--listen", "127.0.0.1:0", code=USAGE)[1]
    assert "--status" in cli("listen", "--forward-to", "http://127.0.0.1:1/", "--status", "503", code=USAGE)[1]
    daemon.stop()
    assert "no daemon" in cli("listen", "--forward-to", "http://127.0.0.1:1/", code=UNREACHABLE)[1]


COMMANDS = ["add", "list", "show", "update", "pause", "resume", "enable", "verify", "test", "rotate-secret", "attempts",
            "redeliver", "recover", "dead-letters", "redrive", "new-secret", "sign", "remove"]
# No letter has that number.
REFUSALS = {f"stalecast webhooks redrive {EXAMPLE_ID} --letter 42"}


@pytest.mark.limit(120)
async def test_the_examples_of_the_help_run_as_they_are_printed(launch, tmp_path, tool):
    for name in ("bash", "jq"):
        tool(name)
    bin_, files = tmp_path / "bin", tmp_path / "files"
    bin_.mkdir(), files.mkdir()
    (bin_ / "stalecast").symlink_to(os.path.abspath(BINARY))
    (files / "body.json").write_text("{}")
    for name in ("new.secret", "old.secret"):
        (files / name).write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    daemon = launch(webhooks.config(webhooks={"filesDirectory": str(files)}))
    hooks = Webhooks(daemon)
    account(files / "push.json")
    for index in range(8):
        await daemon.publish(marked(str(index)))
    shell = environment(PATH=f"{bin_}:{os.environ['PATH']}", STALECAST_DATA=str(daemon.data))

    def echo(arrival):
        body = json.loads(arrival.body)
        return Answer(200, body=json.dumps({"challenge": body["data"].get("challenge")}).encode())

    with Receiver(echo) as receiver:
        ran = 0
        for command in COMMANDS:
            made = await hooks.add(receiver.url, mode="all", verification={"method": "challenge"})
            await hooks.until(made, webhooks.state_is("active"))
            for line in examples(command):
                if not re.search(r"\bstalecast webhooks ", line):
                    continue
                if "--save-secret" in line:
                    (files / re.search(r"--save-secret (\S+)", line)[1]).unlink(missing_ok=True)
                done = subprocess.run(["bash", "-o", "pipefail", "-c", line.replace(EXAMPLE_ID, made["id"])], cwd=files,
                                      env=shell, capture_output=True, text=True, timeout=50)
                wanted = REFUSED if line in REFUSALS else 0
                assert done.returncode == wanted, f"{line}\nended with {done.returncode}:\n{done.stdout}{done.stderr}"
                ran += 1
        assert ran >= 30
        assert len(await hooks.list()) > 1


def account(path):
    """A service account's key as Google's console gives it out."""
    pem = subprocess.run(["openssl", "genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"],
                         capture_output=True, text=True, check=True).stdout
    path.write_text(json.dumps({
        "type": "service_account", "project_id": "push-project", "private_key_id": "k1", "private_key": pem,
        "client_email": "sender@push-project.iam.gserviceaccount.com", "token_uri": "http://127.0.0.1:1/token"}))
