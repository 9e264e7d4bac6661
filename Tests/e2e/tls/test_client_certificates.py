"""Who shows a certificate is who it says: SPIFFE ids and DNS names, mapped by rules, on streams, polls and at Control."""

import http.client
import json
import signal
import socket
import ssl
import subprocess

import pytest

from harness import configs
from harness.authority import KEY, Authority, openssl
from harness.tls import Stream, tls, trusting

RULES = [
    {"san": "spiffe://shop.example/ns/web/*", "actions": ["watch"], "projects": ["demo"]},
    {"san": "ci.shop.example", "role": "publisher", "projects": ["demo"]},
]


def certify(authority, name, sans):
    """Paths of a client's certificate with these alternative names."""
    certificate, key = authority.directory / f"{name}.pem", authority.directory / f"{name}.key"
    openssl("req", "-x509", *KEY, "-CA", authority.directory / f"{authority.name}.pem",
            "-CAkey", authority.directory / f"{authority.name}.key", "-subj", "/CN=ci.shop.example",
            "-addext", "basicConstraints=critical,CA:FALSE", *(["-addext", f"subjectAltName={sans}"] if sans else []),
            "-keyout", key, "-out", certificate)
    return certificate, key


CLIENTS = {
    "web": "URI:spiffe://shop.example/ns/web/sa/front",
    "other": "URI:spiffe://shop.example/ns/other/sa/front",
    "foreign domain": "URI:spiffe://shop.example.evil.example/ns/web/sa/front",
    "two URIs": "URI:spiffe://shop.example/ns/web/a,URI:spiffe://shop.example/ns/web/b",
    "no SPIFFE": "URI:https://shop.example/ns/web/a",
    "ci": "DNS:CI.shop.example",
    "ci beside a URI": "DNS:ci.shop.example,URI:spiffe://shop.example/ns/other/a",
    "spiffe as DNS": "DNS:spiffe.shop.example",
    "common name only": None,
}


@pytest.fixture
def place(launch, tmp_path, half):
    """A daemon that asks for certificates and lets clients without one in; `place(client)`: a client's TLS."""
    authority = Authority(tmp_path)
    section = tls(authority, clientAuthorities=str(tmp_path / "ca.pem"), requireClientCertificate=False)
    daemon = launch(configs.config(
        half, edge={"tls": section, "allowedOrigins": ["https://page.example"]}, control={"tls": section},
        auth={"mode": "enforce", "certificates": RULES}), start=False, half=half)

    def client(name=None, alpn=None):
        context = trusting(authority, alpn=alpn)
        if name:
            context.load_cert_chain(*certify(authority, name.replace(" ", "-"), CLIENTS[name]))
        return context

    daemon.start()
    daemon.context = client
    daemon.authority = authority
    return daemon


def ask(port, context, method, path, body=None, **headers):
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=15)
    connection.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    answer.text = answer.read()
    connection.close()
    return answer


def poll(daemon, context, **headers):
    return ask(daemon.edge, context, "GET", "/v1/poll?topic=PUSH_RC&wait=0s", **headers).status


async def test_names_are_mapped_and_nothing_else_counts(place):
    found = {name: poll(place, place.context(name)) for name in CLIENTS}
    assert found == {"web": 200, "ci": 403, **{name: 401 for name in CLIENTS if name not in ("web", "ci")}}
    assert poll(place, place.context()) == 401
    assert poll(place, place.context("web"), Origin="https://page.example") == 401, "a page cannot borrow it"
    assert poll(place, place.context("web"), X_API_Key="nonsense") == 401, "a credential of the request goes first"


async def test_a_stream_is_its_certificates_and_ends_with_the_rule(place, half):
    stream = Stream(place.edge, place.context("web"))
    await stream.open()
    mapped = configs.config(
        half, edge={"tls": tls(place.authority, clientAuthorities=str(place.authority.directory / "ca.pem"),
                               requireClientCertificate=False)},
        control={"tls": tls(place.authority)}, auth={"mode": "enforce", "certificates": RULES[1:]})
    place.configure(mapped)
    place.signal(signal.SIGHUP)
    await stream.until(b'"revoked"')
    assert poll(place, place.context("web")) == 401
    stream.close()


async def test_polls_of_one_connection_and_http2(place, tool):
    context = place.context("web")
    connection = http.client.HTTPSConnection("127.0.0.1", place.edge, context=context, timeout=15)
    for _ in range(3):
        connection.request("GET", "/v1/poll?topic=PUSH_RC&wait=0s")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200
    connection.close()
    directory = place.authority.directory
    for name, wanted in (("web", "200"), ("other", "401")):
        place.context(name)
        done = subprocess.run(
            [tool("curl"), "-sS", "--http2", "--cacert", directory / "ca.pem", "--cert", directory / f"{name}.pem",
             "--key", directory / f"{name}.key", "-o", "/dev/null", "-w", "%{http_code} %{http_version}",
             f"https://127.0.0.1:{place.edge}/v1/state?topic=PUSH_RC"], capture_output=True, text=True, check=True)
        assert done.stdout == f"{wanted} 2"


async def test_a_session_that_is_resumed_is_still_its_certificates(place):
    context = place.context("web")
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    session = None
    for number in range(2):
        connection = http.client.HTTPSConnection("127.0.0.1", place.edge, context=context, timeout=15)
        plain = socket.create_connection(("127.0.0.1", place.edge), 15)
        connection.sock = context.wrap_socket(plain, server_hostname="127.0.0.1", session=session)
        connection.request("GET", "/v1/poll?topic=PUSH_RC&wait=0s")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200 and connection.sock.session_reused == (number == 1)
        session = connection.sock.session
        connection.close()


async def test_control_writes_down_whose_certificate_it_was(place):
    context = place.context("ci")
    template = json.dumps({"parameters": {"a": {"defaultValue": {"value": "1"}}}})
    answer = ask(place.control, context, "PUT", "/v1/projects/demo/remoteConfig", template, If_Match="*")
    assert answer.status == 200, answer.text
    assert json.loads(answer.text)["version"]["updateUser"]["name"] == "ci.shop.example"
    last = json.loads((place.data / "audit.jsonl").read_text().splitlines()[-1])
    assert last["actor"] == "certificate:ci.shop.example"
    assert ask(place.control, context, "POST", "/v1/projects/demo/webhooks", "{}").status == 403
    assert ask(place.control, place.context("web"), "GET", "/v1/projects/demo/remoteConfig").status == 403
    assert ask(place.control, place.context("other"), "GET", "/v1/projects/demo/remoteConfig").status == 401
    for name, value in (("Origin", "https://evil.example"), ("Sec_Fetch_Site", "cross-site")):
        answer = ask(place.control, context, "PUT", "/v1/projects/demo/remoteConfig", template, If_Match="*", **{name: value})
        assert answer.status == 401, "a browser shows it for any page"


async def test_bad_rules_are_refused_with_a_sentence(launch, tmp_path):
    authority = Authority(tmp_path)
    section = tls(authority, clientAuthorities=str(tmp_path / "ca.pem"))
    for sections, words in (
            ({"edge": {"tls": section}, "auth": {"certificates": [{"san": "*", "role": "operator"}]}}, "every name"),
            ({"edge": {"tls": section}, "auth": {"certificates": [{"san": "spiffe://*/x", "role": "viewer"}]}}, "trust domain"),
            ({"edge": {"tls": section}, "auth": {"certificates": [{"san": "a b", "role": "viewer"}]}}, "no name such as"),
            ({"auth": {"certificates": RULES}}, "means nothing without"),
    ):
        daemon = launch(configs.config(**sections), start=False)
        daemon.spawn()
        assert daemon.wait() == 78 and words in daemon.log_text(), daemon.log_text()
