"""A node that lies: a proxy before one listener of a daemon that changes what passes, so that a campaign can be seen to
notice. The daemon has no switch for any of this."""

import asyncio
import re

EVENTS = b"GET /v1/events"


class Liar:
    """Tells the truth; subclasses change some of it. `async with Stale(node, "edge"):` puts it before the node's Edge
    or Control, for clients that ask the node where it listens."""

    least = 5  # lies until one must have been noticed

    def __init__(self, node, listener):
        self.node, self.listener = node, listener
        self.target = getattr(node, listener)
        self.lies = 0

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, limit=1 << 24)
        setattr(self.node, self.listener, self.server.sockets[0].getsockname()[1])
        return self

    async def __aexit__(self, *_):
        setattr(self.node, self.listener, self.target)
        self.server.close()

    async def serve(self, reader, writer):
        above, below = await asyncio.open_connection("127.0.0.1", self.target, limit=1 << 24)
        try:
            while True:
                request = await message(reader)
                if request.startswith(EVENTS):
                    # A stream for HTTP/1.0 has no chunks.
                    below.write(request.replace(b" HTTP/1.1\r\n", b" HTTP/1.0\r\n", 1))
                    writer.write(await above.readuntil(b"\r\n\r\n"))
                    await self.stream(above, writer)
                    return
                writer.write(await self.answer(request, above, below))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            below.close()

    async def asked(self, request, above, below):
        """What the node answers."""
        below.write(request)
        return await message(above)

    async def answer(self, request, above, below):
        return await self.asked(request, above, below)

    async def stream(self, above, writer):
        while data := await above.read(1 << 16):
            writer.write(data)


async def message(reader):
    """A request or an answer with a body of known length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: *(\d+)", head)
    return head + (await reader.readexactly(int(length.group(1))) if length else b"")


def is_publish(request):
    return request.startswith(b"PUT ") and b"/remoteConfig" in request.partition(b"\r\n")[0]


class EachFifth(Liar):
    """Lies about each fifth publish."""

    count = 0

    async def answer(self, request, above, below):
        if is_publish(request):
            self.count += 1
            if self.count % 5 == 0:
                self.lies += 1
                return await self.lie(request, above, below)
        return await self.asked(request, above, below)


class Denies(EachFifth):
    """Says that a publish was not done, which was."""

    least = 1  # publishers leave a node that denies

    async def lie(self, request, above, below):
        await self.asked(request, above, below)
        return b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}"


class Loses(EachFifth):
    """Acknowledges a publish that was never made."""

    async def lie(self, request, above, below):
        body = b'{"version":{"versionNumber":"1"}}'
        return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body


class Doubles(EachFifth):
    """Publishes twice, as after an answer that got lost."""

    async def lie(self, request, above, below):
        await self.asked(request, above, below)
        return await self.asked(request, above, below)


class Stale(Liar):
    """Answers fetches with what it answered first, and does not mark it."""

    first = None

    async def answer(self, request, above, below):
        answer = await self.asked(request, above, below)
        if b":fetch " not in request.partition(b"\r\n")[0] or not answer.startswith(b"HTTP/1.1 200"):
            return answer
        self.lies += self.first is not None
        self.first = self.first or answer
        return self.first


class Frames(Liar):
    """Changes messages of streams, one event at a time."""

    async def stream(self, above, writer):
        buffer, self.held = b"", b""
        while data := await above.read(1 << 16):
            *events, buffer = (buffer + data).split(b"\n\n")
            for event in events:
                event += b"\n\n"
                writer.write(self.changed(event) if b"latestTemplateVersionNumber" in event else event)


class Disorders(Frames):
    """Announces each second version after the one that follows it."""

    def changed(self, event):
        if not self.held:
            self.held = event
            return b""
        held, self.held = self.held, b""
        self.lies += 1
        return event + held


class Invents(Frames):
    """Announces versions under an ETag that they do not have."""

    def changed(self, event):
        self.lies += 1
        return re.sub(rb"(etag-\d+-)(\d+)", rb"\g<1>0\2", event)
