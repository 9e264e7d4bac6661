#!/usr/bin/env python3
"""Computes what one, ten and a hundred million clients need, from measured costs; prints the table of deploy/docs/how-far.md.

    deploy/bench/how-far.py                          the table
    deploy/bench/how-far.py --set cores=8            with another input; repeatable
    deploy/bench/how-far.py --inputs                 the inputs, with the commands that measure them
    deploy/bench/how-far.py --check FILE             exit code 1 when FILE does not hold these tables
"""

import argparse
import math
import sys
from pathlib import Path

# Name: value, unit, what it is, how it is measured. Costs are of one core of the machine of figures.md.
INPUTS = {
    "cores": (8, "cores", "of one machine", "chosen"),
    "link": (10, "Gbit/s", "of one machine", "chosen"),
    "tell": (8.0, "µs", "CPU of one delivery, plain", "deploy/bench.sh --fanout"),
    "beat": (8.0, "µs", "CPU of one comment, as a delivery", "deploy/bench.sh --fanout"),
    "connect": (25.0, "µs", "CPU of one stream that connects", "stalecast load connect --subscribers 19000 --repeat 4"),
    "fetch": (25.0, "µs", "CPU of one fetch of 3.3 kB", "deploy/bench.sh --fetch"),
    "body": (3.7, "kB", "one fetched answer with its head", "deploy/bench.sh --fetch"),
    "message": (0.6, "kB", "one message with TCP's and IP's headers", "curl -N …/v1/events"),
    "memory": (4.1, "kB", "of a stream: 0.13 of the daemon, 4.0 of the kernel", "stalecast load idle --subscribers 10000, and Slab of /proc/meminfo"),
    "records": (2, "a second", "of one node for two minutes after a publish", "etcdctl watch --prefix /stalecast/production/record/"),
    "heartbeat": (25, "s", "between two comments", "edge.heartbeat"),
    "places": (100, "caches", "of a CDN that ask Edge", "chosen"),
    "round": (20, "s", "wait of a shared poll", "chosen"),
    "collapsed": (1.0, "polls", "a round and cache reach Edge in silence", "Tests/e2e/edge/test_shared_polls.py"),
}


def value(inputs, name):
    return inputs[name][0]


def spoken(number):
    """Two significant digits, with commas."""
    if number == 0:
        return "0"
    digits = max(0, 1 - math.floor(math.log10(abs(number))))
    rounded = round(number, 1 - math.floor(math.log10(abs(number))))
    return f"{rounded:,.{digits}f}" if rounded < 10 else f"{rounded:,.0f}"


def streams(inputs, clients, within):
    """What streams to `clients` ask for when the last is told within `within` seconds of a publish."""
    v = lambda name: value(inputs, name)
    per_machine = v("cores") * within / (v("tell") * 1e-6)
    machines = max(1, math.ceil(clients / per_machine))
    each = clients / machines
    gigabytes = v("link") / 8 * 1e6  # kB a second
    fetch = max(each * v("fetch") * 1e-6 / v("cores"), each * v("body") / gigabytes)
    return [
        ("machines", f"{machines:,}"),
        ("streams of one machine", spoken(each)),
        ("memory of their streams, GB", spoken(each * v("memory") / 1e6)),
        ("seconds until the last is told", spoken(each * v("tell") * 1e-6 / v("cores"))),
        ("seconds until all have fetched, at once", spoken(fetch)),
        ("cores busy with comments, of all machines", spoken(clients / v("heartbeat") * v("beat") * 1e-6)),
        ("seconds of a reconnect of all", spoken(each * v("connect") * 1e-6 / v("cores"))),
        ("GB sent for one publish, messages and fetches", spoken(clients * (v("message") + v("body")) / 1e6)),
        ("watches and leases in etcd", f"{machines:,}" if machines > 1 else "none"),
        ("writes a second in etcd after a publish", spoken(machines * v("records")) if machines > 1 else "none"),
        ("reads a second in etcd after a publish",
         spoken(machines * (machines - 1) * v("records")) if machines > 1 else "none"),
    ]


def cached(inputs, clients):
    """What Edge has to do when clients poll and fetch through a CDN."""
    v = lambda name: value(inputs, name)
    polls = v("places") * v("collapsed") / v("round")
    return [
        ("polls a second at Edge in silence", spoken(polls)),
        ("requests at Edge after a publish", f"{2 * v('places'):,}"),
        ("CPU at Edge after a publish, ms", spoken(v("places") * (v("tell") + v("fetch")) * 1e-3)),
        ("requests a second at the CDN in silence", spoken(clients / v("round"))),
        ("GB sent by the CDN for one publish", spoken(clients * (v("message") + v("body")) / 1e6)),
    ]


def table(title, columns):
    names = [name for name, _ in columns[0][1]]
    lines = [f"| {title} | " + " | ".join(head for head, _ in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for row, name in enumerate(names):
        lines.append(f"| {name} | " + " | ".join(cells[row][1] for _, cells in columns) + " |")
    return "\n".join(lines)


def tables(inputs):
    sizes = ((1e6, "1 million"), (1e7, "10 million"), (1e8, "100 million"))
    return [
        table("streams, the last told within a second", [(name, streams(inputs, count, 1.0)) for count, name in sizes]),
        table("polls and fetches through a CDN", [(name, cached(inputs, count)) for count, name in sizes]),
    ]


def input_table(inputs):
    lines = ["| input | value | | measured by |", "|---|---|---|---|"]
    lines += [f"| `{name}` | {number} {unit} | {what} | {command if ' ' not in command and '/' not in command else f'`{command}`'} |"
              for name, (number, unit, what, command) in inputs.items()]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], epilog=__doc__.partition("\n\n")[2],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--inputs", action="store_true")
    parser.add_argument("--check", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    inputs = dict(INPUTS)
    for given in arguments.set:
        name, _, text = given.partition("=")
        if name not in inputs:
            parser.error(f"no input {name}; there are {', '.join(inputs)}")
        try:
            number = float(text)
        except ValueError:
            number = 0
        if not 0 < number < 1e12:
            parser.error(f"{name} is a number above 0, not {text!r}")
        inputs[name] = (int(number) if number.is_integer() else number, *inputs[name][1:])
    if arguments.check:
        text = arguments.check.read_text()
        missing = [part for part in [*tables(inputs), input_table(inputs)] if part not in text]
        for part in missing:
            print(f"{arguments.check} does not have:\n\n{part}\n", file=sys.stderr)
        return 1 if missing else 0
    print(input_table(inputs) if arguments.inputs else "\n\n".join(tables(inputs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
