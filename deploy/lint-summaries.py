#!/usr/bin/env python3
"""Lists documentation comments that do not begin with a noun or a verb, and ends with 1 when there are any.

deploy/lint-summaries.py [DIRECTORY…]     default: Sources, Tests and samples

A reader looks for the thing a declaration names. A summary that begins with "Of all …", "What …" or "Who …" has to be
read twice. Write "Sum of all …", "Result of …", "Client that …".
"""
import pathlib
import re
import sys

FORBIDDEN = re.compile(
    r"/// (After|All that|As|At|Before|Behind|Beside|Between|By|Everybody|For|From|How|However|In|It|Nobody|Of|On|Once|Over|Since"
    r"|So|Somebody|That|The same|There|These|They|Those|To|Under|Until|Up|What|Whatever|When|Where|Which|While|Who|Whoever|Whom"
    r"|Whose|Why|With|Without)\b"
)


def summaries(path: pathlib.Path):
    """Yields the number and text of each line that begins a documentation comment."""
    before = ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.strip()
        if line.startswith("///") and not before.startswith("///"):
            yield number, line
        before = line


def main(directories: list[str]) -> int:
    found = 0
    for directory in directories:
        for path in sorted(pathlib.Path(directory).rglob("*.swift")):
            if ".build" in path.parts:
                continue
            for number, line in summaries(path):
                if FORBIDDEN.match(line):
                    found += 1
                    print(f"{path}:{number}: {line}")
    if found:
        print(f"{found} summaries do not begin with a noun or a verb in the third person.", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    if "--help" in sys.argv or "-h" in sys.argv:
        sys.exit(print(__doc__))
    sys.exit(main(sys.argv[1:] or ["Sources", "Tests", "samples"]))
