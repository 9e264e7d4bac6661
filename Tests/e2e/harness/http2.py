"""HTTP/2 by hand: a client over `h2`, and frames as bytes for the rude tests."""

import asyncio

import h2.config
import h2.connection
import h2.events
import hpack

from harness.tls import trusting

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 7, 8, 9


def frame(kind, payload=b"", flags=0, stream=0):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def head(target, method="GET", **fields):
    return [(":method", method), (":scheme", "https"), (":authority", "127.0.0.1"), (":path", target), *fields.items()]


def request(stream, target="/healthz", method="GET", ends=True):
    """A HEADERS frame of a whole request, by an encoder without memory."""
    block = hpack.Encoder().encode([(name, value, True) for name, value in head(target, method)])
    return frame(HEADERS, block, 0x4 | ends, stream)


async def raw(daemon, authority):
    """A connection that has exchanged prefaces and will not read by itself: (reader, writer)."""
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", daemon.edge, ssl=trusting(authority, alpn=["h2"]), server_hostname="127.0.0.1")
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "h2"
    writer.write(PREFACE + frame(SETTINGS))
    await reader.readexactly(9)
    return reader, writer


class Client:
    """One HTTP/2 connection; answers and streams are gathered as they come."""

    def __init__(self, port, authority):
        self.port, self.context = port, trusting(authority, alpn=["h2"])
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding="utf-8"))
        self.reads, self.unread = True, 0
        self.heads, self.bodies, self.ended, self.goodbye = {}, {}, set(), False
        self.resets = {}
        self.news = asyncio.Condition()

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=self.context, server_hostname="127.0.0.1")
        self.h2.initiate_connection()
        self._send()
        self.task = asyncio.create_task(self._read())
        return self

    def ask(self, target, method="GET", body=None, length=True, **fields):
        """Begins a request; returns its stream."""
        stream = self.h2.get_next_available_stream_id()
        if body is not None and length:
            fields["content-length"] = str(len(body))
        self.h2.send_headers(stream, head(target, method, **fields), end_stream=body is None)
        if body is not None:
            for start in range(0, len(body), 16_384):
                self.h2.send_data(stream, body[start : start + 16_384])
            self.h2.end_stream(stream)
        self.bodies[stream] = b""
        self._send()
        return stream

    def ask_with(self, fields, ends=True):
        """Begins a request with exactly this head; returns its stream."""
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, fields, end_stream=ends)
        self.bodies[stream] = b""
        self._send()
        return stream

    async def answer(self, *arguments, **options):
        """A whole request: (status, body)."""
        stream = self.ask(*arguments, **options)
        await self.until(lambda: stream in self.ended)
        return int(self.heads[stream][":status"]), self.bodies[stream]

    def reset(self, stream):
        """Gives a request up, as a page does that aborts a fetch (CANCEL)."""
        self.h2.reset_stream(stream, 8)
        self._send()

    async def until(self, holds, timeout=30):
        async with self.news:
            await asyncio.wait_for(self.news.wait_for(lambda: holds() or self.goodbye), timeout)
        assert holds(), "the connection ended before"

    def read_on(self, stream):
        """Gives the server its window of one stream back, and reads on. While `reads` is false it gets none."""
        self.reads = True
        if self.unread:
            self.h2.acknowledge_received_data(self.unread, stream)
        self.unread = 0
        self._send()

    async def _read(self):
        while data := await self.reader.read(1 << 16):
            for event in self.h2.receive_data(data):
                if isinstance(event, h2.events.ResponseReceived):
                    self.heads[event.stream_id] = dict(event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    self.bodies[event.stream_id] += event.data
                    self.unread += event.flow_controlled_length
                    if self.reads:
                        self.read_on(event.stream_id)
                elif isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
                    self.ended.add(event.stream_id)
                    if isinstance(event, h2.events.StreamReset):
                        self.resets[event.stream_id] = event.error_code
            self._send()
            async with self.news:
                self.news.notify_all()
        self.goodbye = True
        async with self.news:
            self.news.notify_all()

    def _send(self):
        self.writer.write(self.h2.data_to_send())

    def close(self):
        self.task.cancel()
        self.writer.close()
