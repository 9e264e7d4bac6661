#!/usr/bin/env python3
"""Prints what a run of deploy/test.sh took and found: each part's time, the forty slowest tests, the flaky ones, the sum.

    test-summary.py DIRECTORY [--slowest N]

DIRECTORY holds `parts.tsv` (seconds, part), `*.swift.log` (output of Swift's tests), `*.xml` (pytest's junit files) and
`flaky.txt` (names of tests that passed only on their second try). The last line is "N passed, N failed, N skipped".
"""

import argparse
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

RESULT = re.compile(r"^\S+ +Test (?!run with )(?P<name>\"?.+?\"?)(?: with \d+ test cases?)? (?P<outcome>passed|failed) after (?P<seconds>[\d.]+) seconds")
SKIPPED = re.compile(r"^\S+ +Test (?P<name>\"?.+?\"?) skipped")


def swift(path):
    """Outcome and seconds of each Swift test; a later line about the same test replaces the former one."""
    found = {}
    for line in path.read_text(errors="replace").splitlines():
        if match := RESULT.match(line):
            found[match["name"]] = (match["outcome"], float(match["seconds"]))
        elif match := SKIPPED.match(line):
            found[match["name"]] = ("skipped", 0.0)
    return [(f"Swift {name}", *rest) for name, rest in found.items()]


def python(path):
    """Outcome and seconds of each test of a junit file."""
    try:
        cases = ElementTree.parse(path).iter("testcase")
    except ElementTree.ParseError:
        return []  # pytest was killed before it wrote the file; deploy/test.sh has counted that as a failure.
    tests = {}
    for case in cases:
        kinds = {child.tag for child in case}
        outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        # `-n` writes a test's group behind its name.
        name = f"{case.get('classname', '').replace('.', '/')}::{case.get('name')}".split("@group-")[0]
        tests[name] = (outcome, float(case.get("time", 0)))
    return [(name, *rest) for name, rest in tests.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--slowest", type=int, default=40, metavar="N", help="how many slow tests to name (default 40)")
    given = parser.parse_args()
    tests = [test for log in sorted(given.directory.glob("*.swift.log")) for test in swift(log)]
    tests += [test for file in sorted(given.directory.glob("*.xml")) for test in python(file)]
    flaky = given.directory / "flaky.txt"
    flaky = sorted(set(flaky.read_text().split("\n")) - {""}) if flaky.exists() else []

    if given.slowest:
        print(f"\n== the {given.slowest} slowest tests, in seconds")
        for name, _, seconds in sorted(tests, key=lambda test: -test[2])[:given.slowest]:
            print(f"{seconds:8.2f}  {name}")
    parts = [line.split("\t") for line in (given.directory / "parts.tsv").read_text().splitlines()]
    print("\n== the parts, in seconds")
    for seconds, part in parts:
        print(f"{int(seconds):8d}  {part}")
    print(f"{sum(int(seconds) for seconds, _ in parts):8d}  all")
    for name in flaky:
        print(f"FLAKY {name}")
    count = {outcome: 0 for outcome in ("passed", "failed", "skipped")}
    for name, outcome, _ in tests:
        # What passed on its second try has passed; the line above names it.
        again = outcome == "failed" and any(name.removeprefix("Swift ").startswith(one) for one in flaky)
        count["passed" if again else outcome] += 1
    print(f"\n{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")


if __name__ == "__main__":
    main()
