#!/usr/bin/env python3
"""Shows the values of a configuration, and again whenever they change.

    python3 samples/python/watch.py [ENDPOINT] [--changes N]
"""

import argparse
import json
import queue
import sys

from stalecast import Client


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint", nargs="?", default="http://127.0.0.1:8080")
    parser.add_argument("--topic", default="PUSH_RC")
    parser.add_argument("--project", default="demo")
    parser.add_argument("--token", help="a key, where the daemon asks for one")
    parser.add_argument("--changes", type=int, help="end after so many changes")
    options = parser.parse_args()
    changes = queue.Queue()

    def complain(error):
        print(f"tries again: {error}", file=sys.stderr, flush=True)

    with Client(options.endpoint, options.project, topic=options.topic, token=options.token, on_error=complain) as config:
        config.wait()
        config.on_update(changes.put)
        print(f"version {config.version}: {json.dumps(config.get_all(), sort_keys=True)}", flush=True)
        print(f"listening to {options.topic} on {options.endpoint}", flush=True)
        seen = 0
        while options.changes is None or seen < options.changes:
            keys = changes.get()
            seen += 1
            print(f"version {config.version} changed {', '.join(keys)}: {json.dumps(config.get_all(), sort_keys=True)}", flush=True)


if __name__ == "__main__":
    main()
