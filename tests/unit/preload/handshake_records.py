"""Makes the records of handshakes that preloaded programs write."""

import socket
from typing import Any

from sslsniff.core import wire
from sslsniff.core.events import EventKind, TlsStart
from sslsniff.core.handshakes import SocketEnding

_LOCAL, _REMOTE = bytes((127, 0, 0, 1)), bytes((127, 0, 0, 2))
_SNI = b"localhost"
_EXTENSION = b"\0\0" + (len(_SNI) + 5).to_bytes(2) + (len(_SNI) + 3).to_bytes(2) + b"\0"
_NAME = _EXTENSION + len(_SNI).to_bytes(2) + _SNI
_BODY = b"\x03\x03" + bytes(32) + b"\0" + b"\0\2\x13\x01" + b"\1\0" + len(_NAME).to_bytes(2) + _NAME
HELLO = b"\x16\3\1" + (len(_BODY) + 4).to_bytes(2) + b"\1" + len(_BODY).to_bytes(3) + _BODY
"""A record with a ClientHello for ``localhost``."""


def handshake(connection: int, **fields: Any) -> bytes:
    """Return a report of a client's handshake, which had no answer yet."""
    usual: dict[str, Any] = {
        "since_ns": 1,
        "ended_ns": 0,
        "cgroup": 5,
        "acknowledged": 0,
        "received": 0,
        "pid": 1,
        "uid": 9,
        "family": socket.AF_INET,
        "local_port": 50_000,
        "remote_port": 443,
        "start": TlsStart.CLIENT_HELLO,
        "is_probed": 0,
        "sends": 1,
        "hello_bytes": len(HELLO) - 5,
        "local": _LOCAL,
        "remote": _REMOTE,
        "ending": SocketEnding.UNKNOWN,
        "alert_level": 0,
        "alert": 0,
        "hello_start": 0,
        "is_gone": 0,
        "is_complete": 0,
        "is_called": 0,
        "answer": b"",
        "comm": b"init",
        "program": b"init",
        "noted": wire._NOTED_SEND.pack(HELLO[:16], len(HELLO), 0, 0),
        "hello": HELLO,
    }
    header = wire.HEADER.pack(EventKind.TLS_SOCKET, 0, 0, 70, 1, connection)
    return header + bytes(8) + wire.TLS_SOCKET.pack(*(usual | fields).values())


def opened(connection: int, kind: EventKind = EventKind.OPENED) -> bytes:
    """Return the announcement of a connection of OpenSSL's client."""
    fields = (kind, 0, 0, 70, 1, connection, 1, 0, 1, 1, 0x304, 1, 1, 0, 0, 9, 9)
    return wire.OPENED.pack(*fields, b"", b"", b"", b"")


def failure(connection: int, **fields: Any) -> bytes:
    """Return a report that OpenSSL gives a connection up, as the certificate has expired."""
    usual: dict[str, Any] = {
        "alert": -1,
        "error": 134,
        "verified": 10,
        "has_data": 0,
        "is_sure": 1,
        "socket": 1,
        "family": socket.AF_INET,
        "local_port": 50_000,
        "remote_port": 443,
        "local": _LOCAL,
        "remote": _REMOTE,
        "random": b"",
    }
    head = opened(connection, EventKind.FAILURE)
    return wire.FAILURE.pack(head, *(usual | fields).values())
