"""Malformed and hostile requests, on both listeners: 4xx or close; never a crash, a 5xx, or much memory."""

import asyncio
import gzip
import random
import re

import pytest

from harness import configs
from harness.daemon import LONG
from harness.http1 import exchange, fetch
from harness.sse import Stream
from harness.templates import encoded, marked

MEMORY_LIMIT = 32 << 20
MUTATIONS = 20_000 if LONG else 2_000
STREAM = b"GET /v1/events?topic=PUSH_RC HTTP/1.1\r\nHost: localhost\r\n"
PUT = b"PUT /v1/projects/demo/remoteConfig HTTP/1.1\r\nHost: localhost\r\nIf-Match: *\r\n"

BAD = {
    "length and transfer coding": PUT + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": PUT + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "length list": PUT + b"Content-Length: 2, 3\r\n\r\n{}x",
    "negative length": PUT + b"Content-Length: -1\r\n\r\n",
    "length with sign": PUT + b"Content-Length: +2\r\n\r\n{}",
    "endless length": PUT + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "bare line feeds": STREAM.replace(b"\r\n", b"\n") + b"\n",
    "a bare line feed": STREAM + b"A: b\nC: d\r\n\r\n",
    "bare carriage return": STREAM + b"A: b\rC: d\r\n\r\n",
    "nul in a header": STREAM + b"A: b\0c\r\n\r\n",
    "nul in the target": b"GET /v1/events?topic=PUSH\0_RC HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no host": b"GET /v1/events?topic=PUSH_RC HTTP/1.1\r\n\r\n",
    "two hosts": STREAM + b"Host: y\r\n\r\n",
    "huge url": b"GET /v1/events?topic=" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "huge header": STREAM + b"A: " + b"b" * 100_000 + b"\r\n\r\n",
    "header flood": STREAM + b"".join(b"A%d: b\r\n" % i for i in range(20_000)) + b"\r\n",
    "endless header name": STREAM + b"a" * 200_000,
    "space before colon": STREAM + b"Last-Event-ID : x\r\n\r\n",
    "folded header": STREAM + b"A: b\r\n c\r\n\r\n",
    "no colon": STREAM + b"nonsense\r\n\r\n",
    "empty header name": STREAM + b": x\r\n\r\n",
    "chunk size overflow": PUT + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nx",
    "chunk size negative": PUT + b"Transfer-Encoding: chunked\r\n\r\n-1\r\nx",
    "chunk size text": PUT + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nx\r\n0\r\n\r\n",
    "chunk too long": PUT + b"Transfer-Encoding: chunked\r\n\r\n2\r\nxyz\r\n0\r\n\r\n",
    "unknown coding": PUT + b"Transfer-Encoding: snappy\r\n\r\n",
    "coding twice": PUT + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "version 9": b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
    "no version": b"GET /v1/events?topic=PUSH_RC\r\n\r\n",
    "tls hello": bytes.fromhex("1603010200010001fc0303") + bytes(600),
    "http2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(64),
    "not http": b"\0" * 5000,
    "leading spaces": b"   GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "absolute nonsense": b"GET http://[::1/ HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


def statuses(answer):
    return [int(text) for text in re.findall(rb"(?:^|\r\n\r\n|\})\n?HTTP/1\.[01] (\d{3})", answer)]


@pytest.fixture(params=("edge", "control"))
def listener(request, daemon):
    """(daemon, port) of each listener, warmed up: what is measured afterwards is not the first use of the code."""
    return daemon, getattr(daemon, request.param)


async def still_serves(daemon):
    assert daemon.running, f"the daemon crashed:\n{daemon.log_tail()}"
    assert (await fetch(daemon.edge, "/healthz")).status == 200
    version = await daemon.publish(marked("alive"))
    stream = await Stream.open(daemon.edge, have=version - 1)
    await stream.version_at_least(version)
    stream.close()


def answered(got):
    return bool(statuses(got))


async def test_malformed_requests_get_4xx_or_close(listener):
    daemon, port = listener
    await still_serves(daemon)
    wrong = []
    with daemon.growth_below(MEMORY_LIMIT):
        for name, data in BAD.items():
            got, ended = await exchange(port, data, timeout=1.5, enough=answered)
            codes = statuses(got)
            fine = all(400 <= code < 500 for code in codes)
            if not fine or (not codes and ended == "open"):
                wrong.append(f"{name}: {codes or got[:60]} {ended}")
    await still_serves(daemon)
    assert not wrong, "\n".join(wrong)


async def test_what_follows_a_bad_request_is_never_acted_on(listener):
    daemon, port = listener
    authorization = f"Authorization: Bearer {daemon.token}\r\n".encode()
    await still_serves(daemon)
    before = (await daemon.client().current())[0]
    body = encoded(marked("smuggled"))
    good = PUT + authorization + b"Content-Length: %d\r\n\r\n" % len(body) + body
    for name in ("length and transfer coding", "two lengths", "a bare line feed", "nul in a header", "chunk size text"):
        got, _ = await exchange(port, BAD[name].replace(b"If-Match: *\r\n", authorization) + good, timeout=2)
        assert all(400 <= code < 500 for code in statuses(got)), (name, got[:300])
    assert (await daemon.client().current())[0] == before, "a pipelined request after a bad one was carried out"


async def test_a_good_request_before_a_bad_one_is_answered(listener):
    daemon, port = listener
    got, _ = await exchange(port, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n" + BAD["nul in a header"], timeout=2)
    codes = statuses(got)
    assert codes[:1] == [200] and all(400 <= code < 500 for code in codes[1:]), got[:400]


@pytest.mark.limit(40)
async def test_slow_heads_are_cut_at_the_deadline(launch, half):
    """Slowloris: a byte now and then; the deadline counts from the connection's begin, not from its last byte."""
    daemon = launch(configs.short_times(half), half=half)

    async def slowly(port):
        return await exchange(port, STREAM, pause=0.15, pieces=len(STREAM), timeout=4)

    rude = await asyncio.gather(*(slowly(daemon.edge) for _ in range(200)), return_exceptions=True)
    for outcome in rude:
        assert not isinstance(outcome, Exception), outcome
        got, ended = outcome
        assert ended != "open" and all(code in (400, 408) for code in statuses(got)), (got[:100], ended)
    await still_serves(daemon)


@pytest.mark.parametrize("opening,closing", (
    (b"[", b"]"), (b'{"a":', b"}"), (b'{"parameters":', b"}"), (b'[{"a":[', b"]}]")))
async def test_nesting_bombs_are_refused(daemon, opening, closing):
    await still_serves(daemon)
    with daemon.growth_below(MEMORY_LIMIT):
        for bomb in (opening * 100_000, opening * 100_000 + closing * 100_000):
            for target in ("remoteConfig", "messages:send", "remoteConfig:rollback"):
                method = "PUT" if target == "remoteConfig" else "POST"
                answer = await daemon.client().call(
                    method, f"/v1/projects/demo/{target}", bomb, [("If-Match", "*")])
                assert 400 <= answer.status < 500, answer
    await still_serves(daemon)


def bomb(size, byte=b" "):
    return gzip.compress(byte * size, 9)


# Made by the test that sends them: every process that collects tests would compress them all.
BOMBS = {
    "ten megabytes of blanks": lambda: bomb(10 << 20), "ten megabytes of brackets": lambda: bomb(10 << 20, b"["),
    "a gigabyte": lambda: bomb((1 << 30) if LONG else (256 << 20)),
    "twice compressed": lambda: gzip.compress(bomb(10 << 20)), "cut short": lambda: bomb(1 << 20)[:-20],
    "not really gzip": lambda: b"\x1f\x8b" + b"x" * 1000, "many members": lambda: bomb(1 << 20) * 64,
}


@pytest.mark.parametrize("name", BOMBS)
async def test_gzip_bombs_are_refused_under_a_cap(daemon, name):
    body = BOMBS[name]()
    await still_serves(daemon)
    with daemon.growth_below(MEMORY_LIMIT):
        for headers in ([], [("Content-Encoding", "gzip")]):
            answer = await daemon.client().call("PUT", "/v1/projects/demo/remoteConfig", body,
                                                [("If-Match", "*"), *headers])
            assert 400 <= answer.status < 500, f"{name}: {answer}"
    await still_serves(daemon)


def mutated(seeds, chance):
    """A seed with a few bytes changed, inserted, removed or doubled."""
    data = bytearray(chance.choice(seeds))
    for _ in range(chance.randint(1, 6)):
        place = chance.randrange(len(data))
        kind = chance.randrange(4)
        if kind == 0:
            data[place] = chance.randrange(256)
        elif kind == 1:
            data[place:place] = bytes([chance.choice((0, 10, 13, 32, 58, 255, chance.randrange(256)))])
        elif kind == 2:
            del data[place : place + chance.randint(1, 8)]
        else:
            data[place:place] = data[place : place + chance.randint(1, 40)]
        if not data:
            data = bytearray(b"\r\n")
    return bytes(data)


@pytest.mark.limit(600 if LONG else 120)
async def test_random_mutations_never_crash_never_5xx(listener):
    daemon, port = listener
    await still_serves(daemon)
    chance = random.Random(f"{port == daemon.edge}-2")
    body = encoded(marked("mutant"))
    seeds = [
        STREAM + b"Last-Event-ID: " + b"a" * 26 + b".4\r\nAccept: text/event-stream\r\n\r\n",
        b"GET /v1/poll?topic=PUSH_RC&cursor=x.1&have=3&wait=0s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        PUT + b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n" % (daemon.token.encode(), len(body)) + body,
        b"POST /v1/projects/demo/remoteConfig:rollback HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
        + daemon.token.encode() + b"\r\nTransfer-Encoding: chunked\r\n\r\n15\r\n{\"versionNumber\":\"1\"}\r\n0\r\n\r\n",
    ]
    gate = asyncio.Semaphore(32)

    async def one(data):
        async with gate:
            got, _ = await exchange(port, data, timeout=0.2, enough=answered)
            # 501 is the answer to a method that is well-formed and unknown.
            assert all(code < 500 or code == 501 for code in statuses(got)), f"{data!r} was answered {got[:200]!r}"

    with daemon.growth_below(MEMORY_LIMIT):
        await asyncio.gather(*(one(mutated(seeds, chance)) for _ in range(MUTATIONS)))
    await still_serves(daemon)
