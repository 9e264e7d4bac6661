"""Disks that fail: fsync errors put into a running process by strace, and small file systems that fill up."""

import contextlib
import os
import subprocess
import time
from pathlib import Path


@contextlib.contextmanager
def failing_fsync(strace, pid, when="1+", error="EIO"):
    """From entry on fsync and fdatasync of the process fail (`when`: strace's expression, `3` only the third)."""
    inject = f"inject=fdatasync,fsync:error={error}:when={when}"
    process = subprocess.Popen([strace, "-f", "-qq", "-o", "/dev/null", "-p", str(pid), "-e", "trace=fdatasync,fsync",
                                "-e", inject], stderr=subprocess.PIPE)
    wait_until_traced(pid, process)
    try:
        yield
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait()


def wait_until_traced(pid, tracer, timeout=10):
    """Every thread of the process has the tracer attached."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        assert tracer.poll() is None, f"strace ended: {tracer.stderr.read().decode()}"
        states = [(task / "status").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
        if all(f"TracerPid:\t{tracer.pid}" in state for state in states):
            return
        time.sleep(0.01)
    raise AssertionError("strace did not attach")


@contextlib.contextmanager
def small_disk(directory, size):
    """A tmpfs of `size` (`8m`) on `directory`; gone afterwards."""
    directory.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(directory)], check=True)
    try:
        yield directory
    finally:
        subprocess.run(["umount", "-l", str(directory)], check=True)


def fill(directory, leave=0):
    """Writes a ballast file until at most `leave` bytes are free; returns its path."""
    ballast = directory / "ballast"
    with open(ballast, "ab", buffering=0) as file:
        for block in (1 << 20, 1 << 16, 1 << 12):
            with contextlib.suppress(OSError):
                while free_bytes(directory) > leave + block or leave == 0:
                    file.write(b"\0" * block)
    return ballast


def free_bytes(directory):
    status = os.statvfs(directory)
    return status.f_bavail * status.f_frsize
