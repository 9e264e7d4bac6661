"""The console's cookie, as a browser that is none sends it: over TLS, and streams that end with the session."""

import asyncio
import json
import ssl
import subprocess

from harness import configs
from harness.daemon import BINARY, environment
from harness.keys import make_key
from harness.templates import marked

WATCH = "/v1/projects/demo/remoteConfig/propagation:watch?follow=true"


async def ask(daemon, request, context=None, body=b""):
    """One request on a connection of its own; returns (head, reader)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.control, ssl=context,
                                                   server_hostname="127.0.0.1" if context else None)
    writer.write(f"{request}\r\nHost: 127.0.0.1:{daemon.control}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)).decode()
    return head, (reader, writer)


async def sign_in(daemon, token, context=None):
    """The whole `Set-Cookie`."""
    head, (_, writer) = await ask(daemon, "POST /console/session HTTP/1.1\r\nSec-Fetch-Site: same-origin", context,
                                  json.dumps({"token": token}).encode())
    writer.close()
    assert head.startswith("HTTP/1.1 200"), head
    return next(line.split(": ", 1)[1] for line in head.splitlines() if line.lower().startswith("set-cookie:"))


async def watch(daemon, cookie):
    head, stream = await ask(daemon, f"GET {WATCH} HTTP/1.1\r\nCookie: {cookie}\r\nSec-Fetch-Site: same-origin")
    assert head.startswith("HTTP/1.1 200") and "text/event-stream" in head, head
    await asyncio.wait_for(stream[0].readuntil(b"event: progress"), 10)
    return stream


async def ends(stream):
    """Reads until the stream is over."""
    while await asyncio.wait_for(stream[0].read(1 << 16), 10):
        pass
    stream[1].close()


async def test_a_stream_ends_with_the_session_that_opened_it(launch):
    daemon = launch()
    await daemon.publish(marked("x"))
    first, second = [(await sign_in(daemon, daemon.token)).split(";")[0] for _ in range(2)]
    streams = await watch(daemon, first), await watch(daemon, second)
    head, (_, writer) = await ask(daemon, f"DELETE /console/session HTTP/1.1\r\nCookie: {first}\r\nSec-Fetch-Site: same-origin")
    writer.close()
    assert head.startswith("HTTP/1.1 200"), head
    await ends(streams[0])
    await daemon.publish(marked("y"))
    await asyncio.wait_for(streams[1][0].readuntil(b'"versionNumber":"2"'), 10)  # the other one's goes on
    streams[1][1].close()


async def test_a_stream_ends_with_the_key_behind_the_session(launch):
    daemon = launch()
    await daemon.publish(marked("x"))
    key, text = await make_key(daemon, {"role": "viewer"})
    stream = await watch(daemon, (await sign_in(daemon, text)).split(";")[0])
    assert (await daemon.client().call("POST", f"/v1/keys/{key}:revoke", b"{}")).status == 200
    await ends(stream)


async def test_a_stream_ends_with_the_control_token_behind_it(launch):
    daemon = launch()
    await daemon.publish(marked("x"))
    stream = await watch(daemon, (await sign_in(daemon, daemon.token)).split(";")[0])
    done = subprocess.run([BINARY, "token", "rotate", "--data", daemon.data], env=environment(), capture_output=True,
                          check=False)
    assert done.returncode == 0, done.stderr
    await ends(stream)


async def test_over_tls_no_other_host_can_set_or_see_it(launch, tmp_path):
    files = tmp_path / "tls"
    done = subprocess.run([BINARY, "tls", "dev", "--to", files], capture_output=True, text=True, env=environment(), check=False)
    assert done.returncode == 0, done.stderr
    daemon = launch(configs.config(
        control={"tls": {"certificate": str(files / "localhost.pem"), "key": str(files / "localhost.key")}}))
    context = ssl.create_default_context(cafile=files / "ca.pem")
    whole = await sign_in(daemon, daemon.token, context)
    value, *attributes = [part.strip() for part in whole.split(";")]
    # What browsers ask of a name with this prefix: Secure, Path=/ and no Domain.
    assert value.startswith("__Host-stalecast-") and "Path=/" in attributes and "Secure" in attributes
    assert {"HttpOnly", "SameSite=Strict"} <= set(attributes) and not any(part.startswith("Domain") for part in attributes)

    async def signed_in(cookie):
        head, (reader, writer) = await ask(daemon, f"GET /console/session HTTP/1.1\r\nCookie: {cookie}", context)
        length = int(next(line for line in head.lower().splitlines() if line.startswith("content-length")).split(":")[1])
        body = json.loads(await reader.readexactly(length))
        writer.close()
        return body["signedIn"]

    assert await signed_in(value)
    assert not await signed_in(value.removeprefix("__Host-")), "one without the prefix may be another page's"


async def test_without_tls_it_has_another_name(launch):
    daemon = launch()
    whole = await sign_in(daemon, daemon.token)
    assert whole.startswith("stalecast-") and "Secure" not in whole and "HttpOnly" in whole
