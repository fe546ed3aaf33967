"""Recognises JSON-RPC 2.0 by how a connection begins: a JSON text that names its version.

The text may come after a header with its length (``message_splitter``). What is not JSON, as the
lines of a log, is no beginning.
"""

import re

_VERSION = re.compile(rb'"jsonrpc"\s*:\s*"2\.0"')
_VERSION_BYTES = 64  # more than the member has, with some space
_HEADER = b"content-length:"
_HEADER_BYTES = 1024
_SEARCHED_BYTES = 64 << 10
"""If the first message does not name the version in these bytes, it is none."""

_FIRST = b"{[" + _HEADER[:1] + _HEADER[:1].upper() + b" \t\n\v\f\r"  # of what ``_decide`` takes


def may_begin(data: bytes) -> bool:
    """Return whether a side whose first bytes are ``data`` may begin with JSON-RPC."""
    return data[:1] in _FIRST


class JsonRpcSearch:
    """Searches the first bytes of a side. Memory: the header, or some bytes."""

    def __init__(self) -> None:
        self._verdict: bool | None = None
        self._head: bytearray | None = bytearray()  # until JSON begins
        self._is_framed = False
        self._tail = b""
        self._searched_bytes = 0

    def feed(self, data: bytes) -> bool | None:
        """Feed the next bytes; return whether the side began with JSON-RPC; None: not known yet."""
        if self._verdict is None:
            self._verdict = self._decide(data)
        return self._verdict

    def _decide(self, data: bytes) -> bool | None:
        if self._head is not None:
            self._head += data
            head = bytes(self._head.lstrip())
            lowered = head[: len(_HEADER)].lower()
            if head[:1] in {b"{", b"["}:
                data = head
            elif not _HEADER.startswith(lowered):
                return False
            elif (end := head.find(b"\r\n\r\n")) >= 0:
                data, self._is_framed = head[end + 4 :], True
            else:
                return None if len(self._head) < _HEADER_BYTES else False
            self._head = None
        text, line_end, _ = (self._tail + data).partition(b"\n")
        if self._is_framed:
            text, line_end = self._tail + data, b""
        if _VERSION.search(text):
            return True
        self._searched_bytes += len(data)
        self._tail = text[-_VERSION_BYTES:]
        return False if line_end or self._searched_bytes > _SEARCHED_BYTES else None
