"""Every configuration the tests use: the only place that knows key names (samples/stalecast.yaml explains them)."""

import pytest

HALVES = ("engine", "front")
# Marks a test of what lies behind both halves (the store, Control, the command line), or of requests that the engine hands
# to the Front: then a run with the engine covers both.
one_half = pytest.mark.parametrize("half", ["engine"])


def config(half="engine", *, edge=None, topics=None, projects=None, poll=None, **sections):
    """YAML for one half of Edge. `edge` and `poll` are keys of those sections; `topics` and `projects` lists of
    mappings; other keyword arguments are further sections."""
    document = {"edge": {"streamEngine": half == "engine", **(edge or {})}}
    if poll:
        document["edge"]["poll"] = poll
    if topics:
        document["topics"] = topics
    if projects:
        document["projects"] = projects
    document.update(sections)
    return "\n".join(yaml_lines(document)) + "\n"


def yaml_lines(value, indent=""):
    """Block YAML for nested dicts, lists of dicts and scalars; enough for a configuration."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if isinstance(inner, (dict, list)) and inner:
                yield f"{indent}{key}:"
                yield from yaml_lines(inner, indent + "  ")
            else:
                yield f"{indent}{key}: {scalar(inner)}"
    else:
        for inner in value:
            if isinstance(inner, dict):
                first, *rest = yaml_lines(inner, indent + "  ")
                yield f"{indent}- {first.strip()}"
                yield from rest
            else:
                yield f"{indent}- {scalar(inner)}"


def scalar(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if value in ([], {}):
        return "[]" if value == [] else "{}"
    return '"' + str(value).replace("\\", "\\\\").replace('"', '\\"') + '"'


def topic(name, *, scopes=("demo/firebase",), keys=()):
    """An entry of `topics`."""
    entry = {"name": name, "scopes": list(scopes)}
    if keys:
        entry["keys"] = list(keys)
    return entry


def many_topics(half):
    """PUSH_RC (always there), OTHER and THIRD on the same scope, PAY for keys pay_*, SERVER on the server template."""
    return config(half, topics=MANY_TOPICS)


MANY_TOPICS = [
    topic("OTHER"),
    topic("THIRD"),
    topic("PAY", keys=("pay_*",)),
    topic("SERVER", scopes=("demo/firebase-server",)),
]


def short_times(half, **edge):
    """Heartbeats every 0.3 s, lifetime 2 s ± 20 %, header and stall limits of 1 s: time-bound rules seen quickly."""
    times = {"heartbeat": "300ms", "streamLifetime": "2s", "writeStallLimit": "1s", "headerTimeout": "1s"}
    return config(half, edge={**times, **edge})


def stall_limit(half, seconds=2):
    return config(half, edge={"writeStallLimit": f"{seconds}s"}, store={"maxVersions": 300})


def many_connections(half):
    """Ten thousand streams from one address."""
    return config(half, edge={"maxConnections": 15000, "maxConnectionsPerAddress": 0})


def small_disk(half):
    """Publishes are refused below 1 MiB of free space, so that a small tmpfs suffices."""
    return config(half, store={"minFreeSpace": "1MiB"})


def no_free_space_check(half):
    """Only the file system itself says that it is full."""
    return config(half, store={"minFreeSpace": "0B"})


def origins(half, *allowed):
    return config(half, edge={"allowedOrigins": list(allowed)})
