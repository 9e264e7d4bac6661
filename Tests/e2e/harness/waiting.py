"""Waiting for what follows a moment later."""

import asyncio
import inspect


async def eventually(read, wanted, timeout=30):
    """Waits until a figure is as wanted: gauges follow a moment later. Asks fast at first, then four times a second."""
    clock, pause = asyncio.get_running_loop().time, 0.02
    deadline = clock() + timeout
    while (value := await read()) != wanted and clock() < deadline:
        await asyncio.sleep(pause)
        pause = min(1.2 * pause, 0.25)
    return value


async def until(condition, what="condition", timeout=60):
    """Waits until `condition`, a function or a coroutine function, returns something true, and returns that."""
    clock, pause = asyncio.get_running_loop().time, 0.01
    deadline = clock() + timeout
    while True:
        found = condition()
        if inspect.isawaitable(found):
            found = await found
        if found:
            return found
        assert clock() < deadline, f"not within {timeout} s: {what}"
        await asyncio.sleep(pause)
        pause = min(1.2 * pause, 0.1)
