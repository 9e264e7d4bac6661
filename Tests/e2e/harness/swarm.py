"""Thousands of streams in one thread: opened fast, mostly ignored, and timed when a message comes."""

import selectors
import socket
import time

from harness.sse import events_target


class Swarm:
    """`count` SSE streams on one selector. Blocking; call it in a thread from coroutine tests. `name`: each says whose it
    is, the name with a number; without it none does. `project` is asked for, with header lines `fields`, or what it makes of
    a stream's number."""

    def __init__(self, port, count, topics=("PUSH_RC",), at_once=500, name=None, project=None, fields=()):
        self.selector = selectors.DefaultSelector()
        self.topics, self.name = topics, name
        self.query = {"project": project} if project else {}
        self.fields = fields if callable(fields) else lambda number: fields
        self.sockets = []
        while len(self.sockets) < count:
            first = len(self.sockets)
            batch = [self._connect(port, number) for number in range(first, min(first + at_once, count))]
            self._collect(batch, b"event: synced", 30)
            self.sockets += batch

    def _connect(self, port, number):
        client = {"client": f"{self.name}{number}"} if self.name else {}
        target = events_target(self.topics, **self.query, **client)
        fields = "".join(f"{field}\r\n" for field in self.fields(number))
        sock = socket.create_connection(("127.0.0.1", port), timeout=20)
        sock.setblocking(False)
        sock.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n".encode())
        self.selector.register(sock, selectors.EVENT_READ, bytearray())
        return sock

    def _collect(self, sockets, needle, timeout):
        """Reads until each socket has shown `needle`; returns the times at which they did."""
        waiting, times, deadline = set(sockets), [], time.monotonic() + timeout
        while waiting:
            assert time.monotonic() < deadline, f"{len(waiting)} of {len(sockets)} streams without {needle!r}"
            for key, _ in self.selector.select(0.5):
                self._read(key)
                if key.fileobj in waiting and needle in key.data:
                    waiting.discard(key.fileobj)
                    times.append(time.monotonic())
                    key.data.clear()
        return times

    def _read(self, key):
        data = key.fileobj.recv(1 << 16)
        assert data, "the daemon closed one of the streams"
        key.data.extend(data)
        del key.data[: -(8 << 10)]

    def message_times(self, version, timeout=30):
        """When each stream got the message of that version."""
        return self._collect(self.sockets, b'"latestTemplateVersionNumber":"%d"' % version, timeout)

    def close(self):
        for sock in self.sockets:
            sock.close()
        self.selector.close()
