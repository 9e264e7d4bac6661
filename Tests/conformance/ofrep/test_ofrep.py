"""Conformance of a server with OpenFeature's remote evaluation protocol (OFREP) 0.3. README.md says how to run it.

The environment names the server and what it was prepared with; a test whose preparation is missing is skipped."""

import contextlib
import json
import os
import subprocess
import threading
import urllib.parse

import pytest
import requests

URL = os.environ.get("OFREP_URL", "").rstrip("/")
HEADERS = json.loads(os.environ.get("OFREP_HEADERS", "{}"))
UNAUTHORIZED = os.environ.get("OFREP_UNAUTHORIZED")
FORBIDDEN = os.environ.get("OFREP_FORBIDDEN")
LIMITED = os.environ.get("OFREP_LIMITED")
CHANGE = os.environ.get("OFREP_CHANGE")
ORIGIN = os.environ.get("OFREP_ORIGIN")
SECONDS = float(os.environ.get("OFREP_SECONDS", "10"))

FLAGS = {"bool_flag": True, "string_flag": "hello", "int_flag": 42, "float_flag": 3.5,
         "object_flag": {"a": [1, "two", None]}, "plan_flag": "free"}
REASONS = {"STATIC", "TARGETING_MATCH", "SPLIT", "DISABLED", "UNKNOWN", "DEFAULT"}
CODES = {"PARSE_ERROR", "TARGETING_KEY_MISSING", "INVALID_CONTEXT", "GENERAL"}
WHO = {"targetingKey": "user-1"}
# One connection: a new one for each request would be too slow for some limits of requests.
SESSION = requests.Session()

pytestmark = pytest.mark.skipif(not URL, reason="OFREP_URL names no server")


def needs(value, name):
    return pytest.mark.skipif(value is None, reason=f"{name} is not set")


def ask(path="", context=WHO, headers=None, params=None, body=None, url=URL):
    """A POST; `body` is sent as it is, in place of the context."""
    data = body if body is not None else json.dumps({"context": context}).encode()
    return SESSION.post(f"{url}/ofrep/v1/evaluate/flags{path}", data=data, params=params, timeout=SECONDS,
                        headers={"Content-Type": "application/json", **HEADERS, **(headers or {})})


def strictly(value):
    """A value with its types: to Python True is 1, and 3.0 is 3."""
    return json.dumps(value, sort_keys=True)


def check_flag(flag):
    assert isinstance(flag["key"], str)
    if "errorCode" in flag:
        assert flag["errorCode"] in CODES | {"FLAG_NOT_FOUND"}, flag
        assert isinstance(flag.get("errorDetails", ""), str)
        return
    assert flag.get("reason") in REASONS, flag
    assert isinstance(flag.get("variant", ""), str)
    for value in flag.get("metadata", {}).values():
        assert isinstance(value, (bool, str, int, float)), "metadata holds texts, numbers and booleans"


def check_error(answer, status, *codes, key=None):
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body["errorCode"] in codes, body
    assert isinstance(body.get("errorDetails", ""), str)
    if key:
        assert body["key"] == key


class Stream:
    """The first event stream of an answer, read by a thread. Only what OFREP looks at: unnamed events with JSON."""

    def __init__(self, answer):
        entry = next(entry for entry in answer.json()["eventStreams"] if entry["type"] == "sse")
        endpoint = entry.get("endpoint", {})
        parts = urllib.parse.urlsplit(URL)
        origin = endpoint.get("origin") or f"{parts.scheme}://{parts.netloc}"
        self.url = entry.get("url") or origin + endpoint["requestUri"]
        self.events, self.last_id, self.arrived = [], None, threading.Condition()

    def open(self, last_id=None):
        """EventSource sends no header of its own but this one."""
        headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last_id} if last_id else {})}
        self.answer = requests.get(self.url, headers=headers, stream=True, timeout=SECONDS)
        assert self.answer.status_code == 200
        assert self.answer.headers["Content-Type"].split(";")[0] == "text/event-stream"
        threading.Thread(target=self.read, daemon=True).start()
        return self

    def read(self):
        data, name, identity = [], "", None
        try:
            for line in self.answer.iter_lines(chunk_size=1, decode_unicode=True):
                field, _, value = line.partition(":")
                value = value.removeprefix(" ")
                if field == "data":
                    data.append(value)
                elif field == "event":
                    name = value
                elif field == "id":
                    identity = value
                if line:
                    continue
                with self.arrived:
                    self.last_id = identity or self.last_id
                    if data and name in ("", "message"):
                        self.events.append(json.loads("\n".join(data)))
                        self.arrived.notify_all()
                data, name = [], ""
        except (requests.RequestException, AttributeError, OSError, ValueError):
            pass  # closed, by either end

    def refetch(self):
        """The first event that asks for a refetch; taken."""
        def found():
            return next((event for event in self.events if event.get("type") == "refetchEvaluation"), None)
        with self.arrived:
            assert self.arrived.wait_for(lambda: found() is not None, SECONDS), f"no refetchEvaluation: {self.events}"
            event = found()
            self.events.clear()
            return event

    def close(self):
        # Without a shutdown the close waits for the thread that reads. Fails before urllib3 2.3, and after the server's end.
        with contextlib.suppress(AttributeError, OSError, ValueError, RuntimeError):
            self.answer.raw.shutdown()
        self.answer.close()


def change():
    subprocess.run(CHANGE, shell=True, check=True, timeout=60, stdout=subprocess.DEVNULL)


def metadata_of(event):
    names = {"etag": "flagConfigEtag", "lastModified": "flagConfigLastModified"}
    return {names[name]: event[name] for name in names if name in event}


# Single flags


@pytest.mark.parametrize("key", FLAGS)
def test_a_flag_has_its_value_in_its_type(key):
    answer = ask(f"/{key}")
    assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("application/json")
    flag = answer.json()
    check_flag(flag)
    assert flag["key"] == key and strictly(flag["value"]) == strictly(FLAGS[key])


def test_a_flag_depends_on_the_context():
    assert ask("/plan_flag", {**WHO, "plan": "pro"}).json()["value"] == "pro"
    assert ask("/plan_flag", {**WHO, "plan": "pro"}).json()["reason"] == "TARGETING_MATCH"
    assert ask("/plan_flag").json()["value"] == "free"


def test_an_unknown_flag_is_not_found():
    check_error(ask("/missing_flag"), 404, "FLAG_NOT_FOUND", key="missing_flag")


@pytest.mark.parametrize("path", ["", "/bool_flag"])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff"], ids=["empty", "cut", "list", "bytes"])
def test_a_body_that_cannot_be_read_is_a_parse_error(path, body):
    check_error(ask(path, body=body), 400, "PARSE_ERROR", "GENERAL")


@pytest.mark.parametrize("path", ["", "/bool_flag"])
@pytest.mark.parametrize("context", [3, [], {"targetingKey": {}}], ids=["number", "list", "key"])
def test_a_context_that_is_none_is_refused(path, context):
    check_error(ask(path, context), 400, "INVALID_CONTEXT", "PARSE_ERROR", "TARGETING_KEY_MISSING")


@pytest.mark.parametrize("context", [{}, {"plan": "pro"}], ids=["empty", "attributes"])
def test_without_a_targeting_key_there_is_a_value_or_the_right_error(context):
    answer = ask("/bool_flag", context)
    if answer.status_code == 200:
        assert answer.json()["value"] is True
    else:
        check_error(answer, 400, "TARGETING_KEY_MISSING", "INVALID_CONTEXT", key="bool_flag")


# All flags


def test_all_flags_are_those_of_single_requests():
    answer = ask()
    assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("application/json")
    flags = {flag["key"]: flag for flag in answer.json()["flags"]}
    for flag in flags.values():
        check_flag(flag)
    assert {key: strictly(flags[key]["value"]) for key in FLAGS} == {key: strictly(FLAGS[key]) for key in FLAGS}
    for key in FLAGS:
        single = ask(f"/{key}").json()
        assert [single.get(name) for name in ("reason", "variant")] == [
            flags[key].get(name) for name in ("reason", "variant")]


def test_an_etag_answers_not_modified():
    etag = ask().headers["ETag"]
    again = ask(headers={"If-None-Match": etag})
    assert again.status_code == 304 and not again.content
    assert ask(headers={"If-None-Match": '"other"'}).status_code == 200
    assert ask("", {**WHO, "plan": "pro"}, {"If-None-Match": etag}).status_code == 200, "another context, another answer"


@needs(CHANGE, "OFREP_CHANGE")
def test_an_etag_ends_with_the_flags_it_is_of():
    etag = ask().headers["ETag"]
    change()
    after = ask(headers={"If-None-Match": etag})
    assert after.status_code == 200 and after.headers["ETag"] != etag


# Streams


def test_streams_are_described_and_their_addresses_are_stable():
    answers = [ask().json().get("eventStreams") for _ in range(3)]
    if answers[0] is None:
        pytest.skip("the server has no event streams")
    assert answers[0] == answers[1] == answers[2], "a 304 carries no address, so the last one must stay good"
    for entry in answers[0]:
        assert isinstance(entry["type"], str)
        assert ("url" in entry) != ("endpoint" in entry)
        if "endpoint" in entry:
            assert entry["endpoint"]["requestUri"].startswith("/")
        delay = entry.get("inactivityDelaySec", 120)
        assert isinstance(delay, int) and delay >= 1


@needs(CHANGE, "OFREP_CHANGE")
def test_an_event_makes_the_next_answer_a_newer_one():
    before = ask()
    stream = Stream(before).open()
    try:
        for _ in range(2):
            change()
            answer = before
            while answer.headers["ETag"] == before.headers["ETag"]:
                # The first event may say what was current when the stream was opened. No event is left when the event of the
                # change came before the flags did.
                event = stream.refetch()
                answer = ask(params=metadata_of(event), headers={"If-None-Match": before.headers["ETag"]})
                assert answer.status_code in (200, 304)
            before = answer
    finally:
        stream.close()


@needs(CHANGE, "OFREP_CHANGE")
def test_a_client_that_comes_back_is_told_what_it_missed():
    stream = Stream(ask()).open()
    change()
    stream.refetch()
    stream.close()
    if stream.last_id is None:
        pytest.skip("the server gives no event ids: its clients refetch at every reconnect")
    change()
    again = Stream(ask()).open(stream.last_id)
    try:
        again.refetch()
    finally:
        again.close()


@needs(CHANGE, "OFREP_CHANGE")
def test_after_inactivity_an_unconditional_request_has_the_newest_flags_and_the_same_stream():
    before = ask()
    stream = Stream(before).open()
    stream.close()
    change()
    after = ask()
    assert after.status_code == 200 and after.headers["ETag"] != before.headers["ETag"]
    assert after.json()["eventStreams"] == before.json()["eventStreams"]
    Stream(after).open().close()


# Access


@needs(UNAUTHORIZED, "OFREP_UNAUTHORIZED")
@pytest.mark.parametrize("path", ["", "/bool_flag"])
def test_without_a_good_credential_it_is_401(path):
    headers = {**dict.fromkeys(HEADERS), **json.loads(UNAUTHORIZED or "{}")}
    assert ask(path, headers=headers).status_code == 401


@needs(FORBIDDEN, "OFREP_FORBIDDEN")
@pytest.mark.parametrize("path", ["", "/bool_flag"])
def test_a_credential_without_the_right_is_403(path):
    headers = {**dict.fromkeys(HEADERS), **json.loads(FORBIDDEN or "{}")}
    assert ask(path, headers=headers).status_code == 403


@needs(LIMITED, "OFREP_LIMITED")
def test_too_many_requests_are_told_when_to_come_back():
    limited = json.loads(LIMITED)
    headers = {**dict.fromkeys(HEADERS), **limited.get("headers", {})}
    for _ in range(limited.get("requests", 100)):
        answer = ask(headers=headers)
        if answer.status_code == 429:
            assert answer.headers.get("Retry-After"), "429 says when to come back"
            return
    pytest.fail("the limit was never reached")


# Browsers


@needs(ORIGIN, "OFREP_ORIGIN")
@pytest.mark.parametrize("path", ["", "/bool_flag"])
def test_a_page_of_another_origin_may_ask(path):
    wanted = {"content-type", "if-none-match", *(name.lower() for name in HEADERS)}
    answer = requests.options(f"{URL}/ofrep/v1/evaluate/flags{path}", timeout=SECONDS, headers={
        "Origin": ORIGIN, "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": ",".join(sorted(wanted))})
    assert answer.ok and answer.headers["Access-Control-Allow-Origin"] in (ORIGIN, "*")
    assert "POST" in answer.headers["Access-Control-Allow-Methods"]
    allowed = {name.strip().lower() for name in answer.headers["Access-Control-Allow-Headers"].split(",")}
    assert wanted <= allowed or allowed == {"*"}


@needs(ORIGIN, "OFREP_ORIGIN")
def test_a_page_of_another_origin_reads_what_providers_read():
    answers = [ask(headers={"Origin": ORIGIN})]
    answers.append(ask(headers={"Origin": ORIGIN, "If-None-Match": answers[0].headers["ETag"]}))
    for answer in answers:
        assert answer.headers["Access-Control-Allow-Origin"] in (ORIGIN, "*"), answer.status_code
        exposed = {name.strip().lower() for name in answer.headers["Access-Control-Expose-Headers"].split(",")}
        assert {"etag", "retry-after"} <= exposed or exposed == {"*"}
    stream = requests.get(Stream(answers[0]).url, headers={"Origin": ORIGIN}, stream=True, timeout=SECONDS)
    assert stream.headers["Access-Control-Allow-Origin"] in (ORIGIN, "*")
    stream.close()
