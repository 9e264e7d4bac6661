"""`stalecast tls`: a certificate to try things out, and what a server or a file shows."""

import json
import re
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
    for target in (f"localhost:{daemon.edge}", f"127.0.0.1:{daemon.edge}", f"https://localhost:{daemon.edge}/"):
        good = run("check", "--ca-file", files / "ca.pem", target, "--json")
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


def test_a_development_certificate_for_addresses_takes_the_place_of_open_files(tmp_path):
    names = ("ca.pem", "localhost.pem", "localhost.key")
    for name in names:
        (tmp_path / name).write_text("old")
        (tmp_path / name).chmod(0o666)
    stalecast("tls", "dev", "--to", tmp_path, "--force", "--name", "10.0.0.5", "--name", "fd00::5")
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in names] == [0o644, 0o644, 0o600]
    leaf = x509.load_pem_x509_certificate((tmp_path / "localhost.pem").read_bytes())
    places = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = {str(address) for address in places.get_values_for_type(x509.IPAddress)}
    assert addresses == {"10.0.0.5", "fd00::5", "127.0.0.1", "::1"}
    assert places.get_values_for_type(x509.DNSName) == ["localhost"]
    for name in ("", "[::1]", "a b"):
        refused = run("dev", "--to", tmp_path / "refused", "--name", name)
        assert refused.returncode == 2 and "neither a DNS name nor an address" in refused.stderr, refused.stderr


def test_a_certificate_for_other_names_is_shown(launch, tmp_path):
    certificate, key = Authority(tmp_path).certify("other.example")
    daemon = launch(configs.config(edge={"tls": {"certificate": str(certificate), "key": str(key)}}))
    for host in ("localhost", "127.0.0.1"):
        done = run("check", "--ca-file", tmp_path / "ca.pem", f"{host}:{daemon.edge}", "--days", "1")
        assert done.returncode == 1, done.stderr
        assert re.search(r"1  other\.example, ECDSA P-256, [12] days left", done.stdout)
        assert "the certificate is for other names" in done.stdout, done.stdout


@pytest.mark.parametrize(("begin", "end", "problem"), [
    (-7200, -5, "seconds ago"), (-86_400, -3 * 3600 - 60, "expired 3 hours ago"),
    (3600, 90 * 86_400, "not valid before 20")])
def test_dates_are_judged_to_the_second(dated, begin, end, problem):
    done = run("check", dated("judged", begin, end), "--days", "0", "--json")
    assert done.returncode == 1, done.stdout
    told = json.loads(done.stdout)
    assert not told["isGood"] and len(told["problems"]) == 1 and problem in told["problems"][0], told
    assert (told["certificates"][0]["daysLeft"] < 0) == (end < 0)


CANNOT = {
    "a directory": (["."], 1, ". cannot be read (Is a directory)"),
    "no certificate": (["notes"], 1, "notes holds no certificate in PEM"),
    "no authorities": (["localhost:1", "--ca-file", "no.pem"], 1, "no.pem cannot be read (no such file)"),
    "bad authorities": (["localhost:1", "--ca-file", "notes"], 1, "notes holds no certificate in PEM"),
    "authorities for a file": (["notes", "--ca-file", "notes"], 2, "--ca-file is for a server"),
    "an unknown name": (["nosuch.invalid:443"], 3, "the name nosuch.invalid is not known"),
    "a plain URL": (["http://localhost:1"], 2, "no HOST:PORT"),
}


@pytest.mark.parametrize("case", CANNOT)
def test_what_cannot_be_looked_at_is_a_sentence(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes").write_text("nothing")
    words, code, sentence = CANNOT[case]
    done = run("check", *words)
    assert done.returncode == code and sentence in done.stderr, done.stderr


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
