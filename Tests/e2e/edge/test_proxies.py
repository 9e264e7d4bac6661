"""Behind nginx, haproxy and Caddy: the first event is there within 200 ms of the publish, silence ends nothing."""

import asyncio
import os
import re
import signal
import subprocess

import pytest

from harness import ports
from harness.caches import NGINX_FOLDERS
from harness.daemon import LONG, REPOSITORY
from harness.http1 import fetch
from harness.sse import Stream
from harness.templates import marked

pytestmark = pytest.mark.shared
STOCK_NGINX = """
daemon off; pid {dir}/nginx.pid; error_log {dir}/error.log;
events {{}}
http {{
    access_log off;
""" + NGINX_FOLDERS + """    server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://127.0.0.1:{edge}; }} }}
}}
"""
OUR_NGINX = """
daemon off; pid {dir}/nginx.pid; error_log {dir}/error.log;
events {{}}
http {{
    access_log off;
""" + NGINX_FOLDERS + """    include {dir}/ours.conf;
}}
"""
STOCK_HAPROXY = """
defaults
    mode http
    timeout connect 5s
    timeout client 60s
    timeout server 60s
{option}
frontend f
    bind 127.0.0.1:{port}
    default_backend b
backend b
    server s 127.0.0.1:{edge}
"""


def ours(name, port, edge):
    """Our snippet of deploy/proxy, moved to these ports."""
    text = (REPOSITORY / "deploy/proxy" / name).read_text()
    text = re.sub(r"127\.0\.0\.1:8080", f"127.0.0.1:{edge}", text)
    text = re.sub(r"(?m)^:80 ", f"http://127.0.0.1:{port} ", text)
    return re.sub(r"(listen |bind )(\*?:)?80\b", rf"\g<1>127.0.0.1:{port}", text)


class Proxy:
    """A proxy process in front of a daemon's Edge; `kind` is what it runs with."""

    def __init__(self, kind, tool, directory, edge):
        self.kind = kind
        self.port = ports.free()
        values = {"dir": directory, "port": self.port, "edge": edge}
        if "nginx" in kind:
            (directory / "ours.conf").write_text(ours("nginx.conf", self.port, edge))
            text = (OUR_NGINX if "ours" in kind else STOCK_NGINX).format(**values)
            command = [tool("nginx"), "-p", str(directory), "-c"]
        elif "caddy" in kind:
            self.admin = f"127.0.0.1:{ports.free()}"
            text = f"{{\n\tadmin {self.admin}\n\tgrace_period 1s\n}}\n" + ours("Caddyfile", self.port, edge)
            command = [tool("caddy"), "run", "--adapter", "caddyfile", "--config"]
        else:
            option = "    option http-no-delay" if "no-delay" in kind else ""
            stock = STOCK_HAPROXY.format(**values, option=option)
            text = ours("haproxy.cfg", self.port, edge) if "ours" in kind else stock
            command = [tool("haproxy"), "-W", "-db", "-f"]
        self.file = directory / "proxy.conf"
        self.file.write_text(text)
        # Caddy keeps what it saves in the home directory.
        self.process = subprocess.Popen([*command, str(self.file)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        env={**os.environ, "HOME": str(directory)})

    def reload(self):
        """Reads its configuration again, as an operator has it do."""
        if "caddy" in self.kind:
            subprocess.run(["caddy", "reload", "--force", "--address", self.admin, "--adapter", "caddyfile", "--config",
                            str(self.file)], capture_output=True, check=True)
        else:
            self.process.send_signal(signal.SIGUSR2 if "haproxy" in self.kind else signal.SIGHUP)

    async def up(self):
        for _ in range(2000):
            assert self.process.poll() is None, self.process.stderr.read().decode()
            try:
                return (await fetch(self.port, "/v1/state?topic=PUSH_RC")).status
            except OSError:
                await asyncio.sleep(0.01)
        raise AssertionError("the proxy does not accept")

    def stop(self):
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture
def proxy(daemon, tool, tmp_path):
    """`proxy(kind)`: a started proxy in front of `daemon`."""
    started = []

    def start(kind):
        directory = tmp_path / "proxy"
        directory.mkdir()
        started.append(Proxy(kind, tool, directory, daemon.edge))
        return started[-1]

    yield start
    for each in started:
        each.stop()


async def first_events(daemon, port, enough, **options):
    """Seconds by which a message is later than at a client without the proxy, each on a fresh stream: five, and more until
    one is `enough`. A proxy that waits for more bytes does so each time; a busy machine makes both clients wait."""
    delays = []
    direct = await Stream.open(daemon.edge, **options)
    await direct.synced()
    while len(delays) < 5 or min(delays) > enough and len(delays) < 40:
        stream = await Stream.open(port, **options)
        await stream.synced()
        version = await daemon.publish(marked(str(len(delays))))
        frame = await stream.version_at_least(version)
        delays.append(frame.at - (await direct.version_at_least(version)).at)
        stream.close()
    direct.close()
    return sorted(delays)


@pytest.mark.limit(60)
@pytest.mark.parametrize("kind,most", (
    ("stock nginx", 0.200), ("our nginx", 0.200), ("stock haproxy", 0.300), ("haproxy, no-delay", 0.200),
    ("our haproxy", 0.200), ("our caddy", 0.200)))
@pytest.mark.parametrize("http", ("1.1", "1.0"))
async def test_the_first_event_comes_at_once_through_a_proxy(daemon, proxy, kind, most, http):
    front = proxy(kind.replace("our ", "ours "))
    assert await front.up() == 200
    delays = await first_events(daemon, front.port, most, http=http)
    print(f"{kind}, HTTP/{http}: first event after {delays[0] * 1000:.1f} ms at best of {len(delays)}")
    assert delays[0] <= most, f"{[round(delay, 3) for delay in delays]}"


@pytest.mark.limit(60)
@pytest.mark.parametrize("kind", ("stock nginx", "ours nginx", "stock haproxy", "ours haproxy", "ours caddy"))
async def test_opening_resume_and_a_burst_come_through_a_proxy_whole(daemon, proxy, kind):
    front = proxy(kind)
    assert await front.up() == 200
    stream = await Stream.open(front.port, have=0)
    await stream.synced()
    assert [frame.kind for frame in stream.frames[:2]] == ["retry", "comment"]
    client = daemon.client()
    for number in range(200):
        last = await client.publish(marked(str(number)))
    await stream.version_at_least(last)
    assert stream.versions == sorted(set(stream.versions))
    again = await Stream.open(front.port, last_event_id=stream.messages[0].id)
    await again.synced()
    assert again.versions == [last]


@pytest.mark.limit(60)
@pytest.mark.parametrize("kind", ("ours nginx", "ours haproxy", "ours caddy"))
async def test_a_proxy_that_reloads_loses_nothing(daemon, proxy, kind):
    front = proxy(kind)
    assert await front.up() == 200
    stream = await Stream.open(front.port)
    await stream.synced()
    first = await daemon.publish(marked("before"))
    seen = (await stream.version_at_least(first)).last_id
    front.reload()
    second = await daemon.publish(marked("after"))
    again = await Stream.open(front.port, last_event_id=seen)
    await again.version_at_least(second)
    assert again.versions == [second]


@pytest.mark.limit(120)
@pytest.mark.skipif(not LONG, reason="70 silent seconds take their time: deploy/test.sh --long")
@pytest.mark.parametrize("kind", ("ours nginx", "ours haproxy", "ours caddy"))
async def test_seventy_silent_seconds_end_nothing(daemon, proxy, kind):
    front = proxy(kind)
    assert await front.up() == 200
    stream = await Stream.open(front.port)
    await stream.synced()
    await stream.until(lambda s: s.frames[-1].at - s.frames[0].at > 70, timeout=110, what="70 s of heartbeats")
    await stream.version_at_least(await daemon.publish(marked("after the silence")))
