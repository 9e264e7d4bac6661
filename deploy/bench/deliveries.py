#!/usr/bin/env python3
"""Counts what the webhooks of one publish cost a daemon, for deploy/bench.sh.

    deploy/bench/deliveries.py FOLDER PID ROUNDS WEBHOOKS

FOLDER is the data directory of the daemon PID, whose WEBHOOKS receivers are a server with a `/count` of nginx on port 18096.
Each round publishes once and waits for the answers; rounds are 0.2 s apart, as those of curlfloor are. Prints deliveries a
second, and microseconds of CPU and allocations of each: a line for `medians` of fetches.sh.
"""

import http.client
import json
import struct
import sys
import time
from pathlib import Path


def main(folder, pid, rounds, webhooks):
    control = json.loads((folder / "endpoints.json").read_text())["control"].removeprefix("http://")
    publisher, receivers = http.client.HTTPConnection(control), http.client.HTTPConnection("127.0.0.1", 18096)
    headers = {
        "Authorization": "Bearer " + (folder / "control.token").read_text().strip(),
        "Content-Type": "application/json",
        "If-Match": "*",
    }

    def ask(connection, *request):
        connection.request(*request)
        response = connection.getresponse()
        body = response.read()
        if response.status != 200:
            sys.exit(f"deliveries: {response.status} {body!r}")
        return body

    # Requests that the receivers have answered, that for the count included.
    def answered():
        return int(ask(receivers, "GET", "/count").split(b"\n")[2].split()[2])

    # The process's clock counts to the nanosecond, also what threads that have ended used.
    def cpu():
        return time.clock_gettime_ns(~pid << 3 | 2)

    def allocations():
        return sum(each for (each,) in struct.iter_unpack("<Q56x", (folder / "allocations").read_bytes()))

    used = made = took = 0
    for number in range(rounds):
        time.sleep(0.15)
        due = answered() + webhooks + 1
        body = '{"parameters":{"p":{"defaultValue":{"value":"%d"}}}}' % time.time_ns()
        before, former, began = cpu(), allocations(), time.perf_counter()
        ask(publisher, "PUT", "/v1/projects/demo/remoteConfig", body, headers)
        while answered() < due:
            if time.perf_counter() - began > 30:
                sys.exit("deliveries: not all webhooks have answered within 30 s")
            due += 1
            time.sleep(0.001)
        took += time.perf_counter() - began
        # The journal's last batch comes after the last answer.
        time.sleep(0.05)
        used += cpu() - before
        made += allocations() - former
    count = rounds * max(webhooks, 1)
    print(f"webhook {count / took:.0f} {used / 1e3 / count:.2f} {made / count:.1f}")


main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
