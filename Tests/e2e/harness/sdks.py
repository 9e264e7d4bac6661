"""Firebase's SDKs as their sources read: requests byte for byte, each one's own way of reading the real-time stream,
and what follows an invalidation. Delays are a hundredth of the real ones, waits after failures a six-thousandth."""

import asyncio
import contextlib
import gzip
import json
import random
import time
from dataclasses import dataclass, field

from harness import http1
from harness.sdk_streams import AndroidParser, AppleParser, ChunkDecoder, JavaScriptParser, QueuedReads

NUMBER = "123456789012"
DELAY_STEP = 0.01  # the SDKs: one second
BACKOFF_STEP = 0.01  # the SDKs: one minute


@dataclass
class Config:
    """What a client holds: version 0 and nothing before the first fetch."""

    version: int = 0
    entries: dict = field(default_factory=dict)
    etag: str | None = None
    metadata: dict = field(default_factory=dict)  # key to what else is known of it: rollouts, experiments


@dataclass
class Update:
    """One call of the app's listener, which activates: from one version to another."""

    before: int
    after: int
    keys: set


@dataclass
class Sdk:
    """An app with a Firebase SDK: `await run()` until cancelled. What it went through is in the counters."""

    daemon: object
    seed: int
    streams_from: object = None  # a Relay, or the daemon itself
    merged: bool = False  # reads get all there is, not one HTTP chunk each
    fetched: Config = field(default_factory=Config)
    active: Config = field(default_factory=Config)
    heard: int = 0
    streams: int = 0
    fetches: int = 0
    failures: int = 0
    in_a_row: int = 0
    shortest: float = float("inf")
    updates: list = field(default_factory=list)
    before: Config = field(default_factory=Config)  # fetched before `fetched`
    faults: list = field(default_factory=list)

    project, retries, life_limit, parser = "demo", 8, None, None

    def __post_init__(self):
        self.random = random.Random(self.seed)
        self.fetching = asyncio.Lock()
        self.tasks = set()
        self.fid = "c" + "".join(self.random.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", k=21))

    def path(self, verb):
        return f"/v1/projects/{self.project}/namespaces/firebase:{verb}?key=AIza"

    @property
    def baseline(self):
        return self.fetched.version

    @property
    def metadata_baseline(self):
        """What rollouts and experiments are compared with to find the updated keys."""
        return self.active

    async def run(self):
        assert await self.fetch("BASE/1"), "the first fetch"
        self.active = self.fetched
        try:
            while self.in_a_row <= self.retries:
                await self.listen()
            self.faults.append("stream-error: all retries are used up")
        finally:
            for task in self.tasks:
                task.cancel()

    async def listen(self):
        """One connection. After a graceful end the next follows at once, after any other there is a wait."""
        try:
            async with asyncio.timeout(self.life_limit):
                graceful = await self.stream()
        except (OSError, asyncio.IncompleteReadError):
            graceful = False
        except TimeoutError:
            graceful = False
            self.faults.append(f"the stream lived longer than {self.life_limit} s")
        if not graceful:
            self.failures += 1
            self.in_a_row += 1
            await asyncio.sleep(BACKOFF_STEP * 2**self.in_a_row * self.random.uniform(0.5, 1.5))

    async def stream(self):
        """Reads one stream to its end; true when the body was finished."""
        reader, writer = await asyncio.open_connection("127.0.0.1", (self.streams_from or self.daemon).edge)
        with contextlib.closing(writer):
            body, headers = self.stream_request()
            lines = [f"POST {self.path('streamFetchInvalidations')} HTTP/1.1", "Host: localhost"]
            lines += [f"Content-Length: {len(body)}"]
            lines += [f"{name}: {value}" for name, value in headers]
            writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            head = http1.parse_head((await reader.readuntil(b"\r\n\r\n"))[:-4])
            if head.status != 200:
                return False
            assert head.header("transfer-encoding") == "chunked" and head.header("content-encoding") is None
            self.streams, self.in_a_row, begin = self.streams + 1, 0, time.monotonic()
            graceful = await self.read(reader)
            self.shortest = min(self.shortest, time.monotonic() - begin)
            return graceful

    async def read(self, reader):
        decoder, parser = ChunkDecoder(), self.parser()
        while not decoder.ended:
            data = await reader.read(1 << 16)
            if not data:
                return False
            pieces = decoder.feed(data)
            for piece in [b"".join(pieces)] if self.merged else pieces:
                for message in parser.feed(piece):
                    await self.handle(parser, message)
        return True

    async def handle(self, parser, message):
        if parser.disabled(message):
            self.faults.append(f"realtime is switched off by {message}")
        target = int(message.get("latestTemplateVersionNumber", 1))
        self.heard = max(self.heard, target)
        if target > self.baseline:
            await self.follow(target)

    async def follow(self, target):
        """iOS and Android go on reading meanwhile."""
        task = asyncio.create_task(self.update(target))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def update(self, target):
        for attempt in (1, 2, 3):
            await asyncio.sleep(self.random.randrange(4) * DELAY_STEP)
            if not await self.fetch(f"REALTIME/{attempt}"):
                return  # reported to the app; the next message or connection goes on
            if self.fetched.version >= target:
                return self.tell()
        self.faults.append(f"update-not-fetched: {target} after three attempts, got {self.fetched.version}")

    def tell(self):
        """The listener gets the updated keys, if any, and activates."""
        keys = changed(self.active.entries, self.fetched.entries)
        keys |= changed(self.metadata_baseline.metadata, self.fetched.metadata)
        if keys:
            self.updates.append(Update(self.active.version, self.fetched.version, keys))
            self.active = self.fetched

    async def fetch(self, kind):
        """Fetches and stores; false when that failed. Notes an answer older than what was announced before (G6)."""
        async with self.fetching:
            heard, self.fetches = self.heard, self.fetches + 1
            body, headers = self.fetch_request(kind)
            try:
                answer = await http1.fetch(self.daemon.edge, self.path("fetch"), "POST", headers, body)
            except OSError:
                return False
            if answer.status == 200:
                self.store(answer, heard)
            elif answer.status != 503:
                self.faults.append(f"fetch answered {answer}")
            return answer.status == 200

    def store(self, answer, heard):
        content = answer.body
        if answer.header("content-encoding") == "gzip":
            content = gzip.decompress(content)
        content = json.loads(content)
        version = int(content["templateVersion"])
        if version < heard:
            self.faults.append(f"heard of {heard}, then fetched {version}")
        if content["state"] != "NO_CHANGE":
            self.before = self.fetched
            self.fetched = Config(version, content.get("entries", {}), answer.header("etag"), metadata(content))
        elif version != self.fetched.version:
            self.faults.append(f"NO_CHANGE of {version}, but {self.fetched.version} is held")

    def settled(self, version):
        """Has the values of that version, and shows them."""
        return self.fetched.version == version and self.active.entries == self.fetched.entries


class JavaScript(Sdk):
    """By project id; claims gzip and sends plain; `*` for nothing held; counts from what is activated."""

    parser = JavaScriptParser
    app = f"1:{NUMBER}:web:0a1b2c3d4e5f"

    @property
    def baseline(self):
        return self.active.version or float("inf")  # without an active config messages are ignored

    @property
    def metadata_baseline(self):
        return self.before

    def headers(self, etag):
        return [("Content-Type", "application/json"), ("Content-Encoding", "gzip"), ("If-None-Match", etag or "*")]

    def fetch_request(self, kind):
        body = {"sdk_version": "12.18.0", "app_instance_id": self.fid, "app_instance_id_token": "eyJ.a.b",
                "app_id": self.app, "language_code": "en-US"}
        return encoded(body), self.headers(self.fetched.etag)

    def stream_request(self):
        body = {"project": self.project, "namespace": "firebase", "lastKnownVersionNumber": str(self.active.version),
                "appId": self.app, "sdkVersion": "12.18.0", "appInstanceId": self.fid}
        return encoded(body), self.headers(self.active.etag) + [("Accept", "application/json")]

    async def follow(self, target):
        """The next read waits for the update."""
        await self.update(target)

    async def read(self, reader):
        """Unless merged, reads are queued as they arrive, as a stream of a body in memory does."""
        if self.merged:
            return await super().read(reader)
        queued = QueuedReads(reader)
        try:
            return await super().read(queued)
        finally:
            queued.task.cancel()


class Apple(Sdk):
    """Gzipped bodies that are not quite JSON; streams by project number; gives a stream up after 330 s."""

    parser, retries, life_limit = AppleParser, 7, 330
    app = f"1:{NUMBER}:ios:0a1b2c"

    def path(self, verb):
        project = NUMBER if verb.startswith("stream") else self.project
        return f"/v1/projects/{project}/namespaces/firebase:{verb}?key=AIza"

    def headers(self):
        headers = [("Content-Type", "application/json"), ("Content-Encoding", "gzip"), ("Accept-Encoding", "gzip"),
                   ("X-Goog-Firebase-Installations-Auth", "eyJ.a.b"), ("X-Ios-Bundle-Identifier", "com.example.app")]
        return headers + ([("If-None-Match", self.fetched.etag)] if self.fetched.etag else [])

    def fetch_request(self, kind):
        body = (f"{{app_instance_id:'{self.fid}', app_instance_id_token:'eyJ.a.b', app_id:'{self.app}', "
                "country_code:'us', language_code:'en_US', platform_version:'18.1', time_zone:'Europe/Paris', "
                "package_name:'com.example.app', app_version:'2.1.0', app_build:'210', sdk_version:'12.2.0'}")
        return gzip.compress(body.encode()), self.headers() + [("X-Firebase-RC-Fetch-Type", kind)]

    def stream_request(self):
        body = (f"{{project:'{NUMBER}', namespace:'firebase', lastKnownVersionNumber:'{self.fetched.version}', "
                f"appId:'{self.app}', sdkVersion:'12.2.0', appInstanceId:'{self.fid}'}}")
        return gzip.compress(body.encode()), self.headers() + [("X-Google-GFE-Can-Retry", "true")]


class Android(Sdk):
    """Plain JSON, everything by project number, key in a header."""

    parser, project = AndroidParser, NUMBER
    app = f"1:{NUMBER}:android:0a1b2c"

    def path(self, verb):
        return super().path(verb).partition("?")[0]

    def headers(self):
        return [("Content-Type", "application/json"), ("Accept", "application/json"), ("X-Goog-Api-Key", "AIza"),
                ("X-Goog-Firebase-Installations-Auth", "eyJ.a.b"), ("X-Android-Package", "com.example.app"),
                ("X-Google-GFE-Can-Retry", "yes")]

    def fetch_request(self, kind):
        body = {"appInstanceId": self.fid, "appInstanceIdToken": "eyJ.a.b", "appId": self.app, "countryCode": "US",
                "languageCode": "en-US", "platformVersion": "34", "timeZone": "Europe/Paris", "appVersion": "2.1.0",
                "appBuild": "210", "packageName": "com.example.app", "sdkVersion": "23.0.0",
                "analyticsUserProperties": {}, "firstOpenTime": "2026-01-05T10:00:00.000Z"}
        headers = self.headers() + [("X-Firebase-RC-Fetch-Type", kind)]
        return encoded(body), headers + ([("If-None-Match", self.fetched.etag)] if self.fetched.etag else [])

    def stream_request(self):
        body = {"project": NUMBER, "namespace": "firebase", "lastKnownVersionNumber": str(self.fetched.version),
                "appId": self.app, "sdkVersion": "23.0.0", "appInstanceId": self.fid}
        return encoded(body), self.headers() + [("X-Accept-Response-Streaming", "true")]


def changed(old, new):
    """Keys added, removed or with another value."""
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}


EXPERIMENT = ("experimentId", "variantId", "timeToLiveMillis", "triggerTimeoutMillis")


def metadata(content):
    """By parameter: which rollouts and experiments it is part of, as the SDKs compare it."""
    known = {}
    for rollout in content.get("rolloutMetadata", ()):
        for key in rollout["affectedParameterKeys"]:
            known.setdefault(key, {})[rollout["rolloutId"]] = rollout["variantId"]
    for experiment in content.get("experimentDescriptions", ()):
        for key in experiment.get("affectedParameterKeys", ()):
            known.setdefault(key, {})["experiment"] = [experiment[name] for name in EXPERIMENT]
    return known


def encoded(body):
    return json.dumps(body, separators=(",", ":")).encode()


SDKS = {"js": JavaScript, "ios": Apple, "android": Android}
