"""Parses HTTP/1 heads: start lines, fields, the start of a message (RFC 9112). Pure functions.

``known_heads`` stores their results.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from sslsniff.decoders.http1.framing import Framing
from sslsniff.decoders.http1.start_lines import REQUEST, TOKEN
from sslsniff.decoders.messages import Header, Headers, RequestHead, Side

MAX_HEAD = 1024 * 1024
"""Bytes of a head, or of trailers; larger ones are not decoded."""
MAX_LINES = 8192
"""Lines of a head, or of trailers; more are not decoded, as many short ones take much memory."""
SCAN_WINDOW = 64 * 1024
"""Bytes within which a start line and the line after it must lie to be found by a scan."""

_OWS = " \t"  # white space in values (RFC 9110 section 5.6.3); what else str.strip removes is none
_TOKEN_CHARS = 64  # stored of a protocol's name; registered names are shorter

_IS_TOKEN = re.compile(TOKEN)
_VERSION = re.compile(rb"HTTP/[01]\.\d")
_STATUS = re.compile(rb"HTTP/\d(?:\.\d)?")

# A scan believes a start line only together with the whole line after it: a field or the
# end of the head. Its length is bounded so that SCAN_WINDOW always holds all of it.
_LINE_AFTER = rb"\r?\n(?=((?:" + TOKEN + rb"[ \t]*:[^\n]{0,40000})?\r?\n))"
_SCAN_STATUS = re.compile(rb"HTTP/1\.[01] [1-9]\d\d(?: [^\r\n]{0,512})?" + _LINE_AFTER)
_SCAN_VERSION = re.compile(rb" HTTP/1\.[01]" + _LINE_AFTER)
_SCAN_REQUEST = re.compile(REQUEST + rb"$")
_SCAN_TARGET = 8192

VERSIONS = {b"HTTP/1.1": "HTTP/1.1", b"HTTP/1.0": "HTTP/1.0"}
"""The usual versions, as sent."""
METHODS = {
    name.encode(): name
    for name in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "CONNECT")
}
"""The usual methods, as sent."""
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)")

_UNDECODED = (
    # RFC 1945 section 3.1: a simple request has no version, and its response no head.
    (Side.CLIENT, re.compile(rb"GET /[^ ]*$"), "HTTP/0.9"),
    (Side.SERVER, re.compile(rb"ICY ([0-9]{3})(?: |$)"), "ICY {}: a stream of SHOUTcast"),
    (Side.CLIENT, re.compile(rb"[A-Z]+ [^ ]+ (HTTP/[0-9.]{1,16})$"), "{} is not decoded"),
    (Side.SERVER, re.compile(rb"(HTTP/[0-9.]{1,16}) [0-9]{3}(?: |$)"), "{} is not decoded"),
)
"""Start lines that are named where they are reported as undecoded, by who sends them."""

FieldLine = tuple[Header, str]
"""A parsed field line: the field, and its name in lower case if it says something about framing."""
ParseLine = Callable[[bytes], FieldLine | None]
"""The type of :func:`parse_field_line`, and of a look-up of its results."""
_RequestLine = tuple[str, str, str]  # version, method, target
_StatusLine = tuple[str, int, str]  # version, status, reason


@dataclass(slots=True, eq=False)
class Fields:
    """The fields of a head and what they say about framing. They are shared: do not change them."""

    headers: Headers = field(default_factory=Headers)
    length: int | None = None
    """The Content-Length."""
    transferred: bool = False
    """Whether there is a Transfer-Encoding."""
    chunked: bool = False
    coded: bool = False
    """Whether there is a Transfer-Encoding that does not end in chunked."""
    upgrade: str | None = None
    """The first protocol of the Upgrade field, in lower case."""
    expects: bool = False
    """Whether a request waits for ``100 Continue`` before it sends its body."""
    host: str | None = None
    fault: str | None = None
    """Why the end of the body cannot be known (RFC 9112 section 6.3)."""
    warnings: tuple[str, ...] = ()
    """Framing that two readers may read differently (RFC 9112 section 11.2)."""
    request_framing: Framing | None = field(default=None, repr=False)
    """The framing of a request with these fields; None until it is computed."""


@dataclass(slots=True)
class StatusHead:
    """A parsed head of a response. It is shared: do not change it.

    ``framing`` is that of a response to a usual request; None until it is computed.
    """

    version: str
    status: int
    reason: str
    fields: Fields
    warnings: tuple[str, ...]
    framing: Framing | None = field(default=None, repr=False)


def text_of(raw: bytes) -> str:
    """Decode as UTF-8 if that is valid, else as ISO 8859-1, which always is."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def exceeds_limits(data: bytes, pos: int, stop: int) -> bool:
    """Return whether a head, whose last line ends at ``stop``, is too large to be decoded."""
    return stop - pos > MAX_HEAD or data.count(b"\n", pos, stop) >= MAX_LINES


def parse_field_line(line: bytes) -> FieldLine | None:
    """Parse one field line; None if it continues a line, or contains more than one."""
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
    """Return the scheme of a target in absolute form, and the authority of the request.

    That is the target's authority if it has one, else Host (RFC 9112 sections 3.2.2 and 3.3).
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
        # A recipient that knows only HTTP/1.0 ignores it (RFC 9112 section 6.1).
        return (*fields.warnings, "Transfer-Encoding in HTTP/1.0")
    return fields.warnings


def parse_start_line(side: Side, line: bytes) -> _RequestLine | _StatusLine | None:
    """Parse a request line (from a client) or a status line (from a server)."""
    return _request_line(line) if side is Side.CLIENT else _status_line(line)


def undecoded_name(side: Side, line: bytes) -> str | None:
    """Return what a start line is that is not decoded; None if it is not known either."""
    for sender, pattern, name in _UNDECODED:
        found = pattern.match(line) if sender is side else None
        if found:
            return name.format(*map(text_of, found.groups()))
    return None


def _request_line(line: bytes) -> _RequestLine | None:
    parts = line.split(b" ")
    if len(parts) == 3 and (version := VERSIONS.get(parts[2])):
        method = METHODS.get(parts[0])
        if method and parts[1]:
            return version, method, text_of(parts[1])
    return _odd_request_line(line)


def _odd_request_line(line: bytes) -> _RequestLine | None:
    """Parse a request line with any white space between its words (RFC 9112 section 3).

    Malformed targets with spaces inside occur: the target is all between method and version.
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
    """Parse a status line; the reason, with its space, may be missing (RFC 9112 section 4)."""
    parts = line.split(None, 2)
    if len(parts) < 2 or not _STATUS.fullmatch(parts[0]) or line[:1].isspace():
        return None
    version, status = parts[:2]
    reason = parts[2].strip() if len(parts) > 2 else b""
    if len(status) != 3 or not status.isdigit() or b"\r" in reason:
        return None
    return version.decode(), int(status), text_of(reason)


def parse_fields(lines: list[bytes], parse_line: ParseLine = parse_field_line) -> list[Header]:
    """Parse field lines without a start line, as of trailers (RFC 9112 section 7.1.2)."""
    parsed = map(parse_line, _unfold(lines))
    return [entry[0] for entry in parsed if entry]


def find_start(side: Side, data: bytes | bytearray, pos: int) -> tuple[int, int] | None:
    """Return where the next message of ``side`` starts, and where the proof of it ends.

    Only whole lines count, so that the same bytes give the same result however they are cut.
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
    """Return the offset from which :func:`find_start` must search again with more bytes."""
    last = data.rfind(b"\n", pos)
    before = data.rfind(b"\n", pos, last) if last >= 0 else -1
    return max(pos, before + 1, len(data) - SCAN_WINDOW)


def _parse_all(raw: bytes, parse_line: ParseLine) -> Fields:
    """Parse all field lines of a head."""
    parsed = [*map(parse_line, raw.split(b"\r\n"))]
    if None in parsed:
        # Odd line ends or folding: parse all lines the slow way.
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
    return [b" ".join(filter(None, pieces)) for pieces in whole]


def _set_length(fields: Fields, value: str) -> None:
    # A list of equal values counts as one (RFC 9110 section 8.6).
    for part in value.split(","):
        digits = part.strip(_OWS)
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            fields.fault = "invalid Content-Length"
        elif fields.length is not None and fields.length != int(digits):
            fields.fault = "conflicting Content-Length"
        else:
            fields.length = int(digits)


def _token(value: str) -> str:
    """Return a token in lower case; only letters of ASCII change: a KELVIN SIGN is no k."""
    token = value.strip(_OWS)
    return token.lower() if token.isascii() else token


def _set_coding(fields: Fields, value: str) -> None:
    fields.transferred = True
    # "identity" was a coding of RFC 2616 and changes nothing where it stands alone.
    for part in value.split(","):
        coding = _token(part.split(";", 1)[0])
        if coding and (coding != "identity" or fields.chunked):
            fields.chunked = coding == "chunked"
            fields.coded = not fields.chunked


def _set_upgrade(fields: Fields, value: str) -> None:
    if fields.upgrade is None:
        fields.upgrade = _token(value.split(",", 1)[0])[:_TOKEN_CHARS]


def _set_expect(fields: Fields, value: str) -> None:
    fields.expects |= any(_token(part) == "100-continue" for part in value.split(","))


def _set_host(fields: Fields, value: str) -> None:
    if fields.host is None:
        fields.host = value


_SETTERS: dict[str, Callable[[Fields, str], None]] = {
    "content-length": _set_length,
    "transfer-encoding": _set_coding,
    "upgrade": _set_upgrade,
    "expect": _set_expect,
    "host": _set_host,
}
