"""What a webhook's URL must never reach: this machine and private networks, in any spelling, over any detour.
Listeners on every local address must see not one connection."""

import contextlib
import signal
import socket
import ssl
import subprocess
import threading
import time

import pytest

from harness import configs, webhooks
from harness.receiver import Answer, Receiver
from harness.templates import marked
from harness.webhooks import Refused, Webhooks, acknowledged, versions


class Watch:
    """Listens on one port of every address of this machine, IPv4 and IPv6, and counts what connects."""

    def __init__(self):
        self.connections = []
        self.sockets = [socket.socket(family, socket.SOCK_STREAM) for family in (socket.AF_INET, socket.AF_INET6)]
        four, six = self.sockets
        six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        four.bind(("0.0.0.0", 0))
        self.port = four.getsockname()[1]
        six.bind(("::", self.port))

    def __enter__(self):
        for each in self.sockets:
            each.listen(128)
            threading.Thread(target=self._accept, args=(each,), daemon=True).start()
        return self

    def __exit__(self, *_):
        for each in self.sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listener):
        with contextlib.suppress(OSError):
            while True:
                connection, peer = listener.accept()
                self.connections.append(peer)
                connection.close()

    def check_sees(self):
        """The watch can fail: a connection of ours is seen."""
        socket.create_connection(("127.0.0.1", self.port)).close()
        deadline = time.monotonic() + 5
        while not self.connections:
            assert time.monotonic() < deadline, "the watch is blind"
            time.sleep(0.005)
        self.connections.clear()


@pytest.fixture
def watch():
    with Watch() as watch:
        watch.check_sees()
        yield watch


# Every way to write this machine that a URL parser, a resolver or a kernel might understand.
LOOPBACK = [
    "127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "127.255.255.254", "2130706433", "0x7f000001", "0x7f.0.0.1", "0x7f.1",
    "0177.0.0.1", "017700000001", "0177.1", "127.0.0.0x1", "0", "0.0.0.0", "0x0", "00", "localhost", "LOCALHOST", "localhost.",
    "ip6-localhost", "[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[0::0]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
    "[0:0:0:0:0:ffff:7f00:0001]", "[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::127.0.0.1]", "[64:ff9b::7f00:1]",
    "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2001:0:7f00:1::]", "[::5efe:7f00:1]", "[fe80::1]", "[fe80::5efe:127.0.0.1]",
    "①②⑦.⓪.⓪.①", "127。0。0。1", "%31%32%37.0.0.1", "ⓛocalhost",
]
PRIVATE = [
    "10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254", "192.168.0.1", "100.64.0.1", "100.100.100.200",
    "169.254.169.254", "169.254.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1", "198.51.100.1", "203.0.113.1",
    "224.0.0.1", "240.0.0.1", "255.255.255.255", "168.63.129.16", "0.1.2.3", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376",
    "[fd00:ec2::254]", "[fc00::1]", "[fd12:3456::1]", "[fec0::1]", "[ff02::1]", "[100::1]", "[2001:db8::1]", "[2001:10::1]",
    "[3fff::1]", "[5f00::1]", "[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::1]",
]


@pytest.mark.limit(120)
@pytest.mark.parametrize("profile", ["public", "internal"])
async def test_no_spelling_of_this_machine_is_connected_to(launch, watch, profile):
    daemon = launch(webhooks.config(webhooks={"allowedAddresses": []}))
    hooks = Webhooks(daemon)
    names = [*LOOPBACK, socket.gethostname()] if profile == "public" else LOOPBACK
    registered = {}
    for host in names:
        try:
            registered[host] = await hooks.add(f"http://{host}:{watch.port}/", addressProfile=profile)
        except Refused as refused:
            assert (refused.status, refused.field) == (400, "url"), f"{host}: {refused}"
    # Only names may be registered: they are judged when they are resolved.
    numeric = {host for host in registered if host[0] in "0123456789["} - {"127.0.0.1."}  # which is a name to DNS
    assert {"localhost"} <= set(registered) and not numeric, set(registered)
    await daemon.publish(marked("one"))
    for host, made in registered.items():
        [*_, first] = await hooks.until_attempts(made, lambda found: found)
        assert first["outcome"] in ("no_connection", "dns", "timeout_dns"), f"{host}: {first}"
        tested = (await hooks.act(made, "test"))["attempt"]
        assert tested["outcome"] == first["outcome"] and "status" not in tested, f"{host}: {tested}"
    assert watch.connections == []
    assert await daemon.metric("stalecast_webhook_blocked_total") > 0


@pytest.mark.limit(120)
async def test_private_and_special_networks_are_refused_at_once(launch):
    hooks = Webhooks(launch(webhooks.config()))
    for host in PRIVATE:
        with pytest.raises(Refused) as refused:
            await hooks.add(f"http://{host}/")
        assert refused.value.field == "url", f"{host}: {refused.value}"
    for host in ("10.1.2.3", "172.20.0.1", "192.168.1.1", "[fd12:3456::1]"):
        await hooks.add(f"http://{host}/", addressProfile="internal", paused=True)
    for host in ("169.254.169.254", "100.100.100.200", "168.63.129.16", "224.0.0.1", "[fe80::1]", "[fd00:ec2::254]"):
        with pytest.raises(Refused):
            await hooks.add(f"http://{host}/", addressProfile="internal")


async def test_a_refused_address_looks_the_same_whether_somebody_listens_or_not(launch, watch):
    """Error messages do not help to scan ports; their times may."""
    daemon = launch(webhooks.config(webhooks={"allowedAddresses": []}))
    hooks = Webhooks(daemon)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        free = closed.getsockname()[1]
        told = []
        for port in (watch.port, free):
            made = await hooks.add(f"http://localhost:{port}/")
            attempt = (await hooks.act(made, "test"))["attempt"]
            told.append((attempt["outcome"], attempt["problem"].replace(str(port), "PORT")))
    assert told[0] == told[1] and watch.connections == []
    # An allowed address is no different: refused and blocked read alike.
    other = launch(webhooks.config())
    made = await Webhooks(other).add(f"http://127.0.0.1:{free}/")
    attempt = (await Webhooks(other).act(made, "test"))["attempt"]
    assert attempt["outcome"] == told[0][0]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_lead_nowhere(launch, watch, status):
    """The receiver is allowed, where it points to is not; and what is allowed is not followed either."""
    daemon = launch(webhooks.config(webhooks={"allowedAddresses": ["127.0.0.2/32"]}))
    hooks = Webhooks(daemon)
    with Receiver(host="127.0.0.2") as allowed:
        targets = [f"http://127.0.0.1:{watch.port}/", "http://169.254.169.254/latest/meta-data/", f"{allowed.url}/followed",
                   f"//localhost:{watch.port}/", "file:///etc/passwd", f"gopher://127.0.0.1:{watch.port}/"]
        answers = {f"/{index}": Answer(status, (("Location", target),)) for index, target in enumerate(targets)}
        allowed.answer = lambda arrival: answers.get(arrival.path, Answer())
        for index in range(len(targets)):
            made = await hooks.add(f"{allowed.url}/{index}")
            attempt = (await hooks.act(made, "test"))["attempt"]
            assert (attempt["outcome"], attempt["status"]) == ("3xx", status)
        assert {arrival.path for arrival in allowed.arrivals} == set(answers)
    assert watch.connections == []


@pytest.mark.parametrize("variable", ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "https_proxy"])
async def test_a_proxy_of_the_environment_is_not_used(launch, watch, monkeypatch, variable):
    monkeypatch.setenv(variable, f"http://127.0.0.1:{watch.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as receiver:
        made = await hooks.add(receiver.url)
        version = await daemon.publish(marked("one"))
        await hooks.until(made, acknowledged(version))
        assert receiver.arrivals[0].path == "/"
    assert watch.connections == []


async def test_a_connection_that_stands_is_not_used_under_a_stricter_rule(launch):
    daemon = launch(webhooks.config())
    hooks = Webhooks(daemon)
    with Receiver() as receiver:
        made = await hooks.add(receiver.url)
        version = await daemon.publish(marked("one"))
        await hooks.until(made, acknowledged(version))
        assert receiver.connections == 1
        daemon.configure(configs.config())
        daemon.signal(signal.SIGHUP)
        while "configuration reloaded" not in daemon.log_text():
            await webhooks.pause()
        await daemon.publish(marked("two"))
        attempts = await hooks.until_attempts(made, lambda found: found[0]["outcome"] != "2xx")
        assert attempts[0]["outcome"] == "no_connection"
        assert versions(receiver.arrivals) == [version], "nothing was sent over the connection that stands"


async def test_what_the_file_names_is_judged_too(launch, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n")
    receivers = [{"name": "x", "url": "http://127.0.0.1:1/", "secretFiles": [str(secret)]}]
    daemon = launch(webhooks.config(webhooks={"allowedAddresses": [], "receivers": receivers}), start=False)
    daemon.spawn()
    assert daemon.wait() == 1
    assert "127.0.0.1" in daemon.log_tail(3) and "allowedAddresses" in daemon.log_tail(3)


async def test_certificates_are_checked(launch, tmp_path):
    """A self-signed receiver is refused, unless its authority is the webhook's own."""
    certificate, key = tmp_path / "ca.pem", tmp_path / "key.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                   check=True, capture_output=True)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    daemon = launch(webhooks.config(webhooks={"filesDirectory": str(tmp_path)}))
    hooks = Webhooks(daemon)
    with Receiver(tls=tls) as receiver:
        made = await hooks.add(receiver.url)
        refused = (await hooks.act(made, "test"))["attempt"]
        assert refused["outcome"] == "tls_verify" and not receiver.arrivals
        await hooks.update(made, tls={"caFile": "ca.pem"})
        taken = (await hooks.act(made, "test"))["attempt"]
        assert taken["status"] == 204 and taken["phasesMs"]["tls"] > 0
        for name in ("../ca.pem", "/etc/passwd", "a/b"):
            with pytest.raises(Refused) as error:
                await hooks.update(made, tls={"caFile": name})
            assert error.value.field == "tls.caFile"
