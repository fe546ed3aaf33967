"""Searches one side's bytes for the proof of a protocol.

A connection that was seen from its beginning has the protocol that it begins with. What its later
bytes look like proves nothing: mail, logs and messages of brokers contain the text of HTTP.

Of one that was joined in its middle, the next message may begin anywhere. It is believed where one
usually begins: at the first byte of a side, after a loss, and after the other side sent something.
Elsewhere it takes two messages in a row, as those of pipelining.
"""

from sslsniff.decoders.chain import ChainSync
from sslsniff.decoders.databases.database_search import DatabaseSearch
from sslsniff.decoders.http1.consecutive_messages import ConsecutiveMessages
from sslsniff.decoders.http1.head import find_start, scan_rest
from sslsniff.decoders.http1.start_lines import begins_start
from sslsniff.decoders.http2.frames import PREFACE
from sslsniff.decoders.http2.sync import FrameSync
from sslsniff.decoders.inner.websocket_proof import proof_rule
from sslsniff.decoders.json_rpc.json_rpc_search import JsonRpcSearch, may_begin
from sslsniff.decoders.json_rpc.rpc_call import JSON_RPC
from sslsniff.decoders.messages import Side

HTTP1, HTTP2, WEBSOCKET = "http/1.1", "http/2", "websocket"
"""Protocols, as shown to users."""

_WINDOW_BYTES = 64 * 1024
_MOST_POSSIBLE = 4
"""Start lines in the middle of bytes that are followed at a time, until one is proved."""


class ProtocolSearch:
    """Searches one side's bytes for the proof of a protocol.

    ``may_be_inside``: the beginning was not seen, so the middle of a protocol is possible, too.
    Memory: eight windows of 64 KiB, and sixteen short WebSocket frames.
    """

    def __init__(self, side: Side, *, may_be_inside: bool) -> None:
        self.may_be_inside = may_be_inside
        self._side = side
        self._start: bytearray | None = bytearray()  # of what may begin with a message
        self._lines = bytearray()
        self._sync: FrameSync | None = FrameSync()
        self._databases = DatabaseSearch(side, may_be_inside=may_be_inside)
        self._json_rpc: JsonRpcSearch | None = None
        self._chain = ChainSync(proof_rule(side)) if may_be_inside else None
        self._messages: list[ConsecutiveMessages] = []
        self._start_room = _WINDOW_BYTES + 1
        self._seen = self._start_at = 0

    @property
    def held_bytes(self) -> int:
        """The memory that it uses."""
        parts = (self._sync, self._chain, *self._messages)
        held = sum(part.held_bytes for part in parts if part is not None)
        return len(self._lines) + len(self._start or b"") + held

    @property
    def is_foreign(self) -> bool:
        """Whether the beginning was seen, and is that of no HTTP."""
        return not self.may_be_inside and self._start is None and self._sync is None

    @property
    def is_new(self) -> bool:
        """Whether it was fed nothing."""
        return not self._seen

    def note_turn(self) -> None:
        """Note that the other side has sent something: a message may begin here."""
        if self.may_be_inside and self._start is None:
            self._start, self._start_room = bytearray(), _WINDOW_BYTES + 1

    def feed(self, data: bytes) -> str | None:
        """Feed bytes; return the protocol whose proof ends first, None if there is no proof."""
        database = self._databases.feed(data)
        if database is not None:
            return database
        if not (self._seen or self.may_be_inside) and may_begin(data):
            self._json_rpc = JsonRpcSearch()
        if self._json_rpc is not None and self._json_rpc.feed(data):
            return JSON_RPC
        proofs: list[tuple[int, str]] = []
        end = self._message_begun(data)
        if end:
            proofs.append((end, HTTP1))
        elif self.may_be_inside and self._has_messages(data):
            proofs.append((self._seen + len(data), HTTP1))
        sync = self._sync
        if sync is not None:
            before = self._seen - len(sync.buffer)
            found = sync.feed(data)
            if found and (self.may_be_inside or self._begins_with_frame(sync, found[0])):
                proofs.append((before + found[1], HTTP2))
            elif self.may_be_inside:
                sync.drop(sync.droppable())
            elif not self._begins_with_frame(sync, sync.droppable()):
                self._sync = None
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

    def _begins_with_frame(self, sync: FrameSync, start: int) -> bool:
        """Return whether a side may begin with a frame, or the client's preface, at ``start``."""
        if self._side is Side.CLIENT:
            return PREFACE.startswith(bytes(sync.buffer[: len(PREFACE)]))
        return not start

    def _message_begun(self, data: bytes) -> int:
        """Return where the proof of a message ends that begins where one usually does; else 0."""
        if self._start is None:
            return 0
        text = self._start
        if not text:  # empty lines before a start line are no part of it
            self._start_at = self._seen
        added = data[: self._start_room]
        self._start_room -= len(added)
        text += added
        if text[:1] in b"\r\n":
            empty_bytes = len(text) - len(text.lstrip(b"\r\n"))
            self._start_at += empty_bytes
            del text[:empty_bytes]
        begins = begins_start(self._side, bytes(text))
        if begins is None:
            return 0
        stop = text.find(b"\n") + 1
        if begins and self.may_be_inside:
            if b"\n" not in added and self._start_room:
                return 0  # bytes may come one by one: only whole lines are searched
            found = find_start(self._side, text, 0)
            begins = found is not None and not found[0]
            if not begins and text.count(b"\n") < 2 and self._start_room:
                return 0  # the line after it decides
            stop = found[1] if found is not None else 0
        end = self._start_at + stop
        self._start = None
        return end if begins else 0

    def _has_messages(self, data: bytes) -> bool:
        """Return whether two messages in a row are somewhere in the bytes."""
        for messages in self._messages:
            messages.feed(data)
        lines = self._lines
        lines += data
        pos = 0
        has_line = b"\n" in data  # without one, there is no new start: bytes may come one by one
        while has_line and (found := find_start(self._side, lines, pos)) is not None:
            if len(self._messages) < _MOST_POSSIBLE:
                self._messages.append(ConsecutiveMessages(self._side, bytes(lines[found[0] :])))
            pos = found[1]
        if has_line or len(lines) > 2 * _WINDOW_BYTES:
            del lines[: scan_rest(lines, pos)]
        if any(messages.is_proven for messages in self._messages):
            return True
        self._messages = [each for each in self._messages if not each.has_failed]
        return False
