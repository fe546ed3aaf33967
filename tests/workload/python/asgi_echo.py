"""An ASGI application that answers as server.py does.

Its answers also tell in ``x-client`` and ``x-server`` the addresses of their connection.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from server import answer

ENDS = ("client", "server")
Scope = dict[str, Any]


async def app(
    scope: Scope,
    receive: Callable[[], Awaitable[Scope]],
    send: Callable[[Scope], Awaitable[None]],
) -> None:
    """Answer one request."""
    body, more = b"", True
    while more:
        event = await receive()
        body += event["body"]
        more = event["more_body"]
    reply = answer(scope["method"], scope["path"], body)
    headers = [
        (b"content-length", str(len(reply)).encode()),
        (b"x-nonce", dict(scope["headers"]).get(b"x-nonce", b"")),
        *((f"x-{end}".encode(), "{}:{}".format(*scope[end]).encode()) for end in ENDS),
    ]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": reply})
