"""`stalecast emulator`: ready with a template, open to SDKs and pages, follows its file, and leaves nothing."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from harness.control import Control
from harness.daemon import BINARY, REPOSITORY, environment
from harness.http1 import fetch
from harness.sse import Stream
from harness.templates import encoded, marked, template
from harness.waiting import eventually

PORTS = ("--edge", "127.0.0.1:0", "--control", "127.0.0.1:0")
INSTANCE = json.dumps({"appId": "1:1:web:1", "appInstanceId": "cAAAAAAAAAAAAAAAAAAAAA", "appInstanceIdToken": "t"})
PAGE = [("Origin", "http://localhost:5173"), ("Content-Type", "application/json")]


@contextlib.contextmanager
def emulator(directory, *words):
    """A running emulator; `.code` is set when it has ended."""
    temporary = directory / "tmp"
    temporary.mkdir(exist_ok=True)
    process = subprocess.Popen([BINARY, "emulator", *PORTS, "--json", *map(str, words)], stdout=subprocess.PIPE,
                               text=True, env=environment(TMPDIR=str(temporary)), cwd=directory)
    running = SimpleNamespace(process=process, temporary=temporary)
    try:
        line = process.stdout.readline()
        assert line, f"ended with {process.wait()}"
        running.greeting = json.loads(line)
        running.edge, running.control = (int(running.greeting[name].rsplit(":", 1)[1]) for name in ("edge", "control"))
        yield running
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        running.code = process.wait(20)
    finally:
        process.kill()
        process.wait()


def value(edge, key="welcome_text"):
    """Reads a value as a page of any origin does, of the project by its number, as phones ask."""
    async def read():
        answer = await fetch(edge, "/v1/projects/4711/namespaces/firebase:fetch", "POST", PAGE, INSTANCE.encode())
        assert answer.header("access-control-allow-origin") == "*"
        return answer.json()["entries"][key]
    return read


async def test_it_serves_a_template_follows_the_file_and_leaves_nothing(tmp_path):
    file = tmp_path / "template.json"
    file.write_bytes(encoded(marked("one")))
    with emulator(tmp_path, file, "--project-number", 4711, "--seed-values", "n=3", "--seed-values", 'j={"a":[]}') as running:
        assert running.greeting["versionNumber"] == "1" and running.greeting["project"] == "demo"
        assert await value(running.edge)() == "one" and await value(running.edge, "j")() == '{"a":[]}'
        assert await value(running.edge, "n")() == "3"
        stream = await Stream.open(running.edge)
        await stream.synced()
        # Editors replace a file.
        (tmp_path / "new").write_bytes(encoded(marked("two")))
        os.replace(tmp_path / "new", file)
        await stream.version_at_least(2)
        stream.close()
        assert await value(running.edge)() == "two"
        file.write_text("{")
        file.write_bytes(encoded(marked("three")))
        assert await eventually(value(running.edge), "three") == "three", "a mistake in the file ends nothing"
        assert list(running.temporary.iterdir())
    assert running.code == 0 and not list(running.temporary.iterdir())


async def test_the_admin_sdk_works_with_it_and_a_killed_one_leaves_nothing_for_ever(tmp_path):
    """As the documentation has it."""
    script = re.search(r"```python\n(.*?)```", (REPOSITORY / "deploy/docs/firebase.md").read_text(), re.DOTALL)[1]
    with emulator(tmp_path) as running:
        client = Control(running.control, running.greeting["token"], namespace="firebase-server")
        await client.publish(template({"rows": "20"}))
        client.close()
        script = textwrap.dedent(script).replace("http://127.0.0.1:8081", running.greeting["control"])
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30)
        assert done.stdout == "20\n", done.stderr
        running.process.kill()
        running.process.wait()
    left = set(running.temporary.iterdir())
    assert len(left) == 1
    with emulator(tmp_path) as running:
        assert not left & set(running.temporary.iterdir())


def test_it_ends_with_its_parent(tmp_path):
    """The parent is killed, as a runner kills a test that hangs."""
    script = "import subprocess, sys; subprocess.Popen(sys.argv[1:]); sys.stdin.read()"
    with subprocess.Popen(
            [sys.executable, "-c", script, BINARY, "emulator", *PORTS, "--json", "--exit-when-parent-exits"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(TMPDIR=str(tmp_path))) as parent:
        assert json.loads(parent.stdout.readline())["pid"]
        parent.kill()
        assert parent.stdout.read() == "", "the emulator still holds the pipe"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words, code, sentence", [
    (["bad.json"], 1, "is not JSON"), (["unknown.json"], 1, "is not a valid template"),
    (["none.json"], 1, "cannot be read"), (["--seed-values", "n"], 2, "KEY=VALUE"),
    (["--edge", "nowhere"], 78, "HOST:PORT"), (["good.json", "--import", "good.json"], 2, "--import")])
def test_what_is_wrong_is_said_with_a_code(tmp_path, words, code, sentence):
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "unknown.json").write_text('{"parameters":{"1":{"defaultValue":{"value":"x"}}}}')
    (tmp_path / "good.json").write_bytes(encoded(marked("x")))
    done = subprocess.run([BINARY, "emulator", *words], capture_output=True, text=True, timeout=30, cwd=tmp_path,
                          env=environment(TMPDIR=str(tmp_path)), check=False)
    assert done.returncode == code and sentence in done.stderr, done.stderr
    assert not [entry for entry in tmp_path.iterdir() if entry.is_dir()]


def test_it_tells_people_what_to_paste_and_a_second_one_what_has_its_port(tmp_path):
    demo, variables = REPOSITORY / "samples/templates/demo.json", environment(TMPDIR=str(tmp_path))
    with subprocess.Popen([BINARY, "emulator", *PORTS, demo], text=True, stdout=subprocess.PIPE,
                          env=variables) as process:
        text = process.stdout.readline()
        while "stalecast set" not in text:
            text += process.stdout.readline()
        edge = text.split("Edge")[1].split()[0].removeprefix("http://")
        second = subprocess.run([BINARY, "emulator", "--edge", edge, *PORTS[2:]], capture_output=True, text=True,
                                timeout=30, env=variables, check=False)
        process.terminate()
        assert process.wait(20) == 0
    for word in ("FIREBASE_REMOTE_CONFIG_URL_BASE", "stalecast watch", "stalecast-emulator"):
        assert word in text, text
    assert second.returncode == 1 and edge in second.stderr and "another process" in second.stderr, second.stderr
    assert not list(tmp_path.iterdir())
