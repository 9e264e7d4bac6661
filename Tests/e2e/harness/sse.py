"""An SSE client that keeps everything: bytes, chunks, frames with their times, and how the stream ended."""

import asyncio
import functools
import json
import socket
import time
from dataclasses import dataclass, field
from urllib.parse import quote

from harness.http1 import Broken, Dechunker, parse_head


@dataclass
class Frame:
    """One thing on the stream. `kind`: event, comment or retry. `id` is this event's own id line, None without;
    `last_id` is the id in force after it: what a client would send on reconnect."""

    kind: str
    at: float
    name: str = "message"
    data: str = ""
    id: str | None = None
    last_id: str = ""

    def json(self):
        return json.loads(self.data)

    @functools.cached_property
    def version(self):
        """The version a STALE message announces; None for anything else."""
        if self.kind != "event" or self.name != "message":
            return None
        number = self.json().get("latestTemplateVersionNumber")
        return int(number) if number is not None else None


@dataclass
class FrameParser:
    """Frames of a stream's payload. Strict where we promise more than the standard: ASCII, LF only."""

    last_id: str = ""
    buffer: bytes = b""
    fields: dict = field(default_factory=dict)

    def feed(self, data):
        assert b"\r" not in data, f"a carriage return inside the stream's payload: {data[:200]!r}"
        self.buffer += data
        *lines, self.buffer = self.buffer.split(b"\n")
        frames = [self._line(line.decode("ascii"), time.monotonic()) for line in lines]
        return [frame for frame in frames if frame]

    def _line(self, line, now):
        if line.startswith(":"):
            return Frame("comment", now, data=line[1:].strip(), last_id=self.last_id)
        if not line:
            # Some clients make an event of a block that has none: the daemon must send no such block.
            assert "data" in self.fields, f"a blank line that ends no event, after {self.fields}"
            fields, self.fields = self.fields, {}
            self.last_id = fields.get("id", self.last_id)
            return Frame("event", now, fields.get("event", "message"), fields["data"], fields.get("id"), self.last_id)
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "retry":
            return Frame("retry", now, data=value, last_id=self.last_id)
        assert name in ("id", "data", "event"), f"unknown field in the stream: {line!r}"
        assert name not in self.fields, f"{name} twice in one event: {self.fields}"
        self.fields[name] = value
        return None


def events_target(topics=("PUSH_RC",), *, path="/v1/events", **query):
    """A request target for topics and further query parameters; None values are left out."""
    pairs = [f"topic={quote(topic)}" for topic in topics]
    pairs += [f"{name}={quote(str(value))}" for name, value in query.items() if value is not None]
    return path + "?" + "&".join(pairs)


@dataclass
class Stream:
    """An open SSE stream; a task reads it into `frames`. `ended`: None while open, else clean, eof, reset, closed."""

    head: object = None
    raw: bytes = b""
    frames: list = field(default_factory=list)
    chunks: list = field(default_factory=list)
    ended: str | None = None
    last_id: str = ""
    fault: BaseException | None = None

    @classmethod
    async def open(cls, port, topics=("PUSH_RC",), *, last_event_id=None, http="1.1", headers=(), target=None,
                   receive_buffer=None, reading=True, timeout=40, **query):
        """Connects and reads the head. `reading=False`: leaves the rest in the socket (a stalled reader)."""
        self = cls(last_id=last_event_id or "")
        sock = socket.socket()
        sock.setblocking(False)
        if receive_buffer:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        limit = 1 << 16 if reading else 1024
        self._reader, self._writer = await asyncio.open_connection(sock=sock, limit=limit)
        lines = [f"GET {target or events_target(topics, **query)} HTTP/{http}", f"Host: 127.0.0.1:{port}"]
        lines += ["Accept: text/event-stream"] + [f"{name}: {value}" for name, value in headers]
        if last_event_id is not None:
            lines.append(f"Last-Event-ID: {last_event_id}")
        self._writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        try:
            head = await asyncio.wait_for(self._reader.readuntil(b"\r\n\r\n"), timeout)
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            self._writer.close()
            raise Broken(f"no head: {error!r}") from error
        self.head = parse_head(head[:-4])
        self._news = asyncio.Event()
        self._parser = FrameParser(self.last_id)
        self._task = None
        if reading:
            self.resume_reading()
        return self

    def resume_reading(self):
        self._task = asyncio.create_task(self._pump())

    async def _pump(self):
        chunked = (self.head.header("transfer-encoding") or "").lower() == "chunked"
        dechunker = Dechunker()
        ended = "closed"
        try:
            while True:
                data = await self._reader.read(1 << 16)
                if not data:
                    ended = "clean" if dechunker.ended or not chunked else "eof"
                    break
                self.raw += data
                pieces = dechunker.feed(data) if chunked else [data]
                self.chunks += pieces
                for piece in pieces:
                    self.frames += self._parser.feed(piece)
                self.last_id = self._parser.last_id
                self._news.set()
                if dechunker.ended:
                    ended = "clean"
                    break
        except ConnectionError:
            ended = "reset"
        except (AssertionError, ValueError) as error:
            self.fault, ended = error, "fault"
        finally:
            self.ended = ended
            self._news.set()

    @property
    def events(self):
        return [frame for frame in self.frames if frame.kind == "event"]

    @property
    def messages(self):
        """The STALE messages, in order."""
        return [frame for frame in self.frames if frame.version is not None]

    @property
    def versions(self):
        return [frame.version for frame in self.messages]

    async def until(self, condition, timeout=40, what="the expected frames"):
        """Waits until `condition(self)` is true; a stream that ends or stays silent before is a failure."""
        deadline = time.monotonic() + timeout
        while not condition(self):
            if self.fault:
                raise self.fault
            left = deadline - time.monotonic()
            assert self.ended is None, f"stream ended ({self.ended}) before {what}: {self.raw[-600:]!r}"
            assert left > 0, f"no {what} within {timeout} s: {self.raw[-600:]!r}"
            self._news.clear()
            if not condition(self) and self.ended is None:
                try:
                    await asyncio.wait_for(self._news.wait(), left)
                except asyncio.TimeoutError:
                    pass
        if self.fault:
            raise self.fault
        return self

    async def synced(self, timeout=40):
        """Waits for the `synced` event and returns it."""
        assert self.head.status == 200, f"no stream: {self.head}"
        await self.until(lambda s: any(f.name == "synced" for f in s.events), timeout, "synced event")
        return next(frame for frame in self.events if frame.name == "synced")

    async def version_at_least(self, version, timeout=40):
        await self.until(lambda s: any(v >= version for v in s.versions), timeout, f"message ≥ {version}")
        return next(frame for frame in self.messages if frame.version >= version)

    async def end(self, timeout=40):
        """Waits until the server ended the stream; returns how."""
        await self.until(lambda s: s.ended is not None, timeout, "end of the stream")
        return self.ended

    def close(self):
        if self._task:
            self._task.cancel()
        self._writer.close()

    def abort(self):
        """Closes without a goodbye (RST)."""
        if self._task:
            self._task.cancel()
        self._writer.transport.abort()
