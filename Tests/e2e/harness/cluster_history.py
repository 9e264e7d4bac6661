"""What was seen of a cluster, and pure checkers over it, beside those of `history`. Each returns sentences; empty is
good."""

from collections import Counter
from dataclasses import dataclass

from harness.history import Stored

ACKNOWLEDGED, DENIED, UNKNOWN = "acknowledged", "denied", "unknown"


@dataclass(frozen=True)
class Attempt:
    """One publish, under a mark that no other has. Denied: an answer that says it was not done. Unknown: 504, or no
    answer at all."""

    mark: str
    outcome: str
    node: str = ""
    version: int | None = None
    publish: str = ""  # its id, when an answer told it


@dataclass(frozen=True)
class Entry:
    """One line of the log."""

    sequence: int
    mark: str
    version: int
    publish: str = ""
    scope: str = "demo/firebase"
    etag: str = ""
    time: str = ""


def entry_of(line):
    """`Entry` of what `Etcd.lines` gives."""
    version = line["version"]
    return Entry(int(line["sequence"]), version.get("description", ""), int(version["versionNumber"]),
                 line["publish"], f"{line['project']}/{line['namespace']}", line["etag"], version["updateTime"])


def stored_of(entry):
    return Stored(entry.version, entry.mark, entry.etag, entry.time, entry.scope)


def acknowledged_lost(attempts, log):
    """Acknowledged ⊆ log, with the number that was acknowledged."""
    entries = {entry.mark: entry for entry in log}
    faults = []
    for one in attempts:
        if one.outcome == ACKNOWLEDGED:
            found = entries.get(one.mark)
            if found is None:
                faults.append(f"{one.mark} was acknowledged by {one.node} as {one.version} and is not in the log")
            elif one.version is not None and found.version != one.version:
                faults.append(f"{one.mark} was acknowledged as {one.version}, the log has it as {found.version}")
    return faults


def doubled(log):
    """A publish stands once in the log, by its mark and by its id."""
    faults = []
    for what in ("mark", "publish"):
        counts = Counter(getattr(entry, what) for entry in log if getattr(entry, what))
        faults += [f"{what} {name} is {count} times in the log" for name, count in counts.items() if count > 1]
    return faults


def wrongly_denied(attempts, log):
    """What was denied is not in the log."""
    marks = {entry.mark: entry for entry in log}
    return [f"{one.mark} was denied by {one.node} and is {marks[one.mark].sequence} in the log"
            for one in attempts if one.outcome == DENIED and one.mark in marks]


def told_wrongly(told, log):
    """`told` are (mark, outcome) of asking later for an unknown publish: it must be as the log has it."""
    marks = {entry.mark for entry in log}
    return [f"{mark} was told later to be {outcome}, the log {'has' if mark in marks else 'does not have'} it"
            for mark, outcome in told if outcome != UNKNOWN and (outcome == ACKNOWLEDGED) != (mark in marks)]


def not_a_sequence(log):
    """Sequences count by one; so do a scope's versions, or they jump up (number floors), but never down."""
    faults, last, versions = [], None, {}
    for entry in log:
        if last is not None and entry.sequence != last + 1:
            faults.append(f"entry {entry.sequence} follows {last}")
        last = entry.sequence
        if entry.version <= versions.get(entry.scope, 0):
            faults.append(f"{entry.scope} version {entry.version} follows {versions[entry.scope]} in the log")
        versions[entry.scope] = entry.version
    return faults


def decrease_across_nodes(links):
    """Of one subscriber over its connections, whichever node: no cursor of a connection is below one of an earlier
    connection and the same epoch. `history` has the same for versions, and the order on one connection."""
    faults, highest = [], {}
    for link in links:
        here = [(one.epoch, one.sequence) for one in link.seen]
        if link.synced:
            epoch, _, sequence = link.synced.partition(".")
            here.append((epoch, int(sequence)))
        before = dict(highest)
        for epoch, sequence in here:
            key = link.subscriber, epoch
            if sequence < before.get(key, 0):
                faults.append(f"{link.subscriber}: cursor {sequence} after {before[key]}")
            highest[key] = max(sequence, highest.get(key, 0))
    return faults


def differing(nodes, log=()):
    """All nodes end with the same versions, and with the log's. `nodes` maps a node's name to its `Stored`s."""
    faults, (first, reference) = [], next(iter(nodes.items()))
    for name, stored in nodes.items():
        for one in set(stored) ^ set(reference):
            owner, other = (name, first) if one in stored else (first, name)
            faults.append(f"{owner} has {one}, {other} has not")
    logged = {stored_of(entry) for entry in log}
    lowest = min((one.version for one in reference), default=0)
    if logged:
        faults += [f"{first} has {one}, the log has not" for one in set(reference) - logged]
        faults += [f"the log has {one}, {first} has not"
                   for one in logged - set(reference) if one.version >= lowest]
    return faults


@dataclass(frozen=True)
class Delivery:
    """An attempt as a webhook's receiver saw it, from its arrival until it was answered."""

    webhook_id: str
    version: int
    begin: float
    end: float
    taken: bool = True


def two_owners(deliveries):
    """Of one webhook no two attempts are in flight at once, none is older than one before, none comes again once it was
    taken, and a version has one id."""
    faults, ids, taken, before = [], {}, set(), None
    for one in sorted(deliveries, key=lambda one: one.begin):
        if before and one.begin < before.end:
            faults.append(f"{one} began while {before} was under way")
        if before and one.version < before.version:
            faults.append(f"{one} is older than {before}")
        if one.webhook_id in taken:
            faults.append(f"{one} had been taken")
        if ids.setdefault(one.version, one.webhook_id) != one.webhook_id:
            faults.append(f"{one}: the version had the id {ids[one.version]}")
        taken |= {one.webhook_id} if one.taken else set()
        before = one
    return faults


def one_winner(rounds):
    """`rounds` are lists of statuses of publishes with one If-Match: exactly one is 200, the others 400, 409 or 412."""
    return [f"round {number}: {statuses}" for number, statuses in enumerate(rounds)
            if sorted(statuses)[0] != 200 or any(status not in (400, 409, 412) for status in sorted(statuses)[1:])]
