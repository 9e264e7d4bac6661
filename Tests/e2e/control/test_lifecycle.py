"""Start, reload and end of the process."""

import asyncio
import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import time
from pathlib import Path

import pytest

from harness import configs
from harness.cli import REFUSED, Cli
from harness.daemon import BINARY, REPOSITORY, environment
from harness.http1 import Broken, Connection, fetch
from harness.poll import poll
from harness.sse import Stream
from harness.templates import marked, template
from harness.waiting import eventually


@pytest.mark.limit(40)
async def test_sigterm_ends_streams_politely_answers_polls_and_exits_0(daemon):
    await daemon.publish(marked("x"))
    streams = [await Stream.open(daemon.edge) for _ in range(100)]
    for stream in streams:
        await stream.synced()
    polls = [asyncio.create_task(poll(daemon.edge, wait="60s")) for _ in range(20)]
    await asyncio.sleep(0.3)
    daemon.signal(signal.SIGTERM)
    assert await asyncio.to_thread(daemon.wait, 16) == 0
    for stream in streams:
        assert await stream.end(2) == "clean", "a drained stream ends with its last chunk"
        assert stream.frames[-1].kind == "retry"
    delays = {int(stream.frames[-1].data) for stream in streams}
    assert len(delays) > 20, f"the reconnects of 100 clients are not spread: {sorted(delays)[:10]}"
    for held in polls:
        answer = await held
        assert answer.status == 200 or (answer.status == 503 and answer.header("retry-after")), answer
    assert not (daemon.data / "endpoints.json").exists()


@pytest.mark.limit(40)
async def test_sigterm_lets_a_slow_client_read_its_answer(daemon):
    await daemon.publish(template({f"key_{number}": "x" * 4000 for number in range(200)}))
    body = json.dumps({"appId": "1:1:web:a", "appInstanceId": "a", "appInstanceIdToken": "t"})
    idle = Connection(daemon.edge)
    assert (await idle.request("GET", "/healthz")).status == 200
    with socket.socket() as slow:
        # What the two kernels hold is far less than the answer.
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", daemon.edge))
        target = "/v1/projects/demo/namespaces/firebase:fetch"
        head = f"POST {target} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}"
        slow.sendall(f"{head}\r\n\r\n{body}".encode())
        got = await asyncio.to_thread(slow.recv, 1)
        daemon.signal(signal.SIGTERM)
        assert await asyncio.wait_for(idle.reader.read(1), 10) == b"", "the stop has begun"

        def rest():
            return b"".join(iter(lambda: slow.recv(1 << 16), b""))

        got += await asyncio.to_thread(rest)
    head, _, answer = got.partition(b"\r\n\r\n")
    assert f"Content-Length: {len(answer)}\r\n".encode() in head and len(answer) > 800_000
    assert await asyncio.to_thread(daemon.wait, 16) == 0


@pytest.mark.limit(60)
async def test_the_retry_told_at_drain_outlasts_the_restart(daemon):
    """Node's EventSource gives up for good when a reconnect is refused: no client may be told to come back too early.

    A few clients are no storm, and do not wait for the usual delay on top.
    """
    streams = [await Stream.open(daemon.edge) for _ in range(60)]
    for stream in streams:
        await stream.synced()
    assert await asyncio.to_thread(daemon.stop) == 0
    await asyncio.to_thread(daemon.start)
    serving_again = time.monotonic()
    early = []
    for stream in streams:
        await stream.end(2)
        last = stream.frames[-1]
        assert int(last.data) < 4000, last.data
        if last.at + int(last.data) / 1000 < serving_again:
            early.append(f"ended {serving_again - last.at:.1f} s before the restart was done, retry {last.data} ms")
    assert not early, f"{len(early)} of {len(streams)} clients come back while no listener is there: {early[:3]}"


@pytest.mark.limit(40)
async def test_readiness_is_off_while_draining(daemon):
    streams = [await Stream.open(daemon.edge) for _ in range(50)]
    for stream in streams:
        await stream.synced()
    assert await daemon.ready() == 200
    daemon.signal(signal.SIGTERM)
    await asyncio.sleep(0.1)
    answers = []
    while daemon.running:
        try:
            answers.append(await daemon.ready())
        except (Broken, OSError):
            pass
        await asyncio.sleep(0.02)
    assert 200 not in answers and daemon.wait() == 0


@pytest.mark.limit(40)
async def test_publishes_in_flight_at_sigterm_are_finished_or_refused(daemon):
    acknowledged = []

    async def publish():
        client = daemon.client()
        with pytest.raises((Broken, OSError, AssertionError)):
            while True:
                acknowledged.append(await client.publish(marked("x")))

    tasks = [asyncio.create_task(publish()) for _ in range(4)]
    await asyncio.sleep(0.3)
    daemon.signal(signal.SIGTERM)
    assert await asyncio.to_thread(daemon.wait, 16) == 0
    await asyncio.gather(*tasks)
    daemon.start()
    assert (await daemon.client().current())[0] >= max(acknowledged)
    assert len(acknowledged) == len(set(acknowledged))


@pytest.mark.parametrize(("numbers", "code", "within"), (
    ((signal.SIGTERM,), 70, 15), ((signal.SIGINT, signal.SIGINT), 130, 3)))
@pytest.mark.limit(40)
def test_a_daemon_that_hangs_ends_all_the_same(launch, numbers, code, within):
    """Its log is not read: each writer of a line waits for ever, and with it the threads of the pool."""
    daemon = launch(start=False)
    reading, writing = os.pipe()
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen(daemon.command(), stdout=writing, stderr=writing, env=environment())
    try:
        while not (daemon.data / "endpoints.json").exists():
            assert process.poll() is None, os.read(reading, 4096)
            time.sleep(0.01)
        os.set_blocking(writing, False)
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(writing, b"x" * 64)
        os.set_blocking(writing, True)
        process.send_signal(signal.SIGHUP)  # what it says about that hangs
        time.sleep(0.2)
        for number in numbers:
            process.send_signal(number)
            time.sleep(0.3)
        assert process.wait(within) == code
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)


def test_a_sighup_during_the_start_is_a_reload_and_no_end(launch):
    daemon = launch(start=False)
    daemon.spawn()
    while not (daemon.data / "lock").exists():
        assert daemon.running
        time.sleep(0.001)
    daemon.signal(signal.SIGHUP)
    deadline = time.monotonic() + 10
    while "configuration reloaded" not in daemon.log_text():
        assert daemon.running and time.monotonic() < deadline, daemon.log_tail()
        time.sleep(0.01)
    assert daemon.stop() == 0


@pytest.mark.parametrize("backtrace", (None, "enable=no", "enable=yes"))
@pytest.mark.parametrize("number", (signal.SIGSEGV, signal.SIGABRT))
def test_a_crash_signal_from_outside_ends_it_at_once(launch, number, backtrace):
    daemon = launch(start=False)
    daemon.more = {"SWIFT_BACKTRACE": backtrace} if backtrace else {}
    daemon.start()
    assert ("SWIFT_BACKTRACE is on" in daemon.log_text()) == (backtrace == "enable=yes")
    daemon.signal(number)
    assert daemon.wait(3) == -number


def unwritable(kind):
    """A descriptor that takes nothing, as a full disk, or nothing any more."""
    if kind == "full":
        return os.open("/dev/full", os.O_WRONLY)
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize("kind", ["full", "closed"])
async def test_a_log_that_cannot_be_written_ends_nobody(launch, kind):
    daemon, log = launch(start=False), unwritable(kind)

    def spawn(*_):
        daemon.process = subprocess.Popen(daemon.command(), stdout=log, stderr=log, cwd=daemon.directory,
                                          env=environment())

    daemon.spawn = spawn
    daemon.start()
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    for number in range(3):
        await stream.version_at_least(await daemon.publish(marked(str(number))))
    assert not stream.ended and daemon.stop() == 0
    os.close(log)


@pytest.mark.parametrize("kind", ["full", "closed"])
@configs.one_half
async def test_a_command_that_nobody_hears_ends_as_it_would(daemon, kind):
    await daemon.publish(marked("x"))
    log = unwritable(kind)
    known = [BINARY, "versions", "--data", str(daemon.data)]
    assert subprocess.run([*known, "--project", "nowhere"], stderr=log, env=environment(), check=False).returncode == 6
    done = subprocess.run(known, stdout=log, stderr=subprocess.PIPE, env=environment(), check=False)
    # A reader that has gone is no failure to be told about.
    assert (done.returncode, bool(done.stderr)) == ((1, True) if kind == "full" else (141, False)), done
    os.close(log)


async def test_an_end_says_what_it_waits_for(daemon):
    streams = [await Stream.open(daemon.edge) for _ in range(3)]
    for stream in streams:
        await stream.synced()
    assert await eventually(lambda: daemon.metric("stalecast_streams"), 3) == 3
    daemon.signal(signal.SIGINT)
    assert await asyncio.to_thread(daemon.wait, 16) == 0
    [line] = [line for line in daemon.log_text().splitlines() if "a second interrupt ends it at once" in line]
    assert "drain=5s" in line and "streams=3" in line


async def reload(daemon):
    """SIGHUP, and the wait until the daemon has said something about it."""
    before = len(daemon.log_text())
    daemon.signal(signal.SIGHUP)
    for _ in range(300):
        await asyncio.sleep(0.01)
        if len(daemon.log_text()) > before:
            break
    await asyncio.sleep(0.1)
    return daemon.log_text()[before:]


async def test_sighup_applies_a_valid_configuration_without_dropping_a_stream(daemon):
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    assert (await fetch(daemon.edge, "/v1/state?topic=EXTRA")).status == 404
    daemon.configure(configs.config(daemon.half, topics=[configs.topic("EXTRA")],
                                    edge={"allowedOrigins": ["https://app.example"], "heartbeat": "200ms"}))
    await reload(daemon)
    assert (await fetch(daemon.edge, "/v1/state?topic=EXTRA")).status == 200
    extra = await Stream.open(daemon.edge, ("EXTRA",), headers=[("Origin", "https://app.example")])
    assert extra.head.header("access-control-allow-origin") == "https://app.example"
    await extra.synced()
    version = await daemon.publish(marked("x"))
    for each in (stream, extra):
        await each.version_at_least(version)
    assert stream.ended is None


async def test_what_waits_for_a_restart_is_named_until_it_is_undone(daemon):
    daemon.configure(configs.config(daemon.half, store={"minFreeSpace": "65MiB"}))
    assert "changes need a restart" in await reload(daemon)
    assert (await daemon.status())["configuration"]["waitingForRestart"] == ["store.minFreeSpace"]
    cli = Cli(daemon)
    assert "restart for store.minFreeSpace" in cli("status")
    assert "wait for a restart: store.minFreeSpace" in cli("doctor", code=1)
    daemon.configure(configs.config(daemon.half))
    await reload(daemon)
    assert "waitingForRestart" not in (await daemon.status())["configuration"]


@pytest.mark.parametrize("text", ("edge: [", "edge:\n  heartbeet: 1s\n", "edge:\n  heartbeat: 5 parsecs\n", "\0", ""))
@configs.one_half
async def test_sighup_with_an_invalid_configuration_keeps_the_old(launch, half, text):
    daemon = launch(configs.many_topics(half), half=half)
    stream = await Stream.open(daemon.edge, ("OTHER",))
    await stream.synced()
    daemon.configure(text)
    said = await reload(daemon)
    if text:  # an empty file is a valid one: everything default, and OTHER is gone
        assert said.strip(), "the reason is logged"
        await daemon.publish(marked("x"))
        await stream.version_at_least(1)
        assert (await fetch(daemon.edge, "/v1/state?topic=OTHER")).status == 200
    assert await daemon.metric("stalecast_config_last_reload_successful") == (0 if text else 1)
    outcome = (await daemon.status())["configuration"]
    assert ("problem" in outcome) == bool(text) and outcome.get("file") == (str(daemon.config) if text else None)
    degraded = (await daemon.ask_control("/readyz")).json().get("degraded", [])
    assert any("refused at its last reload" in sentence for sentence in degraded) == bool(text), degraded
    assert daemon.running and await daemon.ready() == 200


@pytest.mark.parametrize("half", ["engine", "front"])
async def test_connections_wait_in_a_handed_socket_while_the_daemon_restarts(launch, half):
    """As systemd's stalecast.socket: it listens before, between and after the processes."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as handed:
        daemon = launch(half=half, start=False)
        daemon.edge = handed.getsockname()[1]
        command = daemon.command
        # The variables name the process that the shell becomes.
        daemon.command = lambda *flags: [
            "bash", "-c", f'exec 3<&{handed.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=edge exec "$@"', "bash",
            *command(*flags)]
        spawn = subprocess.Popen

        def popen(*words, **options):
            return spawn(*words, **options, pass_fds=[handed.fileno()])

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("harness.daemon.subprocess.Popen", popen)
            daemon.start()
            await daemon.publish(marked("x"))
            stream = await Stream.open(daemon.edge)
            await stream.synced()
            assert await asyncio.to_thread(daemon.stop) == 0
            assert await stream.end(2) == "clean"
            waiting = [asyncio.create_task(fetch(daemon.edge, "/v1/state?topic=PUSH_RC")) for _ in range(20)]
            again = asyncio.create_task(Stream.open(daemon.edge))
            await asyncio.sleep(0)
            await asyncio.to_thread(daemon.start)
        assert [answer.status for answer in await asyncio.gather(*waiting)] == [200] * 20
        await (await again).synced()


def test_a_handed_socket_elsewhere_is_refused(launch):
    with socket.create_server(("127.0.0.1", 0)) as handed, socket.create_server(("127.0.0.1", 0)) as other:
        daemon = launch(start=False)
        words = [f"exec 3<&{handed.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec", *daemon.command()[:-4],
                 f"--edge=127.0.0.1:{other.getsockname()[1]}", "--control=127.0.0.1:0"]
        done = subprocess.run(["bash", "-c", " ".join(words)], capture_output=True, text=True, timeout=20, check=False,
                              pass_fds=[handed.fileno()], env=environment())
        assert done.returncode == 1 and "ListenStream= in stalecast.socket" in done.stderr, done.stderr


def start_refused(daemon, *flags, timeout=10):
    """Starts what must not start; returns what it said. Exit code not 0, one sentence, no crash."""
    process = subprocess.run(daemon.command(*flags), capture_output=True, text=True, timeout=timeout, env=environment(),
                             cwd=daemon.directory)
    said = process.stdout + process.stderr
    assert process.returncode > 0, f"exit code {process.returncode}: {said}"
    assert said.strip() and "Fatal error" not in said and "0x0000" not in said, said
    return said


def test_a_second_daemon_on_the_same_data_is_refused(launch):
    first = launch()
    second = launch(start=False, data=first.data)
    assert str(first.data) in start_refused(second) and first.running
    endpoints = json.loads((first.data / "endpoints.json").read_text())
    assert endpoints["pid"] == first.pid, "the refused one leaves the first one's files alone"


@pytest.mark.parametrize("damage", (
    "foreign text", "foreign database", "header", "middle", "truncated", "directory in its place"))
async def test_a_damaged_or_foreign_store_is_refused_and_not_touched(launch, damage):
    daemon = launch()
    for number in range(60):
        await daemon.publish(large(number, 20_000))
    assert daemon.stop() == 0
    file = daemon.data / "stalecast.sqlite"
    spoil(file, damage)
    before = file.read_bytes() if file.is_file() else None
    start_refused(daemon)
    assert before is None or file.read_bytes() == before, "a refused file is left as it is"


def large(number, size):
    """A template of that many bytes, each with other content."""
    return template({"text": f"{number} " + "x" * size})


def spoil(file, damage):
    data = file.read_bytes()
    for side in file.parent.glob(file.name + "-*"):
        side.unlink()
    if damage == "foreign text":
        file.write_text("this is my diary\n" * 500)
    elif damage == "foreign database":
        file.unlink()
        with sqlite3.connect(file) as other:
            other.execute("CREATE TABLE recipes(name TEXT)")
    elif damage == "header":
        file.write_bytes(b"\xff" * 100 + data[100:])
    elif damage == "middle":
        file.write_bytes(data[: len(data) // 4] + os.urandom(len(data) // 2) + data[-(len(data) // 4):])
    elif damage == "truncated":
        file.write_bytes(data[: len(data) // 2])
    else:
        file.unlink()
        file.mkdir()


@configs.one_half
async def test_a_start_reads_three_hundred_versions_once(launch, half):
    """It looks for damage in all of them, and at what is current."""
    full, single = launch(half=half), launch(half=half)
    client = full.client()
    for number in range(300):
        await client.publish(large(number, 5_000))
    client.close()
    await single.publish(large(0, 5_000))
    (read, size), (least, smallest) = [await asyncio.to_thread(read_at_start, daemon) for daemon in (full, single)]
    print(f"{half}: a start with 300 versions reads {read:,} bytes of {size:,}, one with a single version {least:,}")
    assert read - least < 2 * (size - smallest)
    assert len(await full.client().versions()) == 300


def read_at_start(daemon):
    """Bytes that a daemon reads until it serves, and its store's size. After an orderly end, which empties the log."""
    assert daemon.stop() == 0
    daemon.start()
    read = re.search(r"^rchar: (\d+)$", Path(f"/proc/{daemon.pid}/io").read_text(), re.MULTILINE)[1]
    return int(read), (daemon.data / "stalecast.sqlite").stat().st_size


@pytest.mark.parametrize("listener", ("edge", "control"))
def test_a_port_in_use_is_said_in_a_sentence(launch, listener):
    daemon = launch(start=False)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        setattr(daemon, listener, taken.getsockname()[1])
        assert str(taken.getsockname()[1]) in start_refused(daemon)


@pytest.mark.parametrize("listener", ("edge", "control"))
def test_binding_outside_loopback_needs_tls_or_a_proxy(launch, listener):
    daemon, flag = launch(start=False), f"--{listener}"
    said = start_refused(daemon, flag, "0.0.0.0:0")
    assert f"{listener}: {{proxied: true}}" in said, "the sentence names the ways out"
    assert f"{listener}: {{tls: {{certificate: FILE, key: FILE}}}}" in said
    daemon.configure(f"{listener}: {{proxied: true}}\n")
    daemon.start(flag, "0.0.0.0:0")
    assert daemon.stop() == 0


@pytest.mark.parametrize("text,named", (
    ("edge:\n  heartbeet: 25s\n", "heartbeat"), ("edge:\n  heartbeat: never\n", "heartbeat"),
    ("egde: {}\n", "edge"), ("topics:\n- name: a b\n", "topics"), ("store:\n  maxVersions: -1\n", "maxVersions")))
def test_a_wrong_configuration_is_refused_with_the_key_named(launch, text, named):
    daemon = launch(text, start=False)
    assert named in start_refused(daemon)


def test_the_sample_configuration_boots(launch):
    daemon = launch((REPOSITORY / "samples/stalecast.yaml").read_text())
    assert daemon.stop() == 0


def test_the_data_directory_and_the_token_are_private(launch):
    daemon = launch()
    assert daemon.data.stat().st_mode & 0o777 == 0o700
    assert (daemon.data / "control.token").stat().st_mode & 0o777 == 0o600
    assert len(daemon.token) >= 43, "32 random bytes"
    first = daemon.token
    daemon.stop()
    daemon.start()
    assert daemon.token == first
    for file in daemon.data.iterdir():
        assert file.name in ("control.token",) or first.encode() not in file.read_bytes(), f"plain token in {file.name}"
        assert file.stat().st_mode & 0o077 == 0, f"{file.name} is readable by others"


def test_missing_data_directories_are_made_and_files_in_their_place_refused(launch, tmp_path):
    daemon = launch(data=tmp_path / "new")
    assert daemon.stop() == 0
    shutil.rmtree(tmp_path / "new")
    (tmp_path / "new").write_text("a file")
    assert str(tmp_path / "new") in start_refused(daemon)
    assert (tmp_path / "new").read_text() == "a file"


@pytest.mark.parametrize("sent", (b"", b"GET /readyz HTTP/1.1\r\nHost: local"), ids=("silent", "half a head"))
async def test_connections_that_ask_nothing_leave_control_to_others(launch, sent):
    daemon = launch(configs.config(control={"maxConnections": 40}))
    held = []
    for _ in range(120):
        reader, writer = await asyncio.open_connection("127.0.0.1", daemon.control)
        writer.write(sent)
        held.append(writer)
    for _ in range(20):
        assert (await fetch(daemon.control, "/readyz")).status == 200
        assert (await daemon.ask_control("/status")).status == 200
    for writer in held:
        writer.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can write for another user")
async def test_what_root_replaces_stays_the_service_users(launch):
    """The data directory belongs to the service's user, and only root can run commands in it."""
    daemon = launch()
    cli = Cli(daemon)
    await daemon.publish(marked("one"))
    cli("backup", str(daemon.directory / "backup"))
    assert daemon.stop() == 0
    user, group = 4711, 4712
    for path in [daemon.data, *daemon.data.iterdir()]:
        os.chown(path, user, group)
    cli("token", "rotate", "--yes")
    cli("restore", str(daemon.directory / "backup"), "--yes")
    foreign = [path.name for path in daemon.data.iterdir()
               if (path.stat().st_uid, path.stat().st_gid) != (user, group)]
    assert not foreign, f"the service cannot open {foreign}"


def test_a_new_token_that_the_daemon_refuses_is_no_success(launch):
    daemon = launch()
    old, good = daemon.token, daemon.config.read_text()
    cli = Cli(daemon)
    daemon.configure("edge: [broken")
    said = cli("token", "rotate", "--yes", code=REFUSED).err
    assert f"process {daemon.pid} still refuses it" in said and "SIGHUP" in said
    assert daemon.token != old
    daemon.configure(good)
    assert "takes it now" in cli("token", "rotate", "--yes")
    cli("status", "--quiet")
