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


# Seconds of each run in the long campaign.
SECONDS = 300
# Seconds that a test with one run may take; a slow machine has twice that.
LIMIT = SECONDS + 90 if LONG else 120


def schemathesis(directory, url, parameters, phase="fuzzing", headers=(), exclude=(), checks=CHECKS):
    """Runs the fuzzer over a live document; its report is shown when it found something. Without --long each operation
    gets the same few requests each time, so that a slow machine tries as many as a fast one."""
    config = directory / "schemathesis.toml"
    config.write_text(parameters)
    extent = (["--phases", "coverage,fuzzing", "--max-time", str(SECONDS)] if LONG else
              ["--phases", phase, "--max-examples", "1", "--seed", "1"])
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", f"{url}/openapi.json",
               "--checks", checks, *extent, "--continue-on-failure", "--no-color", "--warnings", "off",
               "--request-timeout", "20"]
    for header in headers:
        command += ["-H", header]
    for operation in exclude:
        command += ["--exclude-operation-id", operation]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * LIMIT - 10, cwd=directory, check=False)
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
