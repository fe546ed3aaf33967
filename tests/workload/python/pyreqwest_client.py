"""A client by pyreqwest: reqwest, in a Python module that is a stripped file.

    python pyreqwest_client.py PORT CERTIFICATE PROTOCOL:COUNT...

Makes COUNT requests on each connection, over HTTP/1.1 (PROTOCOL is 1) one after the other, over
HTTP/2 (2) all at once, and tells of them; the server is asgi_echo.py. ``TLS_VERSION=1.2`` in the
environment leaves no later one.
"""

import asyncio
import hashlib
import json
import os
import secrets
import sys
from pathlib import Path

from pyreqwest.client import Client, ClientBuilder
from server import pattern

SIZES = (0, 1 << 10, 1 << 20)
PROTOCOLS = {"HTTP/1.1": "http/1.1", "HTTP/2.0": "http/2"}
UNTIL_POOLED_S = 0.02
"""A connection returns to the pool in a task of its own; a request before that opens another."""


def sha256(data: bytes) -> str:
    """Return the hexadecimal hash of ``data``."""
    return hashlib.sha256(data).hexdigest()


def client(certificate: bytes, protocol: str) -> Client:
    """Return a client with a connection of its own."""
    builder = ClientBuilder().no_proxy().https_only(True).add_root_certificate_pem(certificate)
    builder = builder.max_connections(None).pool_max_idle_per_host(1)
    builder = builder.max_tls_version(f"TLSv{os.environ.get('TLS_VERSION', '1.3')}")
    return (builder.http2_prior_knowledge() if protocol == "2" else builder.http1_only()).build()


async def ask(connection: Client, url: str, number: int) -> None:
    """Make a request of the ``number``th kind, and tell of it."""
    size = SIZES[number // 2 % len(SIZES)]
    nonce = secrets.token_hex(12)
    if number % 2:
        method, target, body = "POST", "/echo", pattern(size)
    else:
        method, target, body = "GET", f"/bytes/{size}", b""
    request = connection.request(method, url + target).header("x-nonce", nonce)
    response = await (request.body_bytes(body) if body else request).build().send()
    answer = bytes(await response.bytes())
    told = {
        "nonce": nonce,
        "protocol": PROTOCOLS[response.version],
        "method": method,
        "target": target,
        "status": response.status,
        **{end: address(response.headers[f"x-{end}"]) for end in ("client", "server")},
        "request_sha256": sha256(body),
        "response_sha256": sha256(answer),
    }
    print(json.dumps(told))


def address(shown: str) -> tuple[str, int]:
    """Return what a header tells as ``ip:port``."""
    ip, port = shown.rsplit(":", 1)
    return ip, int(port)


async def ask_all(certificate: bytes, url: str, protocol: str, count: int) -> None:
    """Make ``count`` requests on a connection."""
    async with client(certificate, protocol) as connection:
        if protocol == "2":
            await asyncio.gather(*(ask(connection, url, number) for number in range(count)))
        else:
            for number in range(count):
                await ask(connection, url, number)
                await asyncio.sleep(UNTIL_POOLED_S)


async def main() -> None:
    """Use all connections at once."""
    port, certificate, *connections = sys.argv[1:]
    url, trusted = f"https://localhost:{port}", Path(certificate).read_bytes()
    how = (each.split(":") for each in connections)
    await asyncio.gather(*(ask_all(trusted, url, protocol, int(count)) for protocol, count in how))


if __name__ == "__main__":
    asyncio.run(main())
