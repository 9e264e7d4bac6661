"""`backup FOLDER --keep N --every TIME`: names after the time, only so many, never fewer good ones because of a failure."""

import re
import signal
import subprocess
import time

import pytest

from harness.cli import Cli
from harness.daemon import BINARY, environment
from harness.templates import marked

NAME = re.compile(r"stalecast-\d{8}T\d{6}Z\.backup")


def until(holds, seconds=20):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.limit(60)
async def test_only_so_many_stay_and_nothing_of_others_is_touched(launch, tmp_path):
    daemon = launch()
    await daemon.client().publish(marked("one"))
    folder = tmp_path / "backups"
    folder.mkdir()
    old = [folder / f"stalecast-2020010{day}T000000Z.backup" for day in range(1, 6)]
    others = [folder / name for name in ("stalecast-2020.backup", "mine.backup", "stalecast-20200101T000000Z.backup.txt")]
    for file in old + others:
        file.write_text("old")
    cli = Cli(daemon)
    cli("backup", str(folder), "--keep", "3")
    kept = sorted(file.name for file in folder.iterdir() if NAME.fullmatch(file.name))
    assert kept[:2] == [file.name for file in old[3:]] and len(kept) == 3
    assert all(file.exists() for file in others)
    verified = subprocess.run([BINARY, "backup", "verify", folder / kept[-1]], env=environment(), capture_output=True, check=False)
    assert verified.returncode == 0, verified.stderr
    cli("backup", str(folder / "none"), "--keep", "3", code=1)
    cli("backup", str(folder), "--keep", "0", code=2)
    assert len(list(folder.iterdir())) == 6


@pytest.mark.limit(90)
async def test_it_goes_on_and_keeps_the_good_ones_while_attempts_fail(launch, tmp_path):
    daemon = launch()
    await daemon.client().publish(marked("one"))
    folder = tmp_path / "backups"
    folder.mkdir()
    command = [BINARY, "backup", folder, "--every", "1s", "--keep", "2", "--data", daemon.data]
    process = subprocess.Popen(command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        made = set()

        def three():
            made.update(file.name for file in folder.iterdir() if NAME.fullmatch(file.name))
            return len(made) >= 3

        until(three)
        until(lambda: sum(bool(NAME.fullmatch(file.name)) for file in folder.iterdir()) == 2)
        daemon.stop()
        (daemon.data / "stalecast.sqlite").rename(tmp_path / "elsewhere")
        assert any("no backup made" in process.stderr.readline() for _ in range(20))
        assert sum(bool(NAME.fullmatch(file.name)) for file in folder.iterdir()) == 2, "what is good stays"
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == -signal.SIGTERM
    assert not [file for file in folder.iterdir() if "unfinished" in file.name]
