#!/usr/bin/env python3
"""Times publishes at both ends: the answer at the publisher, and the first byte at one subscriber.

    deploy/bench/first_byte.py FOLDER ROUNDS

FOLDER is the data directory of a daemon that runs. Each round publishes over one kept connection and waits for both. Prints
the medians, and the median of the rounds' ratios with their quarters.
"""

import json
import select
import socket
import sys
import time
from pathlib import Path


def connect(address):
    host, port = address.removeprefix("http://").rsplit(":", 1)
    connection = socket.create_connection((host, int(port)), timeout=10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def spread(values):
    """Quarter, median and quarter."""
    values = sorted(values)
    return [values[round((len(values) - 1) * part)] for part in (0.25, 0.5, 0.75)]


def main(folder, rounds):
    endpoints = json.loads((folder / "endpoints.json").read_text())
    token = (folder / "control.token").read_text().strip()
    subscriber, publisher = connect(endpoints["edge"]), connect(endpoints["control"])
    subscriber.sendall(b"GET /v1/events?topic=PUSH_RC HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
    opening = b""
    while b"synced" not in opening:
        opening += subscriber.recv(65536)
    firsts, answers = [], []
    # The first three warm both ends up and are not counted.
    for number in range(rounds + 3):
        # Long enough for what follows a publish, such as the paced rest of the audience, to be over.
        time.sleep(0.05)
        body = '{"parameters":{"p":{"defaultValue":{"value":"%d %d"}}}}' % (time.time_ns(), number)
        request = (
            "PUT /v1/projects/demo/remoteConfig HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {token}\r\nIf-Match: *\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()
        began = time.perf_counter()
        publisher.sendall(request)
        waiting = {subscriber: firsts, publisher: answers}
        while waiting:
            ready, _, _ = select.select(list(waiting), [], [], 10)
            now = time.perf_counter()
            if not ready:
                sys.exit("first_byte: nothing came within 10 s")
            for end in ready:
                received = end.recv(65536)
                if end is publisher and not received.startswith(b"HTTP/1.1 200"):
                    sys.exit(f"first_byte: {received!r}")
                # A heartbeat is no message.
                if end is subscriber and b"data:" not in received:
                    continue
                waiting.pop(end).append((now - began) * 1e3)
    firsts, answers = firsts[3:], answers[3:]
    low, ratio, high = spread([first / answer for first, answer in zip(firsts, answers)])
    print(
        f"{spread(firsts)[1]:.2f} ms until the first byte at a subscriber, {spread(answers)[1]:.2f} ms until the answer: "
        f"{ratio:.2f} ({low:.2f}-{high:.2f}) times"
    )


main(Path(sys.argv[1]), int(sys.argv[2]))
