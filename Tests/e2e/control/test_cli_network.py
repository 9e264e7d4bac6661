"""The command line and its way to the daemon: addresses, private authorities, servers that misbehave."""

import contextlib
import http.server
import json
import os
import resource
import socket
import ssl
import subprocess
import threading
import time

import pytest

from harness.authority import Authority
from harness.daemon import BINARY, environment

REFUSED, USAGE, UNREACHABLE, TIMED_OUT = 1, 2, 3, 7


def run(*words, code=0, **variables):
    """Standard output and standard error together."""
    done = subprocess.run([BINARY, *map(str, words)], env=environment(**variables), capture_output=True, text=True,
                          timeout=50)
    assert done.returncode == code, f"{words} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def has_ipv6():
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6) as probe:
        probe.bind(("::1", 0))
        return True
    return False


@pytest.fixture
def token(tmp_path):
    (tmp_path / "token").write_text("token")
    return tmp_path / "token"


class Server:
    """Answers every request with `answer(handler)`."""

    def __init__(self, answer, family=socket.AF_INET, host="127.0.0.1", tls=None):
        class Handler(http.server.BaseHTTPRequestHandler):
            do_GET = do_PUT = answer
            log_message = lambda *_: None

        class Listener(http.server.ThreadingHTTPServer):
            address_family = family

        self.http = Listener((host, 0), Handler)
        if tls:
            self.http.socket = tls.wrap_socket(self.http.socket, server_side=True)
        self.port = self.http.server_address[1]
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.shutdown()
        self.http.server_close()


def topics(handler):
    body = json.dumps({"topics": [{"name": "PUSH_RC", "scopes": [], "keys": []}]}).encode()
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.mark.skipif(not has_ipv6(), reason="no IPv6 loopback here")
def test_an_ipv6_address_is_written_in_brackets(token):
    with Server(topics, socket.AF_INET6, "::1") as server:
        for address in (f"http://[::1]:{server.port}", f"[::1]:{server.port}"):
            assert "PUSH_RC" in run("topics", "--control", address, "--token-file", token)
    text = run("topics", "--control", f"http://[::1]:{server.port}", "--token-file", token, code=UNREACHABLE)
    assert "no server answers at http://[::1]:" in text and "NSURL" not in text


def test_a_private_authority_is_trusted_when_it_is_named(token, tmp_path):
    authority = Authority(tmp_path)
    pem = tmp_path / "ca.pem"
    with Server(topics, tls=authority.server("127.0.0.1")) as server:
        here = ("topics", "--control", f"https://127.0.0.1:{server.port}", "--token-file", token)
        text = run(*here, code=UNREACHABLE)
        assert "certificate" in text and "--ca-file" in text and "NSURL" not in text
        assert "PUSH_RC" in run(*here, "--ca-file", pem)
        assert "PUSH_RC" in run(*here, CURL_CA_BUNDLE="", SSL_CERT_FILE=str(pem))
        assert "PUSH_RC" in run(*here, CURL_CA_BUNDLE=str(pem), SSL_CERT_FILE="/nowhere")
        assert "/nowhere" in run(*here, "--ca-file", "/nowhere", code=UNREACHABLE)


def test_an_authority_without_tls_is_a_mistake(token):
    text = run("topics", "--control", "http://127.0.0.1:1", "--token-file", token, "--ca-file", "x.pem", code=USAGE)
    assert "https" in text


@pytest.mark.parametrize("command", (["watch"], ["watch", "--poll"], ["topics"]))
def test_no_more_of_a_refusal_is_read_than_a_page(token, command):
    """A refusal without end neither holds the command nor fills its memory."""
    def endless(handler):
        handler.send_response(403)
        handler.end_headers()
        with contextlib.suppress(OSError):
            while True:
                handler.wfile.write(b"x" * 65536)

    with Server(endless) as server:
        address = f"http://127.0.0.1:{server.port}"
        text = run(*command, "--edge", address, *(["--control", address, "--token-file", token]
                                                  if command == ["topics"] else []), code=4)
    assert "403" in text


def test_what_is_no_event_stream_is_said(token):
    with Server(topics) as server:
        assert "Edge" in run("watch", "--edge", f"http://127.0.0.1:{server.port}", code=REFUSED)


@pytest.mark.parametrize("status, code", ((None, 8), (500, 8), (502, 8), (504, 8), (503, 1)))
def test_a_publish_without_the_daemons_answer_is_unknown(token, tmp_path, status, code):
    """The connection breaks, or a proxy says that its daemon did; with 503 it has asked none."""
    def half(handler):
        body = b'{"conditions":[],"parameters":{"a":{"defaultValue":{"value":"1"}}}}'
        failing = handler.command == "PUT" and "validateOnly" not in handler.path
        if failing:
            handler.rfile.read(int(handler.headers["Content-Length"]))
            body = b"<html>a proxy's words</html>"
            if not status:
                handler.connection.shutdown(socket.SHUT_RDWR)
                return
        handler.send_response(status if failing else 200)
        handler.send_header("ETag", "etag-1")
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    (tmp_path / "t.json").write_text('{"parameters":{"a":{"defaultValue":{"value":"2"}}}}')
    with Server(half) as server:
        text = run("publish", tmp_path / "t.json", "--control", f"http://127.0.0.1:{server.port}", "--token-file",
                   token, code=code)
    assert ("may have been made" in text) == (code == 8) and "NSURL" not in text


def test_a_read_that_a_proxy_fails_changed_nothing(token):
    def bad_gateway(handler):
        handler.send_response(502)
        handler.send_header("Content-Length", "0")
        handler.end_headers()

    with Server(bad_gateway) as server:
        text = run("topics", "--control", f"http://127.0.0.1:{server.port}", "--token-file", token, code=REFUSED)
    assert "a proxy in front of it, answered with HTTP status 502" in text


def test_an_unknown_option_is_named_and_not_its_value():
    text = run("set", "a=1", "--stages", "10%,100%", code=USAGE)
    assert "--stages" in text and "is not KEY=VALUE" not in text
    assert '"a" is not KEY=VALUE' in run("set", "a", code=USAGE)
