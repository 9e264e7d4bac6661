"""Ports for servers that come back on the port they had. They lie below those the kernel gives to connections and to
port 0 (32768 and up), where a parallel test could be given one while its server is down."""

import os
import random
import socket

LOWEST, HIGHEST = 10_000, 32_000
_workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
COUNT = (HIGHEST - LOWEST) // _workers  # of each worker
_worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
_next = random.randrange(COUNT)


def free(host="127.0.0.1"):
    """A port without a listener that was not given before."""
    global _next
    for _ in range(COUNT):
        port = LOWEST + _worker * COUNT + _next
        _next = (_next + 1) % COUNT
        try:
            socket.create_server((host, port)).close()
        except OSError:
            continue
        return port
    raise OSError(f"no free port among {COUNT}")
