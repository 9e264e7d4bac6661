"""What a client costs that says who it is, beside one that does not."""

import asyncio

import pytest

from harness import configs
from harness.swarm import Swarm
from harness.templates import marked

pytestmark = pytest.mark.busy

CLIENTS = 10_000
ROUNDS = 5


async def cost(launch, half, name):
    """Bytes of memory for each stream, and microseconds of CPU for each connection and each delivery."""
    daemon = launch(configs.many_connections(half), half=half)
    await daemon.publish(marked("first"))
    memory, used = daemon.memory(), daemon.cpu_seconds()
    swarm = await asyncio.to_thread(Swarm, daemon.edge, CLIENTS, name=name)
    connecting = daemon.cpu_seconds() - used
    memory = daemon.memory() - memory
    delivering = 0
    for number in range(ROUNDS):
        used = daemon.cpu_seconds()
        version = await daemon.publish(marked(str(number)))
        await asyncio.to_thread(swarm.message_times, version)
        delivering += daemon.cpu_seconds() - used
    clients = (await daemon.status())["clients"]
    swarm.close()
    daemon.stop()
    return memory / CLIENTS, connecting / CLIENTS * 1e6, delivering / CLIENTS / ROUNDS * 1e6, clients


@pytest.mark.limit(300)
async def test_ten_thousand_clients_with_names(launch, half):
    plain = await cost(launch, half, None)
    named = await cost(launch, half, "client-")
    for kind, (memory, connecting, delivering, _) in (("anonymous", plain), ("identified", named)):
        print(f"{half}, {kind}: {memory:.0f} bytes a stream, {connecting:.1f} us a connection, "
              f"{delivering:.2f} us a delivery")
    clients = named[3]
    print(f"{half}: the table has {clients['bytes'] / CLIENTS:.0f} bytes a client")
    assert (plain[3]["known"], clients["known"], clients["live"], clients["samplingRate"]) == (0, CLIENTS, CLIENTS, 1)
    assert clients["bytes"] / CLIENTS < 128, "an entry and a name beside it"
