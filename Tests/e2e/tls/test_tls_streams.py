"""Streams and polls over TLS, read by foreign clients: whole records, in order, to a clean end."""

import asyncio
import http.client
import json
import re
import signal
import socket
import ssl
import subprocess
import time
from datetime import datetime, timedelta, timezone

import pytest

from harness import configs
from harness.authority import Authority
from harness.keys import change_key, make_key
from harness.templates import marked, wide
from harness.tls import Stream, launch_tls, tls, trusting
from harness.waiting import eventually

VERSION = re.compile(rb'"latestTemplateVersionNumber":"(\d+)"')
REQUEST = b"GET /v1/events?topic=PUSH_RC HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
WATCH = {"actions": ["watch"], "projects": ["demo"]}


def streams(daemon):
    return lambda: daemon.metric("stalecast_streams")


def raw_stream(daemon, authority, receive_buffer=None, key=None):
    """A blocking stream; its `recv` raises at an end that was not announced by close_notify."""
    plain = socket.socket()
    if receive_buffer:
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    plain.settimeout(20)
    plain.connect(("127.0.0.1", daemon.edge))
    stream = trusting(authority).wrap_socket(plain, server_hostname="127.0.0.1", suppress_ragged_eofs=False)
    stream.sendall(REQUEST.replace(b"\r\n\r\n", b"\r\nX-API-Key: %s\r\n\r\n" % key.encode()) if key else REQUEST)
    text = b""
    while b"event: synced" not in text:
        text += stream.recv(4096)
    return stream


def read_until(stream, words, text=b""):
    while words not in text:
        more = stream.recv(1 << 16)
        assert more, f"the stream ended before {words!r}"
        text += more
    return text


def newest(number):
    return b'"latestTemplateVersionNumber":"%d"' % number


async def test_curl_reads_a_stream_and_is_killed(launch, tmp_path, tool, half):
    daemon, authority = launch_tls(launch, tmp_path, half)
    curl = subprocess.Popen(
        [tool("curl"), "-sSN", "--cacert", f"{authority.directory}/ca.pem",
         f"https://127.0.0.1:{daemon.edge}/v1/events?topic=PUSH_RC"], stdout=subprocess.PIPE)
    assert await eventually(streams(daemon), 1) == 1
    for number in (1, 2, 3):
        await daemon.publish(marked(f"round {number}"))
        while newest(number) not in (line := curl.stdout.readline()):
            assert line, "curl ended"
    curl.kill()
    curl.wait()
    assert await eventually(streams(daemon), 0) == 0


@pytest.mark.limit(120)
async def test_openssl_changes_its_keys_under_a_stream(launch, tmp_path, tool, half):
    daemon, authority = launch_tls(launch, tmp_path, half)
    client = subprocess.Popen(
        [tool("openssl"), "s_client", "-tls1_3", "-connect", f"127.0.0.1:{daemon.edge}",
         "-CAfile", f"{authority.directory}/ca.pem"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0)

    async def until(words, text=b""):
        while words not in text:
            more = await asyncio.wait_for(asyncio.to_thread(client.stdout.read, 1 << 16), 15)
            assert more, f"s_client ended before {words!r}: {text[-300:]!r}"
            text += more

    client.stdin.write(REQUEST)
    await until(b"event: synced")
    for number in range(1, 6):
        # K: new keys for both; k: for the client alone.
        client.stdin.write(b"K\n" if number % 2 else b"k\n")
        await asyncio.sleep(0.1)
        await daemon.publish(marked(f"keys {number}"))
        await until(newest(number))
    client.kill()
    client.wait()


@pytest.mark.limit(120)
async def test_a_stalled_reader_gets_whole_records_and_the_newest(launch, tmp_path, half):
    daemon, authority = launch_tls(launch, tmp_path, half)
    stream = raw_stream(daemon, authority, receive_buffer=2048)
    last = 80
    for number in range(1, last + 1):
        # Of two lengths: what waits is never as long as what was begun.
        await daemon.publish(wide(f"round {number}") if number % 2 else marked(f"round {number}"))
    text = await asyncio.to_thread(read_until, stream, newest(last))
    versions = [int(number) for number in VERSION.findall(text)]
    assert versions == sorted(set(versions)) and versions[-1] == last
    assert len(versions) < last, "nothing was held back: the reader did not stall"
    await daemon.publish(marked("live again"))
    await asyncio.to_thread(read_until, stream, newest(last + 1))
    stream.close()


async def test_who_reads_nothing_is_closed_in_the_middle(launch, tmp_path, half):
    daemon, authority = launch_tls(launch, tmp_path, half, edge={"writeStallLimit": "1s"})
    stream = raw_stream(daemon, authority, receive_buffer=2048)
    for number in range(60):
        await daemon.publish(wide(f"round {number}"))
    assert await eventually(streams(daemon), 0, timeout=15) == 0
    text, announced = b"", True
    try:
        while more := await asyncio.to_thread(stream.recv, 1 << 16):
            text += more
    except (ssl.SSLError, ConnectionError):
        announced = False
    assert not text.endswith(b"0\r\n\r\n"), "what breaks off was said to be whole"
    # The Front's records wait a second for a client that begins to read; the engine's end with the connection.
    assert half == "front" or not announced


@pytest.mark.parametrize("sealed", [False, True], ids=["plain", "tls"])
async def test_who_reads_a_little_is_not_closed(launch, tmp_path, sealed):
    """Less than a record, and than a third of the socket's buffer, within the limit: the engine asks what was acknowledged."""
    if sealed:
        daemon, authority = launch_tls(launch, tmp_path, edge={"writeStallLimit": "2s"})
    else:
        daemon = launch(configs.config(edge={"writeStallLimit": "2s"}))
    plain = socket.socket()
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    plain.settimeout(20)
    await asyncio.to_thread(plain.connect, ("127.0.0.1", daemon.edge))
    sealed_bytes, clear = ssl.MemoryBIO(), ssl.MemoryBIO()
    if sealed:
        tls = trusting(authority).wrap_bio(sealed_bytes, clear, server_hostname="127.0.0.1")
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                plain.sendall(clear.read())
                sealed_bytes.write(await asyncio.to_thread(plain.recv, 1 << 16))
        tls.write(REQUEST)
        plain.sendall(clear.read())
    else:
        plain.sendall(REQUEST)
    assert await eventually(streams(daemon), 1) == 1
    last = 60

    async def publish():
        for number in range(1, last + 1):
            await daemon.publish(wide(f"round {number}"))

    publishing, text, begun = asyncio.create_task(publish()), b"", time.monotonic()
    while time.monotonic() < begun + 10:
        text += await asyncio.to_thread(plain.recv, 400)
        await asyncio.sleep(0.15)
    await publishing
    assert await daemon.metric("stalecast_streams") == 1, "closed for want of progress"

    def rest():
        nonlocal text
        while True:
            if sealed:
                sealed_bytes.write(text)
                text = b""
                try:
                    while more := tls.read(1 << 16):
                        heard.append(more)
                except ssl.SSLWantReadError:
                    pass
            else:
                heard.append(text)
                text = b""
            if newest(last) in b"".join(heard):
                return
            text = plain.recv(1 << 16)
            assert text, "the stream ended"

    heard = []
    await asyncio.to_thread(rest)
    versions = [int(number) for number in VERSION.findall(b"".join(heard))]
    assert versions == sorted(set(versions)) and len(versions) < last, "nothing was held back: it did not stall"
    plain.close()


@pytest.mark.parametrize("how", ["half", "goodbye", "reset"])
async def test_clients_leave_in_their_ways(launch, tmp_path, half, how):
    daemon, authority = launch_tls(launch, tmp_path, half)
    stream = raw_stream(daemon, authority)
    assert await eventually(streams(daemon), 1) == 1
    if how == "half":
        socket.socket.shutdown(stream, socket.SHUT_WR)
    elif how == "goodbye":
        stream.settimeout(0.2)
        try:
            stream.unwrap()
        except (OSError, ssl.SSLError):
            pass
    else:
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        stream.close()
    assert await eventually(streams(daemon), 0) == 0


async def test_one_connection_polls_and_asks_in_turn(launch, tmp_path, half):
    daemon, authority = launch_tls(launch, tmp_path, half)
    connection = http.client.HTTPSConnection("127.0.0.1", daemon.edge, context=trusting(authority), timeout=20)

    def ask(path):
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200
        return json.loads(answer.read())

    cursor = (await asyncio.to_thread(ask, "/v1/poll?topic=PUSH_RC&wait=0s"))["cursor"]
    socket_of_the_first = connection.sock
    for number in (1, 2, 3):
        poll = asyncio.create_task(asyncio.to_thread(ask, f"/v1/poll?topic=PUSH_RC&wait=30s&cursor={cursor}"))
        assert await eventually(lambda: daemon.metric("stalecast_polls"), 1) == 1
        await daemon.publish(marked(f"polled {number}"))
        answer = await poll
        assert answer["messages"][0]["latestTemplateVersionNumber"] == str(number)
        cursor = answer["cursor"]
        assert (await asyncio.to_thread(ask, "/v1/state?topic=PUSH_RC"))["state"][0]["topic"] == "PUSH_RC"
        assert (await asyncio.to_thread(ask, f"/v1/poll?topic=PUSH_RC&wait=0s&cursor={cursor}"))["messages"] == []
    assert connection.sock is socket_of_the_first, "the connection was kept"
    connection.close()


async def test_a_drain_says_goodbye(launch, tmp_path, half):
    daemon, authority = launch_tls(launch, tmp_path, half)
    opened = [raw_stream(daemon, authority) for _ in range(20)]
    daemon.signal(signal.SIGTERM)
    for stream in opened:
        text = b""
        # Raises when the end is not announced.
        while more := await asyncio.to_thread(stream.recv, 1 << 16):
            text += more
        assert b"retry: " in text and text.endswith(b"0\r\n\r\n"), text
        stream.close()
    assert daemon.wait() == 0


@pytest.mark.parametrize("why", ["expired", "revoked"])
async def test_the_end_of_a_credential_is_said(launch, tmp_path, half, why):
    authority = Authority(tmp_path)
    daemon = launch(configs.config(half, edge={"tls": tls(authority)}, auth={"mode": "enforce"}), half=half)
    end = datetime.now(timezone.utc) + timedelta(seconds=3 if why == "expired" else 600)
    key, text = await make_key(daemon, WATCH, expires=end.isoformat().replace("+00:00", "Z"))
    _, other = await make_key(daemon, WATCH)
    stream, stays = (raw_stream(daemon, authority, key=credential) for credential in (text, other))
    if why == "revoked":
        end = datetime.now(timezone.utc)
        assert (await change_key(daemon, key, "revoke")).status == 200
    said = b""
    while more := await asyncio.to_thread(stream.recv, 1 << 16):
        said += more
    late = (datetime.now(timezone.utc) - end).total_seconds()
    assert b'{"type":"%s"}' % why.encode() in said and b"retry: " in said
    assert late > -0.1, f"ended {-late:.2f} s before the credential"
    await daemon.publish(marked("for who stays"))
    await asyncio.to_thread(read_until, stays, newest(1))


async def test_a_certificate_is_replaced_while_messages_go_out(launch, tmp_path, half):
    daemon, authority = launch_tls(launch, tmp_path, half)
    context = trusting(authority)
    opened = [await Stream(daemon.edge, context).open() for _ in range(20)]
    number, replaced_at = 0, None
    while replaced_at is None or number < replaced_at + 20:
        if number == 5:
            authority.certify("localhost", "127.0.0.1")
            daemon.signal(signal.SIGHUP)
        number += 1
        await daemon.publish(marked(f"round {number}"))
        if replaced_at is None and "certificates replaced" in daemon.log_text():
            replaced_at = number
    await asyncio.gather(*(stream.until(newest(number)) for stream in opened))
    for stream in opened:
        versions = [int(found) for found in VERSION.findall(stream.text)]
        assert versions == sorted(set(versions))
        stream.close()
