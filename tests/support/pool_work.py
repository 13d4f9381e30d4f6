"""Work on a pool of connections of its own, for tests that are no coroutines."""

import asyncio

from tiltyard.postgres.connections import open_pool


def asked(url, work, most=2):
    """What a coroutine returns that gets the pool."""

    async def run():
        async with open_pool(url, most=most) as pool:
            return await work(pool)

    return asyncio.run(run())
