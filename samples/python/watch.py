#!/usr/bin/env python3
"""Fetches, listens for STALE messages, and fetches with interval 0 after each; standard library only.

    python3 samples/python/watch.py [ENDPOINT] [--changes N]
"""

import argparse
import json
import random
import time
import urllib.error
import urllib.request


# The stream's `client` and the fetches' `appInstanceId` are one id: with two, the server counts two clients, one of which
# never fetches. An app makes a random one and keeps it.
CLIENT = "samplepython0000000000"


def messages(endpoint, topic, project, version):
    """Yields messages newer than `version` for ever; reconnects with the cursor of the last one."""
    cursor, failures = None, 0
    while True:
        url = (f"{endpoint}/v1/events?topic={topic}&project={project}&namespace=firebase"
               f"&client={CLIENT}&have={version}")
        request = urllib.request.Request(url, headers={"Accept": "text/event-stream"})
        if cursor:
            request.add_header("Last-Event-ID", cursor)
        try:
            # The server sends a comment at least every 30 s; silence for longer means the connection is dead.
            with urllib.request.urlopen(request, timeout=75) as stream:
                failures, data = 0, []
                for line in stream:
                    field, _, value = line.decode().rstrip("\r\n").partition(": ")
                    if field == "id":
                        cursor = value
                    elif field == "data":
                        data.append(value)
                    elif not field and data:
                        yield json.loads("\n".join(data))
                        data = []
        except (OSError, urllib.error.URLError) as error:
            print(f"disconnected: {error}", flush=True)
        failures += 1
        time.sleep(random.uniform(0, min(30, 2**failures)))


def fetch(endpoint, project):
    body = json.dumps({"appId": "1:123456789012:web:57a1eca57", "appInstanceId": CLIENT,
                       "appInstanceIdToken": "sample"}).encode()
    url = f"{endpoint}/v1/projects/{project}/namespaces/firebase:fetch?key=sample"
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=15) as answer:
        return json.load(answer)


def fetch_until_answered(endpoint, project):
    """Tries again after a while, as long as it takes; what a message said is true until then."""
    failures = 0
    while True:
        try:
            return fetch(endpoint, project)
        except OSError as error:
            failures += 1
            print(f"fetch failed: {error}", flush=True)
            time.sleep(random.uniform(0, min(60, 2**failures)))


def show(answer):
    """Prints the values; returns their version, 0 before the first publish."""
    version = answer.get("templateVersion", "0")
    print(f"version {version}: {json.dumps(answer.get('entries', {}), sort_keys=True)}", flush=True)
    return version


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint", nargs="?", default="http://127.0.0.1:8080")
    parser.add_argument("--topic", default="PUSH_RC")
    parser.add_argument("--project", default="demo")
    parser.add_argument("--changes", type=int, help="end after so many messages")
    options = parser.parse_args()
    version = show(fetch_until_answered(options.endpoint, options.project))
    print(f"listening to {options.topic} on {options.endpoint}", flush=True)
    seen = 0
    for message in messages(options.endpoint, options.topic, options.project, version):
        if message.get("CONFIG_STATE") != "STALE":
            continue
        # With many clients the server may ask to spread the fetches.
        time.sleep(random.uniform(0, message.get("fetchWindowMs", 0)) / 1000)
        show(fetch_until_answered(options.endpoint, options.project))
        seen += 1
        if options.changes and seen >= options.changes:
            return


if __name__ == "__main__":
    main()
