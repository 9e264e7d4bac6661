#!/usr/bin/env python3
"""Checks on x86-64 that all targets compile for Linux on arm64: C is compiled, Swift is type-checked; nothing is linked.

deploy/check-arm64.py [--build DIR] [TARGET…]

Needs a release build (`swift build -c release --build-tests`; default for DIR: .build) and the packages
libc6-dev-arm64-cross and libstdc++-12-dev-arm64-cross. Without TARGET it takes all of Sources; a test's target can be
named.

  0  all compile
  1  some do not: the compiler's words are above
  2  called wrongly, or the build does not have a target
  3  this machine cannot tell: its reason is on standard error

A toolchain for x86-64 has no standard library for arm64. Here it reads the modules that it has, under another name of
the platform; C types are those of arm64, from Debian's headers. What differs in the standard library itself is not
seen, such as the sign of CChar. Packages are not compiled: their authors test them on arm64.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

TARGET = "aarch64-unknown-linux-gnu"
# A module says for which platform it was made, and its text has no room for a longer name; "unkown" is no vendor either.
HOST, RENAMED = b"x86_64-unknown-linux-gnu", b"aarch64-unkown-linux-gnu"
HEADERS = pathlib.Path("/usr/aarch64-linux-gnu/include")
# Headers of libraries whose interface is the same on both.
SHARED_HEADERS = ("zlib.h", "zconf.h", "sqlite3.h", "sqlite3ext.h", "curl")
HOST_HEADERS = (pathlib.Path("/usr/include"), pathlib.Path("/usr/include/x86_64-linux-gnu"))
SOURCES = pathlib.Path(__file__).resolve().parent.parent / "Sources"
# Not in a directory of its own.
ALSO_OURS = ("StalecastBenchmarks",)

# Words of a compile command that would write a file or name the other platform; the second kind has a value.
DROPPED = re.compile(
    r"-emit-dependencies|-emit-module|-emit-objc-header|-c|-serialize-diagnostics|-parseable-output|-O|-MD|-j\d+")
DROPPED_PAIRS = {
    "-emit-module-path", "-output-file-map", "-emit-objc-header-path", "-num-threads", "-target", "-module-cache-path",
    "-MT", "-MF", "-o",
}


class CannotTell(Exception):
    """Reason why this machine cannot check anything."""


def renamed(module: pathlib.Path) -> bytes:
    return module.read_bytes().replace(HOST, RENAMED)


class Platform:
    """Directories in `work` that pretend to be a toolchain's for arm64."""

    def __init__(self, work: pathlib.Path, release: pathlib.Path):
        self.resources, self.sdk, self.modules, self.cache = (work / name for name in ("swift", "sdk", "modules", "cache"))
        self._add_standard_library()
        self._add_headers()
        self.modules.mkdir()
        for module in (release / "Modules").glob("*.swiftmodule"):
            (self.modules / module.name).write_bytes(renamed(module))

    def _add_standard_library(self):
        info = json.loads(subprocess.check_output(["swiftc", "-print-target-info"]))
        subprocess.run(["cp", "-as", info["paths"]["runtimeResourcePath"], self.resources], check=True)
        linux = self.resources / "linux"
        for directory in linux.glob("*.swiftmodule"):
            for file in list(directory.iterdir()):
                if file.suffix == ".swiftmodule":
                    (directory / f"{TARGET}.swiftmodule").write_bytes(renamed(file.resolve()))
                file.unlink()
        shutil.copytree(linux / "x86_64", linux / "aarch64", ignore=shutil.ignore_patterns("*.o"))

    def _add_headers(self):
        (self.sdk / "usr").mkdir(parents=True)
        subprocess.run(["cp", "-as", HEADERS, self.sdk / "usr/include"], check=True)
        for name in SHARED_HEADERS:
            found = [directory / name for directory in HOST_HEADERS if (directory / name).exists()]
            if not found:
                raise CannotTell(f"there is no {name}")
            (self.sdk / "usr/include" / name).symlink_to(found[0])


def commands(manifest: pathlib.Path) -> dict[str, list[list[str]]]:
    """Compile commands of the build, by target: of a target in C one for each file."""
    found: dict[str, list[list[str]]] = {}
    for text in re.findall(r"^ *args: (\[.*\])$", manifest.read_text(), re.MULTILINE):
        command = json.loads(text)
        if "-c" not in command:
            continue
        if command[1] == "-module-name":
            found[command[2]] = [command]
        elif command[0].endswith("clang"):
            name = pathlib.Path(command[command.index("-c") + 1]).parent.name
            found.setdefault(name, []).append(command)
    return found


def kept(command: list[str], old: pathlib.Path, new: pathlib.Path) -> list[str]:
    """The words of a compile command that hold for the other platform too, with another directory of modules."""
    words, result = iter(command), []
    for word in words:
        if word in DROPPED_PAIRS:
            next(words)
        elif not DROPPED.fullmatch(word):
            result.append(str(new) if pathlib.Path(word) == old else word)
    return result


def complaint(words: list[str], platform: Platform) -> str:
    """The beginning of what the compiler complains of; empty where it compiles."""
    if words[0].endswith("clang"):
        words += ["-target", TARGET, f"--sysroot={platform.sdk}", "-c", "-o", "/dev/null"]
        for directory in (platform.sdk / "usr/include").glob("c++/*"):
            words += ["-cxx-isystem", directory, "-cxx-isystem", directory / "aarch64-linux-gnu"]
    else:
        words += ["-typecheck", "-target", TARGET, "-resource-dir", platform.resources, "-sdk", platform.sdk,
                  "-module-cache-path", platform.cache]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    return done.stderr[:4000] if done.returncode else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=".build", metavar="DIR", type=pathlib.Path)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    options = parser.parse_args()
    manifest, release = options.build / "release.yaml", (options.build / "release").resolve()
    if not manifest.exists():
        raise CannotTell("there is no release build")
    if not any(HEADERS.glob("c++/*")):
        raise CannotTell("no headers for arm64: apt-get install libc6-dev-arm64-cross libstdc++-12-dev-arm64-cross")
    found = commands(manifest)
    # Not those of Sources that were found: one that is missed would never be checked.
    wanted = options.targets or sorted(path.name for path in SOURCES.iterdir() if path.is_dir()) + [*ALSO_OURS]
    if unknown := set(wanted) - set(found):
        parser.error(f"the build has no target {', '.join(sorted(unknown))}")
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        platform = Platform(pathlib.Path(work), release)
        for name in wanted:
            # One command for a Swift target, one for each file in C.
            calls = [kept(command, release / "Modules", platform.modules) for command in found[name]]
            complaints = [words for call in calls if (words := complaint(call, platform))]
            print(f"{name}: {'FAILED' if complaints else 'compiles'}", *complaints, sep="\n", flush=True)
            failed += bool(complaints)
    print(f"{len(wanted) - failed} of {len(wanted)} targets compile for arm64")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotTell as reason:
        print(f"NOT CHECKED for arm64: {reason}", file=sys.stderr)
        sys.exit(3)
