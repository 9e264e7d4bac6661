"""Names that lead elsewhere than they did: the address that is dialled is judged, each time, with no regard to earlier answers of DNS.

In networks of its own: nothing leaves the machine, although the receiver's 11.0.0.1 is public by its class."""

import contextlib
import socket

import pytest

from harness import configs
from harness.namespaces import Far, Hosts, own_network
from harness.receiver import Answer, Receiver
from harness.templates import marked
from harness.webhooks import Webhooks, acknowledged

PUBLIC, SILENT, OURS = "11.0.0.1", "11.0.0.2", "11.0.9.9"
PRIVATE = ["127.0.0.1", "10.0.0.1", "192.168.7.7", "100.64.0.1", "169.254.169.254", "168.63.129.16"]
CLOSING = Answer(204, (("Connection", "close"),), then="close")


@pytest.fixture
def far():
    """Another machine, with all addresses but 127.0.0.1 and the daemon's own public one."""
    with own_network(OURS), Far(PUBLIC, SILENT, *PRIVATE[1:]) as far:
        yield far


@pytest.fixture
def public(far):
    with far.inside():
        receiver = Receiver(lambda _: CLOSING, host=PUBLIC)
    with receiver:
        yield receiver


@pytest.fixture
def traps(far, public):
    """A listener on each private address, on the public receiver's port."""
    traps = [Receiver(host=PRIVATE[0], port=public.port)]
    with far.inside():
        traps += [Receiver(host=address, port=public.port) for address in PRIVATE[1:]]
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(trap) for trap in traps]


def armed(traps):
    """Every trap can catch: a connection of ours is seen."""
    for trap in traps:
        with socket.create_connection((trap.host, trap.port)) as probe:
            probe.sendall(b"GET /probe HTTP/1.1\r\n\r\n")
            trap.wait_for(1)
        trap.connections = 0


def caught(traps):
    return [trap.host for trap in traps if trap.connections]


@pytest.fixture
def place(launch, tmp_path, public):
    """`(daemon, hosts)`: no address is allowed beyond the public ones."""
    hosts = Hosts(tmp_path / "hosts", hook=PUBLIC)
    daemon = launch(configs.config(), start=False)
    hosts.show_to(daemon)
    daemon.start()
    return daemon, hosts


async def test_a_name_that_turns_private_is_refused_like_a_closed_port(place, public, traps):
    daemon, hosts = place
    hooks = Webhooks(daemon)
    armed(traps)
    made = await hooks.add(f"http://hook.test:{public.port}/")
    await hooks.until(made, acknowledged(await daemon.publish(marked("one"))))
    assert len(public.arrivals) == 1
    hosts.tell(hook=SILENT)
    closed = (await hooks.act(made, "test"))["attempt"]
    hosts.tell(hook=PRIVATE[0])
    version = await daemon.publish(marked("two"))
    [attempt, *_] = await hooks.until_attempts(made, lambda found: found[0].get("versionNumber") == str(version))
    refusals = [attempt]
    for address in PRIVATE:
        hosts.tell(hook=address)
        refusals.append((await hooks.act(made, "test"))["attempt"])
    for refused in refusals:
        assert (refused["outcome"], refused["problem"]) == (closed["outcome"], closed["problem"]), refused
        assert refused["outcome"] == "no_connection" and "status" not in refused and "response" not in refused
    assert caught(traps) == []
    assert await daemon.metric("stalecast_webhook_blocked_total") == len(refusals)
    hosts.tell(hook=PUBLIC)
    await hooks.act(made, "enable")
    await hooks.until(made, acknowledged(version))
    assert len(public.arrivals) == 2


async def test_of_a_names_addresses_only_the_public_one_is_called(place, public, traps):
    daemon, hosts = place
    hooks = Webhooks(daemon)
    armed(traps)
    # Not more: libcurl waits a while after each address that was refused.
    hosts.tell(hook=[*PRIVATE[:2], PUBLIC])
    made = await hooks.add(f"http://hook.test:{public.port}/")
    for index in range(5):
        await hooks.until(made, acknowledged(await daemon.publish(marked(str(index)))))
    assert public.connections == 5 and caught(traps) == []


async def test_what_one_webhook_may_call_another_with_the_same_name_may_not(place, public, traps):
    """One name and port, two profiles: the connection of one is no use to the other."""
    daemon, hosts = place
    hooks = Webhooks(daemon)
    [trap] = [trap for trap in traps if trap.host == "10.0.0.1"]
    hosts.tell(hook=trap.host)
    inside = await hooks.add(f"http://hook.test:{public.port}/", addressProfile="internal")
    assert (await hooks.act(inside, "test"))["attempt"]["status"] == 204
    assert trap.connections == 1, "it stands"
    outside = await hooks.add(f"http://hook.test:{public.port}/")
    assert (await hooks.act(outside, "test"))["attempt"]["outcome"] == "no_connection"
    assert len(trap.arrivals) == 1


async def test_many_names_are_called_at_once_and_again(place, public):
    """Each needs its lookup; none waits for another's, and none is lost."""
    daemon, hosts = place
    hooks = Webhooks(daemon)
    hosts.tell(**{f"h{index}": PUBLIC for index in range(40)})
    made = [await hooks.add(f"http://h{index}.test:{public.port}/{index}") for index in range(40)]
    for marker in ("one", "two", "three"):
        version = await daemon.publish(marked(marker))
        for each in made:
            await hooks.until(each, acknowledged(version))
    outcomes = {attempt["outcome"] for each in made for attempt in await hooks.attempts(each)}
    assert outcomes == {"2xx"} and len(public.arrivals) == 120


async def test_the_daemon_does_not_call_itself(launch, far):
    text = configs.config(edge={"proxied": True}, control={"proxied": True})
    daemon = launch(text, start=False)
    command = daemon.command
    daemon.command = lambda *flags: [word.replace("127.0.0.1:", "0.0.0.0:") for word in command(*flags)]
    daemon.start()
    hooks = Webhooks(daemon)
    for port in (daemon.control, daemon.edge):
        made = await hooks.add(f"http://{OURS}:{port}/v1/projects/demo/webhooks", paused=True)
        assert (await hooks.act(made, "test"))["attempt"]["outcome"] == "no_connection"
