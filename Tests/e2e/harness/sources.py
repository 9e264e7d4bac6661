"""Daemons that are fed from outside, and what is waited for of them."""

from harness import configs
from harness.sse import Stream
from harness.waiting import until

LOOPBACK = ["127.0.0.0/8"]


def fed(*feeds, half="engine", projects=None, **sections):
    """A configuration whose scopes are fed; a feed is a mapping of `sources.scopes`, its scope demo/firebase if it
    names none."""
    entries = [{"scope": "demo/firebase", **feed} for feed in feeds]
    return configs.config(
        half, projects=projects, sources={"scopes": entries, "allowedAddresses": LOOPBACK}, **sections)


def file_feed(path, **more):
    return {"kind": "file", "path": str(path), **more}


def http_feed(url, **more):
    return {"kind": "http", "url": url, "interval": "200ms", **more}


async def subscribe(daemon, topic="PUSH_RC", **options):
    """A stream that is live."""
    stream = await Stream.open(daemon.edge, (topic,), **options)
    await stream.synced()
    return stream


async def source_of(daemon, scope="demo/firebase"):
    """The scope's entry in /status."""
    project, namespace = scope.split("/")
    for entry in (await daemon.status())["sources"]:
        if (entry["project"], entry["namespace"]) == (project, namespace):
            return entry
    raise AssertionError(f"no source of {scope}")


async def problem(daemon, reason, timeout=60, scope="demo/firebase"):
    """Waits until /status shows the scope's source with that reason; returns the error."""
    async def shown():
        error = (await source_of(daemon, scope)).get("error")
        return error if error and error["reason"] == reason else None

    return await until(shown, f"error {reason}", timeout)


async def well(daemon, timeout=60, scope="demo/firebase"):
    """Waits until the source is well."""
    async def shown():
        entry = await source_of(daemon, scope)
        return entry if "error" not in entry and "lastSuccess" in entry else None

    return await until(shown, "good look", timeout)


async def version(daemon, number, timeout=60, **scope):
    """Waits until the scope is at that version, and returns its parameters by name."""
    client = daemon.client(**scope)
    try:
        async def reached():
            current, _ = await client.current()
            assert current <= number, f"version {current} is beyond {number}"
            return current == number

        await until(reached, f"version {number}", timeout)
        answer = await client.get()
        return {name: entry["defaultValue"]["value"] for name, entry in answer.json().get("parameters", {}).items()}
    finally:
        client.close()
