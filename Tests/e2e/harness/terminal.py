"""A command on a terminal of its own, as a person has it: typed to, read, and looked at."""

import contextlib
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time


class Terminal:
    """`Terminal(command, environment)`: the command runs with the terminal as its controlling one."""

    def __init__(self, command, environment, columns=80, rows=24, cwd=None):
        self.ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.shown = ""
        self.process = subprocess.Popen(
            command, env={"TERM": "xterm", **environment}, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(theirs)

    def read_until(self, words, within=40):
        """Waits until `words` are shown."""
        end = time.monotonic() + within
        while words not in self.shown:
            assert time.monotonic() < end, f"{words!r} was not shown:\n{self.shown}"
            if not self._read(0.2) and self.process.poll() is not None:
                self._read(0)
                assert words in self.shown, f"ended with {self.process.returncode} without {words!r}:\n{self.shown}"
        return self.shown

    def _read(self, timeout):
        if not select.select([self.ours], [], [], timeout)[0]:
            return False
        with contextlib.suppress(OSError):  # EIO: the other end is closed
            part = os.read(self.ours, 65536)
            self.shown += part.decode(errors="replace").replace("\r\n", "\n")
            return bool(part)
        return False

    def type(self, text):
        os.write(self.ours, text.encode())
        return self

    def end(self, within=40):
        """The exit code; everything shown is in `shown`."""
        end = time.monotonic() + within
        while self.process.poll() is None:
            assert time.monotonic() < end, f"still running:\n{self.shown}"
            self._read(0.1)
        while self._read(0):
            pass
        os.close(self.ours)
        return self.process.returncode

    def hang_up(self):
        """Takes the terminal away."""
        os.close(self.ours)
        self.process.wait(20)
