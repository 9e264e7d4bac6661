"""Requests that schemathesis makes up from a live document: no 5xx, no answer the document does not know."""

import subprocess
import sys

from harness.control import Control
from harness.daemon import LONG
from harness.templates import template

CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
          "response_schema_conformance,unsupported_method,allow_header_conformance,ignored_auth")
# endless answers; their wire is tested in test_stream_wire.py and test_firebase_sdks.py
STREAMS = ("events", "streamInvalidations", "watchPropagation", "watchPropagationInNamespace")
# made-up names lead to 404 almost always; the second run keeps them
KNOWN = """
[parameters]
"path.project" = "demo"
"path.namespace" = "firebase"
"query.topic" = "PUSH_RC"
"query.wait" = "0s"
"""
MADE_UP = """
[parameters]
"query.wait" = "0s"
"""


def schemathesis(directory, url, parameters, seconds, headers=(), exclude=(), checks=CHECKS):
    """Runs the fuzzer over a live document; its report is shown when it found something."""
    config = directory / "schemathesis.toml"
    config.write_text(parameters)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", f"{url}/openapi.json",
               "--checks", checks, "--phases", "coverage,fuzzing", "--max-time", str(seconds),
               "--continue-on-failure", "--no-color", "--warnings", "off", "--request-timeout", "20",
               *([] if LONG else ["--seed", "1"])]
    for header in headers:
        command += ["-H", header]
    for operation in exclude:
        command += ["--exclude-operation-id", operation]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, cwd=directory, check=False)
    if "No test cases were generated" in done.stdout:
        # A busy machine: making the cases of the first phase up took all the time.
        command[command.index("--max-time") + 1] = str(seconds + 20)
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, cwd=directory, check=False)
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]
    assert "passed" in done.stdout, done.stdout
    return done.stdout


async def seed(daemon):
    """Versions to read, roll back to and evaluate."""
    for namespace in ("firebase", "firebase-server"):
        client = Control(daemon.control, daemon.token, namespace=namespace)
        for value in ("one", "two"):
            await client.publish(template({"welcome_text": value}))
        client.close()
