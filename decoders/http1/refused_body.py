"""Decides what a client sends after a final response that came before the body of its request.

A client that sends ``Expect: 100-continue`` waits for the permission to send the body. Without it,
most go on with their next request; but they may send the body all the same (RFC 9110 section
10.1.1). Only the bytes show which of both it is.

A body in chunks begins with a number, a request with a method. A body of known length may begin
like a request, too. That it is one is proved by the Host of the request before, as one connection
has one; else such bytes are held until the server answers them, or until they are more than the
body has: another request right after so many bytes proves that they were the body.

A method may be any word, as may the beginning of a body. The line of a request whose method is
unknown must end within the bytes of the body: what is shorter is the body.
"""

import re

from sslsniff.decoders.http1.framing import Framing, ReadState
from sslsniff.decoders.http1.head import text_of
from sslsniff.decoders.http1.start_lines import (
    REQUEST_LINE_BYTES,
    begins_any_request,
    begins_request,
)

MOST_HELD_BYTES = 16 * 1024
"""If only more bytes than these could prove a body, bytes that look like a request are one, of an
unknown method if its head has a Host."""

_HOST = re.compile(rb"\n(?i:host):[ \t]*([^\r\n]*?)[ \t]*\r?\n")
_HEAD_END = re.compile(rb"\n\r?\n")


def state_after_refusal(data: bytes, framing: Framing, host: str | None) -> ReadState | int:
    """Return what ``data`` begins with: the body (its state), or a request (``HEAD``).

    ``framing``, ``host``: of the request whose body is due. If the bytes are not enough, return how
    many are.
    """
    assert framing.expected is not None
    begins, length = begins_request(data), framing.length
    is_known = begins is not False
    if not is_known:
        begins = begins_any_request(data[:length])
    if begins is None and (is_known or length is None or len(data) < length):
        return len(data) + 1
    if not begins:
        return framing.expected
    if length is None or (is_known and length >= MOST_HELD_BYTES):
        return ReadState.HEAD
    head_end = _HEAD_END.search(data, 0, length)
    found = _HOST.search(data, 0, head_end.end()) if head_end is not None else None
    if found is not None and (length >= MOST_HELD_BYTES or text_of(found[1]) == host):
        return ReadState.HEAD
    if len(data) <= min(length, MOST_HELD_BYTES):
        return len(data) + 1
    if length >= MOST_HELD_BYTES:
        return framing.expected
    begins_again = begins_request if is_known else begins_any_request
    follows = begins_again(data[length : length + REQUEST_LINE_BYTES + 1])
    if follows is None:
        return len(data) + 1
    return framing.expected if follows else ReadState.HEAD


def state_at_an_answer(data: bytes, framing: Framing) -> ReadState:
    """Return the same when the server answers, or when bytes were lost: no more bytes decide."""
    assert framing.expected is not None
    is_request = begins_request(data) is not False or begins_any_request(data)
    return ReadState.HEAD if is_request else framing.expected


def state_at_the_end(data: bytes, framing: Framing) -> ReadState:
    """Return the same for the last bytes that a client sent."""
    if len(data) == framing.length:
        return framing.expected or ReadState.HEAD
    return state_at_an_answer(data, framing)
