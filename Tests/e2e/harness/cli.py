"""One run of a command, for tests that need it only as a tool; `test_cli.py` tests the commands themselves."""

import subprocess

from harness.daemon import BINARY, environment


def stalecast(*arguments):
    """Runs a command that must succeed; returns its standard output."""
    command = [BINARY, *(str(argument) for argument in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment())
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout
