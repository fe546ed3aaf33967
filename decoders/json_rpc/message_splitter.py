"""Splits what a side sends into JSON texts: a line each, or each after a header with its length.

The first is how MCP frames messages on standard input and output, the second how language servers
do (Language Server Protocol, "Base Protocol"). A program may print lines of a log in between.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

MESSAGE_BYTES = 4 << 20
"""Stored of a message: what a reader of model calls over HTTP stores, too."""
_TAIL_BYTES = 256
_HEADER = re.compile(rb"content-length:[ \t]*(\d{1,10})[ \t]*\r?\Z", re.IGNORECASE)


class SentText(NamedTuple):
    """A line without its end, or what follows a header; empty lines are none.

    ``size``: its bytes. ``data``: these, or the first ``MESSAGE_BYTES`` of them; then ``tail`` has
    the last ones. ``is_framed``: a header with its length came before. ``is_damaged``: bytes before
    these were lost; ``data`` is empty.
    """

    data: bytes
    size: int
    tail: bytes
    is_framed: bool = False
    is_damaged: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether all its bytes are there."""
        return not self.tail


class MessageSplitter:
    """Splits the bytes of one side. Memory: one message, ``MESSAGE_BYTES`` at most."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._size = 0
        self._tail = b""
        self._left: int | None = None
        """How many bytes of a body with a length are to come; None: lines are read."""
        self._length: int | None = None
        """The length in a header whose end is to come."""
        self._skips = False  # up to the next line, as bytes before it were lost

    @property
    def held_bytes(self) -> int:
        """The memory of the message that is not complete."""
        return len(self._data)

    def feed(self, data: bytes) -> Iterator[SentText]:
        """Feed the next bytes; yield each text that they complete."""
        at = 0
        while at < len(data):
            if self._left is not None:
                stop = min(len(data), at + self._left)
                self._left -= stop - at
                is_over = not self._left
            else:
                stop = data.find(b"\n", at) + 1
                is_over = stop > 0
                stop = stop or len(data)
            self._append(data, at, stop)
            at = stop
            if is_over:
                yield from self._end_text()

    def gap(self, missing: int) -> tuple[bytes, int]:
        """Note lost bytes; return the beginning of the text that they are in, and its size."""
        dropped = self.drop()
        if self._left is not None and missing < self._left:
            self._left -= missing
        else:
            self._left = None
        self._length = None
        self._skips = True
        return dropped

    def drop(self) -> tuple[bytes, int]:
        """Forget the text that is not complete; return its beginning, and its size."""
        dropped = bytes(self._data), self._size
        self._clear()
        return dropped

    def _append(self, data: bytes, start: int, stop: int) -> None:
        room = MESSAGE_BYTES - len(self._data)
        if room > 0 and not self._skips:
            self._data += data[start : min(stop, start + room)]
        self._size += stop - start
        if self._size > MESSAGE_BYTES:
            self._tail = (self._tail + data[max(start, stop - _TAIL_BYTES) : stop])[-_TAIL_BYTES:]

    def _clear(self) -> None:
        self._data.clear()
        self._size, self._tail = 0, b""

    def _end_text(self) -> Iterator[SentText]:
        data, size, tail = bytes(self._data), self._size, self._tail
        is_framed, self._left = self._left is not None, None
        skips, self._skips = self._skips, False
        self._clear()
        if skips:
            yield SentText(b"", size - (not is_framed), b"", is_damaged=True)
            return
        if is_framed:
            yield SentText(data, size, tail, is_framed=True)
            return
        length = _HEADER.match(data[:-1])
        if length is not None:
            self._length = int(length[1])
        elif self._length is not None:  # the other lines of a header
            if not data.strip():
                self._left, self._length = self._length or None, None
        elif len(data) < size:
            yield SentText(data, size - 1, tail[:-1])
        elif data.strip():
            yield SentText(data[:-1], size - 1, b"")
