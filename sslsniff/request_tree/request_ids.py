"""Reads the ids by which programs name a request: header fields, and comments in SQL.

``ID_FIELDS`` has the names. Where a field has an id of the trace and one of a span, both are used:
a proxy that passes the field on keeps both, a service with tracing keeps that of the trace.
"""

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from sslsniff.core.model import Exchange
from sslsniff.decoders.messages import Headers

_SHORTEST, _LONGEST = 8, 256
"""Shorter values are no ids, such as ``1`` or ``none``."""

_MARK = "traceparent='"
_COMMENT = re.compile(r"traceparent='([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})'")
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


class FoundIds(NamedTuple):
    """The ids in a request, the most exact ones first. ``may_have_more``: not all was seen."""

    ids: list[RequestId]
    may_have_more: bool


_NONE = FoundIds([], may_have_more=False)


def request_ids(exchange: Exchange) -> FoundIds:
    """Return the ids in the request or the statement of an exchange."""
    if exchange.request is not None:
        return _in_headers(exchange.request.headers)
    if exchange.statement is None:
        return FoundIds([], may_have_more=True)
    return _in_sql(exchange.statement.text) if exchange.statement.text is not None else _NONE


def _in_headers(headers: Headers) -> FoundIds:
    found = []
    may_have_more = headers.omitted is not None
    for name, value in headers:
        if name is None:
            may_have_more = True
            continue
        read = ID_FIELDS.get(name.lower())
        if read is None:
            continue
        if value is None:
            may_have_more = True
        elif _SHORTEST <= len(value) <= _LONGEST:
            found += [RequestId(name.lower(), each) for each in read(value)]
    if len(found) > 1:
        found.sort(key=lambda each: _RANKS[each.name])
    return FoundIds(found, may_have_more)


def _in_sql(text: str) -> FoundIds:
    if _MARK not in text:
        return _NONE
    values = set(_COMMENT.findall(text))
    if len(values) != 1:  # none, or several statements at once, of several requests
        return _NONE
    (value,) = values
    ids = [RequestId("traceparent", each) for each in ID_FIELDS["traceparent"](value)]
    return FoundIds(ids, may_have_more=False)
