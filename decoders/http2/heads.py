"""Header fields of HTTP/2 as heads and trailers (RFC 9113 sections 8.1 and 8.3).

Headers are remembered for the whole process, as nearly all of them come again: ``_SETS`` short
ones, about 16 MiB at worst with what they keep of answers (``messages.asked_once``).
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
    """Headers by their fields; what is not there is made."""

    __slots__ = ()

    def __missing__(self, fields: tuple[Header, ...]) -> Headers:
        headers = Headers(fields)
        if len(fields) <= _SET_FIELDS and _characters(fields) <= _SET_CHARACTERS:
            self.add(fields, headers)
        return headers


_shared = _SharedHeaders(_SETS)


def request_head(stream: int, fields: list[Header]) -> RequestHead:
    """Make a request's head of its fields; these are ``Headers`` where some are omitted."""
    (method, scheme, authority, path, _), headers = _split(fields)
    return RequestHead(stream, VERSION, method, path, scheme, authority, headers)


def response_head(stream: int, fields: list[Header]) -> ResponseHead:
    """Make a response's head of its fields; a status that is none, or unknown, is None."""
    slots, headers = _split(fields)
    text = slots[4] or ""
    valid = len(text) == 3 and text.isascii() and text.isdigit()
    return ResponseHead(stream, VERSION, int(text) if valid else None, "", headers)


def are_trailers(fields: list[Header], *, seen: bool, ends: bool) -> bool:
    """Tell trailers, which have no pseudo-header fields, from a head.

    ``seen`` tells that the message's head passed, ``ends`` that the message ends here.
    """
    for name, _ in fields:  # as a rule the first one tells
        if name is not None and name[:1] == ":":
            return False
    # If the head was not seen, an unknown field at the front may be a pseudo-header field; not
    # so one of which the value is known: their names are in HPACK's static table.
    return seen or (ends and bool(fields) and fields[0] != (None, None))


def _split(fields: list[Header]) -> tuple[list[str | None], Headers]:
    """Part the pseudo-header fields (section 8.3) from the rest.

    Those without a field of their own in a head, such as ``:protocol`` (RFC 8441), stay.
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
    if type(fields) is Headers:  # not all are there: no other block's are these
        headers = Headers(rest)
        headers.omitted = fields.omitted
        return slots, headers
    return slots, _shared[tuple(rest)]


def _characters(fields: tuple[Header, ...]) -> int:
    return sum(len(name or "") + len(value or "") for name, value in fields)
