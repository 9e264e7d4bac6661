"""What the commands say when something is wrong: what to do next. And what a person is not told of by chance."""

import subprocess

import pytest

from harness import webhooks
from harness.cli import MISMATCH, NOT_FOUND, REFUSED, TOKEN, UNREACHABLE, USAGE, Cli, environment
from harness.daemon import BINARY
from harness.receiver import Answer, Receiver
from harness.sse import Stream
from harness.templates import marked, template
from harness.terminal import Terminal
from harness.waiting import eventually
from harness.webhooks import Webhooks

CONDITIONAL = {"parameters": {"a": {"defaultValue": {"value": "1"}, "conditionalValues": {"y": {"value": "2"}}}}}
SINGLE = {"conditions": [{"name": "i", "expression": "device.os = 'ios'"}], "parameters": {}}


@pytest.fixture
def daemon(launch):
    return launch()


@pytest.fixture
def cli(daemon):
    cli = Cli(daemon)
    cli("publish", cli.file(template({"max_items": "20"})))
    return cli


def test_an_error_says_what_to_do(cli, daemon):
    token = ("--token-file", f"{daemon.data}/control.token")
    cases = [
        (("get", "--control", "http://no-such-host.invalid:8081", *token), UNREACHABLE, "has no address", "spelled right"),
        (("get", "--control", "https://127.0.0.1:1", "--ca-file", "/no/such.pem", *token), UNREACHABLE,
         "/no/such.pem cannot be read", "--ca-file FILE"),
        (("get", "--version", "1"), USAGE, "version of the program", "get --version-number 1"),
        (("rollback", "--version=1"), USAGE, "version of the program", "stalecast rollback 1"),
        (("publish", cli.file(CONDITIONAL, "y.json")), REFUSED, "[y] are not valid condition names", "an entry in conditions"),
        (("publish", cli.file(SINGLE, "i.json")), REFUSED, "equal is '=='", ""),
        (("publish", cli.file({"x": 3}, "x.json")), REFUSED, 'there is no "x" here', "stalecast set x=3"),
        (("publish", cli.file({"parameters": {"x": 3}}, "p.json")), REFUSED, "an object is expected", "stalecast set x=3"),
        (("publish", cli.file(marked("a")), "--if-match", "etag-1-9"), MISMATCH, "version 1 is current", "diff current"),
        (("set", "none=3"), NOT_FOUND, "no parameter none", "--create"),
        (("set", "max_items=3", "--condition", "none", "--yes"), NOT_FOUND, "no condition none", "stalecast edit"),
        (("propagation", "laggards", "--client", "a b"), REFUSED, "1 to 128 characters", ""),
        (("restore", "/no/such/backup"), REFUSED, "no backup", "stalecast backup"),
    ]
    for words, code, fact, advice in cases:
        said = cli(*words, code=code).err
        assert fact in said and advice in said, (words, said)


def test_a_bad_token_in_the_environment_is_named(cli):
    done = subprocess.run([BINARY, "get", "--data", cli.data], env={**environment(), "STALECAST_TOKEN": "a b"},
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == TOKEN and "$STALECAST_TOKEN holds no control token" in done.stderr, done
    assert "--token-file FILE" in done.stderr, done.stderr


async def test_send_says_how_many_subscribers_there_are(cli, daemon):
    assert "no topic of project demo is called NOSUCH" in cli("send", "NOSUCH", "a=b").err
    assert "PUSH_RC has 0 subscribers now" in cli("send", "PUSH_RC", "a=b").err
    stream = await Stream.open(daemon.edge)
    assert "PUSH_RC has 1 subscriber now" in cli("send", "PUSH_RC", "a=b").err
    stream.close()


def test_watch_lists_no_option_that_edge_does_not_use(cli):
    text = cli("watch", "--help")
    assert "--edge" in text and "--token-file" not in text and "--user" not in text
    assert "up to date" in cli("watch", "--timeout", "100ms", "--user", "x", "--token-file", "/no/such").err


def test_a_rollback_takes_back_nothing_that_was_published_during_its_question(cli):
    cli("publish", cli.file(template({"max_items": "21"})))
    terminal = Terminal([BINARY, "rollback", "1", "--data", cli.data], {**environment(), "NO_COLOR": "1"})
    terminal.read_until("[y/N]")
    cli("publish", cli.file(template({"max_items": "22"})))
    terminal.type("y\n")
    assert terminal.end() == MISMATCH and "Another version was published meanwhile" in terminal.shown, terminal.shown
    assert cli.json("get")["parameters"]["max_items"]["defaultValue"]["value"] == "22"


async def test_a_release_is_named_with_its_stage(cli, daemon):
    streams = [await Stream.open(daemon.edge, client=f"c{number}", have=1) for number in range(3)]
    cli("publish", cli.file(template({"max_items": "30"})), "--stages", "10%,100%", "--every", "0", "--first", "c0")
    said = cli("propagation")
    assert "at its stage of 10 %" in said and "other clients keep the version before" in said, said
    assert "at its stage of 10 %" in cli("propagation", "list", "--wide")
    assert cli.json("propagation")["release"]["percent"] == 10
    for stream in streams:
        stream.close()


async def test_a_webhook_of_mode_latest_is_owed_one_message(launch):
    daemon = launch(webhooks.config())
    cli, hooks = Cli(daemon), Webhooks(daemon)
    with Receiver(lambda _: Answer(500)) as receiver:
        await hooks.add(receiver.url)
        for number in range(3):
            await daemon.publish(marked(str(number)))

        async def lag():
            scopes = cli.json("webhooks", "list")["webhooks"][0]["delivery"]["scopes"]
            return scopes[0]["lag"]
        assert await eventually(lag, 3) == 3
        head, row = cli("webhooks", "list").splitlines()
        place = head.index("LAG")
        assert row[place:place + 3].strip() == "1", (head, row)
