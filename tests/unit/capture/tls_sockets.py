"""TLS sockets as the kernel reports them, for tests of what is concluded from them."""

from typing import Any

from sslsniff.core.events import TlsSocket, TlsStart
from sslsniff.core.model import Address

USUAL: dict[str, Any] = {
    "time_ns": 0,
    "socket": 1,
    "pid": 70,
    "cgroup": 0,
    "comm": "client",
    "program": "client",
    "start": TlsStart.CLIENT_HELLO,
    "is_probed": False,
    "local": Address("10.0.0.1", 50000),
    "remote": Address("10.0.0.2", 443),
    "sends": (),
    "hello": b"",
    "acknowledged": 0,
    "received": 0,
}


def tls_socket(**fields: Any) -> TlsSocket:
    """Return a socket of a client that sent nothing, with other ``fields``."""
    return TlsSocket(**(USUAL | fields))
