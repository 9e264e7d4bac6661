"""The Debian package: what is in it, and its life on a Debian that never had it."""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from harness.debian import Debian, as_version, build_package, run

@pytest.fixture(scope="module")
def contents(package, tmp_path_factory):
    """The package's files, unpacked."""
    directory = tmp_path_factory.mktemp("contents")
    run("dpkg-deb", "-x", package, directory)
    return directory


# It reads the whole binary: more than a minute.
@pytest.mark.campaign
@pytest.mark.limit(300)
def test_lintian_finds_no_error(package, tool):
    said = run(tool("lintian"), "--allow-root", "--fail-on", "error,warning", package)
    assert "E:" not in said, said


@pytest.mark.limit(300)
def test_the_same_binary_gives_the_same_package(package, shipped, tmp_path):
    time.sleep(max(0, 1.1 - (time.time() - package.stat().st_mtime)))  # another second: what is stamped shows
    assert build_package(shipped, tmp_path).read_bytes() == package.read_bytes()


def test_the_package_depends_on_what_bookworm_has(package):
    said = run("dpkg-deb", "-f", package, "Depends")
    names = [re.split(r"[ (]", word.strip())[0] for part in said.split(",") for word in part.split("|")]
    assert "libcurl4" in names and not [name for name in names if "swift" in name]
    if "bookworm" not in Path("/etc/os-release").read_text():
        pytest.skip("not Debian 12: what it depends on was not looked up")
    known = set(re.findall(r"(?m)^Package: (.*)$", run("apt-cache", "show", *names)))
    assert not set(names) - known


def manuals(contents):
    return sorted((contents / "usr/share/man/man1").glob("*.1.gz"))


def commands(shipped):
    """Each command as its words, from the command line's own description."""
    def walk(command, path):
        yield path
        for child in command.get("subcommands", []):
            if child["commandName"] != "help" and child.get("shouldDisplay", True):
                yield from walk(child, [*path, child["commandName"]])
    return list(walk(json.loads(run(shipped, "--experimental-dump-help"))["command"], ["stalecast"]))


def test_every_command_has_a_manual_that_mandoc_accepts(contents, shipped, tool, tmp_path):
    assert {path.name for path in manuals(contents)} == {f"{'-'.join(words)}.1.gz" for words in commands(shipped)}
    for path in manuals(contents):
        page = tmp_path / path.name.removesuffix(".gz")
        page.write_text(run("gzip", "-dc", path))
        assert run(tool("mandoc"), "-Tlint", "-Wwarning", page) == ""
        text = run("mandoc", "-Tutf8", page)
        assert len(text.splitlines()) > 10, text


@pytest.mark.parametrize("shell,file", (
    ("bash", "bash-completion/completions/stalecast"), ("zsh", "zsh/vendor-completions/_stalecast"),
    ("fish", "fish/vendor_completions.d/stalecast.fish")))
def test_completions_offer_every_command(contents, shipped, tool, shell, file):
    script = contents / "usr/share" / file
    top = sorted(words[1] for words in commands(shipped) if len(words) == 2)
    if shell == "bash":
        ask = f"source {script}; COMP_WORDS=(stalecast ''); COMP_CWORD=1; $(complete -p stalecast | sed 's/.*-F \\([^ ]*\\).*/\\1/') stalecast '' stalecast; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        offered = run(tool("bash"), "-c", ask).split()
    elif shell == "fish":
        said = run(tool("fish"), "--no-config", "-c", f"source {script}; complete -C 'stalecast '")
        offered = [line.split("\t")[0] for line in said.splitlines()]
    else:
        # The completer wants a terminal; that it parses and names each command is what can be seen without one.
        run(tool("zsh"), "-n", script)
        offered = re.findall(r"^\s+'([a-z-]+):", script.read_text(), re.MULTILINE)
    assert not set(top) - set(offered), f"missing: {set(top) - set(offered)}"


def test_the_conffile_does_not_change_with_the_reference(contents, shipped):
    conffile = (contents / "etc/stalecast/stalecast.yaml").read_text()
    assert not [line for line in conffile.splitlines() if not line.startswith("#")], "every default holds"
    assert len(conffile.splitlines()) < 10
    reference = contents / "usr/share/doc/stalecast/stalecast.yaml"
    assert reference.read_text() == run(shipped, "check-config", "--explain")


def test_systemd_and_its_tools_accept_what_is_installed(contents, tool, tmp_path):
    unit = contents / "lib/systemd/system/stalecast.service"
    text = unit.read_text()
    assert "ExecReload=/usr/bin/stalecast check-config --for-start --config /etc/stalecast/stalecast.yaml $STALECAST_OPTIONS\nExecReload=" in text
    assert "WatchdogSec=60" in text and "/usr/local" not in text
    verified = subprocess.run([tool("systemd-analyze"), "verify", "--man=no", unit],
                              capture_output=True, text=True, check=False)
    # The binary is not installed here.
    ours = [line for line in verified.stderr.splitlines()
            if "stalecast" in line and "/usr/bin/stalecast is not executable" not in line]
    assert not ours, ours
    said = run("systemd-analyze", "security", "--offline=yes", "--threshold=20", unit)
    print(said.splitlines()[-1])
    assert re.search(r"Overall exposure level.*: 1\.[0-2] OK", said), said[-300:]
    (tmp_path / "etc").mkdir()
    run(tool("systemd-sysusers"), f"--root={tmp_path}", contents / "usr/lib/sysusers.d/stalecast.conf")
    assert re.search(r"^stalecast:.*:/var/lib/stalecast:", (tmp_path / "etc/passwd").read_text(), re.MULTILINE)
    run(tool("systemd-tmpfiles"), f"--root={tmp_path}", "--create", contents / "usr/lib/tmpfiles.d/stalecast.conf")
    assert (tmp_path / "var/lib/stalecast").stat().st_mode & 0o7777 == 0o700


@pytest.mark.limit(900)
def test_a_package_is_installed_used_upgraded_and_purged(package, tool, tmp_path):
    debian = Debian(tmp_path / "debian", tool)
    install = "apt-get -qq -y --no-install-recommends install"
    (debian.root / "tmp/template.json").write_text('{"parameters":{"a":{"defaultValue":{"value":"1"}}}}')
    run("cp", package, debian.root / "tmp/first.deb")
    debian.run(f"{install} /tmp/first.deb")
    assert debian.run("stat -c '%a %U %G' /var/lib/stalecast /etc/stalecast /etc/stalecast/stalecast.yaml") == (
        "700 stalecast stalecast\n750 root stalecast\n640 root stalecast\n")
    debian.run("useradd -m -G stalecast ada && useradd -m eve")
    debian.run("echo 'STALECAST_OPTIONS=\"--edge 127.0.0.1:0 --control 127.0.0.1:0\"' >>/etc/default/stalecast")
    debian.serve()
    debian.run("stalecast publish /tmp/template.json", user="ada")
    assert '"ready": true' in debian.run("stalecast status --json", user="ada"), "an operator needs no root"
    debian.fails("stalecast status", user="eve")
    debian.fails("cat /var/lib/stalecast/control.token", user="ada")
    debian.stop()

    run("cp", as_version(package, "99.0.0", tmp_path), debian.root / "tmp/next.deb")
    configuration = debian.root / "etc/stalecast/stalecast.yaml"
    configuration.write_text("log: {level: debug}\n")
    debian.run(f"{install} /tmp/next.deb </dev/null")
    assert configuration.read_text() == "log: {level: debug}\n", "what the operator changed stays"
    assert "99.0.0" in debian.run("dpkg-query -W stalecast")
    debian.serve()
    assert '"versionNumber": "1"' in debian.run("stalecast versions --json", user="ada")
    debian.stop()

    debian.run("apt-get -qq -y remove stalecast")
    assert (debian.root / "var/lib/stalecast/stalecast.sqlite").exists() and configuration.exists(), "removing keeps data"
    own = debian.root / "etc/stalecast/edge.pem"
    own.write_text("the operator's")
    debian.run("apt-get -qq -y purge stalecast")
    assert own.read_text() == "the operator's", "what is not the package's stays"
    debian.run("rm -r /etc/stalecast")
    left = debian.run("find / -xdev -name '*stalecast*' -not -path '/proc/*' -not -path '/run/stalecast*'"
                      " -not -path '/var/cache/apt/*'; getent passwd stalecast; true")
    assert left == "", left
