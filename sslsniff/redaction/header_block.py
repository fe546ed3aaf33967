"""Blanks secrets in HPACK header blocks (RFC 7541) without changing any length.

A value is blanked where it is a literal; a later field that refers to its table entry then has the
blanked value. The size of an entry depends on decoded lengths (section 4.1), so these must stay as
well: a Huffman-coded value is replaced by as many symbols, whose codes fill as many octets.
"""

from collections import deque
from collections.abc import Sequence

from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

from sslsniff.core.redacted import RedactedSecret
from sslsniff.decoders.http2.hpack import MAX_TABLE, STATIC, HpackError, read_integer, read_string
from sslsniff.decoders.messages import Header
from sslsniff.redaction.findings import Finding, Secret
from sslsniff.redaction.pending_bytes import BLANK
from sslsniff.redaction.rules import UNKNOWN_NAME, Rules

_URL = (":path", ":authority")
_ENTRY_BYTES = 32  # the size of an entry without its text (section 4.1)
_SYMBOLS = {5: b"0", 6: b"-", 7: b"x", 8: BLANK}
"""The symbol that replaces another, by the length of its code in bits."""
_BITS = [f"{code:0{size}b}" for code, size in zip(REQUEST_CODES, REQUEST_CODES_LENGTH, strict=True)]
_KINDS = ((0x80, 0x7F), (0x40, 0x3F), (0x20, 0x1F), (0x00, 0x0F))
"""The smallest first octet of a kind of field, and the mask of its index (section 6)."""
_INDEXED, _ADDED, _SIZE_UPDATE, _NOT_ADDED = _KINDS


class HeaderBlocks:
    """Blanks secrets in the header blocks of one direction, in order.

    Its table always has the largest size: size updates may be ignored, as no field refers to an
    entry that was evicted.
    """

    def __init__(self, message: str, rules: Rules) -> None:
        self._message = message  # a request or a response
        self._rules = rules
        self._found: list[RedactedSecret] = []
        self._entries: deque[Header] = deque()  # the newest first
        self._secrets: deque[Sequence[RedactedSecret]] = deque()  # in each entry
        self._size = 0

    def forget(self) -> None:
        """Forget the table: blocks were lost."""
        self._entries.clear()
        self._secrets.clear()
        self._size = 0

    def redact(self, block: bytes) -> tuple[bytes, list[Header], list[RedactedSecret]]:
        """Return the block with its secrets blanked, its fields as they were, and the secrets.

        Names and values that are not known are None. Bytes that cannot be parsed are blanked.
        """
        found = self._found = []
        out = bytearray(block)
        fields: list[Header] = []
        at = 0
        try:
            while at < len(block):
                at = self._field(block, at, out, fields)
        except (HpackError, IndexError):
            self.forget()
            fields.append((None, None))
            out[at:] = BLANK * (len(out) - at)
            self._rules.blanked.unread_bytes += len(out) - at
        return bytes(out), fields, found

    def _field(self, block: bytes, at: int, out: bytearray, fields: list[Header]) -> int:
        """Blank secrets in the field at ``at``; return where the next field begins."""
        kind = next(each for each in _KINDS if block[at] >= each[0])
        mask = kind[1]
        index, at = block[at] & mask, at + 1
        if index == mask:
            index, at = read_integer(block, at, mask)
        if kind is _SIZE_UPDATE:
            return at
        if kind is _INDEXED:
            fields.append(self._entry(index))
            entry = index - len(STATIC)
            if 0 <= entry < len(self._secrets):
                self._found += self._secrets[entry]
            return at
        name = self._entry(index)[0]
        if not index:
            name, at = read_string(block, at, len(block))
        value, stop = read_string(block, at, len(block))
        if value is None:
            findings = [Finding(0, 0, [Secret(name or UNKNOWN_NAME, None, None)])]
        else:
            findings = self._rules.find_in_header(name, value)
        secrets: Sequence[RedactedSecret] = ()
        if findings:
            secrets = self._marks(name, findings)
            self._found += secrets
            _blank_string(out, block, at, stop, value, findings)
        fields.append((name, value))
        if kind is _ADDED:
            self._add((name, value), secrets)
        return stop

    def _marks(self, name: str | None, findings: list[Finding]) -> list[RedactedSecret]:
        where = f"{self._message} {'url' if name in _URL else 'header'}"
        mark = self._rules.fingerprints.mark
        return [
            mark(where, each.name.lower(), each.pattern, each.text)
            for finding in findings
            for each in finding.secrets
        ]

    def _add(self, entry: Header, secrets: Sequence[RedactedSecret]) -> None:
        self._entries.appendleft(entry)
        self._secrets.appendleft(secrets)
        self._size += _size(entry)
        while self._size > MAX_TABLE:
            self._size -= _size(self._entries.pop())
            self._secrets.pop()

    def _entry(self, index: int) -> Header:
        if index < len(STATIC):
            return STATIC[index]
        index -= len(STATIC)
        return self._entries[index] if index < len(self._entries) else (None, None)


def _size(entry: Header) -> int:
    return len(entry[0] or "") + len(entry[1] or "") + _ENTRY_BYTES


def _blank_string(
    out: bytearray, block: bytes, at: int, stop: int, value: str | None, findings: list[Finding]
) -> None:
    """Blank the ``findings`` in the string (section 5.2) from ``at`` to ``stop``.

    A Huffman code that is longer than its text may have no replacement of the same length. Then the
    whole string is blanked, and not coded any more; encoders have no reason to send such a code.
    """
    coded = bool(block[at] & 0x80)
    length, start = block[at] & 0x7F, at + 1
    if length == 0x7F:
        length, start = read_integer(block, start, 0x7F)
    code = None
    if not coded:
        code = bytearray(block[start:stop])
        for first, last, _ in findings:
            code[first:last] = BLANK * (last - first)
    elif value is not None:
        code = _blanked_code(value.encode("latin-1", "replace"), findings, length)
    if code is None:
        out[at] &= 0x7F
        code = bytearray(BLANK * length)
    out[start:stop] = code


def _blanked_code(value: bytes, findings: list[Finding], length: int) -> bytearray | None:
    """Return a Huffman code of ``length`` octets for ``value`` with the findings blanked.

    None if there is none.
    """
    unblanked = bytearray(value)
    for first, last, _ in reversed(findings):
        del unblanked[first:last]
    count = sum(last - first for first, last, _ in findings)
    # The code is padded with less than an octet (section 5.2).
    room = 8 * length - sum(REQUEST_CODES_LENGTH[octet] for octet in unblanked)
    bits, longer = divmod(min(room, 8 * count), count)
    if room - 8 * count > 7 or bits not in _SYMBOLS:
        return None
    blanks = iter((_SYMBOLS[bits] * (count - longer)) + _SYMBOLS.get(bits + 1, b"") * longer)
    blanked = bytearray(value)
    for first, last, _ in findings:
        blanked[first:last] = bytes(next(blanks) for _ in range(last - first))
    return _huffman(blanked, length)


def _huffman(text: bytes | bytearray, length: int) -> bytearray:
    """Return the Huffman code of ``text``, padded with ones to ``length`` octets."""
    # Joined as text first: adding codes to a number would copy the whole number each time.
    bits = "".join([_BITS[octet] for octet in text])
    return bytearray(int(bits.ljust(8 * length, "1"), 2).to_bytes(length, "big"))
