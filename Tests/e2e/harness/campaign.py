"""Publishers, subscribers and fetches that hop between the nodes of a cluster while members and nodes are killed,
frozen and restarted, and the record of what they saw."""

import asyncio
import json
import os
import random
import time

from harness import cluster_history as checks
from harness import history
from harness.cluster import fetched_version
from harness.cluster_history import ACKNOWLEDGED, DENIED, UNKNOWN, Attempt
from harness.control import version_of
from harness.daemon import LONG
from harness.http1 import Broken, Connection
from harness.sse import Stream
from harness.templates import marked

# Publishes acknowledged in the second before a fault.
LEAST = float(os.environ.get("STALECAST_LEAST", 50 if LONG else 10))


class Campaign:
    """What goes on while faults happen, and the record of it; `async with` ends it. ``finish`` and ``faults`` judge.
    `name` tells the marks of two campaigns over one log apart. `together`: all publish at one node, and on trouble go on
    to another; apart they take each other's places, two appends a publish, which two processors do 40 times a second."""

    def __init__(self, cluster, writers=3, subscribers=4, seed=7, name="", together=LONG):
        self.cluster, self.random = cluster, random.Random(seed)
        self.attempts, self.links, self.fetches, self.told = [], [], [], []
        self.unverified = 0
        self.open = {}
        self.acknowledged_at = []
        self.pauses, self.rates = [], []
        self.over = False
        self.at = cluster.nodes[0] if together else None
        self.tasks = [asyncio.create_task(self.write(f"{name}w{n}", n)) for n in range(writers)]
        self.tasks += [asyncio.create_task(self.subscribe(f"s{n}", n)) for n in range(subscribers)]
        self.writers = writers
        self.paused = asyncio.Event()
        self.paused.set()
        self.under_way = 0

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        await self.end(self.tasks)

    async def end(self, tasks):
        """Until they are gone: a cancellation may be lost in a `wait_for` that is done at that moment."""
        self.over = self.over or len(tasks) == len(self.tasks)
        while [task for task in tasks if not task.done()]:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=0.2)

    async def write(self, name, first):
        """Publishes without pause; on trouble at any core node."""
        number, node = 0, self.at or self.cluster.core[first % len(self.cluster.core)]
        while not self.over:
            client = node.client()
            try:
                while not self.over and self.at in (None, node):
                    await self.paused.wait()
                    number += 1
                    mark = f"{name}-{number}"
                    self.under_way += 1
                    try:
                        attempt = await self.publish(client, node, mark)
                    finally:
                        self.under_way -= 1
                    self.attempts.append(attempt)
                    if attempt.outcome != ACKNOWLEDGED:
                        break
                    self.acknowledged_at.append(time.monotonic())
                    await asyncio.sleep(0.002)
            finally:
                client.close()
            await asyncio.sleep(0.02)
            if self.at in (None, node):
                node = self.random.choice(self.cluster.core)
                self.at = self.at and node
            else:
                node = self.at

    async def pause(self):
        """Stops publishing, and waits for what is under way: a publish may take seconds on a busy machine."""
        self.paused.clear()
        while self.under_way:
            await asyncio.sleep(0.02)

    async def publish(self, client, node, mark):
        try:
            answer = await client.put(marked(mark), timeout=13)  # a node gives up after 10 s
        except Broken as error:
            return Attempt(mark, UNKNOWN if error.sent else DENIED, node.name)
        except OSError:
            return Attempt(mark, DENIED, node.name)
        if answer.status == 200:
            return Attempt(mark, ACKNOWLEDGED, node.name, version_of(answer))
        text = answer.body.decode(errors="replace")
        unknown = answer.status == 504 or '"unknown"' in text
        return Attempt(mark, UNKNOWN if unknown else DENIED, node.name, publish=publish_id(answer))

    async def subscribe(self, name, first):
        """Reconnects with its last id for ever, each time at another node; after each message fetches at yet another,
        as a stock client, which cannot send a cursor; at an edge with it."""
        cursor, at = None, first
        while not self.over:
            node = self.cluster.nodes[at % len(self.cluster.nodes)]
            at += 1
            try:
                stream = await Stream.open(node.edge, last_event_id=cursor, timeout=3)
            except (Broken, OSError, asyncio.TimeoutError):
                await asyncio.sleep(0.02)
                continue
            if stream.head.status != 200:
                stream.close()
                await asyncio.sleep(0.05)
                continue
            self.open[name] = stream
            fetching = asyncio.create_task(self.fetch_after(stream, name))
            try:
                # A node that stands still says nothing; a client with a watchdog leaves it.
                await asyncio.wait_for(ended(stream), self.random.uniform(1, 3))
            except asyncio.TimeoutError:
                pass
            finally:
                fetching.cancel()
            while not fetching.done():
                fetching.cancel()
                await asyncio.wait([fetching], timeout=0.2)
            if not fetching.cancelled() and fetching.exception():
                raise fetching.exception()
            assert not stream.fault, stream.fault
            stream.close()
            self.open.pop(name, None)
            self.links.append(history.link_of(stream, name, cursor or ""))
            if any(link.reset for link in self.links[-1:]) and not stream.last_id:
                cursor = None
            cursor = stream.last_id or cursor

    async def fetch_after(self, stream, name):
        connections = {}
        told = 0
        try:
            while stream.ended is None and not self.over:
                await stream.until(lambda s: s.ended or len(s.messages) > told, 60)
                if stream.ended:
                    return
                told = len(stream.messages)
                known = stream.messages[-1]
                node = self.random.choice(self.cluster.nodes)
                connection = connections.setdefault(node.name, Connection(node.edge))
                try:
                    cursor = known.last_id if node.is_edge else None
                    got, answer = await fetched_version(node, connection, cursor, timeout=4)
                except (Broken, OSError):
                    continue
                if answer.header("x-stalecast-unverified") is not None:
                    self.unverified += 1
                elif got is not None:
                    self.fetches.append((known.version, got, known.last_id, node.name, name))
        finally:
            for connection in connections.values():
                connection.close()

    def rate(self, seconds=1.0):
        """Publishes acknowledged each second, of late."""
        since = time.monotonic() - seconds
        count = 0
        for moment in reversed(self.acknowledged_at):
            if moment < since:
                break
            count += 1
        return count / seconds

    async def busy(self, least=LEAST, timeout=40):
        """A fault counts only with this load before it. In the bounded run less will do: machines are shared."""
        deadline = time.monotonic() + timeout
        while (rate := self.rate()) < least:
            self.raise_failures()
            assert time.monotonic() < deadline, f"only {rate:.0f} publishes/s acknowledged before the fault"
            await asyncio.sleep(0.05)
        self.rates.append(rate)

    async def recovered(self, timeout=60):
        """Until a publish that began after now is acknowledged; the seconds that took are kept."""
        begin, count = time.monotonic(), len(self.acknowledged_at)
        while len(self.acknowledged_at) <= count + self.writers:
            self.raise_failures()
            assert time.monotonic() - begin < timeout, f"nothing acknowledged for {timeout} s"
            await asyncio.sleep(0.02)
        self.pauses.append(time.monotonic() - begin)

    def raise_failures(self):
        for task in self.tasks:
            if task.done():
                task.result()

    async def finish(self):
        """Ends the load, lets all nodes settle, asks for the unknown ones, and returns what is wrong."""
        await self.pause()
        await self.end(self.tasks[:self.writers])
        shown = await self.cluster.settled()
        final = max((stored[-1].version for stored in shown.values() if stored), default=0)
        for name in list(self.open):
            if stream := self.open.get(name):
                try:
                    await stream.until(lambda s: s.ended or any(v >= final for v in s.versions), 4)
                except AssertionError:
                    pass
        await asyncio.sleep(0.1)
        await self.ask_later()
        await self.end(self.tasks[self.writers:])
        self.links += [history.link_of(stream, name) for name, stream in self.open.items()]
        log = self.cluster.log()
        return log, shown

    async def ask_later(self):
        """What became of publishes whose answer was 504 with an id."""
        for one in [one for one in self.attempts if one.outcome == UNKNOWN and one.publish][:200]:
            answer = await self.ask_any(one.publish)
            if answer.status == 200:
                state = answer.json()["state"]
                self.told.append((one.mark, {"COMMITTED": ACKNOWLEDGED, "NOT_COMMITTED": DENIED}.get(state, UNKNOWN)))

    async def ask_any(self, publish, timeout=20):
        """A node's answer of what became of a publish; one that begins anew does not listen for a moment."""
        deadline = time.monotonic() + timeout
        while True:
            client = self.random.choice([node for node in self.cluster.alive if not node.is_edge]).client()
            try:
                return await client.call("GET", f"{client.base}/publishes/{publish}")
            except Broken:
                assert time.monotonic() < deadline, f"no node tells of {publish} within {timeout} s"
                await asyncio.sleep(0.05)
            finally:
                client.close()

    def faults(self, log, shown, since=0):
        """All that is wrong. `since`: the index in `attempts` from which on acknowledged ones must be there (a restored
        snapshot forgets the others)."""
        stored = [checks.stored_of(entry) for entry in log]
        reads = [(known, got) for known, got, *_ in self.fetches]
        found = checks.acknowledged_lost(self.attempts[since:], log)
        found += checks.doubled(log) + checks.wrongly_denied(self.attempts[since:], log)
        found += checks.told_wrongly(self.told, log) + checks.not_a_sequence(log)
        found += checks.differing(shown, log)
        found += history.disorder_on_connection(self.links) + history.decrease_across_connections(self.links)
        found += checks.decrease_across_nodes(self.links) + history.stale_reads(reads)
        if not since:
            found += history.phantoms(self.links, stored)
        return found

    def summary(self):
        outcomes = {name: sum(one.outcome == name for one in self.attempts)
                    for name in (ACKNOWLEDGED, DENIED, UNKNOWN)}
        pauses, rates = sorted(self.pauses) or [0], sorted(self.rates) or [0]
        return {**outcomes, "fetches": len(self.fetches), "unverified": self.unverified, "links": len(self.links),
                "resets": sum(link.reset for link in self.links), "told": len(self.told), "faults": len(self.rates),
                "least_rate_before": rates[0], "median_rate_before": rates[len(rates) // 2],
                "pause_median_s": pauses[len(pauses) // 2], "pause_longest_s": pauses[-1]}


def publish_id(answer):
    """The publish id of a 504; empty where there is none."""
    try:
        error = answer.json().get("error", {})
    except json.JSONDecodeError:
        return ""
    return next((detail["publishId"] for detail in error.get("details", []) if "publishId" in detail), "")


async def ended(stream):
    while stream.ended is None:
        await stream.until(lambda s, n=len(stream.frames): s.ended or len(s.frames) > n, 60)
