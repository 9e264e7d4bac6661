"""Every Swift block of README and of the SDK's articles, as its reader uses it: pasted into a script's `main.swift`, and
into an asynchronous function of an app. Each compiles without a warning and prints the server's value.

A block that is no program has a comment on the line before it: `<!-- not a program: why -->`. One that does not configure
an app goes on where the first guide ended: there is a `remoteConfig`."""

import asyncio
import json
import re
import shutil
import subprocess

import pytest

from harness.daemon import REPOSITORY, environment

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


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The directory of the programs, one per block and use."""
    if not shutil.which("swift"):
        pytest.skip("no Swift toolchain: the documented Swift was not compiled")
    root = tmp_path_factory.mktemp("documented")
    names = []
    for name, code in blocks():
        for use, file in [("Script", "main.swift"), ("App", "App.swift")]:
            directory = root / "Sources" / (name + use)
            directory.mkdir(parents=True)
            (directory / file).write_text(program(code, use == "App"))
            names.append(name + use)
    targets = ",\n".join(
        f'.executableTarget(name: "{name}", dependencies: [.product(name: "StalecastClient", package: "stalecast")])'
        for name in names)
    (root / "Package.swift").write_text(
        "// swift-tools-version: 6.1\nimport PackageDescription\nlet package = Package(name: \"documented\", "
        "platforms: [.macOS(.v15)], dependencies: [.package(name: \"stalecast\", "
        f"path: {json.dumps(str(REPOSITORY))}, traits: [])], targets: [{targets}])\n")
    command = ["swift", "build", "--package-path", str(root)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    assert made.returncode == 0, made.stdout[-6000:] + made.stderr[-4000:]
    # A block ends before the reader uses what it reads.
    warnings = [line for line in made.stdout.splitlines() if "warning: " in line and "never used" not in line]
    assert not [line for line in warnings if f"{root}/Sources" in line]
    shown = subprocess.run([*command, "--show-bin-path"], check=True, capture_output=True, text=True)
    return shown.stdout.strip()


@pytest.fixture(params=["engine"])
def half(request):
    """The other half of Edge has its own tests."""
    return request.param


def test_there_are_blocks_to_run():
    assert len(blocks()) >= 5 and any(name.startswith("README") for name, _ in blocks())


@pytest.mark.parametrize("use", ["Script", "App"])
@pytest.mark.parametrize("name,code", [pytest.param(*block, id=block[0]) for block in blocks()])
async def test_a_documented_block_prints_the_servers_value(name, code, use, built, daemon, tmp_path):
    async def publish(text):
        await daemon.publish({"parameters": {"welcome_text": {"defaultValue": {"value": text}}}})

    await publish("Hello")
    process = subprocess.Popen([f"{built}/{name}{use}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=environment(EDGE=str(daemon.edge), XDG_CACHE_HOME=str(tmp_path)))
    try:
        seen, texts = [], iter(range(100))
        async with asyncio.timeout(60):
            while not any("value: Hello" in line or "changed" in line for line in seen):
                read = asyncio.create_task(asyncio.to_thread(process.stdout.readline))
                while not (await asyncio.wait({read}, timeout=1))[0]:
                    if is_endless(code):
                        await publish(f"Hello {next(texts)}")
                line = read.result()
                assert line, f"ended without the server's value: {seen}"
                seen.append(line.rstrip())
        if name.startswith("README") and "print(" in code:
            assert any(line.startswith("Hello") for line in seen), seen
    finally:
        process.kill()
        process.communicate()
