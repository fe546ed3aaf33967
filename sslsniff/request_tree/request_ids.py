"""Reads the ids by which programs name a request: header fields, and comments in SQL.

``ID_FIELDS`` has the names. Where a field has an id of the trace and one of a span, both are used:
a proxy that passes the field on keeps both, a service with tracing keeps that of the trace.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sslsniff.core.model import Exchange
from sslsniff.decoders.messages import Headers, cached_in_headers

_SHORTEST, _LONGEST = 8, 256
"""Shorter values are no ids, such as ``1`` or ``none``."""

_MARK = "traceparent='"
_TRACEPARENT = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_COMMENT = re.compile(rf"{_MARK}({_TRACEPARENT.pattern})'")
"""In the comment of a statement, as sqlcommenter writes it."""


class RequestId(NamedTuple):
    """An id, and the name of the field that has it."""

    name: str
    value: str


def _whole(value: str) -> Iterator[str]:
    yield value


def _divided(mark: str, trace: int, span: int) -> Callable[[str], Iterator[str]]:
    """Return what reads the ids of trace and span, at these places between marks."""

    def parts(value: str) -> Iterator[str]:
        found = value.split(mark)
        if len(found) > max(trace, span) and found[trace].strip("0"):
            yield f"{found[trace]}{mark}{found[span]}"
            yield found[trace]

    return parts


def _amazon(value: str) -> Iterator[str]:
    """Yield the id of the trace: load balancers add one of their own to it (``Self=``)."""
    for each in value.split(";"):
        name, _, found = each.strip().partition("=")
        if name == "Root":
            yield found


ID_FIELDS: dict[str, Callable[[str], Iterator[str]]] = {
    "traceparent": _divided("-", 1, 2),  # W3C Trace Context
    "b3": _divided("-", 0, 1),  # Zipkin
    "x-b3-traceid": _whole,
    "uber-trace-id": _divided(":", 0, 1),  # Jaeger
    "sentry-trace": _divided("-", 0, 1),
    "x-datadog-trace-id": _whole,
    "x-cloud-trace-context": _divided("/", 0, 1),
    "x-amzn-trace-id": _amazon,
    "x-request-id": _whole,
    "x-correlation-id": _whole,
    "x-trace-id": _whole,
    "x-transaction-id": _whole,
    "request-id": _whole,
    "correlation-id": _whole,
}
"""The name of a header field -> what yields its ids, the most exact one first."""


_RANKS = {name: rank for rank, name in enumerate(ID_FIELDS)}
_UNNAMED = ""
"""The name where it was not seen: a field of HTTP/2 whose name was sent before the capture began
(RFC 7541 section 6.2). Values are looked up without their names, so it counts as any."""


class FoundIds(NamedTuple):
    """The ids in a request, the most exact ones first. ``may_have_more``: not all was seen."""

    ids: list[RequestId]
    may_have_more: bool


_NONE = FoundIds([], may_have_more=False)
_NOT_SEEN = FoundIds([], may_have_more=True)


def request_ids(exchange: Exchange) -> FoundIds:
    """Return the ids in the request or the statement of an exchange."""
    if exchange.request is not None:
        return _in_headers(exchange.request.headers)
    if exchange.statement is None:
        return _NOT_SEEN
    return _in_sql(exchange.statement.text) if exchange.statement.text is not None else _NONE


@cached_in_headers
def _in_headers(headers: Headers) -> FoundIds:
    found: list[RequestId] = []
    may_have_more = headers.omitted is not None
    for name, value in headers:
        lower = _UNNAMED if name is None else name.lower()
        if lower and lower not in ID_FIELDS:
            continue
        if value is None:
            may_have_more = True
        elif _SHORTEST <= len(value) <= _LONGEST:
            found += _ids_of(lower, value)
    if len(found) > 1:
        found.sort(key=lambda each: _RANKS.get(each.name, len(_RANKS)))
    return FoundIds(found, may_have_more)


def _ids_of(name: str, value: str) -> list[RequestId]:
    if not name:
        if not _TRACEPARENT.fullmatch(value):
            return [RequestId(_UNNAMED, value)]
        name = "traceparent"
    return [RequestId(name, each) for each in ID_FIELDS[name](value)]


def _in_sql(text: str) -> FoundIds:
    if _MARK not in text:
        return _NONE
    values = set(_COMMENT.findall(text))
    if len(values) != 1:  # none, or several statements at once, of several requests
        return _NONE
    (value,) = values
    return FoundIds(_ids_of("traceparent", value), may_have_more=False)
