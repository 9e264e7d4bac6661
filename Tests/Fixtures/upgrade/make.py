#!/usr/bin/env python3
"""Makes a store of an older program: make.py BINARY FILE.tar.gz

Starts BINARY on an empty directory, gives it what an upgrade must keep, and packs the directory. test_upgrade.py knows
what is in it:

- demo/firebase: versions 1 to 6 of parameter `greeting`, values v1 to v6, version 5 a rollback to 3; demo/firebase-server:
  version 1; shop/firebase: version 1.
- Webhooks at http://127.0.0.1:9/…, a port without a listener: `latest`, `fifo` and `all` were created before version 1 and owe
  what came since; `paused` is paused.
- expected.json: epoch, and the cursors of polls after versions 2 and 6.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request

CONFIG = """
projects:
  - {id: demo, number: 1}
  - {id: shop, number: 2}
webhooks:
  allowedAddresses: [127.0.0.0/8]
"""


def main(binary, target):
    directory = tempfile.mkdtemp()
    data, config = f"{directory}/data", f"{directory}/stalecast.yaml"
    with open(config, "w") as file:
        file.write(CONFIG)
    process = subprocess.Popen([binary, "serve", "--data", data, "--config", config, "--edge", "127.0.0.1:0",
                                "--control", "127.0.0.1:0"])
    try:
        while not os.path.exists(f"{data}/endpoints.json"):
            assert process.poll() is None
            time.sleep(0.05)
        ends = json.load(open(f"{data}/endpoints.json"))
        expected = fill(ends["control"], ends["edge"], open(f"{data}/control.token").read().strip())
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    json.dump(expected, open(f"{data}/expected.json", "w"), indent=1)
    with tarfile.open(target, "w:gz") as archive:
        for name in sorted(os.listdir(data)):
            archive.add(f"{data}/{name}", name)
    shutil.rmtree(directory)


def fill(control, edge, token):
    def ask(method, url, body=None, **headers):
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json", **headers}
        request = urllib.request.Request(url, json.dumps(body).encode() if body is not None else None, headers, method=method)
        with urllib.request.urlopen(request) as answer:
            return json.loads(answer.read() or b"null")

    def publish(value, project="demo", namespace="firebase"):
        template = {"parameters": {"greeting": {"defaultValue": {"value": value}}}}
        ask("PUT", f"{control}/v1/projects/{project}/namespaces/{namespace}/remoteConfig", template, **{"If-Match": "*"})

    def cursor():
        return ask("GET", f"{edge}/v1/poll?topic=PUSH_RC&project=demo&wait=0s")["cursor"]

    for mode in ("latest", "fifo", "all"):
        ask("POST", f"{control}/v1/projects/demo/webhooks",
            {"url": f"http://127.0.0.1:9/{mode}", "topics": ["PUSH_RC"], "mode": mode, "description": mode})
    paused = ask("POST", f"{control}/v1/projects/demo/webhooks",
                 {"url": "http://127.0.0.1:9/paused", "topics": ["PUSH_RC"], "mode": "fifo", "description": "paused"})
    ask("POST", f"{control}/v1/projects/demo/webhooks/{paused['id']}:pause", {})
    expected = {}
    for number in (1, 2, 3, 4):
        publish(f"v{number}")
        if number == 2:
            expected["cursor2"] = cursor()
    ask("POST", f"{control}/v1/projects/demo/remoteConfig:rollback", {"versionNumber": "3"})
    publish("v6")
    publish("server", namespace="firebase-server")
    publish("shop", project="shop")
    expected["cursor6"] = cursor()
    expected["epoch"] = ask("GET", f"{control}/status").get("epoch")
    return expected


if __name__ == "__main__":
    main(*sys.argv[1:])
