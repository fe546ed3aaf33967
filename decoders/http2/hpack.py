"""A tolerant HPACK decoder (RFC 7541): an unknown name or value is None, never a guess.

A capture may begin in the middle of a connection or lose bytes. Entries added to the dynamic table
before that point are unknown. Entries added after it are at the front of the table, from where
indices count, so they stay right. This table may have more entries than the encoder's, as unknown
entries count as 0 bytes. That does no harm: an encoder never refers to an entry that it evicted.

Memory: a table of at most ``MAX_TABLE`` bytes (RFC 7541's count) for each direction. A memo of the
process stores decoded strings: ``_STRINGS`` of up to ``_STRING_BYTES`` coded bytes, about 3 MiB.
The transitions of the Huffman decoder are stored, too.
"""

from collections import deque

from hpack.huffman_table import (
    HUFFMAN_COMPLETE,
    HUFFMAN_EMIT_SYMBOL,
    HUFFMAN_FAIL,
    HUFFMAN_TABLE,
)
from hpack.table import HeaderTable

from sslsniff.decoders.content.output_limit import RATIO
from sslsniff.decoders.memo import Memo
from sslsniff.decoders.messages import Header, Omitted

DEFAULT_TABLE = 4096
MAX_TABLE = 64 * 1024
"""The largest dynamic table that is stored; beyond it, old entries become unknown."""
MAX_LIST = 256 * 1024
"""The largest list of fields of one block (RFC 9113 section 6.5.2's count), as in Chromium.

Further fields are omitted. All blocks together may have this, and ``RATIO`` times their bytes."""

_ENTRY_OVERHEAD = 32
_ENTRY_BYTES = 200  # memory of an entry, beyond its size
_FRAME_HEADER = 9
_MANY = 64  # fields; fewer cannot be a bomb
_STRINGS = 8192
_STRING_BYTES = 128
_MAX_INTEGER = 1 << 28

STATIC: tuple[Header, ...] = (
    (None, None),
    *((name.decode(), value.decode()) for name, value in HeaderTable.STATIC_TABLE),
)
_DYNAMIC = len(STATIC)
_UNKNOWN: Header = (None, None)

_transitions: dict[int, tuple[int, int, bytes]] = {}  # those that occurred, at most 65,536


class HpackError(Exception):
    """The rest of a header block cannot be read."""


class _Strings(Memo[bytes, str | None]):
    """Strings by their Huffman codes; a look-up decodes a new one."""

    __slots__ = ()

    def __missing__(self, raw: bytes) -> str | None:
        text = _huffman(raw)
        if len(raw) <= _STRING_BYTES:
            self.add(raw, text)
        return text


_strings = _Strings(_STRINGS)


class HpackDecoder:
    """Decodes the header blocks of one direction, in order.

    ``omitted``: the fields of the last block that are not returned; the table has them.
    """

    __slots__ = ("_allowance", "_entries", "_largest", "_limit", "_size", "omitted")

    def __init__(self) -> None:
        self._entries: deque[tuple[Header, int]] = deque()
        self._size = 0
        self._largest = 0  # of all entries so far
        self._limit = DEFAULT_TABLE
        self._allowance = MAX_LIST  # as in OutputLimit, but at most MAX_LIST
        self.omitted: Omitted | None = None

    @property
    def held_bytes(self) -> int:
        """The memory of the table."""
        return self._size + _ENTRY_BYTES * len(self._entries)

    @property
    def size(self) -> int:
        """The size of the known entries of the dynamic table in bytes (section 4.1)."""
        return self._size

    def forget(self) -> None:
        """Clear the table: a block was lost, so every index changed by an unknown amount.

        The size limit may have changed, too; the largest is assumed, see above.
        """
        self._entries.clear()
        self._size = self._largest = 0
        self._limit = MAX_TABLE

    def allow_table(self, size: int) -> None:
        """Handle the peer's SETTINGS_HEADER_TABLE_SIZE.

        The encoder announces a new size by a size update (RFC 7541 section 4.2). Some omit that
        for a larger table, so it counts at once; a smaller one counts from the update on.
        """
        self._limit = max(self._limit, min(size, MAX_TABLE))

    def decode(self, block: bytes) -> tuple[list[Header], str | None]:
        """Return the fields of a block, and why the rest cannot be read; None if all is read."""
        fields: list[Header] = []
        error = None
        self.omitted = None
        try:
            self._decode(block, fields)
        except HpackError as fault:
            error = str(fault)
        except IndexError:
            error = "header block cut short"
        allowed = RATIO * (_FRAME_HEADER + len(block))
        if len(fields) > _MANY or len(fields) * self._largest > allowed:
            self._limit_fields(fields, allowed)
        if error is not None:
            self.forget()
        return fields, error

    def _limit_fields(self, fields: list[Header], allowed: int) -> None:
        """Limit the size of a list: one octet may name a field of kilobytes, again and again.

        ``allowed`` is how many bytes may be reported for the octets of this block.
        """
        most, listed = min(MAX_LIST, self._allowance + allowed), 0
        for at, entry in enumerate(fields):
            size = _size(entry)
            if listed + size > most:
                rest = fields[at:]
                self.omitted = Omitted(len(rest), sum(map(_characters, rest)))
                del fields[at:]
                break
            listed += size
        self._allowance = min(MAX_LIST, self._allowance + allowed - listed)

    def _decode(self, block: bytes, fields: list[Header]) -> None:
        entries = self._entries
        append = fields.append
        known = _strings.get
        pos, end = 0, len(block)
        beyond = _DYNAMIC + len(entries)  # the first index that is not known
        while pos < end:
            octet = block[pos]
            pos += 1
            if octet >= 0x80:  # indexed field, section 6.1
                index = octet & 0x7F
                if index == 0x7F:
                    index, pos = read_integer(block, pos, 0x7F)
                if index >= _DYNAMIC:
                    append(entries[index - _DYNAMIC][0] if index < beyond else _UNKNOWN)
                elif index:
                    append(STATIC[index])
                else:
                    raise HpackError("index 0 in a header block")
                continue
            if octet >= 0x40:  # literal with incremental indexing, section 6.2.1
                index, mask = octet & 0x3F, 0x3F
            elif octet >= 0x20:  # size update, section 6.3
                size = octet & 0x1F
                if size == 0x1F:
                    size, pos = read_integer(block, pos, 0x1F)
                self._limit = min(size, MAX_TABLE)
                self._evict()
                beyond = _DYNAMIC + len(entries)
                continue
            else:  # literal without indexing or never indexed, sections 6.2.2 and 6.2.3
                index, mask = octet & 0x0F, 0x0F
            if index == mask:
                index, pos = read_integer(block, pos, mask)
            if not index:
                name, pos = read_string(block, pos, end)
            elif index < _DYNAMIC:
                name = STATIC[index][0]
            else:
                name = entries[index - _DYNAMIC][0][0] if index < beyond else None
            # As read_string, but without a call in the usual case: a string in the memo.
            octet = block[pos]
            stop = pos + 1 + (octet & 0x7F)
            value = known(block[pos + 1 : stop]) if 0x80 <= octet < 0xFF else None
            if value is None or stop > end:
                value, pos = read_string(block, pos, end)
            else:
                pos = stop
            entry = (name, value)
            append(entry)
            if mask == 0x3F:
                size = _size(entry)
                entries.appendleft((entry, size))
                self._size += size
                if size > self._largest:
                    self._largest = size
                if self._size > self._limit:
                    self._evict()
                beyond = _DYNAMIC + len(entries)

    def _evict(self) -> None:
        while self._size > self._limit:
            self._size -= self._entries.pop()[1]


def _size(entry: Header) -> int:
    """Return an entry's size (section 4.1); a little too small for text beyond ASCII."""
    return len(entry[0] or "") + len(entry[1] or "") + _ENTRY_OVERHEAD


def _characters(entry: Header) -> int:
    return len(entry[0] or "") + len(entry[1] or "")


def read_integer(block: bytes, pos: int, value: int) -> tuple[int, int]:
    """Read the rest of an integer whose prefix is full, with ``value`` (section 5.1)."""
    shift = 0
    while True:
        octet = block[pos]
        pos += 1
        value += (octet & 0x7F) << shift
        if octet < 0x80:
            return value, pos
        shift += 7
        if value > _MAX_INTEGER or shift > 28:
            raise HpackError("integer too large in a header block")


def read_string(block: bytes, pos: int, end: int) -> tuple[str | None, int]:
    """Read a string (section 5.2); None if its Huffman code is invalid."""
    octet = block[pos]
    pos += 1
    length = octet & 0x7F
    if length == 0x7F:
        length, pos = read_integer(block, pos, 0x7F)
    stop = pos + length
    if stop > end:
        raise HpackError("header block cut short")
    raw = block[pos:stop]
    if octet < 0x80:
        try:
            return raw.decode(), stop
        except UnicodeDecodeError:
            return raw.decode("latin-1"), stop
    return _strings[raw], stop


def _huffman(raw: bytes) -> str | None:
    """Decode a Huffman code (section 5.2) by octets; None if it is invalid."""
    state = 0
    flags = HUFFMAN_COMPLETE
    out = bytearray()
    try:
        for octet in raw:
            state, flags, emitted = _transitions.get(state << 8 | octet) or _transition(
                state, octet
            )
            out += emitted
        return out.decode() if flags & HUFFMAN_COMPLETE else None
    except HpackError:
        return None
    except UnicodeDecodeError:
        return out.decode("latin-1")


def _transition(state: int, octet: int) -> tuple[int, int, bytes]:
    """Combine two transitions of hpack's table, for 4 bits each, into one for an octet."""
    key, emitted, flags = state << 8 | octet, b"", 0
    for half in (octet >> 4, octet & 15):
        state, flags, symbol = HUFFMAN_TABLE[state * 16 + half]
        if flags & HUFFMAN_FAIL:
            raise HpackError("invalid Huffman code")
        if flags & HUFFMAN_EMIT_SYMBOL:
            emitted += bytes((symbol,))
    _transitions[key] = transition = state, flags, emitted
    return transition
