#!/usr/bin/env python3
"""Prints what is in a binary of deploy/install.sh as CycloneDX 1.5: sbom.py BINARY.

The Swift packages as `swift package show-dependencies` resolved them, the toolchain whose libraries are linked in, and
the Debian packages of the libraries it loads. SOURCE_DATE_EPOCH gives the time, the content the serial number.
"""

import json
import os
import re
import subprocess
import sys
import time
import uuid
from pathlib import Path


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def swift_packages():
    """Every package below ours, once."""
    found = {}

    def walk(package):
        for each in package["dependencies"]:
            found[each["identity"]] = each
            walk(each)

    walk(json.loads(output("swift", "package", "show-dependencies", "--format", "json")))
    for name, package in sorted(found.items()):
        place = package["url"].removeprefix("https://").removesuffix(".git")
        yield {"type": "library", "name": name, "version": package["version"],
               "purl": f"pkg:swift/{place}@{package['version']}",
               "externalReferences": [{"type": "vcs", "url": package["url"]}]}


def toolchain():
    version = re.search(r"Swift version (\S+)", output("swiftc", "--version")).group(1)
    return {"type": "library", "name": "swift-stdlib-and-foundation", "version": version,
            "purl": f"pkg:swift/github.com/swiftlang/swift@{version}"}


def debian_packages(binary):
    """The packages of the libraries the binary names itself; those bring others along."""
    needed = re.findall(r"NEEDED.*\[(\S+)\]", output("readelf", "-d", binary))
    places = dict(re.findall(r"(\S+) => (\S+)", output("ldd", binary)))
    names = set()
    for library in needed:
        if library in places:
            path = places[library]
            spellings = (path, os.path.realpath(path), path.removeprefix("/usr"), "/usr" + path)
            owners = [subprocess.run(["dpkg-query", "-S", each], capture_output=True, text=True, check=False).stdout
                      for each in spellings]
            names.add(next(owner for owner in owners if owner).split(":")[0])
    for name in sorted(names):
        version, architecture = output("dpkg-query", "-W", "-f=${Version} ${Architecture}", name).split()
        yield {"type": "library", "name": name, "version": version,
               "purl": f"pkg:deb/debian/{name}@{version.replace(':', '%3A').replace('+', '%2B')}?arch={architecture}"}


def main(binary):
    binary = str(Path(binary).resolve())
    os.chdir(Path(__file__).resolve().parent.parent)
    version = output(binary, "version").strip()
    components = [*swift_packages(), toolchain(), *debian_packages(binary)]
    for component in components:
        component["bom-ref"] = component["purl"]
    moment = time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", time.time())))
    ours = {"type": "application", "name": "stalecast", "version": version, "bom-ref": "stalecast"}
    document = {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps([ours, components]))}",
        "metadata": {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", moment), "component": ours},
        "components": components,
        "dependencies": [{"ref": "stalecast", "dependsOn": [each["bom-ref"] for each in components]}],
    }
    print(json.dumps(document, indent=2))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
