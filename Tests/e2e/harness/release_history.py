"""Releases in stages as they were seen, and pure checkers over them. Each returns sentences; empty is good."""

from datetime import datetime

ENDED = ("RELEASED", "ROLLED_BACK", "SUPERSEDED")
MASK = 2**64 - 1


def fingerprint(text):
    bits = 0xCBF29CE484222325
    for byte in text.encode():
        bits = (bits ^ byte) * 0x100000001B3 & MASK
    return bits


def scrambled(bits):
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & MASK
    return bits ^ bits >> 31


def bucket(name, version):
    """The client's bucket of 10,000 in the release of a version, as each daemon computes it."""
    key = scrambled(fingerprint(name)) >> 33
    return (scrambled(key ^ fingerprint(f"demo/firebase\0{version}")) >> 32) * 10_000 >> 32


def seconds(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def duration(text):
    return {"s": 1, "m": 60, "h": 3600}[text[-1]] * float(text[:-1])


def reached(release, name):
    """When the stage of a client was told of a release's version; None: it was not."""
    place = bucket(name, release["versionNumber"])
    stage = next((one for one in release["stages"] if "reachedAt" in one and place < one["percent"] * 100), None)
    return stage and seconds(stage["reachedAt"])


def too_early(release):
    """Steps of the schedule that came before their time: each stage lasts, and so does the bake time."""
    faults, since = [], None
    policy = release["policy"]
    for event in release["events"]:
        at, kind = seconds(event["at"]), event["kind"]
        wait = duration(policy["bake"] if kind == "RELEASED" else policy["every"])
        is_due = since is not None and wait > 0 and at >= since + wait
        if event["by"] == "schedule" and kind in ("ADVANCED", "RELEASED") and not is_due:
            faults.append(f"{kind} of version {release['versionNumber']} {at - (since or at):.3f} s after the stage began")
        if kind in ("BEGAN", "ADVANCED", "PROMOTED", "RESUMED"):
            since = at
    return faults


def ahead_of_stage(release, name, seen, what):
    """Whether a client had a release's version before its stage was told: `seen` are (version, when)."""
    version = int(release["versionNumber"])
    first = next((when for got, when in seen if got == version), None)
    stage = reached(release, name)
    if first is None or stage is not None and first >= stage - 0.001:
        return []
    return [f"{name} was {what} {version} before its stage, which is {release['percent']} %"]


def going_back(name, seen, what):
    order = [version for version, _ in seen]
    return [] if order == sorted(order) else [f"{name} {what} an older version after a newer one"]


# A cluster's log

def releases_of(lines):
    """The last record of each release in the lines of a log, by version."""
    return {int(record["versionNumber"]): record for line in lines for record in line.get("releases", [])}


def not_a_course(lines):
    """What one step of the log did to a release that no step may: each adds one event; stages come one by one, or all by
    a promotion, each with the sequence of its commit; an end is final, and a rollback brings the base's content."""
    faults, known, contents = [], {}, {}
    for line in lines:
        if "sha256" in line:
            contents[int(line["version"]["versionNumber"])] = line["sha256"]
        for record in line.get("releases", []):
            version, before = int(record["versionNumber"]), known.get(record["versionNumber"])
            found = step_faults(before, record, line, contents)
            known[record["versionNumber"]] = record
            opened = [number for number, one in known.items() if one["state"] not in ENDED]
            if len(opened) > 1:
                found.append(f"releases {opened} are open together")
            faults += [f"entry {line['sequence']}, release {version}: {fault}" for fault in found]
    return faults


def step_faults(before, record, line, contents):
    events, old = record["events"], before["events"] if before else []
    if before and before["state"] in ENDED:
        return [f"{events[-1]['kind']} after {before['state']}"]
    if events[:-1] != old[-99:] and events[:-1] != old:
        return [f"events {old[-2:]} became {events[-3:]}"]
    stages, were = told_stages(record), told_stages(before) if before else []
    kind, new = events[-1]["kind"], stages[len(were):]
    faults = [] if stages[:len(were)] == were else [f"stages {were} became {stages}"]
    following = [one["percent"] for one in record["stages"] if not were or one["percent"] > were[-1][0]]
    wanted = {"BEGAN": following[:1], "ADVANCED": following[:1], "PROMOTED": [100]}.get(kind, [])
    if [percent for percent, _ in new] != wanted:
        faults.append(f"{kind} told {new}, not {wanted}")
    faults += [f"{kind} of stage {percent} has sequence {sequence}" for percent, sequence in new
               if sequence != int(line["sequence"])]
    if kind == "ROLLED_BACK":
        successor, base = int(record["successorVersionNumber"]), int(record["baseVersionNumber"])
        if contents.get(successor) != contents.get(base) or successor != int(line["version"]["versionNumber"]):
            faults.append(f"version {successor} has not the content of {base}")
    return faults


def told_stages(record):
    return [(one["percent"], int(one["sequence"])) for one in record["stages"] if "reachedAt" in one]


def misjudged(actions, records):
    """`actions` are (reason, outcome): an acknowledged one is an event of a release, a denied one of none, and none is
    done twice. Outcomes are those of `cluster_history`."""
    counts = {}
    for record in records.values():
        for event in record["events"]:
            counts[event.get("reason")] = counts.get(event.get("reason"), 0) + 1
    allowed = {"acknowledged": (1,), "denied": (0,), "unknown": (0, 1)}
    return [f"{reason} was {outcome} and happened {counts.get(reason, 0)} times" for reason, outcome in actions
            if counts.get(reason, 0) not in allowed[outcome]]
