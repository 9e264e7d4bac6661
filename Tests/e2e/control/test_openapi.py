"""The OpenAPI documents, and what both listeners answer to requests that schemathesis makes up from them: no 5xx, no
answer the document does not know."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.control import Control
from harness.daemon import LONG
from harness.http1 import fetch
from harness.templates import template

CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_headers_conformance,"
          "response_schema_conformance,unsupported_method,allow_header_conformance,ignored_auth")
SECONDS = 300 if LONG else 12
# endless answers; their wire is tested in test_stream_wire.py and test_firebase_sdks.py
STREAMS = ("events", "streamInvalidations")
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


def schemathesis(directory, url, parameters, seconds, headers=(), exclude=()):
    """Runs the fuzzer over a live document; its report is shown when it found something."""
    config = directory / "schemathesis.toml"
    config.write_text(parameters)
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run", f"{url}/openapi.json",
               "--checks", CHECKS, "--phases", "examples,coverage,fuzzing", "--max-time", str(seconds),
               "--continue-on-failure", "--no-color", "--warnings", "off", "--request-timeout", "20",
               *([] if LONG else ["--seed", "1"])]
    for header in headers:
        command += ["-H", header]
    for operation in exclude:
        command += ["--exclude-operation-id", operation]
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


@pytest.mark.parametrize("parameters", [KNOWN, MADE_UP], ids=["known", "made-up"])
@pytest.mark.limit(SECONDS + 90)
async def test_control_answers_as_its_document_says(launch, tmp_path, parameters):
    daemon = launch()
    await seed(daemon)
    schemathesis(tmp_path, f"http://127.0.0.1:{daemon.control}", parameters, SECONDS if parameters is KNOWN else SECONDS // 3,
                 headers=[f"Authorization: Bearer {daemon.token}"])
    assert await daemon.ready() == 200


@pytest.mark.limit(SECONDS + 90)
async def test_edge_answers_as_its_document_says(daemon, tmp_path):
    await seed(daemon)
    schemathesis(tmp_path, f"http://127.0.0.1:{daemon.edge}", KNOWN, SECONDS // 2, exclude=STREAMS)
    assert await daemon.ready() == 200


async def test_the_documents_are_served(daemon):
    control = await daemon.ask_control("/openapi.json")
    edge = await fetch(daemon.edge, "/openapi.json")
    for answer in (control, edge):
        assert answer.status == 200 and answer.header("content-type").startswith("application/json")
        assert answer.json()["openapi"].startswith("3.1") and answer.json()["paths"]
    assert (await daemon.ask_control("/openapi.json", token=False)).status == 401
    version = (await daemon.status())["version"]
    assert control.json()["info"]["version"] == edge.json()["info"]["version"] == version


async def test_a_client_is_generated_without_a_warning(daemon, tmp_path):
    """The generator drops whole schemas, with a warning, when it cannot read a part of them."""
    documents = {"control": await daemon.ask_control("/openapi.json"), "edge": await fetch(daemon.edge, "/openapi.json")}
    programs = str(Path(sys.executable).parent)
    for name, answer in documents.items():
        document = tmp_path / f"{name}.json"
        document.write_bytes(answer.body)
        done = subprocess.run(
            [f"{programs}/openapi-python-client", "generate", "--path", str(document), "--meta", "none",
             "--output-path", str(tmp_path / name), "--fail-on-warning"], capture_output=True, text=True, timeout=60,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    models = "".join(path.read_text() for path in tmp_path.glob("*/models/*.py"))
    for name in ("FetchAnswer", "Explanation", "Poll", "Webhook"):
        assert f"class {name}:" in models, name


async def test_a_path_of_the_other_listener_says_which_this_is(daemon):
    assert "Control" in str((await fetch(daemon.edge, "/status")).json())
    assert "Edge" in str((await daemon.ask_control("/v1/state?topic=PUSH_RC", token=False)).json())
