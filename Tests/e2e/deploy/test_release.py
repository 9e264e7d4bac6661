"""What deploy/release.sh makes of one binary: everything there, of one version, the same bytes each time."""

import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile

import pytest
import yaml

from harness.daemon import LONG, REPOSITORY



@pytest.fixture(scope="module")
def signer():
    """Arguments that sign, by a key in a home of its own; its path is short, because gpg's agent has a socket there."""
    home = tempfile.mkdtemp(prefix="g", dir="/tmp")
    gpg = ["gpg", "--homedir", home, "--batch", "--quiet"]
    subprocess.run([*gpg, "--passphrase", "", "--quick-generate-key", "release@example.org", "ed25519"], check=True)
    yield home
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=True)
    shutil.rmtree(home)


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
    assert {f"stalecast-{version}.tgz", f"stalecast-{version}.cdx.json", "SHA256SUMS"} < names
    assert [name for name in names if name.endswith(".deb")] and [name for name in names if name.endswith(".tar.gz")]
    assert f"stalecast-{version}.oci.tar" in names or not LONG or os.geteuid() != 0
    subprocess.run(["sha256sum", "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=released, check=True)
    summed = {line.split()[1] for line in (released / "SHA256SUMS").read_text().splitlines()}
    assert summed == names - {"SHA256SUMS", "SHA256SUMS.asc"}
    subprocess.run(["gpg", "--homedir", signer, "--batch", "--verify", "SHA256SUMS.asc", "SHA256SUMS"], cwd=released, check=True)


@pytest.mark.skipif("STALECAST_SHIPPED" in os.environ, reason="a given binary may be of another commit")
def test_a_build_between_two_releases_sorts_behind_the_first(shipped, version):
    said = json.loads(subprocess.run([shipped, "version", "--json"], capture_output=True, text=True, check=True).stdout)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    assert said["version"] == version and said["revision"] == commit.strip()
    release, _, build = version.partition("+")
    if build:
        assert re.fullmatch(rf"git\d+\.{commit[:7]}(\.changed)?", build), build
        assert subprocess.run(["dpkg", "--compare-versions", version, "gt", release], check=False).returncode == 0


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
    chart = helm.Chart.load(released / f"stalecast-{version}.tgz")
    assert chart.metadata["version"] == chart.metadata["appVersion"] == version
    assert f'stalecast:{version.replace("+", "-")}"' in "".join(chart.render({}, name="demo", namespace="config").values())


@pytest.mark.limit(900)
@pytest.mark.skipif(not LONG, reason="a second release takes minutes: deploy/test.sh --long")
def test_a_second_release_has_the_same_bytes(released, shipped, tmp_path):
    again = release(shipped, tmp_path / "again", image=False)
    wanted = [line for line in (released / "SHA256SUMS").read_text().splitlines() if not line.endswith(".oci.tar")]
    assert (again / "SHA256SUMS").read_text().splitlines() == wanted


def test_workflows_call_what_exists():
    """They run at the forge only; here: every command of ours in them is there, and takes the options it is given."""
    steps = [step for path in (REPOSITORY / ".github/workflows").glob("*.yml")
             for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]
    commands = [line.split() for step in steps for line in step.get("run", "").splitlines()
                if re.match(r"deploy/|\.ci/", line)]
    assert {command[0] for command in commands} == {".ci/run", "deploy/test.sh", "deploy/release.sh"}
    for name, *arguments in commands:
        assert os.access(REPOSITORY / name, os.X_OK), name
        known = (REPOSITORY / name).read_text()
        assert all(argument in known for argument in arguments if argument.startswith("--")), (name, arguments)
