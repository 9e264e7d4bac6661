"""A line to another continent: a TCP proxy in a process of its own that delays, loses and cuts, where the kernel has no
netem. TCP repairs a lost packet after a timeout, and what comes after it waits: so a loss is a longer delay here."""

import asyncio
import multiprocessing
import random
import subprocess

from harness import ports
from harness.etcd import plain_environment, programs

SEGMENT = 1448
RETRANSMISSION = 0.2  # Linux's least timeout, on top of the round trip


class FarLine:
    """`with FarLine(target, delay=0.15, loss=0.01) as line`: `line.url` leads to the target's `http://host:port`, each
    way taking `delay` seconds. `cut()`: nothing passes in either direction, in silence, until `heal()`; what was sent
    meanwhile arrives then, as by TCP. `stall(number)`: so it is with one connection of those that are `open`.
    `sever()`: all connections are reset."""

    def __init__(self, target, delay=0.15, loss=0.01, seed=1):
        host, _, port = target.rpartition("/")[2].rpartition(":")
        self.address = "127.0.0.1"
        self.port = ports.free()
        self.url = f"http://{self.address}:{self.port}"
        self.pipe, theirs = multiprocessing.Pipe()
        self.process = multiprocessing.get_context("spawn").Process(
            target=run, args=(theirs, self.port, host, int(port), delay, loss, seed), daemon=True)

    def __enter__(self):
        self.process.start()
        assert self.pipe.poll(20) and self.pipe.recv() == "open"
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.join()

    def _say(self, *words):
        self.pipe.send(words)
        assert self.pipe.poll(20), f"the line does not answer {words}"
        return self.pipe.recv()

    def cut(self):
        self._say("cut")

    def heal(self):
        self._say("heal")

    def stall(self, number):
        self._say("stall", number)

    def sever(self):
        self._say("sever")

    @property
    def taken(self):
        """Connections accepted so far, and bytes that came from the target."""
        return self._say("count")[:2]

    @property
    def open(self):
        """Numbers of the connections that stand, in the order in which they were accepted."""
        return self._say("count")[2]


def run(pipe, port, host, target, delay, loss, seed):
    asyncio.run(Line(pipe, host, target, delay, loss, seed).serve(port))


class Line:
    def __init__(self, pipe, host, target, delay, loss, seed):
        self.pipe, self.host, self.target, self.delay, self.loss = pipe, host, target, delay, loss
        self.random = random.Random(seed)
        # {number of a connection: (its two writers, what lets its bytes pass)}
        self.pairs = {}
        self.connections, self.bytes = 0, 0

    async def serve(self, port):
        self.passes = passing()
        server = await asyncio.start_server(self.accept, "127.0.0.1", port, backlog=1024)
        self.pipe.send("open")
        ended = asyncio.Event()
        asyncio.get_running_loop().add_reader(self.pipe.fileno(), self.hear, ended)
        await ended.wait()
        server.close()

    def hear(self, ended):
        try:
            word, *numbers = self.pipe.recv()
        except EOFError:
            return ended.set()
        if word == "cut":
            self.passes.clear()
        elif word == "stall":
            if numbers[0] in self.pairs:
                self.pairs[numbers[0]][1].clear()
        elif word == "heal":
            self.passes.set()
            for _, passes in self.pairs.values():
                passes.set()
        elif word == "sever":
            for pair, _ in list(self.pairs.values()):
                abort(pair)
        self.pipe.send((self.connections, self.bytes, list(self.pairs)))

    async def accept(self, reader, writer):
        self.connections += 1
        number, passes = self.connections, passing()
        # The handshake is a round trip.
        await self.passes.wait()
        await asyncio.sleep(2 * self.delay)
        try:
            far_reader, far_writer = await asyncio.open_connection(self.host, self.target)
        except OSError:
            writer.transport.abort()
            return
        self.pairs[number] = (writer, far_writer), passes
        try:
            await asyncio.gather(self.pump(reader, far_writer, passes),
                                 self.pump(far_reader, writer, passes, counts=True))
        except OSError:
            pass
        finally:
            abort(self.pairs.pop(number)[0])

    async def pump(self, reader, writer, passes, counts=False):
        """Two tasks, so that the line holds as much as is under way."""
        queue = asyncio.Queue()

        async def send():
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0, due - asyncio.get_running_loop().time()))
                await self.passes.wait()
                await passes.wait()
                if not data:
                    # A half-closed HTTP/2 connection is of no use.
                    raise ConnectionResetError
                writer.write(data)
                await writer.drain()

        sending = asyncio.create_task(send())
        due = 0
        try:
            while not sending.done():
                data = await reader.read(1 << 16)
                if counts:
                    self.bytes += len(data)
                segments = -(-len(data) // SEGMENT)
                late = any(self.random.random() < self.loss for _ in range(segments))
                now = asyncio.get_running_loop().time()
                due = max(due, now + self.delay + (2 * self.delay + RETRANSMISSION if late else 0))
                queue.put_nowait((due, data))
                if not data:
                    break
            await sending
        finally:
            sending.cancel()


def passing():
    passes = asyncio.Event()
    passes.set()
    return passes


def abort(pair):
    for writer in pair:
        writer.transport.abort()


class GrpcProxy:
    """`etcd grpc-proxy` before these endpoints: many watch through it, and it watches once."""

    def __init__(self, endpoints, directory):
        self.etcd, _ = programs()
        self.endpoints, self.directory = endpoints, directory
        self.port = ports.free()
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = None

    def __enter__(self):
        with open(self.directory / "grpc-proxy.log", "ab") as log:
            self.process = subprocess.Popen(
                [self.etcd, "grpc-proxy", "start", "--endpoints", ",".join(self.endpoints),
                 "--listen-addr", f"127.0.0.1:{self.port}", "--advertise-client-url", f"127.0.0.1:{self.port}"],
                stdout=log, stderr=log, env=plain_environment())
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
