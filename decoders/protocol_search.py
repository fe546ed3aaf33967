"""Searches one side's bytes for the proof of a protocol."""

from sslsniff.decoders.chain import ChainSync
from sslsniff.decoders.databases.database_search import DatabaseSearch
from sslsniff.decoders.http1.head import find_start, parse_start_line, scan_rest
from sslsniff.decoders.http2.sync import FrameSync
from sslsniff.decoders.inner.websocket_proof import proof_rule
from sslsniff.decoders.messages import Side

HTTP1, HTTP2, WEBSOCKET = "http/1.1", "http/2", "websocket"
"""Protocols, as shown to users."""

_WINDOW_BYTES = 64 * 1024


class ProtocolSearch:
    """Searches one side's bytes for the proof of a protocol.

    ``may_be_inside``: WebSocket is possible, too. It begins with HTTP, so only where the beginning
    was not seen. Memory: two windows of 64 KiB, and sixteen short WebSocket frames.
    """

    def __init__(self, side: Side, *, may_be_inside: bool) -> None:
        self._side = side
        self._lines = bytearray()
        self._sync = FrameSync()
        self._databases = DatabaseSearch(side, may_be_inside=may_be_inside)
        self._chain = ChainSync(proof_rule(side)) if may_be_inside else None
        self._seen = 0
        self._is_first_line = True

    @property
    def held_bytes(self) -> int:
        """The memory that it uses."""
        chain_bytes = self._chain.held_bytes if self._chain is not None else 0
        return len(self._lines) + self._sync.held_bytes + chain_bytes

    def feed(self, data: bytes) -> str | None:
        """Feed bytes; return the protocol whose proof ends first, None if there is no proof."""
        database = self._databases.feed(data)
        if database is not None:
            return database
        proofs: list[tuple[int, str]] = []
        line_end = self._line_proof(data)
        if line_end is not None:
            proofs.append((line_end, HTTP1))
        before = self._seen - len(self._sync.buffer)
        found = self._sync.feed(data)
        if found:
            proofs.append((before + found[1], HTTP2))
        else:
            self._sync.drop(self._sync.droppable())
        chain = self._chain
        if chain is not None:
            before = self._seen - len(chain.buffer)
            found = chain.feed(data)
            if found:
                proofs.append((before + found[1], WEBSOCKET))
            else:
                chain.drop(chain.droppable())
        self._seen += len(data)
        return min(proofs)[1] if proofs else None

    def _line_proof(self, data: bytes) -> int | None:
        lines = self._lines
        before = self._seen - len(lines)
        lines += data
        if b"\n" not in data:
            if len(lines) > 2 * _WINDOW_BYTES:
                del lines[: scan_rest(lines, 0)]
                self._is_first_line = False
            return None
        if self._is_first_line:
            # One line is enough at the start of a connection.
            text = lines.lstrip(b"\r\n")
            end = text.find(b"\n")
            if end >= 0:
                self._is_first_line = False
                if parse_start_line(self._side, bytes(text[:end]).removesuffix(b"\r")):
                    return before + len(lines) - len(text) + end + 1
        found = find_start(self._side, lines, 0)
        if found:
            return before + found[1]
        del lines[: scan_rest(lines, 0)]
        return None
