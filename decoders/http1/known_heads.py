"""Parses HTTP/1 heads and fields with memos of parsed ones: nearly all of them are repeated.

Three memos serve the whole process: ``_LINES`` short field lines, ``_HEADS`` short ends of requests
after the target, and ``_HEADS`` short whole heads of responses. They use about 28 MiB at worst,
with the results stored in headers (``messages.cached_in_headers``).

The functions return what those of the same name in ``head`` do.
"""

from sslsniff.decoders.http1 import head
from sslsniff.decoders.http1.head import (
    METHODS,
    VERSIONS,
    FieldLine,
    Fields,
    StatusHead,
    request_head,
    text_of,
)
from sslsniff.decoders.memo import Memo
from sslsniff.decoders.messages import Header, RequestHead

_LINES = 4096
_LINE_BYTES = 256
_HEADS = 1024
_HEAD_BYTES = 1024
_HEAD_FIELDS = 32

_LINE_FEED = 10  # searching bytes for a number is six times as fast as for bytes


class _KnownLines(Memo[bytes, FieldLine | None]):
    """Field lines by their bytes; a look-up parses a new one."""

    __slots__ = ()

    def __missing__(self, line: bytes) -> FieldLine | None:
        parsed = head.parse_field_line(line)
        if len(line) <= _LINE_BYTES:
            self.add(line, parsed)
        return parsed


_lines = _KnownLines(_LINES)
_requests: Memo[bytes, tuple[str, Fields]] = Memo(_HEADS)  # version and fields, by their bytes
_responses: Memo[bytes, StatusHead] = Memo(_HEADS)

# Looking up a method takes time.
_parse_line = _lines.__getitem__
_known_request = _requests.get
_known_response = _responses.get
_usual_method = METHODS.get


def parse_request(raw: bytes) -> tuple[RequestHead, Fields] | None:
    """Parse a request's head up to its last line feed; its stream is still to be set."""
    parts = raw.split(b" ", 2)
    known = _known_request(parts[-1])  # method and target differ more than the rest
    if known is None or len(parts) < 3 or _LINE_FEED in parts[1]:
        return _parse_new_request(raw, parts)
    method = _usual_method(parts[0])
    if method is None or not parts[1]:
        return _parse_new_request(raw, parts)
    version, fields = known
    return request_head(version, method, text_of(parts[1]), fields), fields


def _parse_new_request(raw: bytes, parts: list[bytes]) -> tuple[RequestHead, Fields] | None:
    parsed = head.parse_request(raw, _parse_line)
    if parsed is not None:
        message, fields = parsed
        after_target = parts[-1]
        # The target ends at that space only if the version is all that follows it on the line.
        first_word = after_target.partition(b"\n")[0].removesuffix(b"\r")
        is_version = first_word in VERSIONS and len(parts) == 3 and _LINE_FEED not in parts[1]
        if is_version and _is_short(after_target, fields):
            _requests.add(after_target, (message.version, fields))
    return parsed


def parse_response(raw: bytes) -> StatusHead | None:
    """Parse a response's head up to its last line feed."""
    known = _known_response(raw)
    if known is not None:
        return known
    parsed = head.parse_response(raw, _parse_line)
    if parsed is not None and _is_short(raw, parsed.fields):
        _responses.add(raw, parsed)
    return parsed


def parse_fields(lines: list[bytes]) -> list[Header]:
    """See ``head.parse_fields``."""
    return head.parse_fields(lines, _parse_line)


def _is_short(raw: bytes, fields: Fields) -> bool:
    return len(raw) <= _HEAD_BYTES and len(fields.headers) <= _HEAD_FIELDS
