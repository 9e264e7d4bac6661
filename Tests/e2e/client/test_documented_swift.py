"""Every Swift block of README and of the SDK's articles, as its reader uses it: pasted into a script's `main.swift`, and
into an asynchronous function of an app. Each compiles without a warning and prints the server's value.

A block that is no program has a comment on the line before it: `<!-- not a program: why -->`. One that does not configure
an app goes on where the first guide ended: there is a `remoteConfig`."""

import asyncio
import subprocess

import pytest

from harness import programs
from harness.daemon import environment
from harness.programs import blocks, is_endless


@pytest.fixture(scope="module")
def built(once):
    return programs.built(once)


@pytest.fixture(params=["engine"])
def half(request):
    """The other half of Edge has its own tests."""
    return request.param


def test_there_are_blocks_to_run():
    assert len(blocks()) >= 5 and any(name.startswith("README") for name, _ in blocks())


@pytest.mark.parametrize("use", ["Script", "App"])
@pytest.mark.parametrize("name,code", [pytest.param(*block, id=block[0]) for block in blocks()])
async def test_a_documented_block_prints_the_servers_value(name, code, use, built, daemon, tmp_path):
    async def publish(text):
        await daemon.publish({"parameters": {"welcome_text": {"defaultValue": {"value": text}}}})

    await publish("Hello")
    process = subprocess.Popen([f"{built}/{name}{use}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                               env=environment(EDGE=str(daemon.edge), XDG_CACHE_HOME=str(tmp_path)))
    try:
        seen, texts = [], iter(range(100))
        async with asyncio.timeout(60):
            while not any("value: Hello" in line or "changed" in line for line in seen):
                read = asyncio.create_task(asyncio.to_thread(process.stdout.readline))
                while not (await asyncio.wait({read}, timeout=1))[0]:
                    if is_endless(code):
                        await publish(f"Hello {next(texts)}")
                line = read.result()
                assert line, f"ended without the server's value: {seen}"
                seen.append(line.rstrip())
        if name.startswith("README") and "print(" in code:
            assert any(line.startswith("Hello") for line in seen), seen
    finally:
        process.kill()
        process.communicate()
