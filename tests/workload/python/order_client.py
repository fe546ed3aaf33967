"""Orders over HTTP/2, many at once: a line of standard input with a number makes so many orders.

    python order_client.py PORT CERTIFICATE AT_ONCE [traceparent] [x-request-id]

Each order has a body of its own, and those of the ids that are named. It prints how many succeeded.
"""

import asyncio
import secrets
import ssl
import sys

import httpx


def ids(names: list[str]) -> dict[str, str]:
    """Return new ids of a request."""
    made = {
        "traceparent": f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-01",
        "x-request-id": secrets.token_hex(16),
    }
    return {name: made[name] for name in names}


async def make(port: str, certificate: str, at_once: str, *names: str) -> None:
    """Make orders until standard input ends."""
    trusted = ssl.create_default_context(cafile=certificate)
    limits = httpx.Limits(max_connections=4)
    room = asyncio.Semaphore(int(at_once))
    async with httpx.AsyncClient(
        http1=False, http2=True, verify=trusted, limits=limits, timeout=60
    ) as client:

        async def order() -> bool:
            async with room:
                body = f"sku-{secrets.token_hex(12)}"
                url = f"https://localhost:{port}/orders"
                answer = await client.post(url, content=body, headers=ids([*names]))
                return answer.status_code == 200 and answer.text == body

        loop = asyncio.get_running_loop()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            done = await asyncio.gather(*(order() for _ in range(int(line))))
            print(sum(done), flush=True)


if __name__ == "__main__":
    asyncio.run(make(*sys.argv[1:]))
