"""Turns a connection, or a flow-control stall, into an object for the report's page."""

from typing import Any

from sslsniff.core.model import Connection
from sslsniff.core.sink import FlowControlStall
from sslsniff.forms.text import pieces
from sslsniff.forms.text.stall_text import stall_text

Object = dict[str, Any]


def connection_object(connection: Connection) -> Object:
    """Return what the page says of ``connection``; parts that are not known are null."""
    process = connection.process
    return {
        "id": connection.id,
        "process": str(process) if process.is_known else None,
        "comm": process.comm if process.is_known else None,
        "pid": process.pid if process.is_known else None,
        "library": connection.library,
        "role": connection.role and connection.role.value,
        "local": _address(connection.local),
        "remote": _address(connection.remote)
        if connection.peer is None
        else pieces.far_end(connection),
        "sni": connection.sni,
        "alpn": connection.alpn,
        "tls_version": connection.tls_version,
        "cipher": connection.cipher,
        "joined": not connection.from_start,
        "bytes_read": connection.bytes_read,
        "bytes_written": connection.bytes_written,
        "missing": {cause.value: count for cause, count in connection.missing.items()},
    }


def stall_object(connection: Connection, stall: FlowControlStall, time_ns: int) -> Object:
    """Return what the page says of ``stall``, which lasts until ``time_ns`` at least."""
    return {
        "connection": connection.id,
        "stream": stall.stream,
        "sends": stall.side.value,
        "since_us": stall.since_ns // 1000 or None,
        "ms": pieces.milliseconds_between(stall.since_ns, time_ns),
        "over": stall.is_over,
        "text": stall_text(stall, time_ns),
    }


def _address(address: Any) -> str | None:
    return address and pieces.address(address)
