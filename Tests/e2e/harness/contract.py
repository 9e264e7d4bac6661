"""Plays the server for a server-sent events client under test, in LaunchDarkly's contract-test protocol.

`ContractService` is the process around the client, `StreamSource` the server its streams come from; what the client
made of them arrives at a `Receiver`.
"""

import contextlib
import json
import queue
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

from harness.receiver import Answer, Receiver

SENTINEL = "that was all"


class ContractService:
    """The service as a process of its own; `DELETE /` ends it."""

    def __init__(self, binary, *options):
        self.process = subprocess.Popen([binary, "0", *options], stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().strip()

    def call(self, method, url, body=None):
        """Status, headers and parsed body; `url` may be relative."""
        data = None if body is None else json.dumps(body).encode()
        whole = url if url.startswith("http") else self.url + url
        request = urllib.request.Request(whole, data=data, method=method, headers={"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=40) as answer:
                text = answer.read()
                return answer.status, answer.headers, json.loads(text) if text else None
        except urllib.error.HTTPError as error:
            return error.code, error.headers, None

    def end(self):
        try:
            self.call("DELETE", "/")
            return self.process.wait(5)
        finally:
            self.process.kill()
            self.process.stdout.close()


class Hosted:
    """Something the service makes at `path` and keeps until the end of `with`."""

    def __init__(self, service, path, count, **parameters):
        self.service, self.count = service, count
        status, headers, _ = service.call("POST", path, {"count": count, **parameters})
        assert status == 201
        self.location = headers["Location"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.service.call("DELETE", self.location)

    @property
    def summary(self):
        return self.service.call("GET", self.location)[2]


class Connection:
    """One request of the client, and its answer played by hand."""

    def __init__(self, peer, line, headers, body):
        self.peer, self.body, self.headers = peer, body, headers
        self.method, self.path = line.split(" ")[:2]
        self.chunked = True

    def open(self, content_type="text/event-stream", *, chunked=True, extra=()):
        """The head of a stream, in chunks or until the connection ends."""
        self.chunked = chunked
        coding = ["Transfer-Encoding: chunked"] if chunked else []
        self.raw("\r\n".join(["HTTP/1.1 200 OK", f"Content-Type: {content_type}", *coding, *extra, "", ""]).encode())
        return self

    def raw(self, data):
        try:
            self.peer.sendall(data)
        except OSError:
            pass
        return self

    def send(self, *pieces, pause=0.0):
        """Each piece in a chunk and a segment of its own."""
        for index, piece in enumerate(pieces):
            if index and pause:
                time.sleep(pause)
            data = piece.encode() if isinstance(piece, str) else piece
            self.raw(b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data)
        return self

    def end(self):
        """The stream ends as it should."""
        if self.chunked:
            self.raw(b"0\r\n\r\n")
        self.close()

    def close(self):
        try:
            self.peer.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.peer.close()

    def answer(self, status, *headers):
        self.raw("\r\n".join([f"HTTP/1.1 {status} Whatever", "Content-Length: 0", *headers, "", ""]).encode())
        self.close()


class StreamSource:
    """A server on 127.0.0.1 that hands every request to the test: `with StreamSource() as source: source.next()`."""

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.arrived = queue.Queue()
        self.connections = []
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()
        for connection in self.connections:
            connection.close()

    def next(self, timeout=30):
        return self.arrived.get(timeout=timeout)

    def none(self, seconds):
        """True when no request comes for so long."""
        try:
            self.arrived.get(timeout=seconds)
            return False
        except queue.Empty:
            return True

    def _accept(self):
        while True:
            try:
                peer, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._read, args=(peer,), daemon=True).start()

    def _read(self, peer):
        """One request. A connection that brings no whole one is dropped, and keeps no other waiting."""
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError), peer.makefile("rb") as reader:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                line = reader.readline()
                if not line:
                    return peer.close()
                head += line
            lines = head.decode().split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
            length = int(headers.get("content-length", 0))
            body = reader.read(length)
            if len(body) < length:
                return peer.close()
            connection = Connection(peer, lines[0], headers, body)
            self.connections.append(connection)
            self.arrived.put(connection)


class Client:
    """One stream of the client under test: where it reads from, and what it reported."""

    def __init__(self, service, source, **parameters):
        self.service, self.source = service, source
        self.sink = Receiver(answer=lambda _: Answer(status=200))
        self.sink.__enter__()
        parameters = {"initialDelayMs": 0, "streamUrl": source.url + "/stream", **parameters}
        status, headers, _ = service.call("POST", "/", {"callbackUrl": self.sink.url, "tag": "test", **parameters})
        assert status == 201, status
        self.location = headers["Location"]
        self.taken = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.service.call("DELETE", self.location)
        self.sink.__exit__(None, None, None)

    def command(self, name):
        status, _, _ = self.service.call("POST", self.location, {"command": name})
        assert status == 202, status

    def next(self, timeout=30):
        """The next report; they are numbered, so that none can be missing or out of order."""
        self.sink.wait_for(self.taken + 1, timeout)
        self.taken += 1
        arrival = self.sink.arrivals[self.taken - 1]
        assert arrival.path.rsplit("/", 1)[1] == str(self.taken), arrival.path
        return json.loads(arrival.body)

    def event(self, timeout=40):
        report = self.next(timeout)
        assert report["kind"] == "event", report
        return report["event"]

    def error(self, timeout=40):
        report = self.next(timeout)
        assert report["kind"] == "error", report
        return report["comment"]
