"""The SDK's server-sent events client, judged by other people's behaviours: LaunchDarkly's contract tests (113) and the
web platform tests, played by our own harness through LaunchDarkly's protocol."""

import os
import time

import pytest

from harness import stream_vectors as vectors
from harness.contract import SENTINEL, Client, ContractService, StreamSource
from harness.daemon import BINARY

SERVICE = os.environ.get(
    "STALECAST_CONTRACT_BIN", os.path.join(os.path.dirname(BINARY) or ".", "stalecast-contract-service"))

pytestmark = pytest.mark.skipif(
    not os.access(SERVICE, os.X_OK), reason=f"no contract service at {SERVICE}; build it or set STALECAST_CONTRACT_BIN")

COMMON = [*vectors.parsing(), *vectors.byte_order_mark(), *vectors.comments(), *vectors.line_ends()]


@pytest.fixture(scope="module", params=["libcurl", "url-session"] if os.environ.get("STALECAST_LONG") else ["libcurl"])
def service(request):
    """The service, streaming over libcurl as apps on Linux do, or over Foundation's URLSession as elsewhere."""
    service = ContractService(SERVICE, *(["--url-session"] if request.param == "url-session" else []))
    service.transport = request.param
    yield service
    assert service.end() == 0


@pytest.fixture
def source():
    with StreamSource() as source:
        yield source


def matches(report, expected):
    if isinstance(expected, vectors.Comment):
        return report["kind"] == "comment" and report["comment"].strip() == expected.text
    if report["kind"] != "event":
        return False
    data, more = expected if isinstance(expected, tuple) else (expected, {})
    return report["event"]["data"] == data and all(report["event"][name] == value for name, value in more.items())


def expect(service, source, vector, with_comments=True):
    """All expected comes while the stream is open; after its end nothing more does, up to the next stream's event."""
    with Client(service, source) as client:
        stream = source.next().open()
        stream.send(*vector.pieces, pause=vector.pause)
        for expected in vector.expected:
            report = client.next()
            while report["kind"] == "comment" and not with_comments:
                report = client.next()
            assert matches(report, expected), (report, expected)
        stream.end()
        source.next().open().send(f"data: {SENTINEL}\n\n")
        report = client.next()
        while report["kind"] == "comment" and not with_comments:
            report = client.next()
        assert report["kind"] == "event" and report["event"]["data"] == SENTINEL, report


def test_all_behaviours_are_here():
    http, reconnection = 12, 8
    cases = {name: value for name, value in globals().items() if hasattr(value, "behaviours")}
    assert sum(case.behaviours for case in cases.values()) == http + reconnection
    assert len(COMMON) + len(vectors.large()) == 23 + 11 + 4 + 55
    names = [str(each) for each in COMMON + vectors.large()]
    assert len(set(names)) == len(names)


def test_capabilities(service):
    status, _, body = service.call("GET", "/")
    assert status == 200
    assert body["capabilities"] == [
        "bom", "comments", "event-type-listeners", "headers", "last-event-id", "post", "read-timeout", "report",
        "restart", "server-directed-shutdown-request",
    ]


def test_nonsense_is_refused(service):
    assert service.call("POST", "/", {"tag": "x"})[0] == 400
    assert service.call("DELETE", "/streams/999")[0] == 404
    assert service.call("POST", "/streams/999", {"command": "restart"})[0] == 404


@pytest.mark.parametrize("vector", COMMON, ids=str)
def test_body(service, source, vector):
    expect(service, source, vector)


@pytest.mark.parametrize("vector", vectors.large(), ids=str)
def test_large_body(service, source, vector):
    expect(service, source, vector)


@pytest.mark.parametrize("vector", vectors.web_platform(), ids=str)
def test_web_platform(service, source, vector):
    expect(service, source, vector, with_comments=False)


def behaviours(count):
    """How many of the 113 a test stands for."""

    def mark(test):
        test.behaviours = count
        return test

    return mark


# --- HTTP -----------------------------------------------------------------------------------------------------------


@behaviours(1)
def test_default_request(service, source):
    with Client(service, source):
        request = source.next()
        assert (request.method, request.path) == ("GET", "/stream")
        assert request.headers["accept"] == "text/event-stream"
        assert request.headers["cache-control"] == "no-cache"
        assert "last-event-id" not in request.headers


@behaviours(1)
def test_204_stops_reconnecting(service, source):
    with Client(service, source) as client:
        source.next().answer(204)
        assert source.none(1)
        assert not client.sink.arrivals


@behaviours(2)
@pytest.mark.parametrize("status", [301, 307])
def test_redirects_are_followed(service, source, status):
    with Client(service, source) as client:
        source.next().answer(status, f"Location: {source.url}/elsewhere")
        request = source.next()
        assert request.path == "/elsewhere"
        request.open().send("data: Hello\n\n")
        assert client.event()["data"] == "Hello"


@behaviours(4)
@pytest.mark.parametrize("status", [301, 307])
@pytest.mark.parametrize("location", [(), ("Location:",)], ids=["missing", "empty"])
def test_redirects_to_nowhere_are_errors(service, source, status, location):
    if service.transport == "url-session":
        pytest.skip("URLSession on Linux says nothing of a redirect without Location; silence ends that")
    with Client(service, source, initialDelayMs=1000) as client:
        source.next().answer(status, *location)
        assert "does not say where to" in client.error()
        began = len(source.connections)
        time.sleep(0.3)
        assert len(source.connections) - began <= 1, "a loop"


@behaviours(1)
def test_custom_headers(service, source):
    headers = {"Authorization": "Bearer abc", "X-Colour": "blue", "accept": "text/event-stream;v=2"}
    with Client(service, source, headers=headers):
        request = source.next()
        assert request.headers["authorization"] == "Bearer abc"
        assert request.headers["x-colour"] == "blue"
        assert request.headers["accept"] == "text/event-stream;v=2"


@behaviours(2)
@pytest.mark.parametrize("method", ["POST", "REPORT"])
def test_methods_with_a_body(service, source, method):
    body = '{"hello": "wörld"}'
    with Client(service, source, method=method, body=body, headers={"Content-Type": "application/json"}) as client:
        request = source.next()
        assert (request.method, request.body.decode()) == (method, body)
        assert request.headers["content-type"] == "application/json"
        request.open().send("data: Hello\n\n")
        assert client.event()["data"] == "Hello"


@behaviours(1)
def test_last_event_id_of_the_first_request(service, source):
    with Client(service, source, lastEventId="abc"):
        assert source.next().headers["last-event-id"] == "abc"


# --- Reconnection ---------------------------------------------------------------------------------------------------


@behaviours(1)
def test_restart(service, source):
    with Client(service, source) as client:
        source.next().open().send("data: first\n\n")
        assert client.event()["data"] == "first"
        client.command("restart")
        source.next().open().send("data: second\n\n")
        assert client.event()["data"] == "second"


@behaviours(3)
@pytest.mark.parametrize(
    "body, last",
    [
        ("id: abc\ndata: Hello\n\n", "abc"),
        ("id: abc\ndata: Hello\n\ndata: again\n\n", "abc"),
        ("id: abc\ndata: Hello\n\nid:\ndata: again\n\n", None),
    ],
    ids=["last id", "last id although later events had none", "none after an empty one"],
)
def test_id_of_a_reconnect(service, source, body, last):
    with Client(service, source) as client:
        stream = source.next().open().send(body)
        for _ in range(body.count("data:")):
            client.event()
        stream.end()
        assert source.next().headers.get("last-event-id") == last


@behaviours(1)
def test_a_reconnect_sends_the_body_again(service, source):
    with Client(service, source, method="POST", body="hello", headers={"Content-Type": "text/plain"}) as client:
        stream = source.next().open().send("data: Hello\n\n")
        client.event()
        stream.end()
        request = source.next()
        assert (request.method, request.body, request.headers["content-type"]) == ("POST", b"hello", "text/plain")


@behaviours(1)
def test_read_timeout(service, source):
    with Client(service, source, readTimeoutMs=500) as client:
        source.next().open().send("data: Hello\n\n")
        client.event()
        began = time.monotonic()
        assert "no heartbeat" in client.error()
        assert time.monotonic() - began > 0.3
        source.next().open().send("data: World\n\n")
        assert client.event()["data"] == "World"


@behaviours(1)
def test_a_partial_message_is_discarded_and_its_id_with_it(service, source):
    with Client(service, source) as client:
        stream = source.next().open().send("id: a\ndata: Hello\n\n", "event: e\nid: b\ndata: Hel", pause=0.01)
        assert client.event()["id"] == "a"
        stream.end()
        request = source.next()
        assert request.headers["last-event-id"] == "a"
        request.open().send("data: World\n\n")
        assert client.event() == {"type": "message", "data": "World", "id": "a"}


@behaviours(1)
def test_a_new_connection_works(service, source):
    with Client(service, source) as client:
        for number in range(5):
            stream = source.next().open().send(f"data: {number}\n\n")
            assert client.event()["data"] == str(number)
            stream.end()


# --- Web platform: what is not about the body -----------------------------------------------------------------------


def test_retry_is_the_reconnect_delay(service, source):
    with Client(service, source) as client:
        stream = source.next().open().send("retry:03000\nretry:1000x\ndata:x\n\n")
        client.event()
        began = time.monotonic()
        stream.end()
        source.next(timeout=8)
        assert 2.9 <= time.monotonic() - began


@pytest.mark.parametrize("kind", ["text/event-stream;", "text/event-stream; charset=windows-1252", "Text/Event-Stream"])
def test_media_types_that_are_event_streams(service, source, kind):
    with Client(service, source) as client:
        source.next().open(kind).send("data:…\n\n")
        assert client.event()["data"] == "…"


@pytest.mark.parametrize("kind", ["x bogus", "text/x-bogus", "text/html"])
def test_media_types_that_are_not(service, source, kind):
    with Client(service, source, initialDelayMs=60_000) as client:
        source.next().open(kind).send("data: Hello\n\n")
        assert "not an event stream" in client.error()


@pytest.mark.parametrize("status", [205, 210, 299, 404, 410, 500, 503])
def test_error_statuses_are_tried_again(service, source, status):
    """Browsers give up; an app that cannot be reloaded must not."""
    with Client(service, source) as client:
        source.next().answer(status)
        assert str(status) in client.error()
        source.next().open().send("data: Hello\n\n")
        assert client.event()["data"] == "Hello"


@pytest.mark.parametrize("status", [302, 303, 308])
def test_further_redirects(service, source, status):
    with Client(service, source) as client:
        source.next().answer(status, "Location: /elsewhere?x=1#fragment")
        request = source.next()
        assert request.path == "/elsewhere?x=1"
        request.open().send("data: Hello\n\n")
        assert client.event()["data"] == "Hello"


def test_a_redirect_loop_ends(service, source):
    with Client(service, source, initialDelayMs=60_000) as client:
        for _ in range(21):
            source.next().answer(307, "Location: /again")
        assert "redirects in a row" in client.error()


def test_an_id_beyond_ascii_is_sent_as_utf8(service, source):
    with Client(service, source) as client:
        stream = source.next().open().send("id: …€\ndata: Hello\n\n")
        client.event()
        stream.end()
        assert source.next().headers["last-event-id"] == "…€"


@pytest.mark.parametrize("how", ["end of connection", "content length", "chunk extensions"])
def test_other_framings(service, source, how):
    body = b"data: Hello\n\n"
    with Client(service, source) as client:
        request = source.next()
        if how == "end of connection":
            request.open(chunked=False).send(body)
        elif how == "content length":
            request.open(chunked=False, extra=[f"Content-Length: {len(body)}"]).send(body)
        else:
            request.open().raw(b'd;a=b;c="d"\r\n' + body + b"\r\n")
        assert client.event()["data"] == "Hello"


def test_an_encoding_nobody_asked_for_is_refused(service, source):
    with Client(service, source, initialDelayMs=60_000) as client:
        source.next().open(extra=["Content-Encoding: gzip"]).send(b"\x1f\x8b\x08")
        assert "encoded" in client.error()


def test_an_endless_line_is_an_error_and_not_the_end_of_memory(service, source):
    with Client(service, source, initialDelayMs=60_000) as client:
        stream = source.next().open()
        for _ in range(17):
            stream.send(b"x" * (1 << 20))
        assert "longer than" in client.error(timeout=20)


def test_a_broken_answer_is_an_error_and_tried_again(service, source):
    with Client(service, source) as client:
        source.next().raw(b"\x00\xff this is not HTTP\r\n\r\n").close()
        assert "HTTP" in client.error()
        source.next().open().send("data: Hello\n\n")
        assert client.event()["data"] == "Hello"
