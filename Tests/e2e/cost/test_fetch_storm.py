"""All clients fetch after a publish: what they get, what it costs, and how it compares with nginx serving a file.

pytestmark = pytest.mark.busy

Sizes are small unless STALECAST_LONG=1; the figures are recorded, none of them is asserted as a speed."""

import os
import re
import socket
import subprocess
import time
from pathlib import Path
from statistics import median
from types import SimpleNamespace

import pytest

from harness import configs, ports
from harness.caches import NGINX_FOLDERS
from harness.daemon import LONG
from harness.fetch_storm import FetchStorm, storm_template
from harness.figures import record
from harness.http1 import fetch

CLIENTS = 10_000 if LONG else 1_000
WINDOW = 5 if LONG else 1
MB = 1 << 20
PATH = "/v1/projects/demo/namespaces/firebase:fetch"
INSTANCE = b'{"appId":"1:1:web:a","appInstanceId":"a","appInstanceIdToken":"b"}'


@pytest.mark.limit(120)
async def test_a_storm_gets_the_acknowledged_version_and_memory_stays_flat(launch, half):
    daemon = launch(configs.many_connections(half), half=half)
    peaks = []
    async with FetchStorm(daemon, CLIENTS) as storm:
        before = daemon.memory()
        for number in range(3):
            outcome = await storm.run(number, WINDOW)
            peaks.append(daemon.memory("VmHWM"))
            assert (outcome.fetched, outcome.stale, outcome.different) == (CLIENTS, 0, 0)
            assert 90_000 < min(outcome.sizes) and max(outcome.sizes) < 110_000
    # 20 answers of 100 kB, old and new, and what the sockets hold at once; not one answer for each client
    assert peaks[2] - peaks[1] < 16 * MB
    assert peaks[2] - before < 64 * MB
    record(f"fetch_storm_{half}", clients=CLIENTS, window=WINDOW, **outcome.figures, residentMB=before / MB,
           peakMB=max(peaks) / MB)


# beside nginx

NGINX = """
{user}worker_processes auto; daemon off; pid {dir}/nginx.pid; error_log {dir}/error.log;
events {{ worker_connections 4096; }}
http {{
    access_log off; sendfile on; tcp_nopush on; keepalive_requests 1000000000; default_type application/json;
""" + NGINX_FOLDERS + """    server {{ listen 127.0.0.1:{port}; root {dir}; }}
}}
"""
# Workers of a root's nginx are nobody, who may not read the test's directory.
WORKERS = "user root;\n" if os.geteuid() == 0 else ""
# Both get requests a script has made beforehand, so that wrk costs the same.
STATIC = """
local requests = {}
function init() requests[0] = wrk.format("GET", "/answer.json", {["Content-Type"] = "application/json"}) end
function request() return requests[0] end
"""
FETCH = """
local requests, count = {}, 0
function init()
  for context = 0, 19 do
    local body = '{"app_id":"1:123456789012:web:57a1eca57","app_instance_id":"stalecast-load-' .. context ..
      '","app_instance_id_token":"stalecast-load","sdk_version":"11.0.0","language_code":"en-GB",' ..
      '"custom_signals":{"stalecast_load":"' .. context .. '"}}'
    requests[context] = wrk.format("POST", "/v1/projects/demo/namespaces/firebase:fetch",
      {["Content-Type"] = "application/json", ["If-None-Match"] = "*"}, body)
  end
end
function request() count = count + 1; return requests[count % 20] end
"""


def wrk(program, script, port, seconds, connections=64):
    """Requests per second; every answer must be a 200."""
    done = subprocess.run([program, "-t1", f"-c{connections}", f"-d{seconds}s", "-s", script,
                           f"http://127.0.0.1:{port}/"], capture_output=True, text=True, check=True)
    assert "Non-2xx" not in done.stdout and "Socket errors" not in done.stdout, done.stdout
    return float(re.search(r"Requests/sec:\s+([\d.]+)", done.stdout).group(1))


@pytest.mark.limit(300)
@pytest.mark.skipif(not LONG, reason="figures beside nginx: STALECAST_LONG=1")
@pytest.mark.parametrize("size", [4, 100])
async def test_throughput_beside_a_static_file_of_nginx(launch, half, tool, tmp_path, size):
    nginx, driver, port = tool("nginx"), tool("wrk"), ports.free()
    daemon = launch(half=half)
    await daemon.client().publish(storm_template(1, kilobytes=size))
    body = (await fetch(daemon.edge, PATH, "POST", (), INSTANCE)).body
    (tmp_path / "answer.json").write_bytes(body)
    (tmp_path / "nginx.conf").write_text(NGINX.format(dir=tmp_path, port=port, user=WORKERS))
    (tmp_path / "static.lua").write_text(STATIC)
    (tmp_path / "fetch.lua").write_text(FETCH)
    server = subprocess.Popen([nginx, "-c", tmp_path / "nginx.conf", "-p", tmp_path])
    try:
        wait_for(port)
        static, ours = (server.pid, tmp_path / "static.lua", port), (daemon.pid, tmp_path / "fetch.lua", daemon.edge)
        rounds = [(measured(driver, *static), measured(driver, *ours)) for _ in range(5)]
    finally:
        server.terminate()
        server.wait()
    ratios = sorted(ours.rate / theirs.rate for theirs, ours in rounds)
    record(f"fetch_beside_nginx_{half}_{size}kB", bytes=len(body), ratio=ratios[2], lowest=ratios[0], highest=ratios[-1],
           nginxPerSecond=median(theirs.rate for theirs, _ in rounds),
           fetchPerSecond=median(ours.rate for _, ours in rounds),
           nginxMicrosecondsEach=median(theirs.microseconds for theirs, _ in rounds),
           fetchMicrosecondsEach=median(ours.microseconds for _, ours in rounds))


def measured(driver, process, script, port, seconds=5):
    """Requests per second and the CPU time a server and its children spend on each."""
    before = cpu_seconds(process)
    rate = wrk(driver, script, port, seconds)
    return SimpleNamespace(rate=rate, microseconds=(cpu_seconds(process) - before) / (rate * seconds) * 1e6)


def cpu_seconds(process):
    children = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    ticks = 0
    for each in [process, *children]:
        fields = Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def wait_for(port):
    for _ in range(500):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise AssertionError(f"nobody listens on {port}")
