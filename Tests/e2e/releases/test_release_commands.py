"""The command line of releases in stages: what people read, what scripts read, and every exit code."""

import json

import pytest

from harness import configs
from harness.cli import MISMATCH, NOT_FOUND, REFUSED, STOPPED, TIMED_OUT, USAGE, Cli
from harness.daemon import BINARY, environment
from harness.templates import marked
from harness.terminal import Terminal

SLOW = ("--stages", "1%,100%", "--every", "1h")


@pytest.fixture
def cli(launch):
    """With version 1 published."""
    cli = Cli(launch())
    cli("publish", cli.file(marked("base")))
    return cli


@pytest.fixture
def started(cli):
    """`started(word…)`: a command that runs on."""
    running = []

    def start(*words):
        running.append(cli.start(*words))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.communicate()


def staged(cli, marker, *words, code=0):
    return cli("publish", cli.file(marked(marker)), *(words or SLOW), code=code)


def ended(process):
    out, err = process.communicate(timeout=30)
    return process.returncode, out, err


def test_a_release_that_is_waited_for_goes_through_its_stages(cli):
    text = staged(cli, "new", "--stages", "1%, 50%,100%", "--every", "1s", "--bake", "1s", "--wait")
    lines = [line.split(";")[0] for line in text.splitlines()]
    assert lines[0].startswith("published version 2 of demo/firebase") and "the release of version 2 is at 1 %" in lines
    assert lines[-5:] == ["    1 %  told", "   50 %  told", "  100 %  told", "  100 %  released",
                          "the release of version 2 is over: all clients are told"]
    assert text.err == "", "nothing is redrawn in a pipe"
    seen = cli.json("release")
    assert seen["state"] == "RELEASED" and [event["kind"] for event in seen["events"]] == [
        "BEGAN", "ADVANCED", "ADVANCED", "RELEASED"]
    assert cli("release", "status", "--follow").splitlines()[-1] == lines[-1]
    assert "no release of demo/firebase is open" in cli("release", "pause", code=NOT_FOUND).err


def test_an_operator_pauses_resumes_promotes_and_takes_back(cli):
    report = cli.json("publish", cli.file(marked("new")), *SLOW, "--first", "qa-1,qa-2")
    assert report["release"]["state"] == "RAMPING" and report["release"]["policy"]["first"] == ["qa-1", "qa-2"]
    assert [stage["percent"] for stage in report["stages"]] == [1, 100]
    text = cli("release", "pause", "--reason", "support \x1b[31mcalls")
    assert text.startswith("the release of version 2 is paused at 1 % by ") and "\x1b" not in text
    text = cli("release")
    assert "over version 1: is paused at 1 %" in text and "paused    1 %" in text and "`stalecast release resume`" in text
    assert "is paused at 1%; resume, advance, promote or roll it back" in cli("release", "pause", code=REFUSED).err
    assert "is at 1 %; next step in 1h" in cli("release", "resume")
    assert "is at 100 %, in its bake time; released in 10m" in cli("release", "promote", "--reason", "fine")
    text = cli("release", "rollback", "--reason", "crashes")
    assert "was rolled back at 100 %" in text and "crashes; version 3 has the content of version 1" in text
    assert cli.json("release")["events"][-1]["reason"] == "crashes"
    cli("release", "status", "--follow", code=STOPPED)
    assert cli("get", "welcome_text").strip() == "base"


def test_an_operator_goes_on_by_one_stage(cli):
    text = staged(cli, "new", "--stages", "1%,10%,100%", "--every", "0")
    assert "is at 1 %; waits for `stalecast release promote --to-next`" in text
    assert "is at 10 %; waits for" in cli("release", "promote", "--to-next", "--reason", "it is well")
    assert "is at 100 %, in its bake time" in cli("release", "promote", "--to-next")
    kinds = [(event["kind"], event["percent"]) for event in cli.json("release")["events"]]
    assert kinds == [("BEGAN", 1), ("ADVANCED", 10), ("ADVANCED", 100)]


def test_a_publish_in_a_scope_that_is_staged_by_default_is_waited_for(launch):
    plan = {"scope": "demo/firebase", "default": "staged", "stages": ["1%", "100%"], "every": "1s", "bake": "0s"}
    cli = Cli(launch(configs.config(releases=[plan])))
    cli("publish", cli.file(marked("base")))
    text = cli("publish", cli.file(marked("new")), "--wait")
    assert text.splitlines()[-1] == "the release of version 2 is over: all clients are told"
    # The commands for one value publish as well.
    assert "the release of version 3 is over" in cli("set", "welcome_text=x", "--yes", "--wait")
    assert "all clients" not in cli("set", "welcome_text=y", "--yes").splitlines()[0]


def test_an_open_release_is_in_the_way_of_a_publish(cli):
    staged(cli, "new")
    for words in (("publish", cli.file(marked("other"))), ("set", "welcome_text=other")):
        text = cli(*words, code=MISMATCH)
        assert text.err.startswith("stalecast: the release of version 2 is open; nothing was committed\n")
        assert all(f"`stalecast {way}`" in text.err for way in (
            "release promote", "release rollback", "publish FILE --supersede"))
    assert json.loads(cli("set", "welcome_text=x", "--json", code=MISMATCH).err)["exitCode"] == MISMATCH
    assert "a staged publish cannot supersede" in staged(cli, "other", *SLOW, "--supersede", code=REFUSED).err
    assert "published version 3" in staged(cli, "other", "--supersede")
    assert cli.json("release")["state"] == "SUPERSEDED"
    staged(cli, "third")
    assert "published version 5" in staged(cli, "fourth", "--instant", "--reason", "an outage")
    event = cli.json("release")["events"][-1]
    assert (event["kind"], event["by"], event["reason"]) == ("SUPERSEDED", "bootstrap", "an outage")
    lines = [json.loads(line) for line in (cli.data / "audit.jsonl").read_text().splitlines()]
    assert [line["reason"] for line in lines if line.get("release") == "instant" and "reason" in line] == ["an outage"]
    cli("release", "status", "--follow", code=MISMATCH)
    lines = cli("release", "list").splitlines()
    assert [line.split()[:3] for line in lines[1:]] == [["4", "3", "superseded"], ["2", "1", "superseded"]], lines
    assert [one["versionNumber"] for one in cli.json("release", "list", "--limit", "1")["releases"]] == ["4"]
    assert "--limit is 1 to 100" in cli("release", "list", "--limit", "0", code=USAGE).err


def test_a_pause_ends_a_wait_and_is_outlasted_by_follow(cli, started):
    wait = started("publish", cli.file(marked("new")), *SLOW, "--wait")
    while "told" not in wait.stdout.readline():
        assert wait.poll() is None
    follow = started("release", "status", "--follow")
    assert "told" in follow.stdout.readline()
    cli("release", "pause", "--reason", "support calls")
    code, _, err = ended(wait)
    assert code == STOPPED and "is paused at 1 %" in err and "support calls\n" in err and "`stalecast release resume`" in err
    assert "PAUSED" in follow.stdout.readline()
    cli("release", "resume")
    assert "resumed" in follow.stdout.readline()
    cli("release", "rollback", "--reason", "crashes")
    code, out, err = ended(follow)
    assert code == STOPPED and "ROLLED BACK" in out and "version 3 has the content of version 1" in err


def test_the_time_of_a_wait_may_be_up(cli):
    text = staged(cli, "new", *SLOW, "--wait", "--timeout", "1s", code=TIMED_OUT)
    assert "the time is up: the release of version 2 is at 1 %" in text.err and "It goes on." in text.err
    cli("release", "rollback")
    staged(cli, "again", *SLOW, "--wait", "--timeout", "1s", "--on-timeout", "rollback", code=TIMED_OUT)
    assert cli.json("release")["events"][-1]["reason"] == "not released in time"


def test_a_check_says_whom_each_stage_would_reach(cli, started):
    assert "no client is connected now" in staged(cli, "new", *SLOW, "--dry-run")
    watch = started("watch")
    assert "up to date" in watch.stderr.readline()
    text = staged(cli, "new", *SLOW, "--validate-only")
    assert "of 1 client connected now" in text and "1 of them says no id" in text and "nothing was published" in text
    assert len(cli.json("versions")["versions"]) == 1
    assert "write 1 to 20 percentages" in staged(cli, "new", "--stages", "10%,1%", code=REFUSED).err


@pytest.mark.parametrize("words", [
    ("--every", "1m"), ("--instant", "--stages", "100%"), ("--stages", "100%", "--propose"),
    ("--stages", "100%", "--wait", "95%"), ("--stages", "100%", "--wait", "--stage", "sent")])
def test_what_contradicts_itself_is_wrong_use(cli, words):
    staged(cli, "new", *words, code=USAGE)


def test_a_terminal_is_asked_and_sees_what_comes_next(cli):
    def on_terminal(*words):
        return Terminal([BINARY, *words, "--data", str(cli.data)], environment(), columns=200)

    terminal = on_terminal("publish", cli.file(marked("new")), *SLOW, "--wait")
    terminal.read_until("in stages of 1%,100%? [y/N]")
    assert "no client is connected now" in terminal.shown
    terminal.type("y\n").read_until("░  next step in 1h")
    rollback = on_terminal("release", "rollback")
    rollback.read_until("Take version 2 back in demo/firebase at http")
    assert rollback.type("y\n").end() == 0
    assert terminal.end() == STOPPED


def test_there_is_nothing_to_stage_over(launch):
    cli = Cli(launch())
    assert "the first version cannot be staged" in staged(cli, "new", code=REFUSED).err
    text = cli("release", code=NOT_FOUND)
    assert "was ever released in stages" in text.err and "--stages 1%,10%,100%" in text.err
