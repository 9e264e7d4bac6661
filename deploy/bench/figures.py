#!/usr/bin/env python3
"""Makes figures per delivery from four profiles of callgrind: two counts of subscribers by two counts of announcements.

deploy/bench/figures.py PREFIX --subscribers FEW MANY --announcements FEW MANY [--label TEXT] [--json FILE] [--compare FILE]

Each run's profiles are named PREFIX-SUBSCRIBERS-ANNOUNCEMENTS-THREAD (`callgrind --separate-threads=yes`). Costs come in
three parts: of each delivery, of an announcement whatever the number of its deliveries, and of a stream from accept to
close. Format of the profiles: https://valgrind.org/docs/manual/cl-format.html.
"""
import argparse
import glob
import json
import pathlib
import re
import sys

ALLOCATORS = {"malloc", "calloc", "realloc", "memalign", "aligned_alloc", "posix_memalign"}
# Only the engine's threads call it.
ENGINE_FUNCTION = ") stalecast_send"


def counts(text: str) -> tuple[int, int]:
    """Instructions of a thread, and its calls of functions that give out memory."""
    instructions, allocations, ids, callee = 0, 0, set(), None
    for line in text.splitlines():
        # Names are written once as `(id) name` and then as `(id)`.
        if named := re.match(r"c?fn=(\(\d+\))(?: (.*))?", line):
            if named[2] in ALLOCATORS:
                ids.add(named[1])
            if line.startswith("cfn="):
                callee = named[1]
        elif line.startswith("calls=") and callee in ids:
            allocations += int(line[6:].split()[0])
        elif line.startswith("totals: "):
            instructions = int(line[8:])
    return instructions, allocations


def run_costs(prefix: str) -> tuple[int, int]:
    texts = [pathlib.Path(name).read_text() for name in glob.glob(glob.escape(prefix) + "-*")]
    threads = [counts(text) for text in texts if ENGINE_FUNCTION in text]
    if not threads:
        sys.exit(f"no profile of an engine thread in {prefix}-*")
    return tuple(map(sum, zip(*threads)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("prefix")
    parser.add_argument("--subscribers", type=int, nargs=2, required=True)
    parser.add_argument("--announcements", type=int, nargs=2, required=True)
    parser.add_argument("--label", default="", help="said before each figure's name")
    parser.add_argument("--json", type=pathlib.Path, help="write the figures there, beside those already in the file")
    parser.add_argument("--compare", type=pathlib.Path, help="print the ratio to the figures in this file")
    options = parser.parse_args()
    (few, many), (fewer, more) = options.subscribers, options.announcements
    costs = [[run_costs(f"{options.prefix}-{n}-{r}") for r in (fewer, more)] for n in (few, many)]
    figures = {}
    for kind, unit in enumerate(("instructions", "allocations")):
        # The difference of the runs: start, connects and end drop out of an announcement's cost.
        each = [(late[kind] - early[kind]) / (more - fewer) for early, late in costs]
        rest = [early[kind] - cost * fewer for (early, _), cost in zip(costs, each)]
        delivery = (each[1] - each[0]) / (many - few)
        start = f"{options.label} {unit}".lstrip()
        figures[f"{start}/delivery"] = delivery
        figures[f"{start}/announcement"] = each[0] - delivery * few
        figures[f"{start}/stream"] = (rest[1] - rest[0]) / (many - few)
    earlier = json.loads(options.compare.read_text()) if options.compare else {}
    for name, value in figures.items():
        # Adding nothing turns a minus zero into zero.
        text = f"{round(value, 2) + 0:10.2f}  {name}"
        if name in earlier:
            ratio = f", ratio {value / earlier[name]:.3f}" if earlier[name] else ""
            text += f" (was {earlier[name]:.2f}{ratio})"
        print(text)
    if options.json:
        known = json.loads(options.json.read_text()) if options.json.exists() else {}
        known |= {name: round(value, 2) for name, value in figures.items()}
        options.json.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
