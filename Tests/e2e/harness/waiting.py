"""Waiting for what follows a moment later."""

import asyncio


async def eventually(read, wanted, timeout=5):
    """Waits until a figure is as wanted: gauges follow a moment later."""
    for _ in range(int(timeout / 0.02)):
        if (value := await read()) == wanted:
            return value
        await asyncio.sleep(0.02)
    return await read()
