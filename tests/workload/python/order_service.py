"""An asyncio service that asks another one: prints its port.

    python order_service.py CERTIFICATE KEY PORT_OF_STOCK

POST /orders asks POST /stock with the same body, and passes on ``x-request-id`` and
``traceparent``, the latter with a span of its own. Meanwhile a job of its own asks the same.
"""

import asyncio
import contextlib
import itertools
import secrets
import ssl
import sys

from aiohttp import ClientSession, TCPConnector, web

JOB = "job"
"""The bodies of the job's requests begin so."""


def passed_on(request: web.Request) -> dict[str, str]:
    """Return the headers with the ids of a request."""
    found = {}
    if "x-request-id" in request.headers:
        found["x-request-id"] = request.headers["x-request-id"]
    parts = request.headers.get("traceparent", "").split("-")
    if len(parts) == 4:
        found["traceparent"] = "-".join([*parts[:2], secrets.token_hex(8), parts[3]])
    return found


async def serve(certificate: str, key: str, stock: str) -> None:
    """Serve until the process ends."""
    trusted = ssl.create_default_context(cafile=certificate)
    connector = TCPConnector(ssl=trusted, limit=60)
    async with ClientSession(f"https://localhost:{stock}", connector=connector) as session:

        async def order(request: web.Request) -> web.Response:
            body = await request.read()
            async with session.post("/stock", data=body, headers=passed_on(request)) as answer:
                return web.Response(body=await answer.read(), status=answer.status)

        async def job() -> None:
            for number in itertools.count():
                with contextlib.suppress(OSError):
                    async with session.post("/stock", data=f"{JOB}-{number}") as answer:
                        await answer.read()
                await asyncio.sleep(0.005)

        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(certificate, key)
        application = web.Application()
        application.router.add_post("/orders", order)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context, backlog=1000)
        await site.start()
        print(runner.addresses[0][1], flush=True)
        await job()


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
