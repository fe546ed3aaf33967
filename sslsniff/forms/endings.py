"""Writes how an exchange ended early: how far it had come, who ended it, and how."""

from typing import Any

from sslsniff.core.endings import ExchangeEnding
from sslsniff.core.escaping import escape
from sslsniff.core.model import Exchange
from sslsniff.decoders.messages import Side


def failure(exchange: Exchange) -> str:
    """Return why an exchange ended early; empty if it did not.

    For example ``2,900 of 5,507 B, closed by the server (gunicorn[4121]) without close_notify``.
    """
    ending, error = exchange.ending, exchange.error or ""
    if ending is None:
        return error
    connection = ending.connection
    process = ending.peer_process
    peer = None if process is None else escape(str(process))
    words = None if connection is None else connection.text(exchange.connection.role, peer)
    return ", ".join([*_progress(ending), words or error])


def _progress(ending: ExchangeEnding) -> list[str]:
    if ending.announced_bytes is None:
        return []
    shown = f"{ending.received_bytes:,} of {ending.announced_bytes:,} B"
    return [shown if ending.part is Side.SERVER else f"request: {shown}"]


def ending_object(exchange: Exchange, ending: ExchangeEnding) -> dict[str, Any]:
    """Return the same for programs: see docs/json.md."""
    connection = ending.connection
    role = exchange.connection.role
    by = connection.ended_by(role) if connection is not None else None
    process = (
        None if by is None else exchange.connection.process if by is role else ending.peer_process
    )
    return {
        "text": failure(exchange),
        "part": ending.part and _PARTS[ending.part],
        "received_bytes": ending.received_bytes if ending.part else None,
        "announced_bytes": ending.announced_bytes,
        "ended_by": by and by.value,
        "ended_by_process": process and {"pid": process.pid, "comm": process.comm},
        "how": connection and connection.how,
        "close_notify": connection and connection.close_notify,
        "alert": connection
        and (
            connection.sent_alert
            if connection.received_alert is None
            else connection.received_alert
        ),
    }


_PARTS = {Side.CLIENT: "request", Side.SERVER: "response"}
