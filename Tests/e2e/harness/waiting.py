"""Waiting for what follows a moment later."""

import asyncio


async def eventually(read, wanted, timeout=30):
    """Waits until a figure is as wanted: gauges follow a moment later."""
    for _ in range(int(timeout / 0.02)):
        if (value := await read()) == wanted:
            return value
        await asyncio.sleep(0.02)
    return await read()


async def until(condition, timeout=40):
    """Waits until what `condition` returns is true, and returns it."""
    deadline = asyncio.get_running_loop().time() + timeout
    while not (found := await condition()):
        assert asyncio.get_running_loop().time() < deadline, "it did not come about in time"
        await asyncio.sleep(0.1)
    return found
