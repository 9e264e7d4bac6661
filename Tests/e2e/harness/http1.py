"""HTTP/1.1 by hand over asyncio: requests on a kept connection, and bytes as they are for the rude tests."""

import asyncio
import json
from dataclasses import dataclass, field


class Broken(ConnectionError):
    """The connection ended before a complete answer. `sent`: the request may have been acted on."""

    def __init__(self, reason, sent=True):
        super().__init__(reason)
        self.sent = sent


@dataclass
class Response:
    status: int
    headers: list  # of (lower-case name, value), in wire order
    body: bytes = b""
    head: bytes = b""

    def header(self, name):
        """The one value of a header, None when absent; twice is a defect unless both are equal."""
        values = {value for key, value in self.headers if key == name.lower()}
        assert len(values) <= 1, f"header {name} sent with different values: {values}"
        return values.pop() if values else None

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {dict(self.headers)} {self.body[:400]!r}>"


def parse_head(head):
    """Status and headers of an answer's head (bytes without the blank line). Strict: CRLF, `name: value`."""
    lines = head.split(b"\r\n")
    protocol, status, *_ = lines[0].split(b" ", 2)
    assert protocol in (b"HTTP/1.1", b"HTTP/1.0"), f"odd status line {lines[0]!r}"
    headers = []
    for line in lines[1:]:
        name, colon, value = line.partition(b":")
        assert colon and name == name.strip(), f"odd header line {line!r}"
        headers.append((name.decode("ascii").lower(), value.strip().decode("latin-1")))
    return Response(int(status), headers, head=head)


@dataclass
class Dechunker:
    """Takes chunked bytes cut anywhere, gives the chunks; `ended` after the last one."""

    buffer: bytes = b""
    ended: bool = False
    chunks: list = field(default_factory=list)

    def feed(self, data):
        self.buffer += data
        out = []
        while not self.ended:
            line, found, rest = self.buffer.partition(b"\r\n")
            if not found:
                break
            size = int(line.split(b";")[0], 16)
            if len(rest) < size + 2:
                break
            assert rest[size : size + 2] == b"\r\n", f"chunk of {size} not closed: {rest[:80]!r}"
            self.buffer = rest[size + 2 :]
            if size == 0:
                self.ended = True
            else:
                out.append(rest[:size])
        self.chunks += out
        return out


class Connection:
    """One keep-alive connection, opened when first used and again after it broke."""

    def __init__(self, port, host="127.0.0.1"):
        self.port, self.host = port, host
        self.reader = self.writer = None

    async def request(self, method, target, headers=(), body=None, timeout=30):
        try:
            return await asyncio.wait_for(self._request(method, target, headers, body), timeout)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.TimeoutError, OSError) as error:
            sent = self.writer is not None and getattr(error, "sent", True)
            self.close()
            raise Broken(f"{method} {target}: {error!r}", sent) from error

    async def _request(self, method, target, headers, body):
        if self.writer is None or self.writer.is_closing():
            self.writer = None
            self.reader, self.writer = await asyncio.open_connection(self.host, self.port, limit=1 << 24)
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.host}:{self.port}"]
        lines += [f"{name}: {value}" for name, value in headers]
        if body is not None:
            lines.append(f"Content-Length: {len(body)}")
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b""))
        head = await self.reader.readuntil(b"\r\n\r\n")
        answer = parse_head(head[:-4])
        answer.body = await self._body(method, answer)
        if (answer.header("connection") or "").lower() == "close":
            self.close()
        return answer

    async def _body(self, method, answer):
        if method == "HEAD" or answer.status in (204, 304):
            return b""
        if (answer.header("transfer-encoding") or "").lower() == "chunked":
            dechunker = Dechunker()
            while not dechunker.ended:
                data = await self.reader.read(1 << 16)
                if not data:
                    raise Broken("ended inside a chunked body")
                dechunker.feed(data)
            return b"".join(dechunker.chunks)
        length = answer.header("content-length")
        if length is not None:
            return await self.reader.readexactly(int(length))
        return await self.reader.read(-1)

    def close(self):
        if self.writer is not None:
            self.writer.close()
        self.reader = self.writer = None


async def fetch(port, target, method="GET", headers=(), body=None, timeout=30):
    """One request on a connection of its own."""
    connection = Connection(port)
    try:
        return await connection.request(method, target, headers, body, timeout)
    finally:
        connection.close()


async def exchange(port, data, *, pause=0.0, pieces=1, timeout=5.0, enough=None):
    """Sends raw bytes (in `pieces`, with a pause between) and returns (all bytes read, how it ended): 'closed',
    'reset' or 'open' when nothing more came for `timeout` seconds or `enough(bytes)` was satisfied."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    got, ended = b"", "open"
    try:
        step = max(1, -(-len(data) // pieces))
        for start in range(0, len(data), step):
            writer.write(data[start : start + step])
            await writer.drain()
            if pause:
                await asyncio.sleep(pause)
        while not (enough and enough(got)):
            more = await asyncio.wait_for(reader.read(1 << 16), timeout)
            if not more:
                ended = "closed"
                break
            got += more
    except asyncio.TimeoutError:
        ended = "open"
    except ConnectionError:
        ended = "reset"
    finally:
        writer.close()
    return got, ended
