"""`stalecast tls`: a certificate to try things out, and what a server or a file shows."""

import json
import subprocess

import pytest
from cryptography import x509
from cryptography.x509 import verification

from harness import configs
from harness.authority import Authority
from harness.cli import UNREACHABLE, Cli, stalecast
from harness.daemon import BINARY
from harness.keys import make_key
from harness.tls import launch_tls, self_signed, tls


def run(*words):
    return subprocess.run([BINARY, "tls", *(str(word) for word in words)], capture_output=True, text=True, timeout=30,
                          check=False)


async def test_a_development_certificate_serves(launch, tmp_path, tool):
    stalecast("tls", "dev", "--to", tmp_path / "dev", "--name", "config.test")
    files = tmp_path / "dev"
    strict = [tool("openssl"), "verify", "-x509_strict", "-CAfile", files / "ca.pem", files / "localhost.pem"]
    assert subprocess.run(strict, capture_output=True, check=False).returncode == 0
    assert (files / "localhost.key").stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in files.iterdir()) == ["ca.pem", "localhost.key", "localhost.pem"]
    daemon = launch(start=False)
    daemon.start("--tls-cert", str(files / "localhost.pem"), "--tls-key", str(files / "localhost.key"))
    for name in ("localhost", "127.0.0.1"):
        good = run("check", "--ca-file", files / "ca.pem", f"{name}:{daemon.edge}", "--json")
        assert good.returncode == 0, good.stdout + good.stderr
        told = json.loads(good.stdout)
        assert told["isGood"] and told["version"] == "TLSv1.3"
        assert told["certificates"][0]["key"] == "ECDSA P-256" and told["certificates"][0]["daysLeft"] > 360
    again = run("dev", "--to", files)
    assert again.returncode == 1 and "--force" in again.stderr


def test_a_second_opinion_on_the_development_certificate(tmp_path):
    stalecast("tls", "dev", "--to", tmp_path / "dev")
    root, leaf = (x509.load_pem_x509_certificate((tmp_path / "dev" / name).read_bytes())
                  for name in ("ca.pem", "localhost.pem"))
    builder = verification.PolicyBuilder().store(verification.Store([root]))
    assert builder.build_server_verifier(x509.DNSName("localhost")).verify(leaf, [])


def test_what_is_wrong_is_told_and_ends_with_1(launch, tmp_path):
    daemon = launch(configs.config(edge={"tls": tls(Authority(tmp_path), "other.example")}))
    strange = run("check", f"127.0.0.1:{daemon.edge}")
    assert strange.returncode == 1 and "not trusted" in strange.stdout and "1  127.0.0.1, ECDSA P-256" in strange.stdout
    named = run("check", "--ca-file", tmp_path / "ca.pem", f"localhost:{daemon.edge}")
    assert named.returncode == 1 and "other names" in named.stdout, named.stdout
    self_signed(tmp_path / "short.pem", tmp_path / "short.key", days="3")
    short = run("check", tmp_path / "short.pem")
    assert short.returncode == 1 and "days left" in short.stdout
    assert run("check", tmp_path / "short.pem", "--days", "1").returncode == 0


@pytest.mark.parametrize(("target", "code"), [("127.0.0.1:1", 3), ("nonsense", 2), ("localhost:99999", 2)])
def test_where_nobody_is(target, code):
    done = run("check", target)
    assert done.returncode == code, done.stderr


def test_plain_http_is_no_tls(launch):
    daemon = launch()
    done = run("check", f"127.0.0.1:{daemon.edge}")
    assert done.returncode == 3 and "does not speak TLS" in done.stderr


@pytest.mark.limit(120)
async def test_a_load_over_tls_with_a_key(launch, tmp_path, half):
    authority = Authority(tmp_path)
    daemon = launch(configs.config(half, edge={"tls": tls(authority)}, auth={"mode": "enforce"}), half=half)
    _, key = await make_key(daemon, {"actions": ["watch", "fetch"], "projects": ["demo"]})
    cli = Cli(daemon)
    trusting = ("--ca-file", str(tmp_path / "ca.pem"))
    text = cli("load", "connect", "--subscribers", "2", code=UNREACHABLE)
    assert "its certificate is refused" in text.err and "--ca-file" in text.err
    told = cli.json("load", "connect", "--subscribers", "2", *trusting, code=1)
    assert told["storms"][0]["refused"] == 2, "Edge asks for a key"
    for transport in ("sse", "poll"):
        report = cli.json("load", "fanout", "--rounds", "2", "--subscribers", "20", "--transport", transport, "--gap", "0s",
                          "--api-key", key, *trusting)
        assert [turn["delivered"] for turn in report["rounds"]] == [20, 20]
    report = cli.json("load", "fetch", "--clients", "20", "--window", "0", "--api-key", key, *trusting, "--yes")
    assert report["storms"][0]["fetched"] == 20
