"""`stalecast evaluate` against the slow evaluator in Tests/e2e/evaluator, on random templates and contexts."""

import os
import subprocess
import sys

import pytest

from harness.daemon import BINARY, LONG, REPOSITORY, environment


@pytest.mark.skipif(not os.access(BINARY, os.X_OK), reason=f"no daemon binary at {BINARY}")
@pytest.mark.limit(180)
def test_the_evaluator_agrees_with_its_slow_twin():
    cases = 2000 if LONG else 1000
    command = [sys.executable, REPOSITORY / "Tests/e2e/evaluator/compare.py", BINARY, "--cases", str(cases)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, env=environment())
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert f"{cases} cases" in done.stdout
