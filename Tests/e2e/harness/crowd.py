"""Thousands of subscribers in a process of their own, so that neither the test nor its publisher slows them.

`Crowd` is the handle the test holds; `Member` and `Room` live in the other process.
"""

import multiprocessing
import random
import select
import socket
import time

from harness.sse import events_target

READ = select.EPOLLIN | select.EPOLLRDHUP
NUMBER = b'"latestTemplateVersionNumber":"'
# a client without a listener to connect to can meet itself when source and target are one address
SOURCES = 8


class Crowd:
    """`count` SSE streams, all with their `synced`. Blocking; call its methods in a thread from coroutine tests.

    `topics`: one name for all, or a list that is gone through in turn. `comes_back`: a lost stream is opened again at
    once, with the last id. `kind`: "stream", or "poll" for long-polls that are held and never answered in the test."""

    def __init__(self, port, count, *, topics="PUSH_RC", comes_back=False, kind="stream", timeout=60):
        names = [topics] if isinstance(topics, str) else list(topics)
        path = "/v1/events" if kind == "stream" else "/v1/poll"
        more = {"wait": "600s"} if kind == "poll" else {}
        targets = [events_target((name,), path=path, **more) for name in names]
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        self.process = context.Process(
            target=run, args=(theirs, port, count, targets, comes_back, kind), daemon=True)
        self.process.start()
        theirs.close()
        self.pipe = ours
        self.opened_in = self._ask("open", timeout, timeout=timeout + 10)

    def _ask(self, name, *arguments, timeout=30):
        self.pipe.send((name, *arguments))
        assert self.pipe.poll(timeout), f"the crowd did not answer {name} within {timeout} s"
        answer = self.pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def expect(self, version):
        """From now on the time is kept at which each stream has this version or a newer one."""
        self._ask("expect", version)

    def arrivals(self, timeout=30):
        """Waits until all have the expected version; their times (`time.monotonic`), sorted."""
        return self._ask("arrivals", timeout, timeout=timeout + 10)

    def all_have(self, version, timeout=30):
        """Waits until every stream has this version or a newer one."""
        self.expect(version)
        return self.arrivals(timeout)

    def newest(self):
        """The newest version each stream has shown, over all its connections."""
        return self._ask("newest")

    def counts(self):
        """{"open", "synced", "messages", "returns", "decreases", "resets"} so far."""
        return self._ask("counts")

    def all_back(self, timeout=60):
        """Waits until each stream is open and has its `synced`; the time of the last one."""
        return self._ask("all_back", timeout, timeout=timeout + 10)

    def leave(self, count):
        """Closes that many streams."""
        self._ask("leave", count)

    def close(self):
        self.process.kill()
        self.process.join()
        self.pipe.close()


class Member:
    """One subscriber and what it has seen."""

    __slots__ = ("sock", "tail", "newest", "on_connection", "last_id", "synced", "at", "target", "unsent")

    def __init__(self, target):
        self.sock, self.tail, self.newest, self.on_connection = None, b"", 0, 0
        self.last_id, self.synced, self.at, self.target, self.unsent = b"", False, None, target, b""


class Room:
    """All subscribers of one process on one epoll."""

    def __init__(self, port, count, targets, comes_back, kind):
        self.port, self.comes_back, self.is_poll = port, comes_back, kind == "poll"
        self.members = [Member(targets[index % len(targets)]) for index in range(count)]
        self.by_fd, self.epoll = {}, select.epoll()
        self.outside = list(reversed(self.members))
        self.expected, self.missing, self.next_try, self.has_opened = None, 0, 0.0, False
        self.messages = self.returns = self.decreases = self.resets = 0

    def turn(self, seconds=0.05):
        """Reads what is there; then those outside come in, at most 500 at a time."""
        self._enter()
        busy = bool(self.outside) and time.monotonic() >= self.next_try
        for fd, events in self.epoll.poll(0 if busy else seconds, 4096):
            member = self.by_fd.get(fd)
            if member:
                self._ready(member, events)

    def _enter(self):
        if not self.outside or time.monotonic() < self.next_try:
            return
        room = 500
        if not self.has_opened:
            # What a listener's full queue (4,096) drops comes again after seconds, the last after more than a minute.
            room = min(room, 2000 - sum(member.sock is not None and not member.synced for member in self.members))
        for _ in range(min(room, len(self.outside))):
            if not self._connect(self.outside[-1]):
                self.next_try = time.monotonic() + random.uniform(0.02, 0.04)
                return
            self.outside.pop()

    def _connect(self, member):
        sock = socket.socket()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_IP, getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24), 1)
        sock.bind((f"127.0.0.{random.randrange(2, 2 + SOURCES)}", 0))
        try:
            sock.connect(("127.0.0.1", self.port))
        except BlockingIOError:
            pass
        except OSError:
            sock.close()
            return False
        extra = b"Last-Event-ID: " + member.last_id + b"\r\n" if member.last_id else b""
        member.unsent = f"GET {member.target} HTTP/1.1\r\nHost: localhost\r\n".encode() + extra + b"\r\n"
        member.sock, member.tail, member.on_connection, member.synced = sock, b"", 0, False
        self.by_fd[sock.fileno()] = member
        self.epoll.register(sock, READ | select.EPOLLOUT)
        return True

    def _ready(self, member, events):
        try:
            if member.unsent and events & select.EPOLLOUT:
                member.sock.send(member.unsent)
                member.unsent = b""
                self.epoll.modify(member.sock, READ)
                # a held poll says nothing: its request on the way is all there is to see
                member.synced = member.synced or self.is_poll
            if not events & ~select.EPOLLOUT:
                return
            data = member.sock.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            self._heard(member, data)
        else:
            self._lost(member)

    def _heard(self, member, data):
        complete, found, member.tail = (member.tail + data).rpartition(b"\n\n")
        if not found:
            return
        self.messages += complete.count(NUMBER)
        self.resets += b"event: reset" in complete
        if not member.synced and b"event: synced" in complete:
            member.synced = True
        at = complete.rfind(b"id: ")
        if at >= 0:
            member.last_id = complete[at + 4:].split(b"\n", 1)[0]
        at = complete.rfind(NUMBER)
        if at >= 0:
            self._has(member, int(complete[at + len(NUMBER):].split(b'"', 1)[0]))

    def _has(self, member, version):
        self.decreases += version <= member.on_connection or version < member.newest
        member.on_connection, member.newest = version, max(version, member.newest)
        if self.expected is not None and member.at is None and version >= self.expected:
            member.at = time.monotonic()
            self.missing -= 1

    def _lost(self, member):
        was_refused = bool(member.unsent)
        self._drop(member)
        if was_refused:
            self.next_try = time.monotonic() + random.uniform(0.02, 0.04)
        if self.comes_back or was_refused:
            self.returns += not was_refused
            self.outside.append(member)

    def _drop(self, member):
        del self.by_fd[member.sock.fileno()]
        member.sock.close()
        member.sock, member.synced = None, False

    # what the test asks for

    def expect(self, version):
        self.expected = version
        now = time.monotonic()
        for member in self.members:
            member.at = now if member.newest >= version else None
        self.missing = sum(member.at is None for member in self.members)

    def arrivals(self, timeout):
        self._until(lambda: self.missing == 0, timeout, lambda: f"{self.missing} without version {self.expected}")
        return sorted(member.at for member in self.members)

    def open(self, timeout):
        begun = time.monotonic()
        end = self.all_back(timeout)
        self.has_opened = True
        return end - begun

    def all_back(self, timeout):
        def here():
            return sum(member.synced for member in self.members)
        self._until(lambda: not self.outside and here() == len(self.members), timeout,
                    lambda: f"{here()} of {len(self.members)} streams are open")
        return time.monotonic()

    def _until(self, reached, timeout, problem):
        deadline = time.monotonic() + timeout
        while not reached():
            assert time.monotonic() < deadline, problem()
            self.turn(0.01)

    def newest(self):
        return [member.newest for member in self.members]

    def counts(self):
        return {"open": len(self.by_fd), "synced": sum(m.synced for m in self.members), "messages": self.messages,
                "returns": self.returns, "decreases": self.decreases, "resets": self.resets}

    def leave(self, count):
        for member in [member for member in self.members if member.sock][:count]:
            self._drop(member)
            self.members.remove(member)


def run(pipe, port, count, targets, comes_back, kind):
    """The other process: reads its streams, and does what the test asks between two turns."""
    room = Room(port, count, targets, comes_back, kind)
    while True:
        if not pipe.poll(0):
            room.turn()
            continue
        try:
            name, *arguments = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(getattr(room, name)(*arguments))
        except Exception as error:  # the test has to see every error
            pipe.send(error)
