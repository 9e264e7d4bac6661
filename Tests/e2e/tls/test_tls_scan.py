"""Report of a foreign scanner about both listeners: Mozilla's intermediate configuration, and the attacks it knows."""

import json
import subprocess

import pytest

from harness import configs
from harness.cli import stalecast
from harness.daemon import REPOSITORY

SSLYZE = REPOSITORY / ".build-venv/sslyze/bin/sslyze"


def scan(port, directory, level):
    found = directory / f"{port}.json"
    done = subprocess.run(
        [SSLYZE, "--mozilla_config", level, "--certinfo_ca_file", directory / "ca.pem", "--json_out", found,
         f"localhost:{port}"], capture_output=True, text=True, timeout=100, check=False)
    return done, json.loads(found.read_text())["server_scan_results"][0]["scan_result"]


@pytest.mark.limit(240)
@pytest.mark.parametrize("half", ("engine", "front"))
def test_a_scanner_finds_nothing(launch, tmp_path, half):
    if not SSLYZE.exists():
        pytest.skip("no sslyze: deploy/test.sh without --fast installs it")
    stalecast("tls", "dev", "--to", tmp_path)
    tls = {"certificate": str(tmp_path / "localhost.pem"), "key": str(tmp_path / "localhost.key")}
    daemon = launch(configs.config(half, edge={"tls": tls}, control={"tls": tls}), half=half)
    for port, level in ((daemon.edge, "intermediate"), (daemon.control, "modern")):
        done, result = scan(port, tmp_path, level)
        told = done.stdout.rpartition("COMPLIANCE AGAINST")[2]
        assert f"localhost:{port}: " in told, done.stdout + done.stderr
        # "modern" wants certificates of 90 days, which is their owner's affair.
        problems = [line for line in told.splitlines() if line.lstrip().startswith("* ")]
        assert not [line for line in problems if level == "intermediate" or "lifespan" not in line], told
        assert not result["heartbleed"]["result"]["is_vulnerable_to_heartbleed"]
        assert not result["session_renegotiation"]["result"]["is_vulnerable_to_client_renegotiation_dos"]
        assert not result["tls_compression"]["result"]["supports_compression"]
        accepted = result["tls_1_3_cipher_suites"]["result"]["accepted_cipher_suites"]
        assert len(accepted) == 3, "the scan came through"
