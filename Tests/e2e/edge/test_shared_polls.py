"""Polls that a cache asks once and answers to many clients, behind nginx and Varnish with our files; and configs for ever."""

import asyncio
import os
import re
import subprocess
import time

import pytest

from harness import ports
from harness.daemon import REPOSITORY
from harness.http1 import Connection, fetch
from harness.templates import marked

SCOPE = "/v1/projects/demo/namespaces/firebase"
WAIT = 3
NGINX = """
{user} daemon off; pid {dir}/nginx.pid; error_log {dir}/error.log; worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
    access_log off;
    client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
    include {dir}/ours.conf;
}}
"""


class Counter:
    """Passes connections on to Edge and counts the requests for polls on them."""

    def __init__(self, edge):
        self.edge = edge
        self.polls = 0

    async def start(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def serve(self, reader, writer):
        try:
            back, to = await asyncio.open_connection("127.0.0.1", self.edge)
        except OSError:
            return writer.close()
        await asyncio.gather(self.copy(reader, to, True), self.copy(back, writer, False))

    async def copy(self, reader, writer, counts):
        try:
            while data := await reader.read(1 << 16):
                if counts:
                    self.polls += data.count(b"GET /v1/poll?")
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()


class Cache:
    """nginx or Varnish with the file of deploy/proxy, in front of a port."""

    def __init__(self, kind, tool, directory, behind):
        self.kind, self.port = kind, ports.free()
        if kind == "nginx":
            text = (REPOSITORY / "deploy/proxy/nginx-shared.conf").read_text()
            text = text.replace("127.0.0.1:8080", f"127.0.0.1:{behind}").replace("/var/cache/nginx", str(directory))
            (directory / "ours.conf").write_text(re.sub(r"listen 80\b", f"listen 127.0.0.1:{self.port}", text))
            (directory / "nginx.conf").write_text(NGINX.format(dir=directory, user="" if os.geteuid() else "user root;"))
            self.command = [tool("nginx"), "-p", str(directory), "-c", str(directory / "nginx.conf")]
        else:
            text = (REPOSITORY / "deploy/proxy/shared.vcl").read_text()
            (directory / "shared.vcl").write_text(text.replace('"8080"', f'"{behind}"'))
            self.command = [tool("varnishd"), "-F", "-n", str(directory / "varnish"), "-f", str(directory / "shared.vcl"),
                            "-a", f"127.0.0.1:{self.port}", "-s", "malloc,64m", "-T", "none", "-j", "none",
                            "-p", "thread_pool_max=1500", "-p", "thread_pool_min=100"]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    async def up(self):
        for _ in range(1500):
            assert self.process.poll() is None, self.process.stderr.read().decode()
            try:
                return (await fetch(self.port, "/v1/state?topic=PUSH_RC")).status
            except (OSError, ConnectionError):
                await asyncio.sleep(0.01)
        raise AssertionError(f"{self.kind} does not accept")

    def stop(self):
        self.process.terminate()
        self.process.wait(15)


class Crowd:
    """Clients that poll through a cache as the documentation says, and note what they are told and when."""

    def __init__(self, cache, count):
        self.cache, self.failures = cache, 0
        self.told = [[] for _ in range(count)]
        self.tasks = [asyncio.create_task(self.poll(client)) for client in range(count)]
        self.waiting = set()

    async def poll(self, client):
        connection, cursor, number = Connection(self.cache.port), "", 0
        while True:
            target = f"/v1/poll?topic=PUSH_RC&project=demo&wait={WAIT}s&round={number}{cursor}"
            try:
                if cursor:
                    self.waiting.add(client)
                answer = await connection.request("GET", target, timeout=30)
            except ConnectionError:
                self.failures += 1
                await asyncio.sleep(0.2)
                continue
            if answer.status != 200:
                self.failures += 1
                await asyncio.sleep(0.2)
                continue
            body = answer.json()
            cursor, number = f"&cursor={body['cursor']}", body["round"]
            self.told[client] += [(int(m["latestTemplateVersionNumber"]), time.monotonic()) for m in body["messages"]]

    async def all_told(self, version, timeout=15):
        deadline = time.monotonic() + timeout
        while late := [c for c, told in enumerate(self.told) if not told or told[-1][0] < version]:
            assert time.monotonic() < deadline, f"{len(late)} clients were not told version {version}"
            await asyncio.sleep(0.02)
        return max(at for told in self.told for number, at in told if number == version)

    def stop(self):
        for task in self.tasks:
            task.cancel()


@pytest.fixture
def daemon(launch):
    """A daemon whose engine takes what it knows: shared polls go to the Front from there."""
    return launch()


@pytest.fixture
def cache(daemon, tool, tmp_path):
    """`await cache(kind)`: a started cache, and the counter behind it."""
    started = []

    async def start(kind):
        counter = await Counter(daemon.edge).start()
        started.append(Cache(kind, tool, tmp_path, counter.port))
        assert await started[-1].up() == 200
        return started[-1], counter

    yield start
    for each in started:
        each.stop()


@pytest.mark.limit(90)
@pytest.mark.parametrize("kind", ("nginx", "varnish"))
async def test_a_cache_asks_once_for_five_hundred_clients(daemon, cache, kind):
    cache, counter = await cache(kind)
    await daemon.publish(marked("first"))
    crowd = Crowd(cache, 500)
    try:
        while len(crowd.waiting) < 500:
            await asyncio.sleep(0.05)
        await asyncio.sleep(WAIT)
        before, began = counter.polls, time.monotonic()
        await asyncio.sleep(3 * WAIT)
        asked = (counter.polls - before) / (time.monotonic() - began)
        assert 0 < asked <= 2, f"{asked:.1f} polls a second reach Edge while nothing happens"
        for number in range(3):
            begun = time.monotonic()
            version = await daemon.publish(marked(str(number)))
            delay = await crowd.all_told(version) - begun
            print(f"{cache.kind}: all 500 told after {delay * 1000:.0f} ms; {asked:.2f} polls a second in silence")
        cache.stop()
        cache.start()
        version = await daemon.publish(marked("while the cache was away"))
        await crowd.all_told(version)
        for told in crowd.told:
            versions = [number for number, _ in told]
            assert versions == sorted(set(versions)), "a client was told twice, or went back"
            assert versions[-1] == version
    finally:
        crowd.stop()


async def test_the_answer_says_who_may_keep_it(daemon):
    version = await daemon.publish(marked("one"))
    first = await fetch(daemon.edge, "/v1/poll?topic=PUSH_RC&wait=1s&round=0")
    assert first.header("cache-control") == "public, max-age=0, s-maxage=5"
    assert "Authorization" in first.header("vary") and first.header("etag") is None
    cursor = first.json()["cursor"]
    silent = await fetch(daemon.edge, f"/v1/poll?topic=PUSH_RC&wait=1s&round=0&cursor={cursor}")
    assert silent.json()["messages"] == [] and silent.json()["round"] > 0
    at_once = await fetch(daemon.edge, f"/v1/poll?topic=PUSH_RC&wait=0&round=0&cursor={cursor}")
    assert at_once.header("cache-control") == "no-store"
    own = await fetch(daemon.edge, f"/v1/poll?topic=PUSH_RC&wait=0&cursor={cursor}")
    assert own.header("cache-control") == "no-store" and "round" not in own.json()
    refused = await fetch(daemon.edge, "/v1/poll?topic=PUSH_RC&round=0&client=a")
    assert refused.status == 400 and "client" in refused.json()["error"]["message"]
    config = await fetch(daemon.edge, f"{SCOPE}/config?version={version}")
    assert config.status == 200 and config.json()["templateVersion"] == str(version)
    assert config.header("cache-control") == "public, max-age=31536000, immutable"
    later = await fetch(daemon.edge, f"{SCOPE}/config?version={version + 1}")
    assert later.status == 503 and later.header("retry-after") and later.header("cache-control") == "no-store"
    await daemon.publish(marked("two"))
    older = await fetch(daemon.edge, f"{SCOPE}/config?version={version}")
    assert older.status == 404 and older.header("cache-control") == "no-store"
    for query in ("", "?version=", "?version=-1", "?version=x"):
        assert (await fetch(daemon.edge, f"{SCOPE}/config{query}")).status == 400


async def test_a_config_is_the_same_for_everybody(daemon):
    template = {
        "conditions": [{"name": "all", "expression": "percent <= 100"},
                       {"name": "old", "expression": "dateTime < dateTime('2100-01-01T00:00:00')"}],
        "parameters": {"a": {"defaultValue": {"value": "default"},
                             "conditionalValues": {"all": {"value": "percent"}, "old": {"value": "date"}}}},
    }
    version = await daemon.publish(template)
    config = await fetch(daemon.edge, f"{SCOPE}/config?version={version}")
    assert config.json()["entries"] == {"a": "default"}
