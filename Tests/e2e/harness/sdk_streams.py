"""How Firebase's SDKs read their real-time stream, and a relay that ends streams early."""

import asyncio
import contextlib
import json
import random
import re


class ChunkDecoder:
    """The payload of chunked bytes as it comes, parts of chunks included; `ended` after the last chunk."""

    def __init__(self):
        self.buffer, self.left, self.ended = b"", 0, False

    def feed(self, data):
        """The pieces these bytes complete or continue, one per HTTP chunk."""
        self.buffer += data
        pieces = []
        while self.buffer and not self.ended:
            if self.left == 0 and not self._size_line():
                break
            piece, self.buffer = self.buffer[: self.left], self.buffer[self.left :]
            payload = piece[: max(0, self.left - 2)]
            self.left -= len(piece)
            if payload:
                pieces.append(payload)
        return pieces

    def _size_line(self):
        line, found, rest = self.buffer.partition(b"\r\n")
        if found:
            self.buffer, size = rest, int(line, 16)
            self.left, self.ended = size + 2, size == 0
        return bool(found)


class JavaScriptParser:
    """Collects; once a read holds `}`, takes the first object and drops all the rest."""

    def __init__(self):
        self.buffer = ""

    def feed(self, data):
        text = data.decode()
        self.buffer += text
        if "}" not in text:
            return []
        collected, self.buffer = self.buffer, ""
        return first_object(collected)

    @staticmethod
    def disabled(message):
        return message.get("featureDisabled") is True


class AppleParser:
    """Looks at each read alone: first `{` to the first `}` after it."""

    def feed(self, data):
        text = data.decode()
        assert '"code": 403' not in text, f"taken as an error as a whole: {text!r}"
        return first_object(text)

    @staticmethod
    def disabled(message):
        return "featureDisabled" in message


class AndroidParser:
    """Lines, put together until one holds `}`: first `{` to the last `}`."""

    def __init__(self):
        self.line, self.collected = "", ""

    def feed(self, data):
        *lines, self.line = (self.line + data.decode()).split("\n")
        messages = []
        for line in lines:
            self.collected += line
            if "}" in line:
                text, self.collected = self.collected, ""
                messages.append(json.loads(text[text.index("{") : text.rindex("}") + 1]))
        return messages

    @staticmethod
    def disabled(message):
        return str(message.get("featureDisabled", False)).lower() == "true"


def first_object(text):
    found = re.search(r"\{[^}]*\}", text)
    return [json.loads(found.group())] if found else []


class Relay:
    """Between streams and a daemon: ends each body gracefully after `life` seconds ± 20 %, as the daemon does after
    240 to 300. `async with Relay(daemon, 2) as relay`; its port is `edge`."""

    def __init__(self, daemon, life, seed=1):
        self.daemon, self.life, self.random = daemon, life, random.Random(seed)

    async def __aenter__(self):
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.edge = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()

    async def _serve(self, reader, writer):
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            upstream, upstream_writer = await asyncio.open_connection("127.0.0.1", self.daemon.edge)
            with contextlib.closing(upstream_writer):
                upstream_writer.write(await reader.readuntil(b"\r\n\r\n"))
                sending = asyncio.create_task(self._send(reader, upstream_writer))
                try:
                    await self._pass_on(upstream, writer)
                finally:
                    sending.cancel()

    async def _send(self, reader, writer):
        while data := await reader.read(1 << 16):
            writer.write(data)

    async def _pass_on(self, reader, writer):
        writer.write(await reader.readuntil(b"\r\n\r\n"))
        decoder = ChunkDecoder()
        try:
            async with asyncio.timeout(self.life * self.random.uniform(0.8, 1.2)):
                while data := await reader.read(1 << 16):
                    writer.write(data)
                    decoder.feed(data)
        except TimeoutError:
            if not decoder.ended and not decoder.left and not decoder.buffer:
                writer.write(b"0\r\n\r\n")
        await writer.drain()


class QueuedReads:
    """Reads at once, gives one by one."""

    def __init__(self, reader):
        self.queue = asyncio.Queue()
        self.task = asyncio.create_task(self._fill(reader))

    async def _fill(self, reader):
        data = b"-"
        while data:
            try:
                data = await reader.read(1 << 16)
            except OSError:
                data = b""
            self.queue.put_nowait(data)

    async def read(self, _):
        return await self.queue.get()
