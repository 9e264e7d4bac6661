"""Real etcd members on addresses of loopback: start, kill, freeze, compact, fill, save and restore.

Members are Debian's `etcd-server`, `etcdctl` is `etcd-client`. Their disks are this machine's, so flushes may cost
nothing; etcd 3.6 is not among Debian 12's packages and was not tried."""

import asyncio
import base64
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from harness import ports

PREFIX = "/stalecast/"


def programs():
    """(etcd, etcdctl); the test is skipped loudly when one is not there."""
    found = [shutil.which(name) or shutil.which(name, path="/usr/local/bin") for name in ("etcd", "etcdctl")]
    if not all(found):
        pytest.skip("no etcd here (apt-get install etcd-server etcd-client): this check did not run")
    return found


class Member:
    """One server. Its address and ports stay through kills."""

    def __init__(self, number, address, directory):
        self.number, self.name, self.address = number, f"m{number}", address
        self.directory = Path(directory)
        self.client = f"http://{address}:{ports.free(address)}"
        self.peer = f"http://{address}:{ports.free(address)}"
        self.listens = self.client
        self.data = self.directory / f"{self.name}-0"
        self.process = None
        self.frozen = False

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def spawn(self, etcd, initial, token, options):
        with open(self.directory / f"{self.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                [etcd, "--name", self.name, "--data-dir", self.data, "--listen-client-urls", self.listens,
                 "--advertise-client-urls", self.client, "--listen-peer-urls", self.peer,
                 "--initial-advertise-peer-urls", self.peer, "--initial-cluster", initial,
                 "--initial-cluster-token", token, "--logger", "zap", "--log-outputs", "stderr",
                 # With etcd's default cost each login takes 0.1 s of CPU.
                 "--bcrypt-cost", "4", *options],
                stdout=log, stderr=log, env=plain_environment())

    def kill(self):
        """kill -9; a member that stands still dies as well."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process, self.frozen = None, False

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)
        self.frozen = True

    def thaw(self):
        if self.frozen and self.running:
            self.process.send_signal(signal.SIGCONT)
        self.frozen = False


class Etcd:
    """A cluster of members; `dispose` ends them. `options` are flags of every member."""

    def __init__(self, directory, count=3, options=(), member=Member):
        self.etcd, self.etcdctl = programs()
        self.directory = Path(directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        self.token, self.options, self.generation = f"stalecast-{os.getpid()}-{random.random()}", options, 0
        # A network for each cluster, so that files running beside each other never meet.
        network = f"127.{random.randrange(100, 250)}.{random.randrange(1, 255)}"
        self.members = [member(number, f"{network}.{number + 1}", self.directory) for number in range(count)]
        self.initial = ",".join(f"{member.name}={member.peer}" for member in self.members)

    @property
    def endpoints(self):
        return [member.client for member in self.members]

    def start(self, *members):
        """Starts these members, or all that are not running, and waits until one leads."""
        for member in members or self.members:
            if not member.running:
                member.spawn(self.etcd, self.initial, self.token, self.options)
        self.wait_for_leader()
        return self

    def dispose(self):
        for member in self.members:
            member.kill()

    def call(self, *words, member=None, timeout=10, check=True):
        """etcdctl at one member (or at all); standard output, or None where `check` is false and it failed."""
        where = ",".join(self.endpoints) if member is None else member.client
        try:
            done = subprocess.run([self.etcdctl, "--endpoints", where, "--command-timeout", f"{timeout}s",
                                   "--dial-timeout", "1s", *words], capture_output=True, timeout=timeout + 5,
                                  env=plain_environment())
        except subprocess.TimeoutExpired:
            done = None
        if done is not None and done.returncode == 0:
            return done.stdout
        assert not check, f"etcdctl {words}: {done and done.stderr.decode()}"
        return None

    def status(self, member):
        """`{"header","version","leader",…}` of one member; None when it does not answer."""
        if not member.running or member.frozen:
            return None
        answer = self.call("endpoint", "status", "-w", "json", member=member, timeout=1, check=False)
        return json.loads(answer)[0]["Status"] if answer else None

    def leader(self):
        """The member that leads, as a majority's word; None when there is none."""
        for member in self.members:
            status = self.status(member)
            if status and status.get("leader"):
                for other in self.members:
                    if other is member and status["header"]["member_id"] == status["leader"]:
                        return other
                    theirs = self.status(other) if other is not member else None
                    if theirs and theirs["header"]["member_id"] == status["leader"]:
                        return other
        return None

    def followers(self):
        leader = self.leader()
        return [member for member in self.members if member is not leader]

    def wait_for_leader(self, timeout=30):
        """Until a write goes through; returns the member that leads then."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            if self.call("put", "/harness", "x", timeout=1, check=False) and (leader := self.leader()):
                return leader
            time.sleep(0.05)
        raise AssertionError(f"no leader within {timeout} s: {self.log_tail()}")

    def revision(self):
        for member in self.members:
            if status := self.status(member):
                return status["header"]["revision"]
        raise AssertionError("no member answers")

    def compact(self):
        """Forgets every revision but the newest."""
        self.call("compact", str(self.revision()), timeout=2, check=False)

    @contextlib.contextmanager
    def compacting(self, every=0.2):
        """Compacts again and again, beside all other calls; yields a list with one entry for each time."""
        done, ended = [], threading.Event()

        def run():
            while not ended.wait(every):
                with contextlib.suppress(AssertionError):
                    self.compact()
                    done.append(time.monotonic())

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield done
        finally:
            ended.set()
            thread.join()

    def save(self, file):
        """A snapshot of one member."""
        self.call("snapshot", "save", str(file), member=self.wait_for_leader())

    def restore(self, file, token=None):
        """Every member ends and begins anew with the snapshot; the token, unless given, is the one of before, so etcd
        has the same cluster id and its revision goes back."""
        self.token = token or self.token
        self.generation += 1
        for member in self.members:
            member.kill()
            member.data = self.directory / f"{member.name}-{self.generation}"
            self.call("snapshot", "restore", str(file), "--name", member.name, "--initial-cluster", self.initial,
                      "--initial-cluster-token", self.token, "--initial-advertise-peer-urls", member.peer,
                      "--data-dir", str(member.data), timeout=30)
        return self.start()

    def fill(self):
        """Writes until the quota of `--quota-backend-bytes` is used up (NOSPACE)."""
        for number in range(2000):
            if not self.call("put", f"/filling/{number}", "x" * 100_000, check=False):
                return
        raise AssertionError("there is still room; start with --quota-backend-bytes")

    def make_room(self):
        """After ``fill``: deletes, compacts, defragments, disarms."""
        self.call("del", "--prefix", "/filling/")
        # Else what is compacted later is not defragmented, the quota is still used up, and the alarm comes again.
        self.call("compact", "--physical", str(self.revision()), timeout=30)
        for member in self.members:
            self.call("defrag", member=member)
        self.call("alarm", "disarm")

    def values(self, prefix):
        """{key: value} below a prefix, of bytes."""
        answer = json.loads(self.call("get", "--prefix", prefix, "-w", "json", timeout=30))
        return {base64.b64decode(one["key"]).decode(): base64.b64decode(one.get("value", ""))
                for one in answer.get("kvs", [])}

    def put(self, values):
        """Writes {key: bytes} in one step, past all daemons."""
        puts = [{"request_put": {"key": base64.b64encode(key.encode()).decode(),
                                 "value": base64.b64encode(value).decode()}} for key, value in values.items()]
        with urllib.request.urlopen(f"{self.members[0].client}/v3/kv/txn", json.dumps({"success": puts}).encode(),
                                    timeout=10) as answer:
            assert json.load(answer)["succeeded"]

    def lines(self, cluster="default"):
        """The log as it stands: the first line of each entry, in order of the keys."""
        entries = self.values(f"{PREFIX}{cluster}/log/")
        return [json.loads(entries[key].partition(b"\n")[0]) for key in sorted(entries)]

    def charter(self, cluster="default"):
        return json.loads(self.values(f"{PREFIX}{cluster}/charter")[f"{PREFIX}{cluster}/charter"])

    def log_tail(self):
        return {member.name: (self.directory / f"{member.name}.log").read_text(errors="replace")[-600:]
                for member in self.members}

    async def heal(self):
        """Everything that was done to members is undone."""
        for member in self.members:
            member.thaw()
        await asyncio.to_thread(self.start)


def plain_environment():
    """Ours, without what would configure etcd."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ETCD", "STALECAST_"))}
    return {**kept, "ETCDCTL_API": "3"}
