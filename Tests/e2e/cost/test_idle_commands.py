"""What commands cost that wait: next to nothing in each kind of wait."""

import contextlib
import os
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import configs
from harness.daemon import BINARY, environment
from harness.templates import encoded, marked

SECONDS = 2
MOST_OF_A_CORE = 0.1
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextlib.contextmanager
def command(*words):
    process = subprocess.Popen([BINARY, *map(str, words)], env=environment(), text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def idle_share(process):
    """Of a core, once it waits; fails when it has ended meanwhile."""
    time.sleep(0.3)
    used, begun = cpu_seconds(process.pid), time.monotonic()
    time.sleep(SECONDS)
    share = (cpu_seconds(process.pid) - used) / (time.monotonic() - begun)
    assert process.poll() is None, process.communicate()
    return share


class Silent:
    """Listens, takes what is sent, and never answers."""

    def __init__(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.heard = threading.Event()
        self.taken = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.taken.append(connection)
                connection.recv(4096)
                self.heard.set()


@pytest.fixture
def silent():
    server = Silent()
    yield server
    server.listener.close()


@pytest.mark.parametrize("how", ([], ["--poll"]))
def test_a_watch_costs_nothing_while_nothing_happens(launch, how):
    daemon = launch()
    with command("watch", *how, "--data", daemon.data) as process:
        process.stderr.readline()
        share = idle_share(process)
    print(f"watch {how}: {share:.4f} of a core")
    assert share < MOST_OF_A_CORE


def test_a_publish_to_a_silent_server_costs_nothing(silent, tmp_path):
    (tmp_path / "token").write_text("token")
    (tmp_path / "template.json").write_bytes(encoded(marked("x")))
    with command("publish", tmp_path / "template.json", "--control", f"http://127.0.0.1:{silent.port}",
                 "--token-file", tmp_path / "token") as process:
        assert silent.heard.wait(10)
        share = idle_share(process)
    print(f"publish: {share:.4f} of a core")
    assert share < MOST_OF_A_CORE


def test_a_test_of_a_slow_receiver_costs_nothing(launch, silent):
    daemon = launch(configs.config(webhooks={"allowedAddresses": ["127.0.0.0/8"]}))
    shown = subprocess.run([BINARY, "webhooks", "add", f"http://127.0.0.1:{silent.port}/", "--json", "--data",
                            daemon.data], env=environment(), capture_output=True, text=True, check=True).stdout
    name = shown.split('"id":')[1].split('"')[1]
    with command("webhooks", "test", name, "--data", daemon.data) as process:
        assert silent.heard.wait(10)
        share = idle_share(process)
        process.send_signal(signal.SIGTERM)
    print(f"webhooks test: {share:.4f} of a core")
    assert share < MOST_OF_A_CORE
