"""Waiting for what follows a moment later."""

import asyncio


async def eventually(read, wanted, timeout=30):
    """Waits until a figure is as wanted: gauges follow a moment later. Asks fast at first, then four times a second."""
    clock, pause = asyncio.get_running_loop().time, 0.02
    deadline = clock() + timeout
    while (value := await read()) != wanted and clock() < deadline:
        await asyncio.sleep(pause)
        pause = min(1.2 * pause, 0.25)
    return value


async def until(condition, timeout=40):
    """Waits until what `condition` returns is true, and returns it."""
    deadline = asyncio.get_running_loop().time() + timeout
    while not (found := await condition()):
        assert asyncio.get_running_loop().time() < deadline, "it did not come about in time"
        await asyncio.sleep(0.1)
    return found
