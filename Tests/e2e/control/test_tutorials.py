"""The tutorials of deploy/docs: every block of a page, in its order, as its reader runs it."""

import asyncio
import contextlib
import os
import re
import subprocess

import pytest

from harness import ports
from harness.daemon import BINARY, REPOSITORY, environment


class Page:
    """A page in a directory of its own, with free ports in place of 8080, 8081 and 8000: tests run side by side.

    A block after "Save as `NAME`" is a file, other blocks are commands. `with Page(…) as page`: what it started ends.
    """

    def __init__(self, name, directory):
        self.directory = directory
        self.edge, self.control, self.other = ports.free(), ports.free(), ports.free()
        text = (REPOSITORY / "deploy/docs" / name).read_text()
        for port, ours in ((8080, self.edge), (8081, self.control), (8000, self.other)):
            text = re.sub(rf"(?<=[: ]){port}\b", str(ours), text)
        self.text = text.replace("stalecast serve",
                                 f"stalecast serve --edge 127.0.0.1:{self.edge} --control 127.0.0.1:{self.control}")
        self.blocks = re.findall(r"((?:(?!```).)*?)^ *```\w*\n(.*?)^ *```", self.text, re.DOTALL | re.MULTILINE)
        self.settings = environment(PATH=f"{os.path.dirname(BINARY)}:{os.environ['PATH']}")
        self.ending = contextlib.ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ending.close()

    def run(self, commands):
        ran = subprocess.run(["bash", "-ec", commands], cwd=self.directory, env=self.settings, capture_output=True, text=True)
        assert ran.returncode == 0, f"{commands}\n{ran.stdout}\n{ran.stderr}"
        return ran.stdout

    def start(self, command):
        """In the background, as in a terminal of its own; `| tee` keeps a listener's words in its file."""
        process = subprocess.Popen(["bash", "-ec", command if "|" in command else f"exec env {command}"], cwd=self.directory,
                                   env=self.settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   start_new_session=True)

        def end():
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            process.wait()

        self.ending.callback(end)
        return process

    def next(self):
        """Saves or runs the next block; returns what it printed, or its process."""
        before, block = self.blocks.pop(0)
        if saved := re.search(r"(?:Save as|page as|it as) `([^`]+)`", before.rsplit("```", 1)[-1]):
            (self.directory / saved.group(1)).write_text(block)
            return None
        block = re.sub(r"(?m)^   ", "", block) if block.startswith("   ") else block
        if re.search(r"stalecast serve|http\.server|curl -sN", block):
            return self.start(block.strip())
        return self.run(block)

    async def accepts(self, port):
        async with asyncio.timeout(20):
            while True:
                with contextlib.suppress(OSError):
                    (await asyncio.open_connection("127.0.0.1", port))[1].close()
                    return
                await asyncio.sleep(0.02)

    async def heard(self, text, name="heard.txt"):
        async with asyncio.timeout(20):
            while not (self.directory / name).exists() or text not in (self.directory / name).read_text():
                await asyncio.sleep(0.02)


@pytest.fixture
def page(tmp_path):
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(Page(name, tmp_path))


async def shows(browser, expression, wanted, within=20):
    async with asyncio.timeout(within):
        while (found := browser.evaluate(expression)) != wanted:
            await asyncio.sleep(0.02)
    return found


@pytest.mark.limit(120)
async def test_a_web_page_in_ten_minutes(page, browser):
    page = page("web.md")
    page.next()
    await page.accepts(page.control)
    for _ in range(3):
        page.next()
    await page.accepts(page.other)
    browser.open(f"http://127.0.0.1:{page.other}/")
    seen = "[document.getElementById('welcome')?.textContent, document.getElementById('banner')?.hidden]"
    await shows(browser, seen, ["Hello", True])
    page.next()
    await shows(browser, seen, ["Hello, winter", False])
    page.run(re.search(r"`(stalecast rollback [^`]*)`", page.text).group(1))
    await shows(browser, seen, ["Hello", True])
    assert "stc_p_" in page.next()
    assert not page.blocks


@pytest.mark.limit(60)
async def test_behind_nginx_with_keys(page, tool, tmp_path):
    page = page("nginx-with-keys.md")
    page.next()
    page.next()
    await page.accepts(page.control)
    page.next()
    page.next()
    user = "" if os.geteuid() else "user root;"
    (tmp_path / "nginx.conf").write_text(
        f"{user} daemon off; pid {tmp_path}/pid; error_log {tmp_path}/error.log; events {{}}\n"
        f"http {{ access_log off; client_body_temp_path {tmp_path}/body; proxy_temp_path {tmp_path}/proxy;\n"
        f"fastcgi_temp_path {tmp_path}/fastcgi; uwsgi_temp_path {tmp_path}/uwsgi; scgi_temp_path {tmp_path}/scgi;\n"
        f"include {tmp_path}/stalecast.conf; }}\n")
    page.start(f"{tool('nginx')} -p {tmp_path} -c {tmp_path}/nginx.conf")
    await page.accepts(page.other)
    assert page.next().split() == ["401", "200"]
    listener = page.next()
    await page.heard("synced")
    page.next()
    await page.heard('"latestTemplateVersionNumber":"2"')
    page.next()
    await asyncio.wait_for(asyncio.to_thread(listener.wait), 20)
    state = re.findall(r"(?m)^curl .*app\.key.*v1/state.*", page.text)[0]
    assert page.run(state).strip() == "401"
    assert "stc_" not in page.run("stalecast audit --data shop-data")
    assert not page.blocks


@pytest.mark.limit(60)
async def test_beside_your_config_server(page):
    page = page("beside.md")
    page.next()
    page.next()
    await page.accepts(page.other)
    page.next()
    assert "demo/firebase" in page.next()
    page.next()
    await page.accepts(page.edge)
    page.next()
    await page.heard("synced")
    page.next()
    await page.heard('"latestTemplateVersionNumber":"2"')
    page.next()
    page.run("stalecast sources --data shop-data")
    assert not page.blocks


@pytest.mark.limit(60)
async def test_upgrade_and_restore(page, tmp_path):
    page = page("upgrade.md")
    old = page.next()
    await page.accepts(page.control)
    new = tmp_path / "new/usr/bin/stalecast"
    new.parent.mkdir(parents=True)
    new.symlink_to(BINARY)
    for _ in range(4):
        page.next()
    old.terminate()
    await asyncio.to_thread(old.wait)
    page.next()
    page.next()
    await page.accepts(page.control)
    page.next()
    versions = page.run("stalecast versions --json --data new-data")
    assert "Hello, spring" in page.run("stalecast get --data new-data")
    assert '"2"' in versions and '"3"' in versions
    assert not page.blocks
