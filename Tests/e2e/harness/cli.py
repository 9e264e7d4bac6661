"""The command line: `stalecast(…)` where a test needs it as a tool, `Cli` where it is what is tested."""

import json
import subprocess

from harness.daemon import BINARY, environment
from harness.templates import encoded

REFUSED, USAGE, UNREACHABLE, TOKEN, MISMATCH, NOT_FOUND, TIMED_OUT = range(1, 8)
STOPPED = 9


def stalecast(*arguments):
    """Runs a command that must succeed; returns its standard output."""
    command = [BINARY, *(str(argument) for argument in arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment())
    assert done.returncode == 0, f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
    return done.stdout


class Cli:
    """Runs commands on one data directory."""

    def __init__(self, daemon):
        self.data = daemon.data
        self.files = daemon.directory

    def __call__(self, *words, code=0, stdin=None):
        """Standard output; `.err` is added for the sentence on standard error."""
        done = subprocess.run([BINARY, *words, "--data", self.data], input=stdin, env=environment(),
                              capture_output=True, timeout=50)
        text = Text(done.stdout.decode())
        text.err = done.stderr.decode()
        assert done.returncode == code, f"{words} ended with {done.returncode}:\n{text}\n{text.err}"
        return text

    def json(self, *words, **options):
        return json.loads(self(*words, "--json", **options))

    def file(self, body, name="template.json"):
        (self.files / name).write_bytes(encoded(body))
        return str(self.files / name)

    def start(self, *words):
        """A command that runs on, with its output as lines; ended by the test."""
        return subprocess.Popen([BINARY, *words, "--data", self.data], env=environment(), text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)


class Text(str):
    err = ""
