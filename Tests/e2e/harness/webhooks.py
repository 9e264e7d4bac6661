"""Webhooks of a daemon as a test uses them: registered, looked at, and what arrived checked by a foreign library."""

import asyncio
import contextlib
import json
import time

import standardwebhooks

from harness import configs
from harness.http1 import fetch
from harness.receiver import Answer, Receiver

LOOPBACK = {"allowedAddresses": ["127.0.0.0/8"]}


def config(half="engine", *, webhooks=None, **sections):
    """A configuration whose webhooks may call this machine; `webhooks` are further keys of that section."""
    return configs.config(half, webhooks={**LOOPBACK, **(webhooks or {})}, **sections)


class Refused(Exception):
    """Control's error answer; `field` is the one it names, if any."""

    def __init__(self, answer):
        error = answer.json()["error"]
        super().__init__(f"{answer.status} {error['status']}: {error['message']}")
        self.status, self.word, self.message = answer.status, error["status"], error["message"]
        violations = [v for detail in error.get("details", []) for v in detail.get("fieldViolations", [])]
        self.field = violations[0]["field"] if violations else None


class Webhooks:
    """The webhooks of one project. Methods return documents and raise `Refused`."""

    def __init__(self, daemon, project="demo"):
        self.daemon = daemon
        self.base = f"/v1/projects/{project}/webhooks"

    async def call(self, method, path="", body=None, headers=()):
        headers = [("Authorization", f"Bearer {self.daemon.token}"), *headers]
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        # A test message waits for its receiver.
        answer = await fetch(self.daemon.control, self.base + path, method, headers, data, timeout=40)
        if answer.status != 200:
            raise Refused(answer)
        return answer.json()

    async def add(self, url, **settings):
        return await self.call("POST", body={"url": url, **settings})

    async def get(self, webhook):
        return await self.call("GET", f"/{id_of(webhook)}")

    async def list(self):
        return (await self.call("GET"))["webhooks"]

    async def update(self, webhook, mask=None, if_match=None, **settings):
        query = f"?updateMask={mask}" if mask else ""
        headers = [("If-Match", f'"{if_match}"')] if if_match else []
        return await self.call("PATCH", f"/{id_of(webhook)}{query}", settings, headers)

    async def remove(self, webhook):
        return await self.call("DELETE", f"/{id_of(webhook)}")

    async def act(self, webhook, verb, **request):
        return await self.call("POST", f"/{id_of(webhook)}:{verb}", request)

    async def attempts(self, webhook, query=""):
        return (await self.call("GET", f"/{id_of(webhook)}/attempts{query}"))["attempts"]

    async def dead_letters(self, webhook):
        return (await self.call("GET", f"/{id_of(webhook)}/deadLetters"))["deadLetters"]

    async def until(self, webhook, condition, timeout=20):
        """The document once `condition(document)` is true."""
        deadline = time.monotonic() + timeout
        while True:
            document = await self.get(webhook)
            if condition(document):
                return document
            assert time.monotonic() < deadline, f"still {json.dumps(document, indent=1)} after {timeout} s"
            await pause()

    async def until_attempts(self, webhook, condition, timeout=20):
        """The attempts once `condition(attempts)` is true."""
        deadline = time.monotonic() + timeout
        while True:
            attempts = await self.attempts(webhook)
            if condition(attempts):
                return attempts
            assert time.monotonic() < deadline, f"still {json.dumps(attempts, indent=1)} after {timeout} s"
            await pause()


async def pause():
    """Between two looks at something that has no event to wait for."""
    await asyncio.sleep(0.03)


def id_of(webhook):
    return webhook["id"] if isinstance(webhook, dict) else webhook


def state_is(*names):
    return lambda document: document["state"]["name"] in names


def scope_of(document, namespace="firebase"):
    """What is owed of one namespace; {} when nothing is known yet."""
    scopes = document.get("delivery", {}).get("scopes", [])
    return next((scope for scope in scopes if scope["namespace"] == namespace), {})


def acknowledged(version, namespace="firebase"):
    return lambda document: scope_of(document, namespace).get("acknowledgedVersion") == str(version)


def verified(arrival, secret):
    """The body of a request as JSON, after the library has checked its signature and its age."""
    return standardwebhooks.Webhook(secret).verify(arrival.body, arrival.headers)


def secret_of(document):
    return document["signing"]["secret"]


def versions(arrivals):
    """The version each STALE message tells, in order of arrival."""
    bodies = [json.loads(arrival.body) for arrival in arrivals if arrival.body]
    return [body["data"]["version"] for body in bodies if body.get("type") == "config.stale"]


@contextlib.contextmanager
def switchable(first=Answer()):
    """A receiver whose answer a test can change: `receiver.now = Answer(…)`."""
    with Receiver(lambda arrival: receiver.now(arrival) if callable(receiver.now) else receiver.now) as receiver:
        receiver.now = first
        yield receiver
