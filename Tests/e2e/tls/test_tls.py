"""TLS on both listeners: who is let in with what, how certificates are replaced, what half-done handshakes cost."""

import asyncio
import json
import os
import re
import signal
import ssl
import subprocess
import urllib.request

import pytest

from harness import configs
from harness.authority import Authority
from harness.cli import stalecast
from harness.daemon import BINARY, LONG, environment
from harness.http1 import exchange
from harness.templates import marked
from harness.tls import Stream, launch_tls, self_signed, tls, trusting
from harness.waiting import eventually

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
HELLO = bytes.fromhex("1603010200010001fc0303")


async def connect(port, context, name="127.0.0.1"):
    """One connection as far as its handshake; returns the session."""
    reader, writer = await asyncio.wait_for(
        asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=name), 10)
    session = writer.get_extra_info("ssl_object")
    writer.close()
    return session


def handshakes(daemon, outcome):
    return lambda: daemon.metric("stalecast_tls_handshakes_total", listener="edge", outcome=outcome)


@pytest.mark.parametrize("version", VERSIONS)
async def test_streams_over_tls(launch, tmp_path, half, version):
    daemon, authority = launch_tls(launch, tmp_path, half)
    stream = await Stream(daemon.edge, trusting(authority, VERSIONS[version])).open()
    await daemon.publish(marked("over tls"))
    await stream.until(b'"latestTemplateVersionNumber":"1"')
    assert b"\r\nTransfer-Encoding: chunked\r\n" in stream.text
    stream.close()


@pytest.mark.parametrize("program", ["curl", "node"])
def test_programs_over_tls(launch, tmp_path, tool, program):
    daemon, authority = launch_tls(launch, tmp_path)
    url, roots = f"https://127.0.0.1:{daemon.edge}/v1/state?topic=PUSH_RC", f"{authority.directory}/ca.pem"
    if program == "curl":
        command = [tool("curl"), "-sS", "--tlsv1.3", "--cacert", roots, url]
    else:
        script = "fetch(process.argv[1]).then(r => r.text()).then(t => process.stdout.write(t))"
        command = [tool("node"), "-e", script, url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False,
                          env={**os.environ, "NODE_EXTRA_CA_CERTS": roots})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"][0]["topic"] == "PUSH_RC"


@pytest.mark.parametrize(("version", "ciphers", "alert"), [
    ("-tls1_1", "ALL:@SECLEVEL=0", "protocol version"),
    ("-tls1_2", "ECDHE-ECDSA-AES128-SHA", "handshake failure"),
    ("-tls1_2", "AES128-GCM-SHA256", "handshake failure"),
], ids=["TLS 1.1", "no AEAD", "no forward secrecy"])
def test_what_is_weak_is_refused(launch, tmp_path, tool, version, ciphers, alert):
    daemon, _ = launch_tls(launch, tmp_path)
    done = subprocess.run([tool("openssl"), "s_client", "-connect", f"127.0.0.1:{daemon.edge}", version,
                           "-cipher", ciphers], input="", capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode != 0
    assert alert in done.stderr, done.stderr


async def test_control_speaks_1_3_only(launch, tmp_path):
    daemon, authority = launch_tls(launch, tmp_path, control=True)
    assert (await connect(daemon.control, trusting(authority))).version() == "TLSv1.3"
    with pytest.raises(ssl.SSLError, match="protocol version|PROTOCOL_VERSION"):
        await connect(daemon.control, trusting(authority, VERSIONS["1.2"]))
    endpoints = json.loads((daemon.data / "endpoints.json").read_text())
    assert endpoints["edge"].startswith("https://") and endpoints["control"].startswith("https://")


def test_the_command_line_needs_no_more_than_the_authority(launch, tmp_path):
    daemon, authority = launch_tls(launch, tmp_path, control=True)
    roots = authority.directory / "ca.pem"
    file = tmp_path / "template.json"
    file.write_text(json.dumps(marked("by the command line")))
    at = ["--data", daemon.data, "--ca-file", roots]
    assert "1" in stalecast("publish", file, *at) + stalecast("versions", *at)
    watched = stalecast("watch", "--have", "0", "--count", "1", "--timeout", "20", "--json", *at)
    assert json.loads(watched)["latestTemplateVersionNumber"] == "1"
    strange = subprocess.run([BINARY, "status", "--data", daemon.data], capture_output=True, text=True, timeout=30,
                             check=False)
    assert strange.returncode != 0 and "certificate" in strange.stderr, strange.stderr


def test_two_flags_are_all_a_user_needs(launch, tmp_path, tool):
    self_signed(tmp_path / "own.pem", tmp_path / "own.key")
    daemon = launch(start=False)
    daemon.start("--tls-cert", str(tmp_path / "own.pem"), "--tls-key", str(tmp_path / "own.key"))
    url = f"https://localhost:{daemon.edge}/healthz"
    answer = subprocess.check_output([tool("curl"), "-sS", "--cacert", tmp_path / "own.pem", url], text=True)
    assert answer == "ok\n"


async def test_plain_http_is_told_to_speak_tls(launch, tmp_path, half):
    daemon, _ = launch_tls(launch, tmp_path, half)
    for request in (b"GET /v1/events?topic=PUSH_RC HTTP/1.1\r\nHost: localhost\r\n\r\n", b"SSH-2.0-nonsense\r\n"):
        answer, ended = await exchange(daemon.edge, request)
        assert answer.startswith(b"HTTP/1.1 400 ") and b"ask for https://" in answer and ended == "closed", answer
    assert await eventually(handshakes(daemon, "plain"), 2) == 2


async def test_tls_on_a_plain_port_ends_at_once(launch, half):
    daemon = launch(half=half)
    with pytest.raises((ssl.SSLError, ConnectionError)):
        await connect(daemon.edge, ssl.create_default_context())


async def test_names_choose_the_certificate(launch, tmp_path, half):
    authority = Authority(tmp_path)
    others = [dict(zip(("certificate", "key"), map(str, authority.certify(name)), strict=True))
              for name in ("one.example", "*.two.example")]
    daemon = launch(configs.config(half, edge={"tls": {**tls(authority), "others": others}}), half=half)

    async def shown(name):
        session = await connect(daemon.edge, trusting(authority), name)
        return dict(session.getpeercert()["subjectAltName"])

    assert await shown("one.example") == {"DNS": "one.example"}
    assert await shown("deep.two.example") == {"DNS": "*.two.example"}
    assert await shown("127.0.0.1") == {"IP Address": "127.0.0.1"}


async def test_clients_show_a_certificate_where_they_must(launch, tmp_path):
    daemon, authority = launch_tls(launch, tmp_path, clientAuthorities=str(tmp_path / "ca.pem"))
    context = trusting(authority)
    with pytest.raises((ssl.SSLError, ConnectionError, AssertionError)):
        await Stream(daemon.edge, context).open()
    context.load_cert_chain(*authority.certify("somebody"))
    (await Stream(daemon.edge, context).open()).close()


@pytest.mark.limit(120)
async def test_a_certificate_swap_drops_no_stream(launch, tmp_path, half):
    daemon, authority = launch_tls(launch, tmp_path, half)
    context, count = trusting(authority), (5000 if LONG else 2000) if half == "engine" else 300
    streams = [Stream(daemon.edge, context) for _ in range(count)]
    for start in range(0, count, 50):
        await asyncio.gather(*(stream.open() for stream in streams[start : start + 50]))
    old = streams[0].certificate
    authority.certify("localhost", "127.0.0.1")

    async def shown():
        return (await connect(daemon.edge, context)).getpeercert(binary_form=True) != old

    assert await eventually(shown, True, timeout=15), "a new certificate is not taken up"
    await daemon.publish(marked("after the swap"))
    await asyncio.gather(*(stream.until(b'"latestTemplateVersionNumber":"1"') for stream in streams))
    assert "certificates replaced" in daemon.log_text()
    for stream in streams:
        stream.close()


async def test_a_bad_swap_changes_nothing(launch, tmp_path):
    daemon, authority = launch_tls(launch, tmp_path)
    (tmp_path / "localhost.pem").write_text("nonsense")

    async def said():
        return "certificates not replaced, the old ones stay" in daemon.log_text()

    assert await eventually(said, True, timeout=15)
    daemon.signal(signal.SIGHUP)
    await connect(daemon.edge, trusting(authority))

    async def in_force():
        return await daemon.metric("stalecast_tls_last_reload_successful", listener="edge")

    assert await eventually(in_force, 0, timeout=15) == 0
    (row,) = (await daemon.status())["certificates"]
    assert "localhost.pem" in row["refused"]["problem"], row
    sentences = (await daemon.ask_control("/readyz")).json()["degraded"]
    [degraded] = [each for each in sentences if "certificate" in each]
    assert degraded.startswith("the newest certificate files of edge were refused at 20") and ".pem" not in degraded
    assert degraded.endswith(f"stay in use, until {row['notAfter']}"), (degraded, row)
    judged = subprocess.run([BINARY, "doctor", "--json", "--data", daemon.data], capture_output=True, text=True,
                            check=False, env=environment(), timeout=20)
    assert any("localhost.pem" in each["sentence"] and "tls check" in each.get("command", "")
               for each in json.loads(judged.stdout)["findings"]), judged.stdout
    authority.certify("localhost", "127.0.0.1")
    daemon.signal(signal.SIGHUP)

    async def replaced():
        return "certificates replaced" in daemon.log_text()

    assert await eventually(replaced, True, timeout=15)
    assert await eventually(in_force, 1, timeout=15) == 1
    assert "degraded" not in (await daemon.ask_control("/readyz")).json()
    assert "refused" not in (await daemon.status())["certificates"][0]


async def test_a_renewal_that_is_not_valid_leaves_the_old_one(launch, tmp_path, dated):
    daemon, authority = launch_tls(launch, tmp_path)

    def said(words):
        async def is_said():
            return words in daemon.log_text()

        return is_said

    dated("localhost", -7200, -3600)
    assert await eventually(said("localhost.pem has expired"), True, timeout=15)
    assert "a certificate not replaced, the old one stays" in daemon.log_text()
    await connect(daemon.edge, trusting(authority))
    dated("localhost", 8, 86_400)
    assert await eventually(said("localhost.pem is not valid for another"), True, timeout=15)
    await connect(daemon.edge, trusting(authority))
    assert "certificates replaced" not in daemon.log_text()
    assert await eventually(said("certificates replaced"), True, timeout=20), "it is not taken up when it is valid"


@pytest.mark.limit(90)
async def test_half_done_handshakes_are_let_go(launch, tmp_path, half):
    daemon, authority = launch_tls(launch, tmp_path, half, edge={"headerTimeout": "2s"})
    idle = [await asyncio.open_connection("127.0.0.1", daemon.edge) for _ in range(200)]
    for _, writer in idle:
        writer.write(HELLO)
    await asyncio.sleep(0.2)
    # Others do not wait for those.
    stream = await Stream(daemon.edge, trusting(authority)).open()
    for reader, _ in idle:
        assert await asyncio.wait_for(reader.read(), 20) is not None
    assert await eventually(lambda: daemon.metric("stalecast_connections"), 1) == 1
    lost = [await handshakes(daemon, outcome)() for outcome in ("timed_out", "displaced", "failed")]
    assert sum(lost) == 200, lost
    stream.close()


async def test_metrics_and_status_know_when_certificates_end(launch, tmp_path):
    daemon, _ = launch_tls(launch, tmp_path)
    (row,) = (await daemon.status())["certificates"]
    assert row["listener"] == "edge" and row["daysLeft"] in (1, 2), row
    ends = await daemon.metric("stalecast_tls_certificate_not_after_seconds", listener="edge")
    assert ends > 1_700_000_000


async def test_an_expired_certificate_is_said_and_health_checks_go_on(launch, tmp_path, dated):
    certificate = dated("elsewhere", -7200, -3600)
    section = {"certificate": str(certificate), "key": str(certificate.with_suffix(".key"))}
    token = tmp_path / "token"
    token.write_text("a-token-of-a-secret-0123456789")
    daemon = launch(configs.config(edge={"tls": section}, control={"tls": section, "tokenFile": str(token)}))
    # As HEALTHCHECK runs it: no token in the data directory, a certificate of other names.
    ask = [BINARY, "status", "--quiet", "--data", daemon.data]
    well = subprocess.run(ask, capture_output=True, text=True, check=False, env=environment(), timeout=20)
    assert (well.returncode, well.stdout, well.stderr) == (0, "", "")
    judged = subprocess.run([BINARY, "doctor", "--json", "--config", daemon.config, "--data", daemon.data],
                            capture_output=True, text=True, check=False, env=environment(), timeout=20)
    found = json.loads(judged.stdout)["findings"]
    [finding] = [each for each in found if each["subject"] == "certificate"][:1]
    assert "has expired" in finding["sentence"] and "tls check" in finding["command"], finding
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def degraded():
        with urllib.request.urlopen(f"https://127.0.0.1:{daemon.control}/readyz", context=context, timeout=10) as answer:
            return json.loads(answer.read())["degraded"]

    assert any("has expired" in each for each in degraded()), "ready, and said to be worse than it should"
    certificate.write_text("nonsense")
    daemon.signal(signal.SIGHUP)

    async def ends():
        return [each.endswith(" stay in use") for each in degraded() if "were refused at" in each]

    assert await eventually(ends, [True, True], timeout=15) == [True, True], degraded()


def check(launch, tmp_path, tls, *flags):
    daemon = launch(configs.config(edge={"tls": tls}), start=False)
    return subprocess.run([BINARY, "check-config", "--json", *flags, "--config", daemon.config], capture_output=True, text=True,
                          check=False, env=environment(), timeout=20)


def test_check_config_judges_the_dates_of_certificates(launch, tmp_path, dated):
    expired = dated("expired", -7200, -3600)
    tls = {"certificate": str(expired), "key": str(expired.with_suffix(".key"))}
    refused = check(launch, tmp_path, tls)
    assert refused.returncode == 78, refused
    assert re.search(r"edge.tls.certificate: \S+ has expired 60 minutes ago, at 20\d\d-\d\d-\d\dT[\d:]+Z", refused.stdout + refused.stderr)
    accepted = check(launch, tmp_path, tls, "--for-start")
    assert accepted.returncode == 0 and "has expired" in json.loads(accepted.stdout)["remarks"][0], accepted
    soon = dated("soon", -7200, 13 * 86_400 - 3600)
    tls = {"certificate": str(soon), "key": str(soon.with_suffix(".key"))}
    remarked = check(launch, tmp_path, tls)
    assert remarked.returncode == 0 and "expires in 12 days" in json.loads(remarked.stdout)["remarks"][0], remarked
    good = dated("good", -7200, 15 * 86_400)
    tls = {"certificate": str(good), "key": str(good.with_suffix(".key"))}
    assert json.loads(check(launch, tmp_path, tls).stdout)["remarks"] == []
    # One authority of two takes its own clients with it; without any no client gets in.
    both = tmp_path / "authorities.pem"
    both.write_bytes(expired.read_bytes() + good.read_bytes())
    partly = check(launch, tmp_path, {**tls, "clientAuthorities": str(both)})
    assert partly.returncode == 0 and "an authority of clients in" in json.loads(partly.stdout)["remarks"][0], partly
    none = check(launch, tmp_path, {**tls, "clientAuthorities": str(expired)})
    assert none.returncode == 78 and "no client's certificate is accepted" in none.stdout + none.stderr, none


def mixed_up(directory):
    self_signed(directory / "other.pem", directory / "other.key")
    return directory / "own.pem", directory / "other.key"


def encrypted(directory):
    subprocess.run(["openssl", "pkey", "-aes128", "-passout", "pass:secret", "-in", directory / "own.key",
                    "-out", directory / "sealed.key"], check=True, capture_output=True)
    return directory / "own.pem", directory / "sealed.key"


BAD = {
    "missing": (lambda d: (d / "no.pem", d / "own.key"), "no.pem cannot be read: No such file"),
    "no certificate": (lambda d: (d / "own.key", d / "own.key"), "holds no certificate in PEM"),
    "no key": (lambda d: (d / "own.pem", d / "own.pem"), "are the two files mixed up?"),
    "another's key": (mixed_up, "is not the key of"),
    "encrypted": (encrypted, "is encrypted"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_named(launch, tmp_path, case):
    self_signed(tmp_path / "own.pem", tmp_path / "own.key")
    files, sentence = BAD[case]
    certificate, key = files(tmp_path)
    config = configs.config(edge={"tls": {"certificate": str(certificate), "key": str(key)}})
    daemon = launch(config, start=False)
    for command in ([BINARY, "check-config", "--config", daemon.config], daemon.command()):
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert done.returncode != 0 and sentence in done.stdout + done.stderr, done


def test_what_is_unwise_is_said(launch, tmp_path):
    self_signed(tmp_path / "own.pem", tmp_path / "own.key", days="1")
    (tmp_path / "own.key").chmod(0o644)
    daemon = launch(configs.config(edge={"tls": {
        "certificate": str(tmp_path / "own.pem"), "key": str(tmp_path / "own.key")}}))
    assert "own.pem expires in 2" in daemon.log_text() and "chmod o=" in daemon.log_text()
