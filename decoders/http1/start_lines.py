"""Recognises the beginning of a message's start line (RFC 9112 sections 3 and 4)."""

import re

from sslsniff.decoders.messages import Side

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
"""A name (RFC 9110 section 5.6.2)."""
WELL_KNOWN_METHODS = (
    b"GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH|QUERY|PURGE|BAN|LIST|LINK|UNLINK"
    # WebDAV, its extensions, and UPnP
    b"|PROPFIND|PROPPATCH|MKCOL|COPY|MOVE|LOCK|UNLOCK|REPORT|SEARCH|MKCALENDAR|ACL|MERGE|MKACTIVITY"
    b"|CHECKOUT|CHECKIN|UNCHECKOUT|UPDATE|LABEL|MKWORKSPACE|BASELINE-CONTROL|VERSION-CONTROL"
    b"|BIND|REBIND|UNBIND|ORDERPATCH|SUBSCRIBE|UNSUBSCRIBE|NOTIFY|M-SEARCH|POLL|RPC_IN_DATA|RPC_OUT_DATA"
)
"""A pattern of the methods that prove a request; in the middle of a body, any word may be one."""
# The forms of a target (RFC 9112 section 3.2): origin, absolute, authority or asterisk.
_TARGET = rb"(?:/[!-~\x80-\xff]*|[A-Za-z][A-Za-z0-9+.-]*://[!-~\x80-\xff]+|\*)"
_AUTHORITY = rb"CONNECT [!-.0-~\x80-\xff]+"
REQUEST = rb"(?:(?:" + WELL_KNOWN_METHODS + rb") " + _TARGET + rb"|" + _AUTHORITY + rb")"
"""A method that proves a request, and a target."""

REQUEST_LINE_BYTES = 8192 + 40
"""Of the longest request line that :func:`begins_request` waits for."""
_REQUEST_LINE = re.compile(rb"[\r\n]*" + REQUEST + rb" HTTP/1\.[01]\r?\n")
_METHOD = TOKEN.removesuffix(b"+") + rb"{1,32}"  # registered names are shorter
_ANY_REQUEST_LINE = re.compile(
    rb"[\r\n]*(?:" + _METHOD + rb" " + _TARGET + rb"|" + _AUTHORITY + rb") HTTP/1\.[01]\r?\n"
)
# The same as far as it goes.
_PARTIAL_REQUEST_LINE = re.compile(
    rb"[\r\n]*(?:(?P<method>(?:" + _METHOD + rb")?)|(?P<whole>" + _METHOD + rb") "
    rb"(?:[!-~\x80-\xff]*"
    rb"|[!-~\x80-\xff]+ (?:H|HT|HTT|HTTP|HTTP/|HTTP/1|HTTP/1\.|HTTP/1\.[01]\r?)?))\Z"
)
_STATUS_LINE = re.compile(rb"[\r\n]*HTTP/1\.[01] [1-9]\d\d(?: [^\r\n]{0,512})?\r?\n")
_PARTIAL_STATUS_LINE = re.compile(
    rb"[\r\n]*(?:H?|HT|HTT|HTTP|HTTP/|HTTP/1|HTTP/1\.|HTTP/1\.[01]|HTTP/1\.[01] "
    rb"(?:[1-9]\d?|[1-9]\d\d(?: [^\r\n]{0,512})?\r?)?)$"
)
_OTHER_START = {
    Side.CLIENT: re.compile(
        rb"(?!(?:" + TOKEN + rb"(?: [!-~\x80-\xff]*(?: (?:H|HT|HTT|HTTP|HTTP/.*)?)?)?)?\Z)",
        re.DOTALL,
    ),
    Side.SERVER: re.compile(rb"(?!(?:H|HT|HTT|HTTP|HTTP/.*)?\Z)", re.DOTALL),
}
"""Bytes that no start line of a side begins with, whatever its method and version."""
_METHODS = frozenset(WELL_KNOWN_METHODS.split(b"|"))
_FIRST_BYTES = {
    Side.CLIENT: frozenset(b"\r\n").union(method[0] for method in _METHODS),
    Side.SERVER: frozenset(b"\r\nH"),
}
"""What a start line, or the empty lines before it, can begin with: most other bytes end here."""


def begins_start(side: Side, data: bytes) -> bool | None:
    """Return whether ``data`` begins with a start line of ``side``; None: more bytes decide it."""
    if data and data[0] not in _FIRST_BYTES[side]:
        return False
    return begins_request(data) if side is Side.CLIENT else _begins_response(data)


def begins_otherwise(side: Side, data: bytes) -> bool:
    """Return whether ``data`` begins with no start line of ``side``, of a known method or not."""
    return _OTHER_START[side].match(data) is not None


def _begins_response(data: bytes) -> bool | None:
    if _STATUS_LINE.match(data):
        return True
    return None if _PARTIAL_STATUS_LINE.match(data) else False


def begins_request(data: bytes) -> bool | None:
    """Return whether ``data`` begins with the line of a request; None: more bytes decide it."""
    if _REQUEST_LINE.match(data):
        return True
    found = _partial_request_line(data)
    if found is None:
        return False
    if found["whole"] is not None:
        return None if found["whole"] in _METHODS else False
    return None if any(each.startswith(found["method"]) for each in _METHODS) else False


def begins_any_request(data: bytes) -> bool | None:
    """Return the same for a request of any method; in the middle of a body, that proves none."""
    if _ANY_REQUEST_LINE.match(data):
        return True
    return None if _partial_request_line(data) else False


def _partial_request_line(data: bytes) -> re.Match[bytes] | None:
    return _PARTIAL_REQUEST_LINE.match(data) if len(data) <= REQUEST_LINE_BYTES else None
