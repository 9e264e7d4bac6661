"""Who is behind a proxy: told by PROXY headers and X-Forwarded-For of trusted proxies, and by no other peer."""

import asyncio
import http.client
import json
import socket
import struct
import subprocess
import time
from pathlib import Path

import pytest

from harness import configs, ports
from harness.authority import Authority
from harness.caches import NGINX_FOLDERS
from harness.http2 import Client
from harness.keys import make_key
from harness.templates import marked
from harness.tls import tls, trusting
from harness.waiting import eventually

CLIENT, STRANGER, ELSEWHERE = "127.0.0.5", "127.0.0.9", "203.0.113.7"
SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
GUESS = "stc_s_0123456789_0123456789012345678901234567890123456789012abcdef"
HAPROXY = """
defaults
    mode tcp
    timeout connect 5s
    timeout client 60s
    timeout server 60s
frontend f
    bind 127.0.0.1:{port}
    default_backend b
backend b
    server s 127.0.0.1:{edge} {option}
"""
NGINX = """
daemon off; pid {dir}/nginx.pid; error_log {dir}/error.log;
events {{}}
http {{
    access_log off;
""" + NGINX_FOLDERS + """    server {{
        listen 127.0.0.1:{port};
        location / {{
            proxy_pass http://127.0.0.1:{edge}; proxy_buffering off; proxy_http_version 1.1;
            proxy_set_header Connection ""; proxy_set_header {header};
        }}
    }}
}}
"""
NGINX_STREAM = """
load_module {module};
daemon off; pid {dir}/nginx.pid; error_log {dir}/error.log;
events {{}}
stream {{ server {{ listen 127.0.0.1:{port}; proxy_pass 127.0.0.1:{edge}; proxy_protocol on; }} }}
"""
STREAM_MODULE = Path("/usr/lib/nginx/modules/ngx_stream_module.so")


def trusting_proxies(half, *, edge=None, control=None, **more):
    """A configuration in which 127.0.0.1 is a proxy."""
    trusted = {"trustedProxies": ["127.0.0.1"]}
    return configs.config(half, edge={**trusted, **(edge or {})}, control={**trusted, **(control or {})}, **more)


def v2(source=None, *, target="127.0.0.1", extra=b""):
    """A header of version 2; without a source it is LOCAL."""
    if source is None:
        return SIGNATURE + b"\x20\0" + struct.pack(">H", len(extra)) + extra
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    rest = socket.inet_pton(family, source) + socket.inet_pton(family, target) + struct.pack(">HH", 40000, 443) + extra
    return SIGNATURE + (b"\x21\x21" if ":" in source else b"\x21\x11") + struct.pack(">H", len(rest)) + rest


def v1(source, target="127.0.0.1"):
    return f"PROXY TCP{6 if ':' in source else 4} {source} {target} 40000 443\r\n".encode()


def connect(port, source="127.0.0.1"):
    plain = socket.socket()
    plain.settimeout(15)
    plain.bind((source, 0))
    plain.connect(("127.0.0.1", port))
    return plain


def request(client, *fields):
    lines = [f"GET /v1/events?topic=PUSH_RC&client={client} HTTP/1.1", "Host: 127.0.0.1", *fields, "", ""]
    return "\r\n".join(lines).encode()


def read_until(stream, words):
    text = b""
    while words not in text:
        more = stream.recv(1 << 16)
        assert more, f"it ended before {words!r}: {text!r}"
        text += more
    return text


def is_closed(stream):
    """Whether the daemon ends the connection without a word."""
    try:
        return stream.recv(1 << 16) == b""
    except ConnectionResetError:
        return True


async def address_of(daemon, client):
    answer = await daemon.ask_control(f"/v1/projects/demo/remoteConfig/propagation:laggards?client={client}")
    [row] = answer.json()["laggards"]
    return row["address"]


@pytest.fixture
def proxy(tool, tmp_path):
    """`proxy(name, text, edge)`: a started proxy with this configuration."""
    started = []

    def start(name, text, edge, **values):
        directory = tmp_path / f"proxy{len(started)}"
        directory.mkdir()
        port = ports.free()
        file = directory / "proxy.conf"
        file.write_text(text.format(dir=directory, port=port, edge=edge, **values))
        command = [tool("nginx"), "-p", str(directory), "-c"] if name == "nginx" else [tool("haproxy"), "-W", "-db", "-f"]
        started.append(subprocess.Popen([*command, str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

        def accepts():
            assert started[-1].poll() is None, f"{name} ended"
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return True
            except OSError:
                return False

        for _ in range(500):
            if accepts():
                return port
            time.sleep(0.01)
        raise AssertionError(f"{name} does not accept")

    yield start
    for process in started:
        process.terminate()
        process.wait(10)


@pytest.mark.parametrize("option", ("send-proxy-v2", "send-proxy", "send-proxy-v2 proxy-v2-options unique-id,crc32c"))
@pytest.mark.parametrize("sealed", (False, True), ids=("plain", "tls"))
async def test_haproxy_tells_who_connects(launch, proxy, tmp_path, half, option, sealed):
    authority = Authority(tmp_path)
    edge = {"proxyProtocol": True, **({"tls": tls(authority)} if sealed else {})}
    daemon = launch(trusting_proxies(half, edge=edge), half=half)
    await daemon.client().publish(marked("one"))
    port = proxy("haproxy", HAPROXY, daemon.edge, option=option)
    stream = connect(port, CLIENT)
    if sealed:
        stream = trusting(authority).wrap_socket(stream, server_hostname="127.0.0.1")
    # What is in front of PROXY headers knows nothing of HTTP: its clients' words are not its own.
    stream.sendall(request("a", f"X-Forwarded-For: {ELSEWHERE}"))
    read_until(stream, b"event: synced")
    assert await address_of(daemon, "a") == CLIENT
    version = await daemon.client().publish(marked("two"))
    read_until(stream, b'"latestTemplateVersionNumber":"%d"' % version)
    stream.close()


@pytest.mark.parametrize("sealed", (False, True), ids=("plain", "tls"))
async def test_nginx_passes_connections_on_and_tells_whose(launch, proxy, tmp_path, half, sealed):
    if not STREAM_MODULE.exists():
        pytest.skip("needs nginx's stream module (libnginx-mod-stream)")
    authority = Authority(tmp_path)
    edge = {"proxyProtocol": True, **({"tls": tls(authority)} if sealed else {})}
    daemon = launch(trusting_proxies(half, edge=edge), half=half)
    stream = connect(proxy("nginx", NGINX_STREAM, daemon.edge, module=STREAM_MODULE), CLIENT)
    if sealed:
        stream = trusting(authority).wrap_socket(stream, server_hostname="127.0.0.1")
    stream.sendall(request("a"))
    read_until(stream, b"event: synced")
    assert await address_of(daemon, "a") == CLIENT
    version = await daemon.client().publish(marked("one"))
    read_until(stream, b'"latestTemplateVersionNumber":"%d"' % version)
    stream.close()


@pytest.mark.parametrize("header", (v2, v1))
async def test_a_header_may_come_in_any_pieces_and_only_from_a_proxy(launch, half, header):
    daemon = launch(trusting_proxies(half, edge={"proxyProtocol": True}), half=half)
    for client, source in (("a", ELSEWHERE), ("b", "2001:db8::7")):
        start = header(source, target="::1" if ":" in source else "127.0.0.1")
        for name, pieces in ((client, [bytes([byte]) for byte in start] + [request(client)]),
                             (client * 2, [start + request(client * 2)])):
            stream = connect(daemon.edge)
            stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                stream.sendall(piece)
                await asyncio.sleep(0)
            read_until(stream, b"event: synced")
            assert (await address_of(daemon, name)).startswith("203.0.113.7" if client == "a" else "2001:db8:")
            stream.close()
    stranger = connect(daemon.edge, STRANGER)
    try:
        stranger.sendall(header(ELSEWHERE) + request("spoofed"))
    except OSError:
        pass
    assert is_closed(stranger), "who is no proxy is not let in at all"
    assert await eventually(lambda: daemon.metric("stalecast_connections_refused_total", reason="untrusted_peer"), 1) == 1


WRONG = {
    "no header": request("x"),
    "TLS at once": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    "a signature with one wrong byte": b"\r\n\r\n\0\r\nQUIT\r" + v2(ELSEWHERE)[12:],
    "version 3": SIGNATURE + b"\x31\x11" + v2(ELSEWHERE)[14:],
    "an unknown command": SIGNATURE + b"\x22\x11" + v2(ELSEWHERE)[14:],
    "datagrams": SIGNATURE + b"\x21\x12" + v2(ELSEWHERE)[14:],
    "too short for its addresses": SIGNATURE + b"\x21\x11\0\x0b" + b"\x01" * 11,
    "longer than any": SIGNATURE + b"\x21\x11\xff\xff",
    "a line without addresses": b"PROXY TCP4\r\n",
    "a line with a name": b"PROXY TCP4 localhost 127.0.0.1 1 2\r\n",
    "a line of the wrong family": b"PROXY TCP6 203.0.113.7 127.0.0.1 1 2\r\n",
    "a line with a large port": b"PROXY TCP4 203.0.113.7 127.0.0.1 65536 2\r\n",
    "a line that ends with LF alone": b"PROXY TCP4 203.0.113.7 127.0.0.1 1 2\n",
    "a line that does not end": b"PROXY UNKNOWN " + b"x" * 120,
}


async def test_a_proxy_without_a_good_header_is_closed(launch, half):
    daemon = launch(trusting_proxies(half, edge={"proxyProtocol": True}), half=half)
    for words, text in WRONG.items():
        stream = connect(daemon.edge)
        stream.sendall(text)
        assert is_closed(stream), words
    assert await eventually(lambda: daemon.metric("stalecast_connections_refused_total", reason="proxy_header"), len(WRONG)) == len(WRONG)
    for words, text in {"LOCAL": v2(), "LOCAL with TLVs": v2(extra=b"\x04\0\1\0"), "UNKNOWN": b"PROXY UNKNOWN\r\n",
                        "UNSPEC": SIGNATURE + b"\x21\0\0\0"}.items():
        stream = connect(daemon.edge)
        stream.sendall(text + request("local"))
        read_until(stream, b"event: synced")
        stream.close()
        assert await address_of(daemon, "local") == "127.0.0.1", words
    assert await eventually(lambda: daemon.metric("stalecast_connections"), 0) == 0


@pytest.mark.parametrize("field,header", (
    ("x-forwarded-for", "X-Forwarded-For $proxy_add_x_forwarded_for"),
    ("forwarded", 'Forwarded "$http_forwarded, for=$remote_addr;proto=http"')))
async def test_nginx_tells_whose_request_it_is(launch, proxy, half, field, header):
    daemon = launch(trusting_proxies(half, edge={"forwardedField": field}), half=half)
    port = proxy("nginx", NGINX, daemon.edge, header=header)
    lie = "X-Forwarded-For: 203.0.113.9" if field == "x-forwarded-for" else 'Forwarded: for=203.0.113.9;by="'
    stream = connect(port, CLIENT)
    stream.sendall(request("a", lie))
    read_until(stream, b"event: synced")
    assert await address_of(daemon, "a") == CLIENT
    # The field that does not count is passed on as it came.
    other = "Forwarded: for=203.0.113.9" if field == "x-forwarded-for" else "X-Forwarded-For: 203.0.113.9"
    second = connect(port, CLIENT)
    second.sendall(request("b", other))
    read_until(second, b"event: synced")
    assert await address_of(daemon, "b") == CLIENT
    stream.close()
    second.close()


async def test_a_stranger_cannot_say_who_it_is(launch, half):
    daemon = launch(trusting_proxies(half), half=half)
    stream = connect(daemon.edge, STRANGER)
    stream.sendall(request("a", f"X-Forwarded-For: {ELSEWHERE}"))
    read_until(stream, b"event: synced")
    assert await address_of(daemon, "a") == STRANGER
    stream.close()


async def test_each_request_of_a_proxys_connection_has_its_own_client(launch, half):
    daemon = launch(trusting_proxies(half, edge={"maxConnectionsPerAddress": 1}), half=half)
    connection = http.client.HTTPConnection("127.0.0.1", daemon.edge, timeout=15)

    def poll(name, *addresses):
        connection.request("GET", f"/v1/poll?topic=PUSH_RC&wait=0s&client={name}", headers={
            "X-Forwarded-For": ", ".join(addresses)} if addresses else {})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    assert poll("a", "6.6.6.6", ELSEWHERE) == 200 and poll("b", "203.0.113.8", "127.0.0.1") == 200
    assert poll("c") == 200 and poll("d", "203.0.113.8", "nonsense") == 200
    found = [await address_of(daemon, name) for name in "abcd"]
    assert found == [ELSEWHERE, "203.0.113.8", "127.0.0.1", "127.0.0.1"]
    # Streams count for their clients, not for the proxy.
    streams = [connect(daemon.edge) for _ in range(3)]
    for stream, address in zip(streams, (ELSEWHERE, "203.0.113.8", ELSEWHERE), strict=True):
        stream.sendall(request("s", f"X-Forwarded-For: {address}"))
        read_until(stream, b"retry: ")
    assert is_closed(streams[2])
    assert await eventually(lambda: daemon.metric("stalecast_connections_refused_total", reason="address_capacity"), 1) == 1
    assert await daemon.metric("stalecast_streams") == 2
    for stream in streams:
        stream.close()
    connection.close()
    assert await eventually(lambda: daemon.metric("stalecast_connections"), 0) == 0


async def test_each_stream_of_a_proxys_http2_connection_has_its_own_client(launch, tmp_path, half):
    authority = Authority(tmp_path)
    daemon = launch(trusting_proxies(half, edge={"tls": tls(authority)}), half=half)
    connection = await Client(daemon.edge, authority).open()
    said = {"a": f"6.6.6.6, {ELSEWHERE}", "b": "203.0.113.8, 127.0.0.1", "c": None, "d": "nonsense"}
    for name, addresses in said.items():
        fields = {"x-forwarded-for": addresses} if addresses else {}
        connection.ask(f"/v1/events?topic=PUSH_RC&client={name}", **fields)
    await connection.until(lambda: sum(b"event: synced" in body for body in connection.bodies.values()) == len(said))
    found = [await address_of(daemon, name) for name in said]
    assert found == [ELSEWHERE, "203.0.113.8", "127.0.0.1", "127.0.0.1"]
    connection.close()


@configs.one_half
@pytest.mark.parametrize("listener", ("edge", "control"))
async def test_who_guesses_behind_a_proxy_is_told_to_stop(launch, half, listener):
    daemon = launch(trusting_proxies(half, auth={"mode": "enforce"}), half=half)
    _, good = await make_key(daemon, {"actions": ["watch", "read"]})
    port, target = {"edge": (daemon.edge, "/v1/poll?topic=PUSH_RC&wait=0s"),
                    "control": (daemon.control, "/v1/projects/demo/topics")}[listener]

    def status(credential, forwarded, source="127.0.0.1"):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=15, source_address=(source, 0))
        connection.request("GET", target, headers={
            "Authorization": f"Bearer {credential}", "X-Forwarded-For": forwarded})
        answer = connection.getresponse()
        connection.close()
        return answer.status

    codes = [status(GUESS, f"6.6.6.{number}, {ELSEWHERE}") for number in range(60)]
    assert codes[:20] == [401] * 20 and 429 in codes, codes
    assert status(good, ELSEWHERE) == 200
    assert {status(GUESS, ELSEWHERE, STRANGER) for _ in range(40)} == {401}, "of a stranger it is not believed"


@pytest.mark.parametrize("sealed", (False, True), ids=("plain", "tls"))
@pytest.mark.parametrize("said", ("send-proxy-v2", "send-proxy", "forwarded"))
async def test_control_writes_down_who_it_was_behind_a_proxy(launch, proxy, tmp_path, said, sealed):
    authority = Authority(tmp_path)
    section = {"tls": tls(authority)} if sealed else {}
    daemon = launch(trusting_proxies("engine", control={"proxyProtocol": said != "forwarded", **section}))
    port = daemon.control if said == "forwarded" else proxy("haproxy", HAPROXY, daemon.control, option=said)
    context = trusting(authority) if sealed else None
    connection = (http.client.HTTPSConnection("127.0.0.1", port, context=context) if sealed
                  else http.client.HTTPConnection("127.0.0.1", port))
    connection.timeout, connection.source_address = 15, ("127.0.0.1" if said == "forwarded" else CLIENT, 0)
    connection.request("PUT", "/v1/projects/demo/remoteConfig", json.dumps(marked("one")), {
        "Authorization": f"Bearer {daemon.token}", "If-Match": "*", "X-Forwarded-For": f"6.6.6.6, {ELSEWHERE}"})
    assert connection.getresponse().status == 200
    last = json.loads((daemon.data / "audit.jsonl").read_text().splitlines()[-1])
    assert last["ip"] == (ELSEWHERE if said == "forwarded" else CLIENT)
    if said != "forwarded":
        for source, start in ((STRANGER, v2(ELSEWHERE)), ("127.0.0.1", b"")):
            stream = connect(daemon.control, source)
            try:
                stream.sendall(start)
                if sealed:
                    # Of a connection that was reset, only this asks for the handshake.
                    asked = context.wrap_socket(stream, server_hostname="127.0.0.1", do_handshake_on_connect=False)
                    asked.do_handshake()
                    raise AssertionError(f"{source} was let in, with {start!r}")
                stream.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            except OSError:
                continue
            assert is_closed(stream)


async def test_a_proxy_protocol_without_proxies_is_refused(launch):
    daemon = launch(configs.config(edge={"proxyProtocol": True}), start=False)
    daemon.spawn()
    assert daemon.wait() == 78
    assert "edge.proxyProtocol admits no client without edge.trustedProxies" in daemon.log_text()
