"""TLS to receivers, counted by the receiver: sessions are resumed, private authorities and client certificates hold."""

import ssl

import pytest

from harness import webhooks
from harness.authority import Authority
from harness.daemon import LONG
from harness.figures import record
from harness.receiver import Answer, Receiver
from harness.templates import marked
from harness.webhooks import Webhooks, acknowledged

CLOSING = Answer(204, (("Connection", "close"),), then="close")
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def tls_config(directory, **more):
    """Webhooks may name the files of the directory."""
    return webhooks.config(webhooks={"filesDirectory": str(directory), **more})


async def handshakes(daemon):
    """Full and resumed, as the daemon counts them."""
    name = "stalecast_webhook_handshakes_total"
    return await daemon.metric(name, kind="full"), await daemon.metric(name, kind="resumed")


def counted(receiver):
    resumed = sum(each.resumed for each in receiver.handshakes)
    return len(receiver.handshakes) - resumed, resumed


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_receiver_that_hangs_up_after_every_answer_resumes_the_session(launch, tmp_path, version):
    tls = Authority(tmp_path).server("127.0.0.1")
    tls.minimum_version = tls.maximum_version = VERSIONS[version]
    daemon = launch(tls_config(tmp_path))
    hooks = Webhooks(daemon)
    with Receiver(lambda _: CLOSING, tls=tls) as receiver:
        made = await hooks.add(receiver.url, tls={"caFile": "ca.pem"})
        for index in range(10):
            await hooks.until(made, acknowledged(await daemon.publish(marked(str(index)))))
        assert receiver.connections == 10, "every answer ended its connection"
        assert counted(receiver) == (1, 9)
        assert await handshakes(daemon) == (1, 9)


MANY = [300, pytest.param(3000, marks=[
    pytest.mark.skipif(not LONG, reason="a minute: STALECAST_LONG=1")])]


@pytest.mark.limit(200)
@pytest.mark.parametrize("count", MANY)
async def test_sessions_of_many_hosts_are_resumed(launch, tmp_path, count):
    hosts = [f"127.0.{index // 200}.{index % 200 + 1}" for index in range(count)]
    tls = Authority(tmp_path).server(*hosts)
    daemon = launch(tls_config(tmp_path))
    hooks = Webhooks(daemon)
    with Receiver(lambda _: CLOSING, host="0.0.0.0", tls=tls) as receiver:
        urls = [f"https://{host}:{receiver.port}/" for host in hosts]
        made = [await hooks.add(url, tls={"caFile": "ca.pem"}) for url in urls]
        for _ in range(3):
            version = await daemon.publish(marked("again"))
            for each in made:
                await hooks.until(each, acknowledged(version), timeout=60)
        full, resumed = counted(receiver)
        record(f"webhooks_tls_{count}", hosts=count, full=full, resumed=resumed)
        assert full == len(hosts), f"{full} full handshakes of {full + resumed} with {len(hosts)} hosts"
        assert await handshakes(daemon) == (full, resumed)


async def test_a_session_is_no_use_to_a_webhook_with_another_authority(launch, tmp_path):
    """Two webhooks of one host and port: what one authority vouched for, another does not."""
    tls = Authority(tmp_path).server("127.0.0.1")
    Authority(tmp_path, "stranger")
    daemon = launch(tls_config(tmp_path))
    hooks = Webhooks(daemon)
    with Receiver(tls=tls) as receiver:
        trusting = await hooks.add(receiver.url, tls={"caFile": "ca.pem"})
        assert (await hooks.act(trusting, "test"))["attempt"]["status"] == 204
        for other in ({"tls": {"caFile": "stranger.pem"}}, {}):
            made = await hooks.add(receiver.url, **other)
            assert (await hooks.act(made, "test"))["attempt"]["outcome"] == "tls_verify"
        assert len(receiver.arrivals) == 1


async def test_each_webhook_shows_its_own_certificate(launch, tmp_path):
    """Also over connections that stand, and to a host that another webhook calls without one."""
    authority = Authority(tmp_path)
    tls = authority.server("127.0.0.1", asks_clients=True)
    for name in ("ann", "bob"):
        authority.certify(name)
    daemon = launch(tls_config(tmp_path))
    hooks = Webhooks(daemon)
    with Receiver(tls=tls) as receiver:
        for name in ("ann", "bob", "ann"):
            files = {"caFile": "ca.pem", "certificateFile": f"{name}.pem", "keyFile": f"{name}.key"}
            made = await hooks.add(f"{receiver.url}/{name}", tls=files)
            for _ in range(2):
                assert (await hooks.act(made, "test"))["attempt"]["status"] == 204
        without = await hooks.add(f"{receiver.url}/nobody", tls={"caFile": "ca.pem"})
        assert (await hooks.act(without, "test"))["attempt"]["outcome"] != "2xx"
        shown = {(arrival.path, receiver.handshakes[arrival.connection - 1].client) for arrival in receiver.arrivals}
        assert shown == {("/ann", "ann"), ("/bob", "bob")}
