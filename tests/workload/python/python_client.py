"""An HTTPS client in Python: http.client, requests, httpx, aiohttp, or several threads.

    python python_client.py STYLE PORT CERTIFICATE

For each number read from standard input it makes so many requests, always on the same
connections, and tells what passed: a JSON object for each, in a line.
"""

import hashlib
import http.client
import json
import secrets
import socket
import ssl
import sys
import threading
from collections.abc import Callable
from typing import Any

from server import pattern


def sha256(data: bytes) -> str:
    """Return the hexadecimal hash of ``data``."""
    return hashlib.sha256(data).hexdigest()


def request(number: int) -> tuple[str, str, bytes, str]:
    """Return method, target, body and nonce of request ``number``."""
    nonce = secrets.token_hex(12)
    if number % 2:
        return "POST", "/echo", pattern(number * 3000), nonce
    return "GET", f"/bytes/{number * 5000}", b"", nonce


def tell(asked: tuple[str, str, bytes, str], status: int, answer: bytes, used: Any) -> None:
    """Print what passed."""
    method, target, body, nonce = asked
    told = {
        "nonce": nonce,
        "protocol": "http/1.1",
        "method": method,
        "target": target,
        "status": status,
        "client": used.getsockname()[:2],
        "server": used.getpeername()[:2],
        "request_sha256": sha256(body),
        "response_sha256": sha256(answer),
    }
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def use_http_client(port: int, certificate: str) -> Callable[[int], None]:
    """Return a function that makes requests with http.client."""
    context = ssl.create_default_context(cafile=certificate)
    connection = http.client.HTTPSConnection("localhost", port, context=context)

    def make(count: int) -> None:
        for number in range(count):
            method, target, body, nonce = asked = request(number)
            connection.request(method, target, body or None, {"x-nonce": nonce})
            response = connection.getresponse()
            tell(asked, response.status, response.read(), connection.sock)

    return make


def use_requests(port: int, certificate: str) -> Callable[[int], None]:
    """Return a function that makes requests with requests."""
    import requests

    session = requests.Session()
    session.trust_env = False
    session.verify = certificate

    def make(count: int) -> None:
        for number in range(count):
            method, target, body, nonce = asked = request(number)
            with session.request(
                method,
                f"https://localhost:{port}{target}",
                data=body or None,
                headers={"x-nonce": nonce},
                stream=True,  # while the answer is unread, the response has its connection
            ) as response:
                used = response.raw.connection.sock
                tell(asked, response.status_code, response.content, used)

    return make


def use_httpx(port: int, certificate: str) -> Callable[[int], None]:
    """Return a function that makes requests with httpx."""
    import httpx

    context = ssl.create_default_context(cafile=certificate)
    client = httpx.Client(verify=context, trust_env=False)

    def make(count: int) -> None:
        for number in range(count):
            method, target, body, nonce = asked = request(number)
            response = client.request(
                method,
                f"https://localhost:{port}{target}",
                content=body or None,
                headers={"x-nonce": nonce},
            )
            used = response.extensions["network_stream"].get_extra_info("socket")
            tell(asked, response.status_code, response.content, used)

    return make


def use_aiohttp(port: int, certificate: str) -> Callable[[int], None]:
    """Return a function that makes requests with aiohttp: asyncio gives TLS its bytes in memory."""
    import asyncio

    import aiohttp

    context = ssl.create_default_context(cafile=certificate)

    async def ask(count: int) -> None:
        sockets: list[socket.socket] = []

        def make_socket(address: Any) -> socket.socket:
            sockets.append(socket.socket(*address[:3]))
            return sockets[-1]

        connector = aiohttp.TCPConnector(socket_factory=make_socket)
        async with aiohttp.ClientSession(connector=connector) as session:
            for number in range(count):
                method, target, body, nonce = asked = request(number)
                url = f"https://localhost:{port}{target}"
                headers = {"x-nonce": nonce}
                async with session.request(
                    method, url, data=body or None, headers=headers, ssl=context
                ) as response:
                    tell(asked, response.status, await response.read(), sockets[-1])

    return lambda count: asyncio.run(ask(count))


def use_threads(port: int, certificate: str) -> Callable[[int], None]:
    """Return a function that makes the same requests in each of four threads, at once."""
    makers = [use_http_client(port, certificate) for _ in range(4)]

    def make(count: int) -> None:
        threads = [threading.Thread(target=maker, args=(count,)) for maker in makers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return make


STYLES = {
    "http.client": use_http_client,
    "requests": use_requests,
    "httpx": use_httpx,
    "aiohttp": use_aiohttp,
    "threads": use_threads,
}


def know_localhost() -> None:
    """Ask no resolver for localhost (RFC 6761, section 6.3): a chroot may have no /etc/hosts."""
    look_up = socket.getaddrinfo

    def known(host: Any, *rest: Any, **more: Any) -> Any:
        return look_up("127.0.0.1" if host == "localhost" else host, *rest, **more)

    socket.getaddrinfo = known


def main() -> None:
    """Make as many requests as standard input says."""
    know_localhost()
    style, port, certificate = sys.argv[1:]
    make = STYLES[style](int(port), certificate)
    for line in sys.stdin:
        make(int(line))
        print(flush=True)


if __name__ == "__main__":
    main()
