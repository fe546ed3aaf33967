"""Customers who ask for invoices, several at once: ``slow_customers PORT``."""

import asyncio
import random
import sys
import uuid

import aiohttp

from docs.stories.system import client_tls

_CUSTOMERS = ("acme", "birch", "cedar", "delta")
_AT_ONCE = 6
_PAUSE_S = 0.1


async def main() -> None:
    """Ask until the end."""
    url = f"https://localhost:{sys.argv[1]}"
    connector = aiohttp.TCPConnector(ssl=client_tls(), limit=_AT_ONCE)
    async with aiohttp.ClientSession(url, connector=connector) as session:
        await asyncio.gather(*(_ask(session) for _ in range(_AT_ONCE)))


async def _ask(session: aiohttp.ClientSession) -> None:
    while True:
        view = random.choice(("?view=full", ""))
        path = f"/invoices/{random.choice(_CUSTOMERS)}/{random.randrange(1000, 10000)}{view}"
        async with session.get(path, headers={"X-Request-Id": str(uuid.uuid4())}) as answer:
            await answer.read()
        await asyncio.sleep(random.random() * 2 * _PAUSE_S)


if __name__ == "__main__":
    asyncio.run(main())
