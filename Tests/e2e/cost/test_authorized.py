"""Cost of a stream whose client was authenticated, beside an anonymous one: both in one daemon, published to in turn, so
that what the machine does besides is in both."""

import asyncio
import statistics

import pytest

from harness import configs
from harness.daemon import LONG
from harness.figures import record
from harness.keys import make_key
from harness.swarm import Swarm
from harness.templates import marked
from harness.tokens import Key, auth, good, issuer, key_set
from harness.waiting import eventually

CLIENTS = 7_000 if LONG else 2_000
ROUNDS = 40


@pytest.mark.busy
@pytest.mark.limit(240)
async def test_a_delivery_to_who_is_known_costs_what_any_does(launch, half):
    projects = [{"id": "demo", "number": 1}, {"id": "shop", "number": 2}]
    anybody = [{"actions": ["watch"], "projects": ["demo"]}]
    daemon = launch(configs.config(half, edge={"maxConnections": 15000, "maxConnectionsPerAddress": 0},
                                   projects=projects, auth={"mode": "enforce", "anonymous": anybody}), half=half)
    _, key = await make_key(daemon, {"actions": ["watch"], "projects": ["shop"]})
    clients = {project: daemon.client(project=project) for project in ("demo", "shop")}
    swarms, memory = {}, {}
    for project, fields in (("demo", ()), ("shop", (f"Authorization: Bearer {key}",))):
        # What only the first streams of their kind cost is not theirs.
        first = await asyncio.to_thread(Swarm, daemon.edge, 100, project=project, fields=fields)
        before = daemon.memory()
        swarms[project] = await asyncio.to_thread(Swarm, daemon.edge, CLIENTS, project=project, fields=fields)
        memory[project] = (daemon.memory() - before) / CLIENTS
        first.close()
    used = {"demo": [], "shop": []}
    for number in range(ROUNDS):
        for project in ("demo", "shop") if number % 2 else ("shop", "demo"):
            before = daemon.cpu_seconds()
            version = await clients[project].publish(marked(str(number)))
            await asyncio.to_thread(swarms[project].message_times, version)
            used[project].append((daemon.cpu_seconds() - before) / CLIENTS * 1e6)
    ratio = statistics.median(known / any for any, known in zip(used["demo"], used["shop"]))
    record(f"authorized streams, {half}", anonymous=statistics.median(used["demo"]),
           authorized=statistics.median(used["shop"]), ratio=ratio,
           anonymous_bytes=memory["demo"], authorized_bytes=memory["shop"])
    assert ratio < 1.2, "something is asked on the walk"
    for swarm in swarms.values():
        swarm.close()


STORM, STORMS = (9_000, 8) if LONG else (2_000, 3)


@pytest.mark.busy
async def test_a_storm_of_clients_each_with_a_token_is_taken(launch, half, tmp_path):
    """After a restart all come at once, and no client is known."""
    key = Key()
    (tmp_path / "keys").write_bytes(key_set(key))
    tokens = [key.token(good(sub=f"user-{number}")) for number in range(STORM)]
    carriers = {"anonymous": (), "token": lambda number: [f"Authorization: Bearer {tokens[number]}"]}
    edge = {"maxConnections": 15000, "maxConnectionsPerAddress": 0}
    used = {}
    for name, fields in carriers.items():
        access = {"auth": auth(issuer(tmp_path / "keys"))} if name == "token" else {}
        daemon = launch(configs.config(half, edge=edge, **access), half=half)
        for number in range(STORMS):
            before = daemon.cpu_seconds()
            swarm = await asyncio.to_thread(Swarm, daemon.edge, STORM, at_once=STORM, fields=fields)
            used.setdefault(name, []).append((daemon.cpu_seconds() - before) / STORM * 1e6)
            if number == STORMS - 1:
                version = await daemon.client().publish(marked(name))
                assert len(await asyncio.to_thread(swarm.message_times, version)) == STORM
            swarm.close()
            assert await eventually(lambda: daemon.metric("stalecast_streams"), 0) == 0
        daemon.stop()
    known = {name: statistics.median(values[1:]) for name, values in used.items()}
    record(f"storm of {STORM} tokens, {half}", anonymous=known["anonymous"], known=known["token"],
           new=used["token"][0], ratio=known["token"] / known["anonymous"])
