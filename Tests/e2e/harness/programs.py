"""Programs over the Swift client: the samples, and every Swift block of the documents as its reader uses it. All are one
package, so that the client is compiled once."""

import json
import re
import shutil
import subprocess

import pytest

from harness.daemon import REPOSITORY

SAMPLES = REPOSITORY / "samples"
PAGES = [REPOSITORY / "README.md",
         *sorted((REPOSITORY / "Sources/StalecastClient/StalecastClient.docc").glob("*.md")),
         *sorted((REPOSITORY / "deploy").glob("docs/*.md"))]
BLOCK = re.compile(r"(?:<!-- not a program:(?P<why>[^\n]*)-->\n)?```swift\n(?P<code>.*?)```", re.S)
ENDPOINT = "http://127.0.0.1:8080"

CONTEXT = """
let options = StalecastOptions(endpoint: URL(string: "http://127.0.0.1:8080")!, project: "demo")
Stalecast.configure(options: options)
let remoteConfig = RemoteConfig.remoteConfig()
try await remoteConfig.fetchAndActivate()
let appVersion = "1.0.5"
@Sendable func showWelcomeText() { print("changed: shown") }
@Sendable func showStoreAndNothingElse() { print("too old") }
"""


def blocks():
    """Name and code of each block that is a program."""
    found = []
    for page in PAGES:
        matches = [match for match in BLOCK.finditer(page.read_text()) if not match["why"]]
        found += [(f"{re.sub('[^A-Za-z]', '', page.stem)}{number}", match["code"])
                  for number, match in enumerate(matches)]
    return found


def program(code, in_function):
    """The source of a program that is the block and then says which value is in force."""
    lines = code.splitlines()
    imports = sorted({line for line in lines if line.startswith("import ")} | {"import Foundation", "import StalecastClient"})
    body = "\n".join(line for line in lines if not line.startswith("import "))
    if "configure(" not in body:
        body = CONTEXT + body
    if not is_endless(code):
        body += '\nprint("value:", remoteConfig["welcome_text"].stringValue)\n'
    # Lines appear at once, also in a pipe.
    body = "setvbuf(stdout, nil, Int32(_IOLBF), 0)\n" + body
    body = body.replace(ENDPOINT, "http://127.0.0.1:\\(ProcessInfo.processInfo.environment[\"EDGE\"]!)")
    head = "\n".join(line.replace("import Foundation", "@preconcurrency import Foundation") for line in imports) + "\n"
    if in_function:
        return head + "@main struct App {\n static func main() async throws {\n" + body + "\n}\n}\n"
    return head + body


def is_endless(code):
    return "for try await" in code


def build(root):
    """The samples' package with two targets more for each block, pasted into a script and into a function of an app. None of
    it gives a warning."""
    shutil.copytree(SAMPLES / "Sources", root / "Sources", dirs_exist_ok=True)
    names = []
    for name, code in blocks():
        for use, file in [("Script", "main.swift"), ("App", "App.swift")]:
            directory = root / "Sources" / (name + use)
            directory.mkdir(exist_ok=True)
            (directory / file).write_text(program(code, use == "App"))
            names.append(name + use)
    manifest = (SAMPLES / "Package.swift").read_text()
    assert manifest.count('path: ".."') == 1
    (root / "Package.swift").write_text(
        manifest.replace('path: ".."', f"path: {json.dumps(str(REPOSITORY))}") +
        f"\npackage.targets += {json.dumps(names)}.map {{\n    .executableTarget(\n        name: $0, "
        'dependencies: [.product(name: "StalecastClient", package: "stalecast")])\n}\n')
    made = subprocess.run(["swift", "build", "--package-path", root], capture_output=True, text=True, timeout=1500, check=False)
    assert made.returncode == 0, made.stdout[-6000:] + made.stderr[-4000:]
    warnings = [line for line in made.stdout.splitlines() if "warning: " in line and f"{root}/Sources" in line]
    pasted = tuple(f"{root}/Sources/{name}/" for name in names)
    # A block ends before the reader uses what it reads.
    assert not [line for line in warnings if not (line.startswith(pasted) and "never used" in line)]


def built(once):
    """The directory of the programs."""
    if not shutil.which("swift"):
        pytest.skip("no Swift toolchain: neither samples nor documented Swift were compiled")
    return once("programs", build) / ".build/debug"
