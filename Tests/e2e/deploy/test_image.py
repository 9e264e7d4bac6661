"""The image: its files held against their schemas; with --long really built, and run as Kubernetes would run it."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.daemon import LONG, REPOSITORY
from harness.debian import semantic

DEPLOY = REPOSITORY / "deploy"
STATE = REPOSITORY / ".build-venv/image"
BUILDAH = ["buildah", "--storage-driver", "vfs", "--root", str(STATE / "storage"), "--runroot", str(STATE / "run")]


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}:\n{done.stdout}{done.stderr}"
    return done.stdout


def installed(name):
    """A program of the Python environment that the tests run in."""
    path = Path(sys.executable).parent / name
    if not path.exists():
        pytest.skip(f"{name} is not installed: this check did not run")
    return path


def test_the_dockerfile_is_linted():
    run(installed("hadolint"), DEPLOY / "Dockerfile")


def test_the_compose_file_is_one(tool):
    run(installed("check-jsonschema"), "--builtin-schema", "vendor.compose-spec", DEPLOY / "compose.yaml")
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    mounts = [volume.split(":")[0] for each in services.values() for volume in each.get("volumes", [])]
    for path in [mount for mount in mounts if mount.startswith(".")]:
        assert (DEPLOY / path).exists(), path
    daemon = services["stalecast"]
    assert daemon["read_only"] and daemon["cap_drop"] == ["ALL"]
    assert "127.0.0.1:8081:8081" in daemon["ports"], "Control is for this machine"
    # As the container sees it: the rules beside the configuration.
    run(tool("promtool"), "check", "config", "--syntax-only", DEPLOY / "compose/prometheus.yaml")


@pytest.fixture(scope="module")
def image(request, tool, tmp_path_factory):
    """The built image: its archive, its configuration, its files."""
    if not LONG:
        pytest.skip("building an image takes minutes: deploy/test.sh --long")
    if os.geteuid() != 0 or subprocess.run(["unshare", "--mount", "true"], check=False).returncode != 0:
        pytest.skip("no root, or mounts are not allowed here: no image was built")
    tool("buildah")
    shipped = request.getfixturevalue("shipped")
    archive = tmp_path_factory.mktemp("image") / "stalecast.oci.tar"
    print(run(DEPLOY / "image.sh", "--binary", shipped, "--to", archive, "--state", STATE))
    name = "localhost/stalecast:" + semantic(run(shipped, "version").strip())
    container = run(*BUILDAH, "from", "--pull-never", name).strip()
    settings = json.loads(run(*BUILDAH, "inspect", "--type", "image", name))["Docker"]["config"]
    yield archive, settings, Path(run(*BUILDAH, "mount", container).strip())
    run(*BUILDAH, "rm", container)


class Container:
    """PID 1 of namespaces of its own, on a read-only root, as the image's user, with no capability."""

    def __init__(self, root, settings, data_bytes):
        user, group = settings["User"].split(":")
        words = [*settings["Entrypoint"], *settings["Cmd"]]
        env = [*settings["Env"], "STALECAST_EDGE_LISTEN=127.0.0.1:0", "STALECAST_CONTROL_LISTEN=127.0.0.1:0"]
        self.inside = ["setpriv", "--reuid", user, "--regid", group, "--clear-groups", "--bounding-set=-all",
                       "--no-new-privs", "env", "-i", *env]
        mounts = (f'mount --rbind "$1" "$1" && mount -o remount,ro,bind "$1" && mount -t proc proc "$1/proc" &&'
                  f' mount -t tmpfs -o size=64m tmpfs "$1/tmp" &&'
                  f' mount -t tmpfs -o size={data_bytes},mode=700,uid={user},gid={group} tmpfs "$1/data" &&'
                  ' root=$1 && shift && exec chroot "$root" "$@"')
        self.process = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "sh", "-c", mounts, "sh", root, *self.inside, *words],
            stderr=subprocess.PIPE, text=True)
        self.log = ""
        while "listening" not in self.log:
            line = self.process.stderr.readline()
            assert line, f"ended at once:\n{self.log}"
            self.log += line
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        self.first = int(children[0])

    def execute(self, *words):
        """As `docker exec` and HEALTHCHECK do."""
        return subprocess.run(["nsenter", "--mount", "--pid", "--root", "--target", str(self.first), *self.inside, *words],
                              capture_output=True, text=True, check=False)

    def stop(self):
        """SIGTERM to PID 1; its exit code."""
        os.kill(self.first, signal.SIGTERM)
        return self.process.wait(20)


@pytest.mark.limit(900)
def test_the_image_is_small_and_harmless(image):
    archive, settings, root = image
    print(f"archive {archive.stat().st_size / 2**20:.0f} MiB, unpacked {run('du', '-smx', root).split()[0]} MiB")
    assert settings["User"] == "65532:65532" and settings["StopSignal"] == "SIGTERM"
    assert settings["Entrypoint"] == ["stalecast"] and settings["Healthcheck"]["Test"][0] == "CMD", "no shell"
    assert run("find", root, "-xdev", "-type", "f", "-perm", "/6000") == "", "nothing is setuid"
    needed = run("chroot", root, "ldd", "/usr/local/bin/stalecast")
    assert "not found" not in needed and "libswift" not in needed, needed
    assert not (root / "usr/bin/swiftc").exists() and not (root / "source").exists()


@pytest.mark.limit(900)
def test_the_image_runs_read_only_without_root_and_drains(image):
    _, settings, root = image
    container = Container(root, settings, "64m")
    status = Path(f"/proc/{container.first}/status").read_text()
    assert re.search(r"^Uid:\s65532\s65532", status, re.MULTILINE) and re.search(r"^NSpid:.*\s1$", status, re.MULTILINE)
    assert re.search(r"^CapBnd:\s0+$", status, re.MULTILINE) and re.search(r"^NoNewPrivs:\s1$", status, re.MULTILINE)
    assert container.execute("sh", "-c", "echo x >/usr/x").returncode != 0, "the root is read-only"
    health = settings["Healthcheck"]["Test"][1:]
    well = container.execute(*health)
    assert (well.returncode, well.stdout, well.stderr) == (0, "", ""), well
    assert container.stop() == 0


@pytest.mark.limit(900)
def test_the_image_is_unhealthy_when_its_store_cannot_be_written(image):
    _, settings, root = image
    container = Container(root, settings, "20m")
    health = settings["Healthcheck"]["Test"][1:]
    assert container.execute(*health).returncode == 0
    container.execute("sh", "-c", "dd if=/dev/zero of=/data/filled bs=1M count=30 2>/dev/null")
    published = container.execute("sh", "-c", "echo '{}' | stalecast publish - --force")
    assert published.returncode == 1 and "space" in published.stderr, published.stderr
    assert container.execute(*health).returncode == 1
    container.execute("rm", "/data/filled")
    assert container.stop() == 0
