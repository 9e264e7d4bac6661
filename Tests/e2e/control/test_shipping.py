"""What is shipped: the binary on a machine without Swift, the systemd unit, the documents."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time

import pytest

from harness.daemon import BINARY, REPOSITORY, environment

DEPLOY = REPOSITORY / "deploy"
DOCUMENTS = [REPOSITORY / "README.md", *sorted(DEPLOY.glob("**/*.md")), REPOSITORY / "samples/README.md"]


def swift_libraries():
    """The directories of the toolchain that hold Swift's own libraries."""
    said = subprocess.run(["swiftc", "-print-target-info"], capture_output=True, text=True, check=True)
    return [path for path in json.loads(said.stdout)["paths"]["runtimeLibraryPaths"] if os.path.isdir(path)]


@pytest.mark.limit(300)
def test_the_shipped_binary_runs_where_there_is_no_swift(tool, shipped, tmp_path):
    tool("swiftc")
    binary = shipped
    needed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=True).stdout
    assert "libswift" not in needed and "libFoundation" not in needed and "not found" not in needed, needed
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("mounts are not allowed here: the binary was not run with Swift's libraries hidden")
    hide = " && ".join(f"mount -t tmpfs none {shlex.quote(path)}" for path in swift_libraries())
    hidden = ["unshare", "--mount", "sh", "-c", f'{hide} && exec {shlex.quote(binary)} "$@"', "stalecast"]
    done = subprocess.run([*hidden, "version"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.strip(), done.stderr
    serving = subprocess.Popen(
        [*hidden, "serve", "--data", str(tmp_path / "data"), "--edge", "127.0.0.1:0", "--control", "127.0.0.1:0"],
        stderr=subprocess.PIPE, text=True, env=environment())
    while "listening" not in (line := serving.stderr.readline()):
        assert line, "ended before it listened"
    serving.send_signal(signal.SIGTERM)
    assert serving.wait(16) == 0


def unit():
    lines = (DEPLOY / "stalecast.service").read_text().splitlines()
    return [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]


@pytest.mark.parametrize("configured", (False, True))
def test_the_unit_starts_with_and_without_a_configuration(tmp_path, configured):
    settings = dict(unit())
    assert settings["RestartPreventExitStatus"] == "78"
    file = tmp_path / "stalecast.yaml"
    if configured:
        file.write_text("projects: [{id: configured, number: 7}]\n")
    # As systemd reads it: quotes, then $$ for a dollar.
    command = [word.replace("$$", "$").replace("/usr/local/bin/stalecast", BINARY)
               .replace("/etc/stalecast/stalecast.yaml", str(file)).replace("/var/lib/stalecast", str(tmp_path / "data"))
               for word in shlex.split(settings["ExecStart"])]
    name, value = settings["Environment"].split("=", 1)
    ports = {"STALECAST_EDGE_LISTEN": "127.0.0.1:0", "STALECAST_CONTROL_LISTEN": "127.0.0.1:0", name: value}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment(**ports))
    try:
        endpoints = tmp_path / "data/endpoints.json"
        while not endpoints.exists():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.01)
        assert json.loads(endpoints.read_text())["pid"] == process.pid, "the shell is replaced: systemd knows one process"
        status = subprocess.run([BINARY, "status", "--json", "--data", str(tmp_path / "data")], capture_output=True,
                                text=True, check=True, env=environment()).stdout
        assert ("configured" in status) == configured
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(16) == 0


def test_systemd_understands_the_unit(tool):
    done = subprocess.run([tool("systemd-analyze"), "security", "--offline=yes", str(DEPLOY / "stalecast.service")],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "OK" in done.stdout.splitlines()[-1], done.stdout[-500:] + done.stderr


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_of_the_documents_lead_somewhere(document):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", document.read_text()):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_how_far_it_goes_is_computed_from_its_inputs():
    program = [sys.executable, str(REPOSITORY / "deploy/bench/how-far.py")]
    checked = subprocess.run([*program, "--check", str(REPOSITORY / "deploy/docs/how-far.md")], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    other = subprocess.run([*program, "--set", "cores=2"], capture_output=True, text=True, check=True).stdout
    assert "| machines | 4 | 40 | 400 |" in other
    for wrong in ("cores=0", "cores=x", "core=2", "cores=inf", "cores=nan"):
        assert subprocess.run([*program, "--set", wrong], capture_output=True).returncode == 2


def test_readme_is_read_in_one_go():
    assert len((REPOSITORY / "README.md").read_text().splitlines()) <= 160


def test_the_top_level_is_what_was_agreed(tool):
    listed = subprocess.run([tool("git"), "-C", REPOSITORY, "ls-files"], capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        pytest.skip("not a clone of git's: what belongs to it is not known")
    names = {line.split("/")[0] for line in listed.stdout.splitlines()}
    assert {name for name in names if not name.startswith(".")} == {
        "Package.swift", "README.md", "Sources", "Tests", "deploy", "samples"}


def test_a_build_that_was_moved_says_what_to_do(tmp_path):
    """A compiler that complains as a real one does when a checkout was copied with its build."""
    fake = tmp_path / "swift"
    fake.write_text("#!/bin/sh\necho \"error: precompiled file 'x.pch' was compiled with module cache path '/old'\"\nexit 1\n")
    fake.chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", f"set -euo pipefail; cd {shlex.quote(str(tmp_path))}; source {DEPLOY / 'packages.sh'}; "
                       "build_swift --product stalecast || exit 9"],
        capture_output=True, text=True, check=False, env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"})
    assert done.returncode == 9 and "remove .build" in done.stderr and "minutes" in done.stderr, done.stderr


def test_a_build_is_counted_in_one_line(tmp_path):
    """Steps are for people; what a compiler says stays, but for warnings about other people's packages."""
    said = "[1/3] Compiling A\\nwarning: '\\''swift-x'\\'' deprecated\\n/x/checkouts/y: warning\\n\\nerror: mine\\n[3/3] Linking\\n"
    done = subprocess.run(["bash", "-c", f"source {DEPLOY / 'packages.sh'}; printf '{said}' | show_steps"],
                          capture_output=True, text=True, check=True)
    assert done.stdout == "error: mine\n" and done.stderr == "building: step 1 of 3, 0 min 0 s\n"
