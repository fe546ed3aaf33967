"""Makes heads and trailers of HTTP/2 header fields (RFC 9113 sections 8.1 and 8.3).

A memo shares headers in the whole process, as nearly all are repeated. It has ``_SETS`` short ones,
about 16 MiB at worst with the results stored in them (``messages.cached_in_headers``).
"""

from sslsniff.decoders.memo import Memo
from sslsniff.decoders.messages import Header, Headers, RequestHead, ResponseHead

VERSION = "HTTP/2"

_SETS = 1024
_SET_FIELDS = 32
_SET_CHARACTERS = 1024

_SLOTS: dict[str | None, int] = {
    ":method": 0,
    ":scheme": 1,
    ":authority": 2,
    ":path": 3,
    ":status": 4,
}


class _SharedHeaders(Memo[tuple[Header, ...], Headers]):
    """Headers by their fields; a look-up makes new ones."""

    __slots__ = ()

    def __missing__(self, fields: tuple[Header, ...]) -> Headers:
        headers = Headers(fields)
        if len(fields) <= _SET_FIELDS and _characters(fields) <= _SET_CHARACTERS:
            self.add(fields, headers)
        return headers


_shared = _SharedHeaders(_SETS)


def request_head(stream: int, fields: list[Header]) -> RequestHead:
    """Make a request's head of its fields; they are ``Headers`` if some are omitted."""
    (method, scheme, authority, path, _), headers = _split(fields)
    if method == "CONNECT" and path is None and not _may_hide_path(headers):
        path = authority  # section 8.5: as the authority form of HTTP/1
    return RequestHead(stream, VERSION, method, path, scheme, authority, headers)


def response_head(stream: int, fields: list[Header]) -> ResponseHead:
    """Make a response's head of its fields; an invalid or unknown status is None."""
    slots, headers = _split(fields)
    text = slots[4] or ""
    valid = len(text) == 3 and text.isascii() and text.isdigit()
    return ResponseHead(stream, VERSION, int(text) if valid else None, "", headers)


def are_trailers(fields: list[Header], *, seen: bool, ends: bool) -> bool:
    """Return whether fields are trailers: a head has pseudo-header fields, trailers have none.

    ``seen``: the head of the message was seen. ``ends``: the message ends with these fields.
    """
    for name, _ in fields:  # usually, the first one decides
        if name is not None and name[:1] == ":":
            return False
    # If the head was not seen, an unknown first field may be a pseudo-header field. If its value is
    # known, it is none: their names are in HPACK's static table.
    return seen or (ends and bool(fields) and fields[0] != (None, None))


def _split(fields: list[Header]) -> tuple[list[str | None], Headers]:
    """Separate the pseudo-header fields (section 8.3) from the headers.

    Those that a head has no field for, such as ``:protocol`` (RFC 8441), stay in the headers.
    """
    slots: list[str | None] = [None, None, None, None, None]
    rest: list[Header] = []
    for at, field in enumerate(fields):
        name, value = field
        slot = _SLOTS.get(name)
        if slot is not None and slots[slot] is None:
            slots[slot] = value
        elif name is None or name[:1] == ":":
            rest.append(field)
        else:
            rest += fields[at:]
            break
    if type(fields) is Headers:  # some are omitted: not to be shared
        headers = Headers(rest)
        headers.omitted = fields.omitted
        return slots, headers
    return slots, _shared[tuple(rest)]


def _may_hide_path(headers: Headers) -> bool:
    """Return whether a header may be ``:path``, or is the ``:protocol`` of RFC 8441."""
    return any(name is None or name == ":protocol" for name, _ in headers)


def _characters(fields: tuple[Header, ...]) -> int:
    return sum(len(name or "") + len(value or "") for name, value in fields)
