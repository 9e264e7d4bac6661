"""What was seen from outside, and pure checkers over it. Each checker returns a list of sentences; empty is good.

A record is plain data: the checkers know nothing of sockets, so `test_checkers.py` can show that each of them can fail.
"""

from collections import defaultdict
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Seen:
    """A STALE message as received. `cursor` is the text of the id in force after it; `time` is its updateTime."""

    version: int
    cursor: str = ""
    topic: str = "PUSH_RC"
    scope: str = "demo/firebase"
    etag: str = ""
    time: str = ""

    @property
    def epoch(self):
        return self.cursor.partition(".")[0]

    @property
    def sequence(self):
        return int(self.cursor.partition(".")[2])


@dataclass
class Link:
    """One connection of one subscriber: what it said (`cursor`), what it got, and the `synced` cursor."""

    subscriber: str
    cursor: str = ""
    seen: list = field(default_factory=list)
    synced: str = ""
    reset: bool = False


@dataclass(frozen=True)
class Stored:
    """A version as some answer showed it. `mark` tells contents apart (a description, a hash)."""

    version: int
    mark: str
    etag: str = ""
    time: str = ""
    scope: str = "demo/firebase"
    epoch: str = ""


def seen_in(message, cursor):
    """`Seen` from a message's JSON object and the cursor in force."""
    return Seen(int(message["latestTemplateVersionNumber"]), cursor, message["topic"],
                f"{message['project']}/{message['namespace']}", message["etag"], message["updateTime"])


def link_of(stream, subscriber, cursor=""):
    """`Link` from an `sse.Stream`."""
    link = Link(subscriber, cursor)
    for frame in stream.events:
        if frame.name == "reset":
            link.reset = True
        elif frame.name == "synced":
            link.synced = frame.id
        elif frame.version is not None:
            link.seen.append(seen_in(frame.json(), frame.last_id))
    return link


def acknowledged_lost(acknowledged, stored):
    """G1: acknowledged versions that a later look at the store does not show, or shows with other content."""
    shown = {(s.epoch, s.scope, s.version): s for s in stored}
    faults = []
    for one in acknowledged:
        found = shown.get((one.epoch, one.scope, one.version))
        if found is None:
            faults.append(f"{one.scope} version {one.version} was acknowledged and is gone")
        elif found.mark != one.mark:
            faults.append(f"{one.scope} version {one.version} was acknowledged as {one.mark!r}, is now {found.mark!r}")
    return faults


def not_a_function(stored):
    """G2: a version shown with two contents, ETags or times; or numbers with a hole."""
    faults, known = [], {}
    for one in stored:
        first = known.setdefault((one.epoch, one.scope, one.version), one)
        if (first.mark, first.etag, first.time) != (one.mark, one.etag, one.time):
            faults.append(f"{one.scope} version {one.version} is both {first} and {one}")
    numbers = defaultdict(set)
    for epoch, scope, version in known:
        numbers[epoch, scope].add(version)
    for (_, scope), versions in numbers.items():
        holes = set(range(min(versions), max(versions))) - versions
        if holes:
            faults.append(f"{scope} has no version {sorted(holes)[:5]} between {min(versions)} and {max(versions)}")
    return faults


def disorder_on_connection(links):
    """G3: per topic and scope versions and cursors strictly increase on a connection; over all topics cursors never
    decrease (two topics may announce the same commit)."""
    faults = []
    for link in links:
        last, before = {}, None
        for seen in link.seen:
            key = seen.topic, seen.scope, seen.epoch
            if key in last and seen.version <= last[key].version:
                faults.append(f"{link.subscriber}: {key[:2]} version {seen.version} after {last[key].version}")
            if key in last and seen.sequence <= last[key].sequence:
                faults.append(f"{link.subscriber}: {key[:2]} cursor {seen.sequence} after {last[key].sequence}")
            if before and before.epoch == seen.epoch and seen.sequence < before.sequence:
                faults.append(f"{link.subscriber}: cursor {seen.sequence} after {before.sequence}")
            last[key] = before = seen
    return faults


def decrease_across_connections(links):
    """G3: what one subscriber sees over its reconnects (in order of `links`) never decreases within an epoch."""
    faults, highest = [], {}
    for link in links:
        for seen in link.seen:
            key = link.subscriber, seen.topic, seen.scope, seen.epoch
            if seen.version < highest.get(key, 0):
                faults.append(f"{link.subscriber}: {seen.topic} version {seen.version} after {highest[key]}")
            highest[key] = max(seen.version, highest.get(key, 0))
    return faults


def not_converged(newest_by_subscriber, final):
    """G4: subscribers whose newest version is below `final`."""
    return [f"{name} ended at {newest}, final is {final}"
            for name, newest in newest_by_subscriber.items() if newest is None or newest < final]


def phantoms(links, stored):
    """G5: messages about versions that were never committed, or with another ETag or time than the store shows."""
    shown = {(s.scope, s.version): s for s in stored}
    faults = []
    for link in links:
        for seen in link.seen:
            found = shown.get((seen.scope, seen.version))
            if found is None:
                faults.append(f"{link.subscriber}: {seen.scope} version {seen.version} was announced, never committed")
            elif (seen.etag, seen.time) != (found.etag, found.time):
                faults.append(f"{link.subscriber}: {seen} was announced, the store shows {found}")
    return faults


def stale_reads(reads):
    """G6: `reads` are (version of a message received before the read began, version read)."""
    return [f"read {got} after message {announced}" for announced, got in reads if got < announced]


def bookmark_lies(links, sequences):
    """G7 with `synced`: everything committed up to the `synced` cursor and newer than the client's cursor was
    delivered, or something newer of its scope was. `sequences` maps (scope, version) to sequence; links with a cursor
    on topic PUSH_RC only."""
    faults = []
    for link in links:
        if not link.cursor or not link.synced or link.reset:
            continue
        start, bookmark = int(link.cursor.partition(".")[2]), int(link.synced.partition(".")[2])
        owed = {}
        for (scope, version), sequence in sequences.items():
            if start < sequence <= bookmark:
                owed[scope] = max(version, owed.get(scope, 0))
        for scope, version in owed.items():
            newest = max((s.version for s in link.seen if s.scope == scope), default=0)
            if newest < version:
                faults.append(f"{link.subscriber}: synced at {bookmark} without {scope} version {version}")
    return faults


def sequences_in(links):
    """(scope, version) → sequence, as the messages' ids tell."""
    return {(seen.scope, seen.version): seen.sequence for link in links for seen in link.seen}
