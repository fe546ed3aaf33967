"""HTTP/1 heads as pure functions: start lines, fields, framing, where a message begins (RFC 9112).

Parsed field lines are remembered, as nearly all of them come again: at most
``_MEMO_LINES`` lines of ``_MEMO_LINE_BYTES`` bytes, about 3 MiB for the whole process.
"""

import re
from dataclasses import dataclass, field

from sslsniff.decoders.messages import Header, Side

MAX_HEAD = 256 * 1024
"""Bytes of a head, or of trailers; what is larger is not decoded."""
SCAN_WINDOW = 64 * 1024
"""Bytes within which a start line and the line behind it must lie to be found by a scan."""

_MEMO_LINES = 4096
_MEMO_LINE_BYTES = 256

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
# RFC 9112 section 3 allows to be lenient about white space around the parts; a target with
# spaces inside is malformed but seen, so the target is all that is between.
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb")[ \t]+([^\r\n]*?[^\s])[ \t]+(HTTP/[01]\.\d)\s*")
# The reason and even the space before it may be missing (RFC 9112 section 4).
_STATUS_LINE = re.compile(rb"(HTTP/\d(?:\.\d)?)[ \t]+(\d{3})(?:[ \t]+([^\r\n]*?))?\s*")

# A scan believes a start line only together with the whole line behind it: a field or the
# end of the head. Its length is bounded so that SCAN_WINDOW always holds all of it.
_LINE_BEHIND = rb"\r?\n(?=((?:" + _TOKEN + rb"[ \t]*:[^\n]{0,40000})?\r?\n))"
_SCAN_STATUS = re.compile(rb"HTTP/1\.[01] [1-9]\d\d(?: [^\r\n]{0,4096})?" + _LINE_BEHIND)
_SCAN_VERSION = re.compile(rb" HTTP/1\.[01]" + _LINE_BEHIND)
# In the middle of a body only a well-known method can be told from the bytes before it.
_SCAN_REQUEST = re.compile(
    rb"(?:GET|HEAD|POST|PUT|DELETE|CONNECT|OPTIONS|TRACE|PATCH|PROPFIND|PROPPATCH|MKCOL|COPY"
    rb"|MOVE|LOCK|UNLOCK|REPORT|SEARCH|QUERY|MKCALENDAR|SUBSCRIBE|NOTIFY|PURGE)"
    rb" [!-~\x80-\xff]+$"
)
_SCAN_TARGET = 8192

_SPECIAL = frozenset({"content-length", "transfer-encoding", "upgrade", "host"})
_ABSOLUTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)")

_Line = tuple[Header, str]
_memo: dict[bytes, _Line] = {}
_status_memo: dict[bytes, tuple[str, int, str]] = {}


@dataclass(slots=True)
class Head:
    """A parsed head. ``upgrade`` is the first token of the field of that name, in lower case.

    ``length`` is the Content-Length; ``coded`` tells a Transfer-Encoding that does not end
    in chunked; ``fault`` says why the body's end cannot be known (RFC 9112 section 6.3).
    """

    version: str
    method: str = ""
    target: str = ""
    status: int = 0
    reason: str = ""
    headers: list[Header] = field(default_factory=list)
    length: int | None = None
    chunked: bool = False
    coded: bool = False
    upgrade: str | None = None
    host: str | None = None
    fault: str | None = None

    @property
    def scheme(self) -> str | None:
        """The scheme of a target in absolute form (RFC 9112 section 3.2.2)."""
        found = _ABSOLUTE.match(self.target)
        return found[1].lower() if found else None

    @property
    def authority(self) -> str | None:
        """Whom the request is for: of the target if it says so, else of Host (section 3.3)."""
        if self.method == "CONNECT":
            return self.target
        found = None if self.target[:1] == "/" else _ABSOLUTE.match(self.target)
        return found[2] if found else self.host


def text_of(raw: bytes) -> str:
    """Decode as UTF-8 where it is valid, else as ISO 8859-1, which always is."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def parse_head(side: Side, raw: bytes) -> Head | None:
    """Parse a head without the empty line that ends it; None if ``side`` sends no such thing."""
    lines = raw.split(b"\r\n")
    first = lines[0]
    # A line feed alone ends a line, too (RFC 9112 section 2.2).
    if b"\n" in first:
        first = first.split(b"\n", 1)[0]
    head = parse_start_line(side, first)
    if head is None:
        return None
    if len(lines) > 1 or first is not lines[0]:
        _add_fields(head, lines, raw)
    return head


def parse_start_line(side: Side, line: bytes) -> Head | None:
    """Parse a request line (from a client) or a status line (from a server)."""
    if side is Side.CLIENT:
        found = _REQUEST_LINE.fullmatch(line)
        if found is None:
            return None
        method, target, version = found.groups()
        return Head(version.decode(), method=method.decode(), target=text_of(target))
    known = _status_memo.get(line)
    if known is None:
        found = _STATUS_LINE.fullmatch(line)
        if found is None:
            return None
        known = (found[1].decode(), int(found[2]), text_of(found[3] or b""))
        if len(line) <= _MEMO_LINE_BYTES:
            if len(_status_memo) >= _MEMO_LINES:
                _status_memo.clear()
            _status_memo[line] = known
    return Head(known[0], status=known[1], reason=known[2])


def parse_fields(lines: list[bytes]) -> list[Header]:
    """Parse field lines alone, as of trailers (RFC 9112 section 7.1.2)."""
    return [_memo_line(line)[0] for line in _unfold(lines)]


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


def _add_fields(head: Head, lines: list[bytes], raw: bytes) -> None:
    known = _memo.get
    parsed = []
    for line in lines[1:]:
        entry = known(line)
        if entry is None:
            if b"\n" in line or line[:1] in (b" ", b"\t", b""):
                # Odd line ends or folding: take the careful way for the whole head.
                every = [one.removesuffix(b"\r") for one in raw.split(b"\n")]
                parsed = [_memo_line(one) for one in _unfold(every[1:])]
                break
            entry = _memo_line(line)
        parsed.append(entry)
    else:
        if b"\n" in lines[0]:
            every = [one.removesuffix(b"\r") for one in raw.split(b"\n")]
            parsed = [_memo_line(one) for one in _unfold(every[1:])]
    head.headers = [entry[0] for entry in parsed]
    for (_, value), special in parsed:
        if special:
            _SETTERS[special](head, value or "")


def _unfold(lines: list[bytes]) -> list[bytes]:
    """Join folded lines with one space (obs-fold, RFC 9112 section 5.2); drop empty ones."""
    whole: list[bytes] = []
    for line in lines:
        if line[:1] in (b" ", b"\t") and whole:
            whole[-1] = whole[-1].rstrip(b" \t") + b" " + line.strip(b" \t")
        elif line:
            whole.append(line)
    return whole


def _memo_line(line: bytes) -> _Line:
    entry = _memo.get(line)
    if entry is None:
        entry = _parse_line(line)
        if len(line) <= _MEMO_LINE_BYTES:
            if len(_memo) >= _MEMO_LINES:
                _memo.clear()
            _memo[line] = entry
    return entry


def _parse_line(line: bytes) -> _Line:
    # White space before the colon is an error for a server (RFC 9112 section 5.1), but a
    # proxy has to remove it; a line without a colon is shown as a name without a value.
    name, _, value = line.partition(b":")
    shown = text_of(name.strip(b" \t"))
    lower = shown.lower()
    return (shown, text_of(value.strip(b" \t\r"))), lower if lower in _SPECIAL else ""


def _set_length(head: Head, value: str) -> None:
    # A list of equal values counts as one (RFC 9110 section 8.6).
    for part in value.split(","):
        digits = part.strip()
        if not (digits.isascii() and digits.isdigit() and len(digits) < 20):
            head.fault = "invalid Content-Length"
        elif head.length is not None and head.length != int(digits):
            head.fault = "conflicting Content-Length"
        else:
            head.length = int(digits)


def _set_coding(head: Head, value: str) -> None:
    # "identity" was a coding of RFC 2616 and changes nothing where it stands alone.
    for part in value.split(","):
        coding = part.split(";", 1)[0].strip().lower()
        if coding and (coding != "identity" or head.chunked):
            head.chunked = coding == "chunked"
            head.coded = not head.chunked


def _set_upgrade(head: Head, value: str) -> None:
    if head.upgrade is None:
        head.upgrade = value.split(",", 1)[0].strip().lower()


def _set_host(head: Head, value: str) -> None:
    if head.host is None:
        head.host = value


_SETTERS = {
    "content-length": _set_length,
    "transfer-encoding": _set_coding,
    "upgrade": _set_upgrade,
    "host": _set_host,
}
