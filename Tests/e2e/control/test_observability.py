"""/metrics, /status, /readyz, the log: what operators see, and what they must not see."""

import asyncio
import json
import os
import signal
import socket
import subprocess

import pytest

from harness import configs
from harness.cli import stalecast
from harness.daemon import environment
from harness.http1 import fetch
from harness.poll import poll
from harness.sse import Stream
from harness.templates import marked
from harness.waiting import eventually


@configs.one_half
async def test_metrics_pass_promtool(daemon, tool):
    await daemon.publish(marked("x"))
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    text = (await daemon.ask_control("/metrics")).body
    check = subprocess.run([tool("promtool"), "check", "metrics"], input=text, capture_output=True, check=False)
    assert check.returncode == 0 and not check.stderr.strip(), check.stderr.decode() + check.stdout.decode()


async def test_counters_and_gauges_follow_what_happens(launch, half):
    daemon = launch(configs.many_topics(half), half=half)
    streams = [await Stream.open(daemon.edge, ("PUSH_RC", "OTHER")) for _ in range(3)]
    for stream in streams:
        await stream.synced()
    held = [asyncio.create_task(poll(daemon.edge, wait="30s")) for _ in range(2)]
    assert await eventually(lambda: daemon.metric("stalecast_streams"), 3) == 3
    assert await eventually(lambda: daemon.metric("stalecast_polls"), 2) == 2
    assert await eventually(lambda: daemon.metric("stalecast_subscribers", topic="OTHER", transport="sse"), 3) == 3
    assert await eventually(lambda: daemon.metric("stalecast_subscribers", topic="PUSH_RC", transport="poll"), 2) == 2
    assert await daemon.metric("process_max_fds") > await daemon.metric("process_open_fds") > 0
    client = daemon.client()
    # A stream that lags hears two publishes as one.
    for number, publish in enumerate((lambda: client.publish(marked("one")), lambda: client.publish(marked("two")),
                                      lambda: client.rollback(1)), 1):
        await publish()
        for stream in streams:
            await stream.until(lambda s: len(s.messages) == 2 * number)
    await client.put(marked("three"), "etag-123456789012-9")
    await asyncio.gather(*held)
    assert await daemon.metric("stalecast_publishes_total", outcome="published") == 2
    assert await daemon.metric("stalecast_publishes_total", outcome="rolled_back") == 1
    assert await daemon.metric("stalecast_publishes_total", outcome="version_mismatch") == 1
    assert await eventually(lambda: daemon.metric("stalecast_deliveries_total", transport="sse"), 18) == 18
    assert await eventually(lambda: daemon.metric("stalecast_deliveries_total", transport="poll"), 2) == 2
    assert await daemon.metric("stalecast_store_commit_seconds_count") == 3
    assert await daemon.metric("stalecast_publish_to_written_seconds_count") > 0
    for stream in streams:
        stream.close()
    assert await eventually(lambda: daemon.metric("stalecast_streams"), 0) == 0


async def test_closed_clients_are_forgotten(daemon):
    for closing in ("close", "abort"):
        streams = [await Stream.open(daemon.edge) for _ in range(50)]
        for stream in streams:
            await stream.synced()
        polls = [asyncio.create_task(poll(daemon.edge, wait="60s")) for _ in range(20)]
        assert await eventually(lambda: daemon.metric("stalecast_streams"), 50) == 50
        assert await eventually(lambda: daemon.metric("stalecast_polls"), 20) == 20
        for stream in streams:
            getattr(stream, closing)()
        for held in polls:
            held.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        assert await eventually(lambda: daemon.metric("stalecast_streams"), 0) == 0
        assert await eventually(lambda: daemon.metric("stalecast_polls"), 0) == 0


async def test_refused_connections_are_counted_and_told_when_to_come_back(launch, half):
    daemon = launch(configs.config(half, edge={"maxConnections": 20}), half=half)
    streams = [await Stream.open(daemon.edge) for _ in range(20)]
    for stream in streams:
        await stream.synced()
    refused = await Stream.open(daemon.edge)
    assert refused.head.status == 200, "a browser never comes back after anything else"
    assert await refused.end() == "clean" and refused.frames[-1].kind == "retry"
    answer = await poll(daemon.edge, wait="1s")
    assert answer.status == 503 and int(answer.header("retry-after")) >= 1
    assert await eventually(lambda: daemon.metric("stalecast_connections_refused_total"), 2) == 2
    version = await daemon.publish(marked("x"))
    for stream in streams:
        await stream.version_at_least(version)
    streams[0].close()
    assert await eventually(lambda: daemon.metric("stalecast_connections"), len(streams) - 1) == len(streams) - 1
    again = await Stream.open(daemon.edge)
    await again.synced()


@configs.one_half
async def test_status_says_what_is_served(daemon):
    await daemon.publish(marked("x"))
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    text = json.dumps(await daemon.status())
    assert stream.last_id in text and "demo" in text and "PUSH_RC" in text


@configs.one_half
async def test_refused_credentials_are_in_the_status(daemon):
    for _ in range(3):
        assert (await fetch(daemon.control, "/nothing", headers=[("Authorization", "Bearer wrong")])).status == 401
    assert (await daemon.status())["auth"] == {"mode": "off", "refused": 3, "observed": 0}
    assert "refused  credentials 3\n" in stalecast("status", "--data", daemon.data)


async def test_the_status_counts_clients_that_do_not_read(launch):
    """The kernel takes what is sent to them, so no stream is stalled; the engine asks it what was acknowledged."""
    daemon = launch()
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    slow.connect(("127.0.0.1", daemon.edge))
    slow.sendall(b"GET /v1/events?topic=PUSH_RC HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    assert await eventually(lambda: daemon.metric("stalecast_streams"), 2) == 2
    for number in range(40):
        await daemon.publish(marked(str(number)))

    async def counted():
        edge = (await daemon.status())["edge"]
        return edge.get("slowReaders"), edge["stalled"]

    # A result is kept for ten seconds.
    assert await eventually(counted, (1, 0)) == (1, 0)
    assert "stalled 0, slow readers 1," in stalecast("status", "--data", daemon.data)
    slow.close()
    assert await eventually(counted, (0, 0)) == (0, 0)


@configs.one_half
async def test_control_wants_its_token_everywhere_but_health(daemon):
    for path in ("/status", "/metrics", "/v1/projects/demo/remoteConfig", "/v1/projects/demo/topics", "/nothing"):
        answer = await fetch(daemon.control, path)
        assert answer.status == 401, f"{path}: {answer}"
        wrong = await fetch(daemon.control, path, headers=[("Authorization", f"Bearer {daemon.token[:-1]}x")])
        assert wrong.status == 401
    for path in ("/healthz", "/readyz"):
        assert (await fetch(daemon.control, path)).status == 200
    answer = await fetch(daemon.control, "/v1/projects/demo/remoteConfig", "PUT", [("If-Match", "*")], b"{}")
    assert answer.status == 401 and (await daemon.client().current())[0] == 0


@configs.one_half
async def test_every_version_is_a_line_in_the_log(daemon):
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    client = daemon.client()
    await client.put(marked("one"), headers=[("X-Stalecast-User", "ada@example.org")])
    await client.publish(marked("two"))
    answer = await client.call("POST", f"{client.base}/remoteConfig:rollback", b'{"versionNumber":"1"}',
                               [("X-Stalecast-User", "Grace")])
    assert answer.json()["version"]["updateUser"] == {"name": "Grace"}
    assert daemon.stop() == 0, "what waits for the log is written at the end"
    first, second, third = [line for line in daemon.log_text().splitlines() if "version announced" in line]
    for part in ("scope=demo/firebase", "version=1", "user=ada@example.org", "type=FORCED_UPDATE", "origin=REST_API",
                 "keys="):
        assert part in first, first
    assert 'user="control token"' in second and "version=2" in second
    assert "rollbackSource=1" in third and "user=Grace" in third and "type=ROLLBACK" in third


@configs.one_half
async def test_the_log_says_how_many_subscribers_were_told(daemon):
    streams = [await Stream.open(daemon.edge) for _ in range(3)]
    for stream in streams:
        await stream.synced()
    assert await eventually(lambda: daemon.metric("stalecast_streams"), 3) == 3
    await daemon.publish(marked("one"))

    async def told():
        return "version announced" in daemon.log_text()

    assert await eventually(told, True)
    assert "subscribers=3" in daemon.log_text()


@configs.one_half
async def test_refused_tokens_are_said_in_few_lines(daemon):
    for _ in range(20):
        assert (await fetch(daemon.control, "/status")).status == 401
    assert daemon.stop() == 0
    lines = [line for line in daemon.log_text().splitlines() if "requests refused" in line]
    assert 1 <= len(lines) <= 3 and all("control: no credential" in line for line in lines), lines
    assert sum(int(line.split("count=")[1].split()[0]) for line in lines) == 20


@configs.one_half
async def test_a_new_token_holds_from_the_reload_on(daemon):
    before = daemon.token
    (daemon.data / "control.token.sha256").unlink()
    (daemon.data / "control.token").write_text("a-token-that-an-operator-chose\n")
    daemon.signal(signal.SIGHUP)

    async def status(token):
        return (await fetch(daemon.control, "/status", headers=[("Authorization", f"Bearer {token}")])).status

    assert await eventually(lambda: status("a-token-that-an-operator-chose"), 200) == 200
    assert await status(before) == 401


@configs.one_half
async def test_token_rotate_makes_one_that_a_running_daemon_takes(daemon):
    before = daemon.token
    stalecast("token", "rotate", "--data", daemon.data)
    assert daemon.token != before
    client = daemon.client()

    async def status():
        return (await client.call("GET", "/status")).status

    assert await eventually(status, 200) == 200
    assert (await fetch(daemon.control, "/status", headers=[("Authorization", f"Bearer {before}")])).status == 401


@configs.one_half
def test_a_version_names_who_made_it(daemon, tmp_path):
    file = tmp_path / "t.json"
    file.write_text(json.dumps(marked("x")))
    stalecast("publish", file, "--user", "Ada", "--data", daemon.data)
    said = stalecast("versions", "--json", "--data", daemon.data)
    assert json.loads(said)["versions"][0]["updateUser"] == {"name": "Ada"}


def test_a_lost_token_is_said_at_the_start(launch):
    daemon = launch()
    assert daemon.stop() == 0
    (daemon.data / "control.token").unlink()
    daemon.start()
    assert "stalecast token rotate" in daemon.log_text()


def test_a_terminal_is_greeted_and_a_pipe_is_not(launch):
    daemon = launch()
    assert daemon.stop() == 0
    assert "Edge      http" not in daemon.log_text() and f"data={daemon.data}" in daemon.log_text()
    ours, theirs = os.openpty()
    process = subprocess.Popen(daemon.command(), stdout=theirs, stderr=theirs, env=environment())
    said = b""
    while b"Ctrl-C ends it" not in said:
        said += os.read(ours, 4096)
    process.kill()
    process.wait()
    for part in ("Stalecast ", "Edge      http://127.0.0.1:", "control.token", "demo (firebase", str(daemon.data)):
        assert part in said.decode(), said.decode()


@configs.one_half
@pytest.mark.parametrize("form", ("text", "json"))
async def test_the_log_holds_no_secrets_and_json_is_json(launch, half, form):
    daemon = launch(configs.config(half, log={"format": form, "level": "trace"}), half=half)
    secret = "swordfish-in-a-template"
    await daemon.publish(marked(secret))
    await fetch(daemon.control, f"/v1/projects/demo/remoteConfig?access_token={daemon.token}",
                headers=[("Authorization", f"Bearer {daemon.token}")])
    await daemon.client().put(b"{" + secret.encode())
    stream = await Stream.open(daemon.edge)
    await stream.synced()
    token = daemon.token
    assert daemon.stop() == 0
    log = daemon.log_text()
    assert log.strip(), "a daemon must log something"
    assert token not in log and secret not in log
    if form == "json":
        for line in log.splitlines():
            assert isinstance(json.loads(line), dict), line


def test_the_debug_log_keeps_the_configurations_secrets(launch):
    daemon = launch("edge:\n  apiKeys: [a-key-nobody-may-read]\nlog:\n  level: debug\n")
    assert daemon.stop() == 0
    text = daemon.log_text()
    assert "listening" in text and "a-key-nobody-may-read" not in text
    assert "sl-services" not in text, "whole services were printed, configuration and all"
