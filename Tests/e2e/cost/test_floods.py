"""Strangers with wrong credentials, as many as come: each is refused, and what is published meanwhile reaches each client. How
much later than without them is a figure; so is what other answers of the same daemon, and of nginx, cost."""

import asyncio
import secrets
import subprocess
import time
from pathlib import Path

import pytest

from harness import configs, ports
from harness.daemon import LONG
from harness.figures import alone_when_long, percentile, record
from harness.keys import make_key
from harness.swarm import Swarm
from harness.templates import marked
from harness.tokens import Key, auth, b64, dump, good, issuer, key_set

RATE, STREAMS, PUBLISHES = (10_000, 2_000, 40) if LONG else (1_000, 300, 8)
TURNS = 3 if LONG else 1
EVENTS, CONNECTIONS = "/v1/events?topic=PUSH_RC", 256

NGINX = """
daemon off; worker_processes 1; pid {0}/pid; error_log {0}/errors; events {{ worker_connections 1024; }}
http {{ access_log off; keepalive_requests 1000000000; server {{ listen 127.0.0.1:{1}; default_type application/json;
location / {{ return 401 '{{"error":{{"code":401,"message":"no","status":"UNAUTHENTICATED"}}}}'; }} }} }}
"""


@pytest.fixture
def nginx(tool, tmp_path):
    """The port where another program refuses each client."""
    port, program = ports.free(), tool("nginx")
    (tmp_path / "nginx.conf").write_text(NGINX.format(tmp_path, port))
    process = subprocess.Popen([program, "-p", tmp_path, "-e", tmp_path / "errors", "-c", tmp_path / "nginx.conf"])
    while not (tmp_path / "pid").exists():
        assert process.poll() is None, "nginx does not start"
        time.sleep(0.01)
    yield port
    process.terminate()
    process.wait()


@pytest.fixture
def flood(tool, tmp_path):
    """`flood(port, target, lines, seconds)`: a process that sends these credentials in turn, or None without a port."""
    program = tmp_path / "flood"
    source = Path(__file__).parents[1] / "harness" / "flood.c"
    subprocess.run([tool("gcc"), "-O2", "-o", program, source], check=True)

    def begin(port, target, lines, seconds):
        (tmp_path / "lines").write_text("\n".join(lines) + "\n")
        words = [port, RATE, seconds, CONNECTIONS, target, tmp_path / "lines"]
        return subprocess.Popen([program, *map(str, words)], stdout=subprocess.PIPE, text=True)

    return begin


def forged(count):
    """Well-made tokens with keys that are known and signatures that are none, each another."""
    head, claims = b64(dump({"alg": "ES256", "typ": "JWT", "kid": "k1"})), good()
    return [f"Bearer {head}.{b64(dump({**claims, 'jti': str(number)}))}.{b64(secrets.token_bytes(64))}"
            for number in range(count)]


async def latencies(client, swarm):
    """Milliseconds from before each publish until each stream had it."""
    loop, found = asyncio.get_running_loop(), []
    for number in range(PUBLISHES):
        begin = loop.time()
        version = await client.publish(marked(str(number)))
        found += [1000 * (time - begin) for time in await asyncio.to_thread(swarm.message_times, version)]
        await asyncio.sleep(0.12)
    return sorted(found)


@alone_when_long
@pytest.mark.limit(600)
async def test_a_flood_of_wrong_credentials_loses_nothing(request, launch, tmp_path, flood):
    (tmp_path / "keys").write_bytes(key_set(Key()))
    daemon, other = (launch(configs.config(edge={"maxConnectionsPerAddress": 0}, auth=auth(issuer(tmp_path / "keys"))))
                     for _ in range(2))
    watch = {"actions": ["watch"], "projects": ["demo"]}
    key, foreign = [(await make_key(one, watch))[1] for one in (daemon, other)]
    swarm = await asyncio.to_thread(Swarm, daemon.edge, STREAMS, fields=(f"Authorization: Bearer {key}",))
    client, seconds = daemon.client(), 0.25 * PUBLISHES + 2
    kinds = {"wrong key": (daemon.edge, EVENTS, [f"Bearer {foreign}"]),
             "junk": (daemon.edge, EVENTS, [f"Bearer {secrets.token_hex(20)}" for _ in range(5000)]),
             "forged": (daemon.edge, EVENTS, forged(int(RATE * seconds)))}
    if LONG:
        # Figures set them beside other answers.
        kinds |= {"none": None, "nginx": (request.getfixturevalue("nginx"), "/", ["x"]),
                  "healthz": (daemon.edge, "/healthz", ["x"])}
    slowest = {kind: [] for kind in kinds}
    for _ in range(TURNS):
        for kind, target in kinds.items():
            process = flood(*target, seconds) if target else None
            await asyncio.sleep(0.4)
            slowest[kind].append(percentile(await latencies(client, swarm), 0.99))
            if process:
                said = await asyncio.to_thread(process.communicate)
                counts = {int(status) if status.isdigit() else status: int(count)
                          for status, count in map(str.split, said[0].splitlines())}
                assert process.returncode == 0 and counts.pop("unanswered") == 0, (kind, said)
                # 503: more tokens at once than are looked at.
                assert set(counts) <= ({200} if kind == "healthz" else {401, 503}), (kind, counts)
                record(f"flood, {kind}", answered=sum(counts.values()), **{f"status_{one}": counts[one] for one in counts})
    middle = {kind: sorted(times)[len(times) // 2] for kind, times in slowest.items()}
    if LONG:
        record("floods, p99 of deliveries over none", none_ms=middle["none"],
               **{kind.replace(" ", "_"): middle[kind] / middle["none"] for kind in kinds})
    client.close()
    swarm.close()
