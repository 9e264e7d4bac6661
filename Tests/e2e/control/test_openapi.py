"""The OpenAPI documents, and what both listeners answer to requests that schemathesis makes up from them: no 5xx, no
answer the document does not know."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness import configs
from harness.http1 import fetch
from harness.openapi import KNOWN, LIMIT, MADE_UP, STREAMS, schemathesis, seed


@pytest.mark.parametrize("parameters, phase", [(KNOWN, "coverage"), (MADE_UP, "fuzzing")], ids=["known", "made-up"])
@pytest.mark.limit(LIMIT)
async def test_control_answers_as_its_document_says(launch, tmp_path, parameters, phase):
    daemon = launch()
    await seed(daemon)
    schemathesis(tmp_path, f"http://127.0.0.1:{daemon.control}", parameters, phase,
                 headers=[f"Authorization: Bearer {daemon.token}"], exclude=STREAMS)
    assert await daemon.ready() == 200


@configs.one_half
@pytest.mark.limit(LIMIT)
async def test_edge_answers_as_its_document_says(daemon, tmp_path):
    await seed(daemon)
    schemathesis(tmp_path, f"http://127.0.0.1:{daemon.edge}", KNOWN, "coverage", exclude=STREAMS)
    assert await daemon.ready() == 200


@configs.one_half
@pytest.mark.campaign
@pytest.mark.limit(LIMIT)
async def test_edge_takes_what_its_document_allows(daemon, tmp_path):
    """Generated clients and validators believe the schemas. A report is left out: its limit is in bytes of the body."""
    await seed(daemon)
    schemathesis(tmp_path, f"http://127.0.0.1:{daemon.edge}", KNOWN, exclude=(*STREAMS, "report"),
                 checks="positive_data_acceptance")


@pytest.mark.campaign
@pytest.mark.limit(LIMIT)
async def test_control_takes_what_its_document_allows(launch, tmp_path):
    """Left out is what only prose says: what a key grants, a message's one target, a webhook's URL, tags of other
    templates, page tokens. To JSON Schema 2.0 is an integer, and to versionNumber it is none."""
    daemon = launch()
    names = ("evaluateTemplate", "publishTemplate", "rollbackTemplate")
    choices = [name + suffix for name in names for suffix in ("", "InNamespace")]
    await seed(daemon)
    schemathesis(tmp_path, f"http://127.0.0.1:{daemon.control}", KNOWN,
                 headers=[f"Authorization: Bearer {daemon.token}"],
                 exclude=(*STREAMS, *choices, "createKey", "sendMessage", "createWebhook", "listWebhooks"),
                 checks="positive_data_acceptance")


@configs.one_half
async def test_the_documents_are_served(daemon):
    control = await daemon.ask_control("/openapi.json")
    edge = await fetch(daemon.edge, "/openapi.json")
    for answer in (control, edge):
        assert answer.status == 200 and answer.header("content-type").startswith("application/json")
        assert answer.json()["openapi"].startswith("3.1") and answer.json()["paths"]
    assert (await daemon.ask_control("/openapi.json", token=False)).status == 401
    version = (await daemon.status())["version"]
    assert control.json()["info"]["version"] == edge.json()["info"]["version"] == version


@configs.one_half
@pytest.mark.limit(LIMIT)
async def test_a_client_is_generated_without_a_warning(daemon, tmp_path):
    """The generator drops whole schemas, with a warning, when it cannot read a part of them."""
    documents = {"control": await daemon.ask_control("/openapi.json"), "edge": await fetch(daemon.edge, "/openapi.json")}
    programs = str(Path(sys.executable).parent)
    for name, answer in documents.items():
        document = tmp_path / f"{name}.json"
        document.write_bytes(answer.body)
        done = subprocess.run(
            [f"{programs}/openapi-python-client", "generate", "--path", str(document), "--meta", "none",
             "--output-path", str(tmp_path / name), "--fail-on-warning"], capture_output=True, text=True, timeout=200,
            env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    models = "".join(path.read_text() for path in tmp_path.glob("*/models/*.py"))
    for name in ("FetchAnswer", "Explanation", "Poll", "Webhook"):
        assert f"class {name}:" in models, name


@configs.one_half
async def test_a_path_of_the_other_listener_says_which_this_is(daemon):
    assert "Control" in str((await fetch(daemon.edge, "/status")).json())
    assert "Edge" in str((await daemon.ask_control("/v1/state?topic=PUSH_RC", token=False)).json())
