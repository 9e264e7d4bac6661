"""HTTP as RFC 9112 says it: one set of rules, one test body, both listeners."""

import asyncio
import re

import pytest

from harness import configs
from harness.http1 import exchange, fetch
from harness.poll import poll_target

pytestmark = pytest.mark.shared
FETCH = b"POST /v1/projects/demo/namespaces/firebase:fetch HTTP/1.1\r\nHost: localhost\r\n"


@pytest.fixture(params=("edge", "control"))
def listener(request, daemon):
    """(port, a GET of /healthz without its empty line, a request with a body without framing) of each listener."""
    authorization = f"Authorization: Bearer {daemon.token}\r\n".encode()
    get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + authorization
    if request.param == "edge":
        return daemon.edge, get, FETCH
    put = b"PUT /v1/projects/demo/remoteConfig HTTP/1.1\r\nHost: localhost\r\nIf-Match: *\r\n" + authorization
    return daemon.control, get, put


async def ask(port, data, timeout=3.0):
    """(statuses, all bytes); the connection must end by itself."""
    got, ended = await exchange(port, data, timeout=timeout)
    assert ended == "closed", (ended, got[:300])
    return [int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", got)], got


async def test_a_length_over_the_limit_is_refused_before_the_body(listener):
    port, _, post = listener
    for length in (b"1000000000000", b"9223372036854775807"):
        codes, _ = await ask(port, post + b"Content-Length: " + length + b"\r\n\r\n")
        assert codes == [413]


@pytest.mark.parametrize("name,bulk", (
    ("a value", b"X: " + b"a" * 20_000 + b"\r\n"), ("many fields", b"X: a\r\n" * 4_000),
    ("a name", b"a" * 20_000 + b": a\r\n"), ("unfinished", b"X: " + b"a" * 40_000)))
async def test_a_head_over_the_limit_is_431_whatever_its_shape(listener, name, bulk):
    port, get, _ = listener
    codes, _ = await ask(port, get + bulk + b"\r\n")
    assert codes == [431], name


async def test_a_pipelined_head_over_the_limit_is_431_too(listener):
    port, get, _ = listener
    codes, _ = await ask(port, get + b"\r\n" + get + b"X: " + b"a" * 17_000 + b"\r\n\r\n")
    assert codes == [200, 431]


@pytest.mark.parametrize("body", (
    b"1;" + b"a" * 100_000, b"1;a=b" * 1 + b"\r\nx\r\n" + b"1;" + b"b" * 60_000 + b"\r\nx\r\n0\r\n\r\n",
    b"0\r\n" + b"A: b\r\n" * 10_000 + b"\r\n"))
async def test_chunk_extensions_and_trailers_have_a_budget(listener, body):
    port, _, post = listener
    codes, _ = await ask(port, post + b"Transfer-Encoding: chunked\r\n\r\n" + body)
    assert codes in ([413], [400], [431])


@pytest.mark.parametrize("host", (b"", b"a b", b"a/b", b"user@host", b"[::1", b"a:b", b"a:123456"))
async def test_an_invalid_host_is_400(listener, host):
    port, get, _ = listener
    codes, _ = await ask(port, get.replace(b"Host: localhost", b"Host: " + host) + b"\r\n")
    assert codes == [400]


@pytest.mark.parametrize("target", (
    b"/healthz", b"/v1/events?topic=PUSH_RC", b"/v1/poll?topic=PUSH_RC&wait=0s", b"/v1/state?topic=PUSH_RC",
    b"http://evil.example/v1/state?topic=PUSH_RC"))
async def test_a_foreign_host_is_421_on_loopback_without_keys(daemon, target):
    for host in (b"evil.example", b"evil.example:8080", b"127.0.0.1.evil.example"):
        codes, got = await ask(daemon.edge, b"GET %s HTTP/1.1\r\nHost: %s\r\n\r\n" % (target, host))
        assert codes == [421], got[:300]


@pytest.mark.parametrize("host", (b"127.0.0.1", b"127.0.0.1:80", b"[::1]:8080", b"localhost", b"LocalHost:1"))
async def test_addresses_and_localhost_are_nobodys_names(daemon, host):
    for target in (b"/healthz", b"/v1/poll?topic=PUSH_RC&wait=0s"):
        request = b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (target, host)
        assert (await ask(daemon.edge, request))[0] == [200]


async def test_names_of_the_list_are_admitted(launch, half):
    daemon = launch(configs.config(half, edge={"hosts": ["config.example"]}), half=half)
    for host, code in ((b"config.example", 200), (b"Config.Example:8080", 200), (b"other.example", 421)):
        for target in (b"/healthz", b"/v1/poll?topic=PUSH_RC&wait=0s"):
            request = b"GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n" % (target, host)
            assert (await ask(daemon.edge, request))[0] == [code], (host, target)


async def test_absolute_targets_are_understood(listener):
    port, get, _ = listener
    for target in (b"http://localhost/healthz", b"HTTP://127.0.0.1:80/healthz", b"https://localhost/healthz"):
        codes, _ = await ask(port, get.replace(b"/healthz", target) + b"Connection: close\r\n\r\n")
        assert codes == [200], target


@pytest.mark.parametrize("version", (b"RTSP/1.0", b"RTSP/1.1", b"ICE/1.0", b"HTTP/1.2", b"HTP/1.1"))
async def test_other_protocols_are_not_http(listener, version):
    port, get, _ = listener
    codes, _ = await ask(port, get.replace(b"HTTP/1.1", version) + b"\r\n")
    assert codes == [400]


async def test_http_1_0_ends_with_its_answer_and_is_not_told_to_go_on(listener):
    port, get, post = listener
    old = get.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Connection: keep-alive\r\n\r\n"
    assert (await ask(port, old + old))[0] == [200]
    body = post.replace(b"HTTP/1.1", b"HTTP/1.0") + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}"
    codes, _ = await ask(port, body)
    assert len(codes) == 1 and codes[0] >= 200


async def test_expect_is_answered_in_http_1_1(listener):
    port, _, post = listener
    got, _ = await exchange(port, post + b"Expect: 100-Continue\r\nContent-Length: 2\r\n\r\n", timeout=1)
    assert got == b"HTTP/1.1 100 Continue\r\n\r\n"


@pytest.mark.parametrize("version,coding", (
    (b"HTTP/1.0", b"chunked"), (b"HTTP/1.1", b"identity, chunked"), (b"HTTP/1.1", b"identity"),
    (b"HTTP/1.1", b"chunked\r\nTransfer-Encoding: chunked")))
async def test_only_chunked_of_http_1_1_is_understood(listener, version, coding):
    port, _, post = listener
    data = post.replace(b"HTTP/1.1", version) + b"Transfer-Encoding: " + coding + b"\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    assert (await ask(port, data))[0] == [400]


async def test_nothing_behind_the_last_request_is_answered(listener):
    port, get, _ = listener
    codes, _ = await ask(port, get + b"Connection: close\r\n\r\n" + get + b"\r\n" + get + b"\r\n")
    assert codes == [200]


async def test_an_upgrade_is_not_followed(listener):
    port, get, _ = listener
    codes, got = await ask(port, get + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert codes == [200] and got.endswith(b"ok\n")


async def test_many_pipelined_requests_are_answered_in_order(listener):
    port, get, post = listener
    body = post + b"Transfer-Encoding: chunked\r\n\r\n1;a=b\r\n{\r\n1\r\n}\r\n0\r\nA: b\r\n\r\n"
    data = (get + b"\r\n" + body) * 20 + get + b"Connection: close\r\n\r\n"
    codes, _ = await ask(port, data, timeout=10)
    assert len(codes) == 41 and codes[::2] == [200] * 21


async def test_what_is_allowed_is_told(listener):
    port, get, _ = listener
    for method, code in ((b"OPTIONS", 204), (b"DELETE", 405), (b"PROPFIND", 405)):
        codes, got = await ask(port, get.replace(b"GET", method) + b"Connection: close\r\n\r\n")
        assert codes == [code], got[:300]
        assert re.search(rb"\r\nAllow: [^\r]*GET", got), got[:300]


@pytest.mark.parametrize("method,code", (
    (b"FROBNICATE", 501), (b"get", 501), (b"GE(T", 400), (b"G\0T", 400), (b"GET\t", 400), (b" GET", 400), (b"G T", 400)))
async def test_an_unknown_method_is_told_from_a_malformed_one(listener, method, code):
    port, get, _ = listener
    codes, got = await ask(port, get.replace(b"GET", method, 1) + b"\r\n")
    assert codes == [code], got[:300]


async def test_the_server_as_a_whole_says_what_it_allows(listener):
    port, get, _ = listener
    codes, got = await ask(port, re.sub(rb"^GET [^ ]+", b"OPTIONS *", get) + b"Connection: close\r\n\r\n")
    assert codes == [204] and re.search(rb"\r\nAllow: [^\r]*GET, HEAD[^\r]*POST", got), got[:300]


async def test_a_refusal_arrives_although_the_body_goes_on(listener):
    port, _, post = listener
    data = post.replace(b"Authorization: Bearer ", b"Authorization: Bearer no") + b"Content-Length: 20000000\r\n\r\n"
    for _ in range(5):
        codes, got = await ask(port, data + b"x" * 5_000_000)
        assert codes in ([413], [401]) and got.endswith(b"}\n"), got[-100:]


async def test_a_preflight_is_answered_when_full(launch, half):
    daemon = launch(configs.config(half, edge={"maxConnections": 2, "allowedOrigins": ["http://a.test"]}), half=half)
    held = [await asyncio.open_connection("127.0.0.1", daemon.edge) for _ in range(2)]
    for _, writer in held:
        writer.write(b"GET /v1/events?topic=PUSH_RC HTTP/1.1\r\nHost: localhost\r\n\r\n")
    for reader, _ in held:
        await reader.readuntil(b"synced")
    codes, got = await ask(
        daemon.edge, b"OPTIONS /v1/projects/demo/namespaces/firebase:streamFetchInvalidations HTTP/1.1\r\n"
        b"Host: localhost\r\nOrigin: http://a.test\r\nAccess-Control-Request-Method: POST\r\n\r\n")
    assert codes == [204] and b"Access-Control-Allow-Origin: http://a.test" in got
    assert (await fetch(daemon.edge, "/v1/state?topic=PUSH_RC")).status == 503
    for _, writer in held:
        writer.close()


async def test_a_client_that_speaks_while_its_poll_is_held_is_answered(launch, half):
    daemon = launch(configs.config(half, edge={"headerTimeout": "1s"}), half=half)
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.edge)
    writer.write(f"GET {poll_target(wait='3s')} HTTP/1.1\r\nHost: localhost\r\nX-A: b\r\n\r\n".encode())
    await asyncio.sleep(0.3)
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    got = await asyncio.wait_for(reader.read(-1), 10)
    writer.close()
    assert got.count(b"HTTP/1.1 200 OK") == 2 and got.endswith(b"ok\n"), got


async def test_a_half_closed_poller_is_let_go(launch, half):
    daemon = launch(configs.config(half), half=half)
    reader, writer = await asyncio.open_connection("127.0.0.1", daemon.edge)
    writer.write(f"GET {poll_target(wait='60s')} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    await asyncio.sleep(0.3)
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(-1), 5) == b""
    writer.close()
