"""An HTTP/1.1 server and client on asyncio, whose TLS goes through memory.

    python asyncio_http.py server CERTIFICATE KEY
    python asyncio_http.py client CERTIFICATE PORT CONNECTIONS REQUESTS
    python asyncio_http.py both CERTIFICATE KEY CONNECTIONS REQUESTS

The server prints its port. The client makes so many requests on each of so many
connections, all at once, and tells what passed: a JSON object for each, in a line.
"""

import asyncio
import contextlib
import hashlib
import json
import random
import secrets
import ssl
import sys

from server import answer, pattern


def sha256(data: bytes) -> str:
    """Return the hexadecimal hash of ``data``."""
    return hashlib.sha256(data).hexdigest()


async def read_message(reader: asyncio.StreamReader) -> tuple[str, dict[str, str], bytes]:
    """Return the first line, the headers and the body of a message."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    first, *lines = head.strip().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return first, headers, body


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            first, headers, body = await read_message(reader)
            method, target, _ = first.split(" ")
            reply = answer(method, target, body)
            await asyncio.sleep(random.random() / 500)
            writer.write(
                f"HTTP/1.1 200 OK\r\nx-nonce: {headers['x-nonce']}\r\n"
                f"content-length: {len(reply)}\r\n\r\n".encode()
            )
            writer.write(reply)
            await writer.drain()
    writer.close()


async def ask(certificate: str, port: int, requests: int) -> None:
    """Make requests on one connection."""
    context = ssl.create_default_context(cafile=certificate)
    reader, writer = await asyncio.open_connection(
        "127.0.0.1", port, ssl=context, server_hostname="localhost"
    )
    for number in range(requests):
        nonce = secrets.token_hex(12)
        method, target = ("POST", "/echo") if number % 2 else ("GET", f"/bytes/{number * 6000}")
        body = pattern(number * 4000) if number % 2 else b""
        writer.write(
            f"{method} {target} HTTP/1.1\r\nhost: localhost\r\nx-nonce: {nonce}\r\n"
            f"content-length: {len(body)}\r\n\r\n".encode()
        )
        writer.write(body)
        await writer.drain()
        first, _, reply = await read_message(reader)
        told = {
            "nonce": nonce,
            "protocol": "http/1.1",
            "method": method,
            "target": target,
            "status": int(first.split(" ")[1]),
            "client": writer.get_extra_info("sockname")[:2],
            "server": writer.get_extra_info("peername")[:2],
            "request_sha256": sha256(body),
            "response_sha256": sha256(reply),
        }
        print(json.dumps(told), flush=True)
        await asyncio.sleep(random.random() / 500)
    writer.close()
    await writer.wait_closed()


async def main() -> None:
    """Be a server, a client, or both in one thread."""
    role, certificate, *rest = sys.argv[1:]
    if role != "client":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, rest.pop(0))
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        port = server.sockets[0].getsockname()[1]
        if role == "server":
            print(port, flush=True)
            await server.serve_forever()
    else:
        port = int(rest.pop(0))
    connections, requests = map(int, rest)
    await asyncio.gather(*(ask(certificate, port, requests) for _ in range(connections)))


if __name__ == "__main__":
    asyncio.run(main())
