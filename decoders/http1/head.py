"""HTTP/1 heads as pure functions: start lines, fields, framing, where a message begins (RFC 9112).

``known_heads`` remembers what they return.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from sslsniff.decoders.http1.framing import Framing
from sslsniff.decoders.messages import Header, Headers, RequestHead, Side

MAX_HEAD = 1024 * 1024
"""Bytes of a head, or of trailers; what is larger is not decoded."""
MAX_LINES = 8192
"""Lines of a head, or of trailers; what has more is not decoded, as short ones take much memory."""
SCAN_WINDOW = 64 * 1024
"""Bytes within which a start line and the line after it must lie to be found by a scan."""

_TOKEN_CHARS = 64  # of a protocol's name that are kept; those that are registered are shorter

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_IS_TOKEN = re.compile(_TOKEN)
_VERSION = re.compile(rb"HTTP/[01]\.\d")
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?")

# A scan believes a start line only together with the whole line after it: a field or the
# end of the head. Its length is bounded so that SCAN_WINDOW always holds all of it.
_LINE_AFTER = rb"\r?\n(?=((?:" + _TOKEN + rb"[ \t]*:[^\n]{0,40000})?\r?\n))"
_SCAN_STATUS = re.compile(rb"HTTP/1\.[01] [1-9]\d\d(?: [^\r\n]{0,512})?" + _LINE_AFTER)
_SCAN_VERSION = re.compile(rb" HTTP/1\.[01]" + _LINE_AFTER)
WELL_KNOWN_METHODS = (
    b"GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH|PROPFIND|PROPPATCH|MKCOL|COPY"
    b"|MOVE|LOCK|UNLOCK|REPORT|SEARCH|QUERY|MKCALENDAR|SUBSCRIBE|NOTIFY|PURGE"
)
"""An expression. In the middle of a body only these differ from the bytes before them."""
_SCAN_REQUEST = re.compile(rb"(?:" + WELL_KNOWN_METHODS + rb") [!-~\x80-\xff]+$")
_SCAN_TARGET = 8192

VERSIONS = {b"HTTP/1.1": "HTTP/1.1", b"HTTP/1.0": "HTTP/1.0"}
"""The usual versions, as sent."""
METHODS = {
    name.encode(): name
    for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT")
}
"""The usual methods, as sent."""
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)")

FieldLine = tuple[Header, str]
"""A parsed field line: the field, and its name in lower case if it says something about framing."""
ParseLine = Callable[[bytes], FieldLine | None]
"""As :func:`parse_field_line`, or what remembers its results."""
_RequestLine = tuple[str, str, str]  # version, method, target
_StatusLine = tuple[str, int, str]  # version, status, reason


@dataclass(slots=True, eq=False)
class Fields:
    """The fields of a head and what they say about framing; shared, so not to be changed.

    ``length`` is the Content-Length; ``transferred`` tells that there is a Transfer-Encoding,
    ``coded`` that it does not end in chunked; ``fault`` says why the body's end cannot be known
    (RFC 9112 section 6.3); ``upgrade`` is the first protocol in the field of that name, in lower
    case; ``warnings`` tell of framing that two readers may take in two ways (section 11.2).
    ``request_framing`` is what follows from all that for a request, once it was asked.
    """

    headers: Headers = field(default_factory=Headers)
    length: int | None = None
    transferred: bool = False
    chunked: bool = False
    coded: bool = False
    upgrade: str | None = None
    host: str | None = None
    fault: str | None = None
    warnings: tuple[str, ...] = ()
    request_framing: Framing | None = field(default=None, repr=False)


@dataclass(slots=True)
class StatusHead:
    """A parsed head of a response; shared, so not to be changed.

    ``framing`` says how it continues where that does not depend on the request, once it was asked.
    """

    version: str
    status: int
    reason: str
    fields: Fields
    warnings: tuple[str, ...]
    framing: Framing | None = field(default=None, repr=False)


def text_of(raw: bytes) -> str:
    """Decode as UTF-8 where it is valid, else as ISO 8859-1, which always is."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def is_too_much(data: bytes, pos: int, stop: int) -> bool:
    """Tell whether the head whose last line ends at ``stop`` is beyond what is decoded."""
    return stop - pos > MAX_HEAD or data.count(b"\n", pos, stop) >= MAX_LINES


def parse_field_line(line: bytes) -> FieldLine | None:
    """Parse one field line; None if it is no whole line by itself."""
    if b"\n" in line or line[:1] in (b" ", b"\t", b""):
        return None
    # White space before the colon is an error for a server (RFC 9112 section 5.1), but a
    # proxy has to remove it; a line without a colon is shown as a name without a value.
    name, _, value = line.partition(b":")
    shown = text_of(name.strip(b" \t"))
    lower = shown.lower()
    return (shown, text_of(value.strip(b" \t\r"))), lower if lower in _SETTERS else ""


def parse_request(
    raw: bytes, parse_line: ParseLine = parse_field_line
) -> tuple[RequestHead, Fields] | None:
    """Parse a request's head up to its last line feed; its stream is still to be set."""
    # A line feed alone ends a line, too (RFC 9112 section 2.2).
    start, _, rest = raw.removesuffix(b"\r").partition(b"\n")
    line = _request_line(start.removesuffix(b"\r"))
    if line is None:
        return None
    fields = _parse_all(rest, parse_line)
    return request_head(*line, fields), fields


def request_head(version: str, method: str, target: str, fields: Fields) -> RequestHead:
    """Make a request's head of its parsed parts; its stream is still to be set."""
    if target[:1] == "/" and method != "CONNECT":
        scheme, authority = None, fields.host
    else:
        scheme, authority = _addressed(method, target, fields.host)
    warnings = _warnings(version, fields) if fields.transferred else fields.warnings
    return RequestHead(0, version, method, target, scheme, authority, fields.headers, warnings)


def _addressed(method: str, target: str, host: str | None) -> tuple[str | None, str | None]:
    """Return the scheme of a target in absolute form, and whom the request is for.

    That is the target's authority if it says so, else Host (RFC 9112 sections 3.2.2 and 3.3).
    """
    found = _ABSOLUTE.match(target)
    scheme = found[1].lower() if found else None
    if method == "CONNECT":
        return scheme, target
    return scheme, found[2] if found else host


def parse_response(raw: bytes, parse_line: ParseLine = parse_field_line) -> StatusHead | None:
    """Parse a response's head up to its last line feed."""
    start, _, rest = raw.removesuffix(b"\r").partition(b"\n")
    line = _status_line(start.removesuffix(b"\r"))
    if line is None:
        return None
    fields = _parse_all(rest, parse_line)
    return StatusHead(*line, fields, _warnings(line[0], fields))


def _warnings(version: str, fields: Fields) -> tuple[str, ...]:
    if version == "HTTP/1.0" and fields.transferred:
        # A recipient of HTTP/1.0 does not know it (RFC 9112 section 6.1).
        return (*fields.warnings, "Transfer-Encoding in HTTP/1.0")
    return fields.warnings


def parse_start_line(side: Side, line: bytes) -> _RequestLine | _StatusLine | None:
    """Parse a request line (from a client) or a status line (from a server)."""
    return _request_line(line) if side is Side.CLIENT else _status_line(line)


def _request_line(line: bytes) -> _RequestLine | None:
    parts = line.split(b" ")
    if len(parts) == 3 and (version := VERSIONS.get(parts[2])):
        method = METHODS.get(parts[0])
        if method and parts[1]:
            return version, method, text_of(parts[1])
    return _odd_request_line(line)


def _odd_request_line(line: bytes) -> _RequestLine | None:
    """Parse with any white space between the parts, as section 3 of RFC 9112 allows.

    A target with spaces inside is malformed but seen: it is all that is between.
    """
    start, *rest = line.split(None, 1)[:2] or (b"",)
    parts = rest[0].rsplit(None, 1) if rest else []
    if len(parts) != 2 or line[:1].isspace():
        return None
    target, version = parts
    if not _IS_TOKEN.fullmatch(start) or not _VERSION.fullmatch(version) or b"\r" in target:
        return None
    return version.decode(), start.decode(), text_of(target.strip())


def _status_line(line: bytes) -> _StatusLine | None:
    """Parse with the reason, and even the space before it, missing (RFC 9112 section 4)."""
    parts = line.split(None, 2)
    if len(parts) < 2 or not _STATUS.fullmatch(parts[0]) or line[:1].isspace():
        return None
    version, status = parts[:2]
    reason = parts[2].strip() if len(parts) > 2 else b""
    if len(status) != 3 or not status.isdigit() or b"\r" in reason:
        return None
    return version.decode(), int(status), text_of(reason)


def parse_fields(lines: list[bytes], parse_line: ParseLine = parse_field_line) -> list[Header]:
    """Parse field lines alone, as of trailers (RFC 9112 section 7.1.2)."""
    parsed = map(parse_line, _unfold(lines))
    return [entry[0] for entry in parsed if entry]


def find_start(side: Side, data: bytes | bytearray, pos: int) -> tuple[int, int] | None:
    """Find the next message of ``side``: where it starts, and where the proof of it ends.

    Only whole lines count, so that the same bytes give the same answer however they come.
    """
    if side is Side.SERVER:
        found = _SCAN_STATUS.search(data, pos)
        return (found.start(), found.end(1)) if found else None
    while (found := _SCAN_VERSION.search(data, pos)) is not None:
        low = max(pos, found.start() - _SCAN_TARGET)
        low = max(low, data.rfind(b"\n", low, found.start()) + 1)
        request = _SCAN_REQUEST.search(data[low : found.start()])
        if request:
            return low + request.start(), found.end(1)
        pos = found.end()
    return None


def scan_rest(data: bytes | bytearray, pos: int) -> int:
    """Return from where on bytes must be kept when :func:`find_start` found nothing."""
    last = data.rfind(b"\n", pos)
    before = data.rfind(b"\n", pos, last) if last >= 0 else -1
    return max(pos, before + 1, len(data) - SCAN_WINDOW)


def _parse_all(raw: bytes, parse_line: ParseLine) -> Fields:
    """Parse all field lines of a head."""
    parsed = [*map(parse_line, raw.split(b"\r\n"))]
    if None in parsed:
        # Odd line ends or folding: take the careful way for all of them.
        lines = [line.removesuffix(b"\r") for line in raw.split(b"\n")]
        parsed = [*map(parse_line, _unfold(lines))]
    fields = Fields(Headers([entry[0] for entry in parsed if entry]))
    for entry in parsed:
        if entry and entry[1]:
            _SETTERS[entry[1]](fields, entry[0][1] or "")
    if fields.length is not None and fields.transferred:
        fields.warnings = ("Content-Length beside Transfer-Encoding",)
    return fields


def _unfold(lines: list[bytes]) -> list[bytes]:
    """Join folded lines with one space (obs-fold, RFC 9112 section 5.2); drop empty ones."""
    whole: list[list[bytes]] = []
    for line in lines:
        stripped = line.strip(b" \t")
        if line[:1] in (b" ", b"\t") and whole:
            whole[-1].append(stripped)
        elif stripped:
            whole.append([stripped])
    return [b" ".join(filter(None, parts)) for parts in whole]


def _set_length(fields: Fields, value: str) -> None:
    # A list of equal values counts as one (RFC 9110 section 8.6).
    for part in value.split(","):
        digits = part.strip()
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            fields.fault = "invalid Content-Length"
        elif fields.length is not None and fields.length != int(digits):
            fields.fault = "conflicting Content-Length"
        else:
            fields.length = int(digits)


def _set_coding(fields: Fields, value: str) -> None:
    fields.transferred = True
    # "identity" was a coding of RFC 2616 and changes nothing where it stands alone.
    for part in value.split(","):
        coding = part.split(";", 1)[0].strip().lower()
        if coding and (coding != "identity" or fields.chunked):
            fields.chunked = coding == "chunked"
            fields.coded = not fields.chunked


def _set_upgrade(fields: Fields, value: str) -> None:
    if fields.upgrade is None:
        fields.upgrade = value.split(",", 1)[0].strip().lower()[:_TOKEN_CHARS]


def _set_host(fields: Fields, value: str) -> None:
    if fields.host is None:
        fields.host = value


_SETTERS: dict[str, Callable[[Fields, str], None]] = {
    "content-length": _set_length,
    "transfer-encoding": _set_coding,
    "upgrade": _set_upgrade,
    "host": _set_host,
}
