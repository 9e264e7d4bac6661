"""OpenFeature: the conformance suite against this daemon and against servers that are wrong, and the provider from PyPI,
unchanged, for every type and error."""

import contextlib
import http.server
import importlib.util
import json
import os
import shlex
import subprocess
import sys
import threading

import pytest
import requests
from openfeature import api
from openfeature.contrib.provider.ofrep import OFREPProvider
from openfeature.evaluation_context import EvaluationContext
from openfeature.exception import ErrorCode
from openfeature.flag_evaluation import Reason

from harness import configs
from harness.daemon import BINARY, REPOSITORY, environment
from harness.http1 import fetch
from harness.keys import make_key
from harness.templates import template
from harness.waiting import eventually

SUITE = REPOSITORY / "Tests/conformance/ofrep"
ORIGIN = "https://app.example"


def load(name):
    """A module of the suite's folder, anew."""
    spec = importlib.util.spec_from_file_location(name, SUITE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


FAULTS = load("wrong_server").FAULTS


def typed(kind, value, **conditional):
    values = {name: {"value": other} for name, other in conditional.items()}
    return {"valueType": kind, "defaultValue": {"value": value}, **({"conditionalValues": values} if values else {})}


PREPARED = template(
    {"bool_flag": typed("BOOLEAN", "true"), "string_flag": typed("STRING", "hello"), "int_flag": typed("NUMBER", "42"),
     "float_flag": typed("NUMBER", "3.5"), "object_flag": typed("JSON", '{"a": [1, "two", null]}'),
     "plan_flag": typed("STRING", "free", pro="pro"), "half_flag": typed("NUMBER", "0", half="1"),
     "in_app": {"defaultValue": {"useInAppDefault": True}}, "changed": typed("STRING", "0")},
    conditions=[{"name": "pro", "expression": "app.customSignal['plan'].exactlyMatches(['pro'])"},
                {"name": "half", "expression": "percent('s') between 0 and 50"}])


def conformance(url, **variables):
    """Runs the suite; returns pytest's code and what it printed."""
    names = {f"OFREP_{name.upper()}": value if isinstance(value, str) else json.dumps(value)
             for name, value in variables.items()}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", "-c", os.devnull, "--rootdir", SUITE,
         SUITE / "test_ofrep.py"],
        capture_output=True, text=True, timeout=100, check=False,
        # The suite needs no plug-in, and to load all of them takes 4 s of a processor.
        env={**environment(), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "OFREP_URL": url, "OFREP_SECONDS": "5", **names})
    return done.returncode, done.stdout + done.stderr


@pytest.mark.limit(120)
async def test_this_daemon_passes_the_conformance_suite(launch, half, tmp_path):
    """With grants, so that the stream too asks for the client's key, which EventSource cannot send."""
    daemon = launch(configs.config(half, edge={"allowedOrigins": [ORIGIN], "trustedProxies": ["127.0.0.1"]},
                                   auth={"mode": "enforce"}), half=half)
    _, good = await make_key(daemon, {"actions": ["watch", "fetch"]}, kind="publishable")
    _, small = await make_key(daemon, {"actions": ["watch", "fetch"], "projects": ["other"]})
    await daemon.publish(PREPARED)
    change = tmp_path / "change.sh"
    change.write_text(f"exec {shlex.quote(BINARY)} set changed=$(date +%N) --data {shlex.quote(str(daemon.data))}\n")
    code, text = conformance(
        f"http://127.0.0.1:{daemon.edge}/v1/projects/demo/namespaces/firebase", headers={"X-API-Key": good},
        unauthorized={}, forbidden={"X-API-Key": small}, origin=ORIGIN, change=f"sh {shlex.quote(str(change))}",
        limited={"headers": {"X-API-Key": "wrong", "X-Forwarded-For": "203.0.113.7"}, "requests": 500})
    assert code == 0 and "skipped" not in text, text


@contextlib.contextmanager
def wrong_server(fault=None):
    module = load("wrong_server")
    module.Handler.fault = fault
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), module.Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


ACCESS = {"headers": {"X-API-Key": "good"}, "unauthorized": {"X-API-Key": "bad"}, "forbidden": {"X-API-Key": "small"},
          "limited": {"headers": {"X-API-Key": "busy"}, "requests": 9}, "origin": ORIGIN}


def run_each_case(function):
    """What pytest does with a function of the suite, without its seconds of start."""
    cases = [{}]
    for mark in getattr(function, "pytestmark", []):
        if mark.name == "parametrize":
            cases = [{**case, mark.args[0]: value} for case in cases for value in mark.args[1]]
    for case in cases:
        function(**case)


@pytest.mark.parametrize("fault", FAULTS)
def test_the_suite_finds_a_planted_fault(fault, monkeypatch):
    with wrong_server(fault) as url:
        for name, value in {**ACCESS, "url": url, "seconds": "1"}.items():
            monkeypatch.setenv(f"OFREP_{name.upper()}", value if isinstance(value, str) else json.dumps(value))
        suite = load("test_ofrep")
        suite.change = lambda: requests.post(f"{url}/change", timeout=2)
        with pytest.raises((AssertionError, requests.RequestException, pytest.fail.Exception, KeyError)):
            run_each_case(getattr(suite, f"test_{FAULTS[fault]}"))


def test_the_suite_takes_a_server_that_is_right():
    with wrong_server() as url:
        change = f"{shlex.quote(sys.executable)} -c \"import urllib.request as r; r.urlopen('{url}/change', b'x')\""
        code, text = conformance(url, **ACCESS, change=change)
    assert code == 0 and "skipped" not in text, text


@contextlib.contextmanager
def provider(url, **headers):
    api.set_provider(OFREPProvider(url, headers_factory=lambda: headers))
    try:
        yield api.get_client()
    finally:
        api.clear_providers()


@configs.one_half
async def test_the_provider_from_pypi_gets_every_type_and_error(daemon):
    await daemon.publish(PREPARED)
    with provider(f"http://127.0.0.1:{daemon.edge}") as client:
        anna, pro = EvaluationContext("anna"), EvaluationContext("anna", {"plan": "pro", "nested": {"a": [1]}})
        assert client.get_boolean_value("bool_flag", False, anna) is True
        assert client.get_string_value("string_flag", "x", anna) == "hello"
        assert client.get_integer_value("int_flag", 0, anna) == 42
        assert client.get_float_value("float_flag", 0.0, anna) == 3.5
        assert client.get_object_value("object_flag", {}, anna) == {"a": [1, "two", None]}
        details = client.get_string_details("plan_flag", "x", pro)
        assert (details.value, details.reason, details.variant) == ("pro", Reason.TARGETING_MATCH, "pro")
        assert details.flag_metadata == {"templateVersion": "1"}
        details = client.get_string_details("plan_flag", "x", anna)
        assert (details.value, details.reason, details.variant) == ("free", Reason.DEFAULT, "default")
        assert client.get_integer_details("half_flag", 5, anna).reason in (Reason.SPLIT, Reason.DEFAULT)
        assert client.get_string_details("in_app", "the app's", anna).value == "the app's"
        failures = {
            ErrorCode.FLAG_NOT_FOUND: client.get_string_details("none", "x", anna),
            ErrorCode.TYPE_MISMATCH: client.get_string_details("int_flag", "x", anna),
            ErrorCode.TARGETING_KEY_MISSING: client.get_integer_details("half_flag", 5),
            ErrorCode.INVALID_CONTEXT: client.get_boolean_details(
                "bool_flag", False, EvaluationContext("anna", {f"a{number}": 1 for number in range(300)})),
        }
        for code, details in failures.items():
            assert details.error_code == code and details.reason == Reason.ERROR, details
    with provider(f"http://127.0.0.1:{daemon.edge}/v1/projects/123456789012/namespaces/firebase") as client:
        assert client.get_integer_value("int_flag", 0, anna) == 42


@configs.one_half
async def test_tags_and_the_provider_outlive_a_restart(daemon):
    await daemon.publish(PREPARED)
    ask = lambda *headers: fetch(daemon.edge, "/ofrep/v1/evaluate/flags", "POST", headers, b'{"context":{}}')
    etag = (await ask()).header("etag")
    with provider(f"http://127.0.0.1:{daemon.edge}") as client:
        assert client.get_integer_value("int_flag", 0) == 42
        assert daemon.stop() == 0
        assert client.get_integer_details("int_flag", 7).error_code == ErrorCode.GENERAL
        daemon.start()
        assert client.get_integer_value("int_flag", 0) == 42
    assert (await ask(("If-None-Match", etag))).status == 304


@configs.one_half
async def test_a_version_between_the_flags_and_the_opening_of_the_stream_is_not_missed(daemon):
    await daemon.publish(PREPARED)
    answer = (await fetch(daemon.edge, "/ofrep/v1/evaluate/flags", "POST", [], b"{}")).json()
    version = await daemon.publish(PREPARED)
    stream = f"http://127.0.0.1:{daemon.edge}{answer['eventStreams'][0]['endpoint']['requestUri']}"
    with requests.get(stream, stream=True, timeout=10) as opened:
        lines = opened.iter_lines(chunk_size=1, decode_unicode=True)
        message = json.loads(next(line for line in lines if line.startswith("data: {"))[6:])
    assert message["type"] == "refetchEvaluation" and message["latestTemplateVersionNumber"] == str(version)


@configs.one_half
async def test_openfeature_counts_among_those_that_have_a_version(daemon):
    """By the stream that the answer names, which a web provider holds, and by its next request for all flags."""
    ask = lambda key="", context=b'{"context":{"targetingKey":"anna"}}': fetch(
        daemon.edge, f"/ofrep/v1/evaluate/flags{key}", "POST", [], context)
    await daemon.publish(PREPARED)
    named = (await ask()).json()["eventStreams"][0]["endpoint"]["requestUri"]
    propagation = lambda: daemon.ask_control("/v1/projects/demo/remoteConfig/propagation")

    async def clients():
        counts = (await propagation()).json()["clients"]
        return counts["audience"], counts["fetched"]

    with requests.get(f"http://127.0.0.1:{daemon.edge}{named}", stream=True, timeout=10):
        await daemon.publish(PREPARED)
        assert await eventually(clients, (1, 0)) == (1, 0)
        assert (await ask("/bool_flag")).status == 200
        assert (await ask()).status == 200
        assert await eventually(clients, (1, 1)) == (1, 1)
    read = lambda: daemon.metric("stalecast_fetches_total", dialect="ofrep", state="update")
    assert await eventually(read, 3) == 3
