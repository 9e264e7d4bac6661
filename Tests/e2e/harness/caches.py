"""Caches in front of Edge, with our files of deploy/proxy, and a count of what reaches Edge through them."""

import asyncio
import os
import re
import subprocess

from harness import ports
from harness.daemon import REPOSITORY
from harness.http1 import fetch

NGINX_FOLDERS = """
    client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
"""
NGINX = """
{user} daemon off; pid {dir}/nginx.pid; error_log {dir}/error.log; worker_rlimit_nofile 8192;
events {{ worker_connections 4096; }}
http {{
    access_log off;
""" + NGINX_FOLDERS + """    include {dir}/ours.conf;
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
