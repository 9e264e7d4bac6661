"""Long-poll: one call, and a client that keeps polling and records what it saw."""

import asyncio
import time
from dataclasses import dataclass, field

from harness.http1 import Broken, Connection
from harness.sse import events_target


def poll_target(topics=("PUSH_RC",), **query):
    """Query parameters: cursor, have, wait (`1s`), …"""
    return events_target(topics, path="/v1/poll", **query)


async def poll(port, topics=("PUSH_RC",), *, connection=None, headers=(), timeout=30, **query):
    """One long-poll; on a connection of its own unless given one."""
    used = connection or Connection(port)
    try:
        return await used.request("GET", poll_target(topics, **query), headers, timeout=timeout)
    finally:
        if connection is None:
            used.close()


def versions_in(answer):
    """The versions announced by a poll's answer, in order."""
    messages = answer.json()["messages"]
    return [int(m["latestTemplateVersionNumber"]) for m in messages if "latestTemplateVersionNumber" in m]


@dataclass
class Poller:
    """Polls on one connection for ever, from `cursor`; survives restarts of the daemon. Cancel its task to stop."""

    port: int
    topics: tuple = ("PUSH_RC",)
    cursor: str | None = None
    wait: str = "5s"
    answers: list = field(default_factory=list)  # of (time, answer)
    versions: list = field(default_factory=list)

    def start(self):
        self.task = asyncio.create_task(self._run())
        return self

    async def _run(self):
        connection = Connection(self.port)
        while True:
            try:
                answer = await poll(self.port, self.topics, connection=connection, cursor=self.cursor, wait=self.wait)
            except Broken:
                await asyncio.sleep(0.01)
                continue
            if answer.status in (503, 429):
                await asyncio.sleep(0.05)
                continue
            assert answer.status == 200, f"poll answered {answer}"
            self.answers.append((time.monotonic(), answer))
            self.versions += versions_in(answer)
            self.cursor = answer.json()["cursor"]

    async def version_at_least(self, version, timeout=40):
        deadline = time.monotonic() + timeout
        while not any(v >= version for v in self.versions):
            if self.task.done():
                self.task.result()
            assert time.monotonic() < deadline, f"long-poller saw {self.versions[-5:]}, wants ≥ {version}"
            await asyncio.sleep(0.005)

    def stop(self):
        self.task.cancel()
