"""The model of deliveries (`DeliveryModel*.swift`) finds each defect that deliveries once had.

The pure state and its model are compiled once more as a small program of their own, with the defects put back into it; the
product knows nothing of them. A line that a defect stands before and that is not there any more fails: say anew where the
defect would stand today."""

import re
import shutil
import subprocess

import pytest

from harness.daemon import REPOSITORY

WEBHOOKS = REPOSITORY / "Sources/StalecastWebhooks"
MODEL = REPOSITORY / "Tests/StalecastWebhooksTests/Delivery"
MOST_RUNS = 300
PACKAGES = ["DequeModule", "HeapModule", "InternalCollectionsUtilities", "ContainersPreview", "Logging"]
C_TARGETS = ["CCurl", "CLinux"]

# The defect, its number in the first review of webhooks, file, the line it stands before, and the defect itself.
FAULTS = [
    # A change of mode while an attempt is under way looks at nothing anew.
    ("noRewindInFlight", 3, "Lane.swift", "if former == .latest, mode != .latest, let last = tries.last",
     "if inFlight > 0 { return nil }"),
    # The store is not read on when a window of versions holds nothing that is heard.
    ("oneWindow", 4, "LaneReads.swift", "log.known(after: sequence, page)",
     "if let page, sequence >= page.through, sequence < log.startsAfter { return .end }"),
    # A topic taken away takes the cursor along.
    ("forgottenTopics", 6, "DeliveryState+changes.swift", "if endpoint.lanes[lane].newest == nil {",
     "if !endpoint.lanes[lane].isActive { endpoint.lanes[lane] = Lane(endpoint.lanes[lane].scope, DeliveryImage.StoredLane()) }"),
    # What is sent again is sent newest first.
    ("reversedExtras", 7, "Lane.swift", "extras.first { tries[$0] == nil } }",
     "var all = extras; return all.remove(through: .max).last { tries[$0] == nil }"),
    # An outcome counts for the webhook's newest URL, also when an older one gave it.
    ("oldReceiverCounts", 8, "DeliveryState+outcomes.swift", "if conclusion == .cancelled || isStale {",
     "if isStale, conclusion != .cancelled { return (attempt, take(conclusion, endpoint, attempt, result.status, at: now)) }"),
    # A success elsewhere ends the patience a receiver asked for.
    ("impatience", 15, "DeliveryState+outcomes.swift", "if failures > 0 || endpoint.health.failingSince != nil {",
     "endpoint.gate.patienceUntil = 0"),
    # Failing is measured by the wall clock, downtimes included.
    ("downtimeFails", 16, "Endpoint.swift", "trouble.failingMark = now.monotonic",
     "health.failingTime = now.wall.microseconds - (health.failingSince ?? now.wall).microseconds"),
    # The cursor stays where it is when a gap was told.
    ("forgottenGaps", 17, "Lane.swift", "let begun = tries.all.map(\\.sequence).filter {", "return (gap, [])"),
]

MAIN = """
nonisolated(unsafe) var planted = ""

/// Only that its results differ counts here.
struct SHA256 {
    private var sum: [UInt64] = [1, 2, 3, 4]
    mutating func update(data: [UInt8]) {
        for byte in data {
            for index in sum.indices { sum[index] = (sum[index] ^ UInt64(byte)) &* (0x100000001b3 &+ UInt64(index) * 2) }
        }
    }
    static func hash(data: [UInt8]) -> [UInt8] {
        var sum = SHA256()
        sum.update(data: data)
        return sum.finalize()
    }
    func finalize() -> [UInt8] { sum.flatMap { word in (0..<8).map { UInt8(truncatingIfNeeded: word >> (8 * $0)) } } }
}

enum DeliveryDatabase { static let maxDeadLetters = 1000 }

/// The formatter's, which is not here.
struct Signer {}

@main struct Planted {
    /// `FAULT RUNS`: the first run that shows the fault, or nothing.
    static func main() {
        planted = CommandLine.arguments[1]
        for seed in 1...UInt64(CommandLine.arguments[2])! {
            var model = DeliveryModel(seed: seed)
            for _ in 0..<120 where model.problems.isEmpty { model.step() }
            if model.problems.isEmpty { model.end() }
            if let problem = model.problems.first { return print(seed, problem) }
        }
    }
}
"""


def sources():
    """Path and text of what the program is made of."""
    pure = [WEBHOOKS / f"Delivery/{name}.swift" for name in (
        "ScopeLog", "TokenBucket", "Admission", "SequenceSet", "Lane", "Lane+status", "LaneReads", "Tries", "Endpoint",
        "DeliveryState", "DeliveryState+changes", "DeliveryState+outcomes", "DeliveryState+figures",
        "RetryPolicy", "JournalEntry", "DeliveryTally", "DeliveryConfiguration", "DeliveryAttempt", "AttemptResult",
        "DeliveryStatus", "EndpointTable", "AttemptTable")]
    outbound = REPOSITORY / "Sources/StalecastOutbound"
    files = [*pure, *(WEBHOOKS / "Model").glob("*.swift"), *(REPOSITORY / "Sources/StalecastWire").glob("*.swift"),
             *(path for path in (REPOSITORY / "Sources/StalecastHub").rglob("*.swift") if path.stem != "SharedRollouts"),
             *(outbound / "Request").glob("*.swift"), *(outbound / "Address").glob("*.swift"),
             *(path for path in MODEL.glob("DeliveryModel*.swift") if path.stem != "DeliveryModelTests"),
             REPOSITORY / "Tests/StalecastTestSupport/SeededRandom.swift"]
    return {path: path.read_text() for path in files}


def planted():
    """What the program is made of, with all faults."""
    texts = sources()
    for fault, _, file, line, code in FAULTS:
        path = WEBHOOKS / "Delivery" / file
        texts[path] = plant(texts[path], line, fault, code)
    return texts


def plant(text, line, fault, code):
    """`text` with the fault before the line."""
    assert text.count(line) == 1, f"{fault}: there are {text.count(line)} lines with {line!r}"
    # What returns by being alone does so no more.
    word = "" if re.match("(if|let|return) |.* = ", line) else "return "
    return text.replace(line, f'if planted == "{fault}" {{ {code} }}\n{word}{line}')


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    """Compiled with the packages as they are built."""
    built = next((path for path in (REPOSITORY / ".build/release", REPOSITORY / ".build/debug")
                  if (path / "Modules/HeapModule.swiftmodule").exists()), None)
    if not built or not shutil.which("swiftc"):
        pytest.skip("no Swift toolchain or no build: no fault was planted")
    directory = tmp_path_factory.mktemp("planted")
    for path, text in planted().items():
        # One module.
        text = re.sub(r"^((package|internal|public) )?import (Stalecast.*|Crypto)\n", "", text, flags=re.M)
        (directory / path.name).write_text(re.sub(r"^package import", "import", text, flags=re.M))
    (directory / "Planted.swift").write_text(MAIN)
    modules = directory / "modules"
    modules.mkdir()
    objects = []
    for name in PACKAGES + C_TARGETS:
        if name in PACKAGES:
            shutil.copy(built / f"Modules/{name}.swiftmodule", modules)
        objects += map(str, (built / f"{name}.build").rglob("*.o"))
    maps = [option for name in C_TARGETS for option in ("-Xcc", f"-fmodule-map-file={built}/{name}.build/module.modulemap")]
    subprocess.run(
        ["swiftc", "-O", "-wmo", "-swift-version", "6", "-package-name", "stalecast", "-parse-as-library",
         *maps, "-I", str(modules), "-o", str(directory / "planted"), *map(str, directory.glob("*.swift")), *objects, "-lcurl"],
        check=True, cwd=directory)
    return directory / "planted"


def test_every_defect_has_its_place():
    assert len(planted()) > len(FAULTS)


# Compiling takes a minute and a half. The model itself runs always; this judges the model.
@pytest.mark.campaign
@pytest.mark.limit(300)
@pytest.mark.parametrize("fault", [fault[0] for fault in FAULTS])
def test_the_model_finds_a_defect_that_is_put_back(program, fault):
    told = subprocess.run([program, fault, str(MOST_RUNS)], check=True, capture_output=True, text=True).stdout
    assert told, f"{MOST_RUNS} runs pass with {fault}"
    print(told)


@pytest.mark.campaign
@pytest.mark.limit(300)
def test_without_a_defect_it_finds_nothing(program):
    assert not subprocess.run([program, "none", "30"], check=True, capture_output=True, text=True).stdout
