"""The daemon as a process: start, stop, kill, restart on the same data and ports, and look at it from outside."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

from harness import configs, ports
from harness.control import Control
from harness.http1 import fetch

REPOSITORY = Path(__file__).resolve().parents[3]
BINARY = os.environ.get("STALECAST_BIN", str(REPOSITORY / ".build/release/stalecast"))
LONG = os.environ.get("STALECAST_LONG") == "1"


def environment(**more):
    """The environment for a daemon or a command: ours, without what would configure it behind the test's back."""
    foreign = ("STALECAST_", "COLUMNS", "LINES")
    return {**{key: value for key, value in os.environ.items() if not key.startswith(foreign)}, **more}


class Daemon:
    """One data directory and the process serving it (if any). `directory` holds data, configuration and log."""

    def __init__(self, directory, config=None, half="engine", data=None):
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.data = Path(data or self.directory / "data")
        self.log = self.directory / "stderr.log"
        self.half = half
        self.more = {}  # environment variables of its own
        self.process = None
        self.edge, self.control = ports.free(), ports.free()
        self.configure(config or configs.config(half))

    def configure(self, text):
        """Writes the configuration file; a running daemon sees it at SIGHUP."""
        self.config = self.directory / "stalecast.yaml"
        self.config.write_text(text)

    def command(self, *flags):
        return [BINARY, "serve", "--data", str(self.data), "--config", str(self.config),
                "--edge", f"127.0.0.1:{self.edge}", "--control", f"127.0.0.1:{self.control}", *flags]

    def spawn(self, *flags):
        """Starts the process and returns at once."""
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command(*flags), stdout=log, stderr=log, cwd=self.directory,
                                            env=environment(**self.more))
        return self.process

    def start(self, *flags, timeout=40):
        """Starts and waits until both listeners accept; returns the seconds that took."""
        begin = time.monotonic()
        self.spawn(*flags)
        while not self._endpoints_written():
            code = self.process.poll()
            assert code is None, f"daemon ended with {code} at start:\n{self.log_tail()}"
            assert time.monotonic() - begin < timeout, f"no endpoints.json after {timeout} s:\n{self.log_tail()}"
            time.sleep(0.003)
        return time.monotonic() - begin

    def _endpoints_written(self):
        try:
            endpoints = json.loads((self.data / "endpoints.json").read_text())
        except (FileNotFoundError, json.JSONDecodeError, NotADirectoryError):
            return False
        if endpoints["pid"] != self.process.pid:
            return False
        self.edge = int(endpoints["edge"].rsplit(":", 1)[1])
        self.control = int(endpoints["control"].rsplit(":", 1)[1])
        return True

    @property
    def pid(self):
        return self.process.pid

    @property
    def token(self):
        return (self.data / "control.token").read_text().strip()

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self, timeout=40):
        """The exit code."""
        return self.process.wait(timeout)

    def stop(self, timeout=40):
        """SIGTERM; returns the exit code."""
        self.signal(signal.SIGTERM)
        return self.wait(timeout)

    def kill(self):
        """SIGKILL, now."""
        self.process.kill()
        self.process.wait()

    def dispose(self):
        """Ends the daemon in any state."""
        if self.running:
            self.kill()

    def log_text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def log_tail(self, lines=60):
        return "\n".join(self.log_text().splitlines()[-lines:])

    def client(self, **scope):
        """A Control client with the right token; `project`, `namespace` as in `Control`."""
        return Control(self.control, self.token, **scope)

    async def publish(self, body, **options):
        """Publishes on a connection of its own; returns the version."""
        client = self.client()
        try:
            return await client.publish(body, **options)
        finally:
            client.close()

    async def rollback(self, version):
        client = self.client()
        try:
            return await client.rollback(version)
        finally:
            client.close()

    async def ask_control(self, path, token=True):
        headers = [("Authorization", f"Bearer {self.token}")] if token else []
        return await fetch(self.control, path, headers=headers)

    async def ready(self):
        """The status of /readyz."""
        return (await self.ask_control("/readyz")).status

    async def status(self):
        answer = await self.ask_control("/status")
        assert answer.status == 200, f"/status answered {answer}"
        return answer.json()

    async def metrics(self):
        """Samples of /metrics as {(name, label text): value}."""
        return parse_metrics((await self.ask_control("/metrics")).body.decode())

    async def metric(self, name_pattern, **labels):
        """The sum of all samples whose name matches the pattern and whose labels include these."""
        wanted = [f'{key}="{value}"' for key, value in labels.items()]
        samples = await self.metrics()
        return sum(v for (n, text), v in samples.items()
                   if re.fullmatch(name_pattern, n) and all(label in text for label in wanted))

    async def state(self, *topics):
        """/v1/state of Edge for topics."""
        query = "&".join(f"topic={topic}" for topic in topics or ("PUSH_RC",))
        answer = await fetch(self.edge, f"/v1/state?{query}")
        assert answer.status == 200, f"/v1/state answered {answer}"
        return answer.json()

    def cpu_seconds(self):
        """CPU time of all threads so far, ended ones included: the process's CPU clock (clock_getcpuclockid(3))."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def memory(self, key="VmRSS"):
        """Bytes of resident memory; `VmHWM` is its peak."""
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(re.search(rf"{key}:\s+(\d+) kB", text).group(1)) * 1024

    @contextlib.contextmanager
    def growth_below(self, limit):
        """Fails when resident memory peaks more than `limit` bytes above what it is at entry."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        before = self.memory()
        yield
        grown = self.memory("VmHWM") - before
        assert grown <= limit, f"memory grew by {grown / 2**20:.1f} MB, limit {limit / 2**20:.0f} MB"


@contextlib.contextmanager
def running(directory, settings):
    """A daemon of several tests."""
    daemon = Daemon(directory, settings)
    daemon.start()
    try:
        yield daemon
    finally:
        daemon.dispose()


def versions_in_state(state):
    """All version numbers in an answer of /v1/state, as {"project/namespace": version}."""
    found = {}

    def walk(value):
        if isinstance(value, dict):
            number = value.get("version", value.get("latestTemplateVersionNumber", value.get("versionNumber")))
            if number is not None and "namespace" in value:
                found[f"{value.get('project')}/{value['namespace']}"] = int(number)
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    walk(state)
    return found


def parse_metrics(text):
    samples = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            name, labels, value = re.fullmatch(r"([a-zA-Z_:][\w:]*)(\{.*\})?\s+(\S+)(?:\s+\d+)?", line).groups()
            samples[name, labels or ""] = float(value)
    return samples
