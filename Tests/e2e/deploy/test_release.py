"""What deploy/release.sh makes of one binary: everything there, of one version, the same bytes each time."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
import yaml

from harness.daemon import LONG, REPOSITORY
from harness.debian import semantic


@pytest.fixture(scope="module")
def signer():
    """Arguments that sign, by a key in a home of its own; its path is short, because gpg's agent has a socket there."""
    home = tempfile.mkdtemp(prefix="g", dir="/tmp")
    gpg = ["gpg", "--homedir", home, "--batch", "--quiet"]
    subprocess.run([*gpg, "--passphrase", "", "--quick-generate-key", "release@example.org", "ed25519"], check=True)
    yield home
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)
    shutil.rmtree(home, ignore_errors=True)  # the agent removes its sockets meanwhile


def release(shipped, directory, image=LONG, signer=None):
    """Lightly compressed; an image takes root and minutes. `signer` is gpg's home."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1790000000", "DPKG_DEB_COMPRESSOR_TYPE": "gzip",
                   "DPKG_DEB_COMPRESSOR_LEVEL": "1", **({"GNUPGHOME": signer} if signer else {})}
    done = subprocess.run([REPOSITORY / "deploy/release.sh", "--binary", shipped, "--to", directory,
                           *(() if image and os.geteuid() == 0 else ("--no-image",)),
                           *(("--sign", "release@example.org") if signer else ())],
                          capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    print(done.stdout)
    return directory


@pytest.fixture(scope="module")
def version(shipped):
    return subprocess.run([shipped, "version"], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def released(shipped, signer, tmp_path_factory):
    return release(shipped, tmp_path_factory.mktemp("release"), signer=signer)


@pytest.mark.limit(900)
def test_a_release_is_complete_and_its_sums_are_right(released, signer, version):
    names = {path.name for path in released.iterdir()}
    assert {f"stalecast-{semantic(version)}.tgz", f"stalecast-{version}.cdx.json", "SHA256SUMS"} < names
    assert [name for name in names if name.endswith(".deb")] and [name for name in names if name.endswith(".tar.gz")]
    assert f"stalecast-{semantic(version)}.oci.tar" in names or not LONG or os.geteuid() != 0
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=released, check=True)
    summed = {line.split()[1] for line in (released / "SHA256SUMS").read_text().splitlines()}
    assert summed == names - {"SHA256SUMS", "SHA256SUMS.asc"}
    subprocess.run(["gpg", "--homedir", signer, "--batch", "--verify", "SHA256SUMS.asc", "SHA256SUMS"], cwd=released, check=True)


@pytest.mark.skipif("STALECAST_SHIPPED" in os.environ, reason="a given binary may be of another commit")
def test_a_binary_knows_its_commit(shipped, version):
    said = json.loads(subprocess.run([shipped, "version", "--json"], capture_output=True, text=True, check=True).stdout)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert said["version"] == version and said["revision"] == commit.strip()
    build = version.partition("~")[2]
    assert not build or re.fullmatch(rf"git\d+\.{commit[:7]}(\.changed)?", build), build


class Repository:
    """A repository of few commits and tags of its own, with this one's scripts and version."""

    def __init__(self, directory):
        self.directory = directory
        self.version_file = directory / "Sources/StalecastDaemon/Daemon.swift"
        self.version_file.parent.mkdir(parents=True)
        shutil.copy(REPOSITORY / "Sources/StalecastDaemon/Daemon.swift", self.version_file)
        shutil.copytree(REPOSITORY / "deploy", directory / "deploy")
        self.release = re.search(r'release = "(.*)"', self.version_file.read_text()).group(1)
        self.git("init", "-q")
        self.git("config", "user.name", "a")
        self.git("config", "user.email", "a@example.org")
        self.git("add", ".")
        self.commit()

    def git(self, *words):
        subprocess.run(["git", "-C", self.directory, *words], check=True, capture_output=True)

    def commit(self):
        self.git("commit", "-qa", "--allow-empty", "-m", "Another")

    def version(self):
        """Version of what deploy/install.sh would link here, and how charts and images spell it."""
        done = self.described()
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def described(self):
        script = """set -euo pipefail; source deploy/packages.sh; described=$(describe_build); read -r build _ <<<"$described"
            [ $build = release ] && v=$(release) || v=$(release)~$build; echo $v; semantic $v"""
        return subprocess.run(["bash", "-c", script], cwd=self.directory, text=True, capture_output=True, check=False)


@pytest.fixture
def repository(tool, tmp_path):
    tool("git")
    return Repository(tmp_path / "repository")


def is_before(one, other):
    """Whether Debian sorts the first before the second, and SemVer its spelling before the other's."""
    def order(version):
        core, _, before = version.partition("-")
        parts = [(0, int(each), "") if each.isdigit() else (1, 0, each) for each in before.split(".")]
        return ([int(each) for each in core.split(".")], not before, parts)
    dpkg = subprocess.run(["dpkg", "--compare-versions", one[0], "lt", other[0]], check=False)
    return dpkg.returncode == 0 and order(one[1]) < order(other[1])


def test_versions_sort_from_release_to_release(repository):
    release = repository.release
    versions = [["0.2.0+git14.51b72f7", "0.2.0"]]
    for _ in range(10):  # the number gets a second digit on the way
        repository.commit()
        versions.append(repository.version())
    repository.git("tag", f"v{release}")
    versions.append(repository.version())
    assert versions[-1] == [release, release]
    assert re.fullmatch(rf"{release}-git\.11\.g[0-9a-f]{{7}}", versions[-2][1]), "a number with a zero in front is no SemVer"
    assert all(is_before(one, other) for one, other in zip(versions, versions[1:])), versions
    (repository.directory / "deploy/CHANGES.md").write_text("changed")
    assert re.fullmatch(rf"{release}~git11\.[0-9a-f]{{7}}\.changed", repository.version()[0]), "no longer what the tag names"
    shutil.rmtree(repository.directory / ".git")
    assert repository.version() == [f"{release}~dev", f"{release}-dev"]


@pytest.mark.parametrize("tag", ("v{release}", "{release}"))
def test_nothing_is_built_behind_a_release_of_the_same_version(repository, tag):
    repository.git("tag", tag.format(release=repository.release))
    repository.commit()
    done = repository.described()
    assert done.returncode == 1 and "is released: raise it" in done.stderr and not done.stdout, done
    text = repository.version_file.read_text()
    repository.version_file.write_text(text.replace(f'release = "{repository.release}"', 'release = "9.0.0"'))
    repository.commit()
    assert repository.version()[0].startswith("9.0.0~git")


@pytest.mark.parametrize("option", ("--no-tests", "--check"))
@pytest.mark.parametrize("tag,said", (
    ("v9.9.9", "Daemon.swift says"), ("9.9.9", "Daemon.swift says"), ("v{release}", "CHANGES.md has no heading")))
def test_a_tag_that_the_source_denies_is_not_released(repository, tag, said, option):
    changes = repository.directory / "deploy/CHANGES.md"
    changes.write_text(changes.read_text().replace(f"## {repository.release}\n", ""))
    repository.commit()
    repository.git("tag", tag.format(release=repository.release))
    done = subprocess.run(["deploy/release.sh", "--no-image", option], cwd=repository.directory, capture_output=True,
                          text=True, check=False)
    assert done.returncode == 1 and said in done.stderr, done.stderr


def test_a_directory_that_is_no_release_is_not_emptied(repository, tmp_path):
    other = tmp_path / "home"
    other.mkdir()
    (other / "letters").write_text("of somebody")
    (other / "SHA256SUMS").write_text("")
    done = subprocess.run(["deploy/release.sh", "--no-image", "--no-tests", "--to", other], cwd=repository.directory,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "holds something else than a release" in done.stderr, done.stderr
    assert (other / "letters").read_text() == "of somebody"


def test_the_bill_of_materials_is_cyclonedx(released, version):
    cyclonedx = pytest.importorskip("cyclonedx.validation.json", reason="cyclonedx-python-lib is not installed")
    from cyclonedx.schema import SchemaVersion
    text = (released / f"stalecast-{version}.cdx.json").read_text()
    assert cyclonedx.JsonStrictValidator(SchemaVersion.V1_5).validate_str(text) is None
    components = {each["name"]: each["version"] for each in json.loads(text)["components"]}
    assert {"swift-nio", "grdb.swift", "libcurl4", "libsqlite3-0"} <= set(components)
    assert json.loads(text)["metadata"]["component"]["version"] == version


def test_the_archive_has_a_binary_that_runs(released, version, tmp_path):
    [archive] = released.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    [top] = tmp_path.iterdir()
    said = subprocess.run([top / "bin/stalecast", "version"], capture_output=True, text=True, check=True).stdout
    assert said.strip() == version and (top / "share/man/man1/stalecast-serve.1.gz").exists()
    assert (top / "stalecast.service").exists()


def test_the_packaged_chart_has_the_version_and_renders(released, version):
    helm = pytest.importorskip("helm_python", reason="helm-python-sdk is not installed: the chart was not read")
    chart = helm.Chart.load(released / f"stalecast-{semantic(version)}.tgz")
    assert chart.metadata["version"] == chart.metadata["appVersion"] == semantic(version)
    assert f'stalecast:{semantic(version)}"' in "".join(chart.render({}, name="demo", namespace="config").values())


@pytest.mark.limit(900)
@pytest.mark.skipif(not LONG, reason="a second release takes minutes: deploy/test.sh --long")
def test_a_second_release_has_the_same_bytes(released, shipped, tmp_path):
    again = release(shipped, tmp_path / "again", image=False)
    wanted = [line for line in (released / "SHA256SUMS").read_text().splitlines() if not line.endswith(".oci.tar")]
    assert (again / "SHA256SUMS").read_text().splitlines() == wanted


WORKFLOWS = sorted((REPOSITORY / ".github/workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_has_the_form_of_one(path, tool, tmp_path):
    """The forge's schema, and the shell of each step as the runner starts it."""
    checker = Path(sys.executable).parent / "check-jsonschema"
    if not checker.exists():
        pytest.skip("check-jsonschema is not installed: this check did not run")
    done = subprocess.run([checker, "--builtin-schema", "vendor.github-workflows", path], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        for number, step in enumerate(step for step in job["steps"] if "run" in step):
            script = tmp_path / f"step{number}.sh"
            script.write_text("#!/bin/bash -e\n" + step["run"])
            done = subprocess.run([tool("shellcheck"), script], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout


def test_a_workflow_gives_no_stranger_a_hold():
    """Actions by their commit, no credentials on disk, no text of strangers in a shell: what the auditor looks for."""
    auditor = Path(sys.executable).parent / "zizmor"
    if not auditor.exists():
        pytest.skip("zizmor is not installed: this check did not run")
    done = subprocess.run([auditor, "--offline", "--no-progress", "--min-severity", "low", *WORKFLOWS], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_workflows_call_what_exists():
    """They run at the forge only; here: every command of ours in them is there, and takes the options it is given."""
    steps = [step for path in WORKFLOWS for job in yaml.safe_load(path.read_text())["jobs"].values()
             for step in job["steps"]]
    commands = [line.split() for step in steps for line in step.get("run", "").splitlines()
                if re.match(r"deploy/|\.ci/", line)]
    assert {command[0] for command in commands} == {".ci/run", "deploy/test.sh", "deploy/release.sh"}
    for name, *arguments in commands:
        assert os.access(REPOSITORY / name, os.X_OK), name
        known = (REPOSITORY / name).read_text()
        assert all(argument in known for argument in arguments if argument.startswith("--")), (name, arguments)
