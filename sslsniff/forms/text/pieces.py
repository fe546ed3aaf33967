"""Formats what more than one sink shows: times, sizes, addresses, processes, URLs."""

import base64
import functools
from datetime import UTC, datetime

from sslsniff.core.escaping import escape
from sslsniff.core.model import Address, Connection, Exchange, Request
from sslsniff.decoders.messages import Side

_NO_TIME_OF_DAY = "--:--:--.---"
_UNITS = ("kB", "MB", "GB", "TB")
_ROLES: dict[Side | None, str | None] = {None: None, **{side: side.value for side in Side}}


def local_time(time_ns: int) -> str:
    """Return the local time of day with milliseconds; dashes where it is not known."""
    if not time_ns:
        return _NO_TIME_OF_DAY
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{_local_second(seconds)}.{rest // 1_000_000:03d}"


@functools.lru_cache(maxsize=16)  # events of one second come together
def _local_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds):%H:%M:%S}"


def utc_time(time_ns: int) -> str:
    """Return the UTC date and time with microseconds, RFC 3339."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{_utc_second(seconds)}.{str(rest // 1000).zfill(6)}Z"  # quicker than a format


@functools.lru_cache(maxsize=16)
def _utc_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def size(count: int) -> str:
    """Return a number of bytes in three or four digits with its unit."""
    if count < 1000:
        return f"{count} B"
    power = min(len(_UNITS), (len(str(count)) - 1) // 3)
    return f"{count / 1000**power:.1f} {_UNITS[power - 1]}"


def duration(span_ns: int) -> str:
    """Return a span of time in the unit that fits."""
    if span_ns < 1_000_000_000:
        return f"{span_ns / 1e6:.1f} ms"
    return f"{span_ns / 1e9:.2f} s"


def milliseconds(span_ns: int) -> float:
    """Return a span of time in milliseconds, rounded to microseconds."""
    return (span_ns + 500) // 1000 / 1000


def span_ns(start_ns: int | None, end_ns: int | None) -> int | None:
    """Return a span of time; None if an end is unknown, or the clock stepped back inside it."""
    if not start_ns or not end_ns or end_ns < start_ns:
        return None
    return end_ns - start_ns


def rounded_span_ns(start_ns: int | None, end_ns: int | None) -> int | None:
    """Return ``span_ns`` in whole microseconds, as JSON lines have it."""
    span = span_ns(start_ns, end_ns)
    return None if span is None else (span + 500) // 1000 * 1000


def duration_between(start_ns: int | None, end_ns: int | None) -> str:
    """Return ``span_ns`` in the unit that fits; ``?`` if it is not known."""
    span = span_ns(start_ns, end_ns)
    return "?" if span is None else duration(span)


def milliseconds_between(start_ns: int | None, end_ns: int | None) -> float | None:
    """Return ``span_ns`` in milliseconds, rounded to microseconds."""
    span = span_ns(start_ns, end_ns)
    return None if span is None else milliseconds(span)


def address(value: Address | None) -> str:
    """Return ``ip:port``, with brackets around IPv6; ``?`` where it is not known."""
    return "?" if value is None else str(value)


def far_end(connection: Connection) -> str:
    """Return the address or the process of the other side, not escaped; ``?``: it is not known."""
    peer = connection.peer
    return address(connection.remote) if peer is None else f"{peer.label}[{peer.pid}]"


def near_end(connection: Connection) -> str:
    """Return the process, ``name[pid]``; if it is not known, the address of its side."""
    process = connection.process
    return escape(str(process)) if process.is_known else address(connection.local)


def origin(connection: Connection, tid: int | None) -> dict[str, object]:
    """Return the JSON fields of process, container, thread, library, role; null if not known.

    The name of the machine is there if it is not this one.
    """
    process = connection.process
    is_known = process.is_known
    machine = {"machine": process.machine} if process.machine is not None else {}
    return {
        "pid": process.pid if is_known else None,
        "tid": tid or None,
        "comm": process.comm if is_known else None,
        "container_pid": process.container_pid,
        "container": process.container and process.container._asdict(),
        "library": connection.library,
        "role": _ROLES[connection.role],
        **machine,
    }


def url(request: Request) -> str:
    """Return the URL of a request, escaped; parts that are not known are ``?``."""
    return escape(request.url)


_SHORT_NAMES = {"postgresql": "postgres"}


def protocol(exchange: Exchange) -> str:
    """Return the protocol, with the number of the stream if it has streams."""
    if exchange.stream is None:
        return _SHORT_NAMES.get(exchange.protocol) or escape(exchange.protocol)
    return f"{escape(exchange.protocol)}#{exchange.stream}"


def bytes_object(data: bytes, size: int) -> dict[str, object]:
    """Return bytes for JSON: text where they are UTF-8, else base64; ``size`` counts all."""
    shown: dict[str, object]
    try:
        shown = {"size": size, "text": data.decode()}
    except UnicodeDecodeError:
        shown = {"size": size, "base64": base64.b64encode(data).decode("ascii")}
    if len(data) < size:
        shown["truncated"] = True
    return shown
