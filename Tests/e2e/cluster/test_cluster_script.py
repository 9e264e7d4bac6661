"""`deploy/cluster.sh`: one command to a cluster, what it says can be typed, and nothing is left behind."""

import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from harness import ports
from harness.cli import REFUSED
from harness.daemon import BINARY, REPOSITORY, environment
from harness.etcd import programs
from harness.sse import Stream

SCRIPT = REPOSITORY / "deploy/cluster.sh"


def free_ports():
    """A port with the ones above it free that the script uses."""
    for _ in range(200):
        port = ports.free()
        try:
            for above in (1, 10, 11, 20, 21, 30, 31, 40, 41):
                socket.create_server(("127.0.0.1", port + above)).close()
        except OSError:
            continue
        return port
    raise AssertionError("no room for the script's ports")


@pytest.fixture
def script(tmp_path, tool):
    programs()
    tool("haproxy")
    if not os.access(BINARY, os.X_OK):
        pytest.skip(f"no daemon binary at {BINARY}")
    port = free_ports()
    said = open(tmp_path / "said", "w+b")
    process = subprocess.Popen([SCRIPT, "--port", str(port), "--etcd-port", str(ports.free()),
                                "--edges", "1"],
                               stdout=said, stderr=said, start_new_session=True,
                               # What began without a terminal ignores it, and a shell cannot take that back.
                               preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
                               env=environment(STALECAST_BIN=BINARY, TMPDIR=str(tmp_path)))
    yield process, port, tmp_path / "said"
    if process.poll() is None:
        process.terminate()
        process.wait(30)


def said_within(file, process, words, seconds=60):
    deadline = time.monotonic() + seconds
    while words not in (text := file.read_text(errors="replace")):
        assert process.poll() is None and time.monotonic() < deadline, text
        time.sleep(0.05)
    return text


@pytest.mark.limit(150)
async def test_one_command_makes_a_cluster_that_survives_and_cleans_up(script, tmp_path):
    process, port, file = script
    text = said_within(file, process, "Ctrl-C ends all and removes")
    [data] = [Path(path) for path in set(re.findall(r"removes (\S+?)\.\n", text))]
    lines = [line.strip() for line in text.replace("\\\n", " ").splitlines()]

    def typed(word, code=0):
        line = next(line for line in lines if line.startswith(word))
        done = subprocess.run(["bash", "-c", line.replace("stalecast ", f"{BINARY} ", 1)], cwd=REPOSITORY,
                              env=environment(), capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == code, (line, done.stdout, done.stderr)
        return done.stdout + done.stderr

    assert f"tail -f '{data}'/*.log" in lines, text
    stream = await Stream.open(port + 30)
    await stream.synced()
    through = await Stream.open(port)
    await through.synced()
    far = await Stream.open(port + 40)
    await far.synced()
    typed("stalecast publish")
    assert (await stream.version_at_least(2)).version == 2 == (await through.version_at_least(2)).version
    assert "leader" in typed("stalecast cluster status")
    killed = int((data / "b.pid").read_text())
    typed("kill -9 $(cat '" + str(data / "b.pid"))
    typed("kill -9 $(cat '" + str(data / "m1.pid"))
    typed("stalecast rollback")
    for each in (stream, far):
        await each.version_at_least(3)
    words = "stalecast publish samples/templates/demo-winter.json --yes --control"
    refused = typed(f"{words} http://127.0.0.1:{port + 41}", code=REFUSED)
    assert f"http://127.0.0.1:{port + 11}" in refused
    said_within(file, process, "b is started again")
    said_within(file, process, "m1 is started again")
    assert int((data / "b.pid").read_text()) != killed
    for each in (stream, through, far):
        each.close()
    pids = [int(each.read_text()) for each in data.glob("*.pid")]
    assert len(pids) == 8
    process.send_signal(signal.SIGINT)
    assert process.wait(40) == 0
    assert not data.exists(), "the temporary directory goes"
    for pid in pids:
        assert not Path(f"/proc/{pid}").exists(), f"process {pid} was left behind"


def test_wrong_use_is_two_and_a_taken_port_is_said(tool):
    programs()
    assert "Examples:" in subprocess.run([SCRIPT, "--help"], capture_output=True, text=True, check=True).stdout
    for words in (["--port", "x"], ["--port", "80"], ["--port"], ["--edges", "5"], ["--edges"], ["--what"]):
        assert subprocess.run([SCRIPT, *words], capture_output=True, check=False).returncode == 2, words
