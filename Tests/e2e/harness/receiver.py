"""An HTTP server under a test's control: it records what arrives and answers as told, well or badly."""

import socket
import ssl
import struct
import threading
import time
from dataclasses import dataclass, field


@dataclass
class Arrival:
    """One request as it arrived; header names in lower case."""

    method: str
    path: str
    headers: dict
    body: bytes
    at: float
    connection: int


@dataclass
class Handshake:
    """One TLS handshake; `client` is the common name of the certificate shown, if any was asked for."""

    resumed: bool
    client: str | None


@dataclass
class Answer:
    """What is sent for one request. `raw` replaces everything else; `then` is what happens to the connection."""

    status: int = 204
    headers: tuple = ()
    body: bytes = b""
    delay: float = 0
    raw: bytes | None = None
    drip: float = 0
    then: str = "keep"
    extra: dict = field(default_factory=dict)

    def bytes(self):
        if self.raw is not None:
            return self.raw
        lines = [f"HTTP/1.1 {self.status} Whatever", *(f"{name}: {value}" for name, value in self.headers)]
        if self.status not in (204, 304):
            lines.append(f"Content-Length: {len(self.body)}")
        return "\r\n".join([*lines, "", ""]).encode() + self.body


HANG = Answer(then="hang")
RESET = Answer(raw=b"", then="reset")
GARBAGE = Answer(raw=b"\x00\xff this is not HTTP \r\n\r\n", then="close")


def flood(size):
    """A good head that announces `size` bytes, and that many bytes, one block at a time."""
    return Answer(raw=f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode(), extra={"flood": size})


class Receiver:
    """`answer` decides: a function of an `Arrival` that returns an `Answer`; 204 for everything by default.

    Use as a context manager. `arrivals` and `handshakes` grow while it runs; `connections` counts what was accepted.
    """

    def __init__(self, answer=None, *, host="127.0.0.1", port=0, tls=None):
        self.answer = answer or (lambda _: Answer())
        self.arrivals = []
        self.handshakes = []
        self.connections = 0
        self._tls = tls
        self._changed = threading.Condition()
        self._open = set()
        self._stopped = False
        self._listener = socket.create_server((host, port), backlog=4096)
        self.host, self.port = self._listener.getsockname()[:2]

    @property
    def url(self):
        return f"{'https' if self._tls else 'http'}://{self.host}:{self.port}"

    def __enter__(self):
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        with self._changed:
            self._stopped = True
            self._changed.notify_all()
        # shutdown wakes the thread in accept; close alone would not.
        for each in [self._listener, *self._open]:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            each.close()

    def wait(self, condition, timeout=40, what="the arrivals expected"):
        """Waits until `condition(arrivals)` is true; its value. Fails with what did arrive."""
        deadline = time.monotonic() + timeout
        with self._changed:
            while not (value := condition(self.arrivals)):
                left = deadline - time.monotonic()
                assert left > 0, f"{what} did not come within {timeout} s; there were {self._seen()}"
                self._changed.wait(left)
            return value

    def wait_for(self, count, timeout=40):
        """Waits for that many requests; all that arrived."""
        self.wait(lambda all_: len(all_) >= count, timeout, f"{count} requests")
        return list(self.arrivals)

    def _seen(self):
        return f"{len(self.arrivals)} requests, the last {[(a.method, a.path, a.body[:300]) for a in self.arrivals[-3:]]}"

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            self._open.add(connection)
            threading.Thread(target=self._serve, args=(connection, self.connections), daemon=True).start()

    def _serve(self, connection, number):
        plain = connection
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._tls:
                connection = self._tls.wrap_socket(connection, server_side=True)
                self._open.add(connection)
                self.handshakes.append(handshake(connection))
            buffer = connection.makefile("rb")
            while arrival := self._read(buffer, number):
                if not self._respond(connection, arrival):
                    return
        except (OSError, ssl.SSLError, ValueError):
            pass
        finally:
            self._open.discard(plain)
            self._open.discard(connection)
            connection.close()

    def _read(self, buffer, number):
        line = buffer.readline(65536)
        if not line:
            return None
        method, path, _ = line.decode("latin-1").split(" ", 2)
        headers = {}
        while (line := buffer.readline(65536)) not in (b"\r\n", b"\n", b""):
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        body = buffer.read(int(headers.get("content-length", 0)))
        arrival = Arrival(method, path, headers, body, time.monotonic(), number)
        with self._changed:
            self.arrivals.append(arrival)
            self._changed.notify_all()
        return arrival

    def _respond(self, connection, arrival):
        """Whether the connection goes on."""
        answer = self.answer(arrival)
        if answer.delay:
            self._pause(answer.delay)
        if answer.then == "hang":
            self._pause(3600)
            return False
        self._send(connection, answer)
        if answer.then == "close" and self._tls:
            # An end without close_notify makes OpenSSL throw a TLS 1.2 session away.
            connection.unwrap()
        if answer.then == "reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return answer.then == "keep"

    def _send(self, connection, answer):
        data = answer.bytes()
        if answer.drip:
            for index in range(len(data)):
                connection.sendall(data[index:index + 1])
                self._pause(answer.drip)
            return
        connection.sendall(data)
        left = answer.extra.get("flood", 0)
        block = bytes(1 << 16)
        while left > 0:
            connection.sendall(block[:left])
            left -= len(block)

    def _pause(self, seconds):
        """Sleeps, unless the receiver is stopped meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: self._stopped, seconds)
        if self._stopped:
            raise OSError("the receiver was stopped")


def handshake(connection):
    subject = (connection.getpeercert() or {}).get("subject", ())
    names = [value for part in subject for key, value in part if key == "commonName"]
    return Handshake(bool(connection.session_reused), names[0] if names else None)


def newest_in(body):
    """The version that a delivery's body announces, wherever its format has it; 0 for none."""
    if isinstance(body, dict):
        found = [body.get("latestTemplateVersionNumber"), *(newest_in(inner) for inner in body.values())]
        return max((int(one) for one in found if one), default=0)
    return 0
