"""Chooses a decoder by the first bytes of a connection, and another when its protocol changes.

The protocol comes from ALPN (RFC 7301), from a switch of protocols (RFC 9110 section 7.8), or from
the bytes of a side, which prove it.
"""

import re
from collections import deque
from collections.abc import Callable

from sslsniff.decoders.chain import ChainSync
from sslsniff.decoders.decoder import CLOSED, Decoder, Switch
from sslsniff.decoders.http1.head import (
    find_start,
    parse_start_line,
    scan_rest,
    undecoded_name,
)
from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.http2 import Http2Decoder
from sslsniff.decoders.http2.frames import (
    END_HEADERS,
    HEADER_SIZE,
    HEADERS,
    PREFACE,
    PUSH_PROMISE,
    SETTINGS,
    strip,
)
from sslsniff.decoders.http2.hpack import HpackDecoder
from sslsniff.decoders.http2.sync import FrameSync, frame_length
from sslsniff.decoders.inner.websocket import WebSocketDecoder, frames_sender
from sslsniff.decoders.inner.websocket_proof import proof_rule
from sslsniff.decoders.messages import Message, Side
from sslsniff.decoders.opaque import OpaqueDecoder

_Switched = Callable[[Switch, list[Message]], None]
_Factory = Callable[[bool, _Switched], Decoder]
"""Makes a decoder, from whether HTTP/2 frames are wanted and what to call at a switch."""

_HTTP1 = "http/1.1"
_HTTP2 = "http/2"
_WEBSOCKET = "websocket"

_DECODERS: dict[str, _Factory] = {
    _HTTP1: lambda frames, switched: Http1Decoder(switched),
    _HTTP2: lambda frames, switched: Http2Decoder(frames=frames),
    _WEBSOCKET: lambda frames, switched: WebSocketDecoder(),
}

_ALPN: dict[str, str] = {
    "h2": _HTTP2,
    "http/1.1": _HTTP1,
    "http/1.0": _HTTP1,
}
"""Protocols by ALPN; for any other value, the bytes decide."""

_SWITCHES: dict[str, Callable[[Switch, bool], Decoder]] = {
    "h2c": lambda switch, frames: Http2Decoder(frames=frames, upgraded=True),
    "websocket": lambda switch, frames: WebSocketDecoder(switch.stream, switch.headers),
}
"""Decoders by the token that a connection switched to; any other is opaque."""

_TUNNEL = "connect"
_IN_TUNNEL = "inside a CONNECT tunnel"
_MAX_TUNNELS = 8
"""Nested tunnels that are decoded; a chain of proxies is shorter."""

# The first word of a start line: a method (RFC 9110 section 5.6.2), or a version.
_FIRST_WORD = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z/-]+\s")

_BUFFER_BYTES = 64 * 1024
"""Memory of both sides' bytes until a protocol is proven."""
_SEARCH_GROWTH = 256
"""See ``Decoder.growth``: a single byte may be a piece and a possible start of a protocol."""
_LINE_BYTES = 8192  # of a first line that may name its protocol
_PIECE_BYTES = 128
"""Memory of a buffered piece beside its bytes: sides may take turns with single bytes."""


def guess_sender(data: bytes) -> Side | None:
    """Return the side that sent these bytes; None if they do not show it.

    The bytes may begin in the middle of a message: the first start of a message in them decides.
    """
    if PREFACE.startswith(data[: len(PREFACE)]) and len(data) >= len("PRI"):
        return Side.CLIENT
    line = data.lstrip(b"\r\n").split(b"\n", 1)[0].removesuffix(b"\r")
    for side in Side:
        if parse_start_line(side, line) is not None:
            return side
    sync = FrameSync()
    found = sync.feed(data)
    if found is None and frame_length(data, 0) >= 0:
        found = (0, len(data))
    if found is not None:
        return _frames_sender(data, found[0])
    starts = [(find_start(side, data, 0), side) for side in Side]
    proven = [(start, side) for start, side in starts if start is not None]
    return min(proven, key=lambda found: found[0])[1] if proven else frames_sender(data)


def starts_message(data: bytes) -> bool:
    """Return whether these bytes begin with a message or an HTTP/2 frame."""
    if data.startswith(PREFACE):
        return True
    if _FIRST_WORD.match(data):
        line = data[:4096].split(b"\n", 1)[0].removesuffix(b"\r")
        if any(parse_start_line(side, line) is not None for side in Side):
            return True
    length = frame_length(data, 0)
    if length < 0:
        return False
    after = HEADER_SIZE + length
    return after + HEADER_SIZE > len(data) or frame_length(data, after) >= 0


def _frames_sender(data: bytes, at: int) -> Side | None:
    """Return the sender by frames that only one side sends (RFC 9113 sections 6.6 and 8.3).

    SETTINGS at first are a server's, as a client's follow its preface (section 3.4): unless that
    was not captured, which later frames show.
    """
    sender = Side.SERVER if _begins_with_settings(data) and at == 0 else None
    while (length := frame_length(data, at)) >= 0:
        kind, flags = data[at + 3], data[at + 4]
        payload = data[at + HEADER_SIZE : at + HEADER_SIZE + length]
        if kind == PUSH_PROMISE:
            return Side.SERVER
        if kind == HEADERS and flags & END_HEADERS and len(payload) == length:
            fields, _ = HpackDecoder().decode(strip(kind, flags, payload) or b"")
            names = {name for name, _ in fields}
            if ":status" in names:
                return Side.SERVER
            if names & {":method", ":path", ":scheme", ":authority"}:
                return Side.CLIENT
        at += HEADER_SIZE + length
    return sender


def _begins_with_settings(data: bytes) -> bool:
    return frame_length(data, 0) >= 0 and data[3] == SETTINGS and not data[4]


class _ProtocolSearch:
    """Searches one side's bytes for the proof of a protocol.

    ``may_be_inside``: WebSocket is possible, too. It begins with HTTP, so only where the beginning
    was not seen. Memory: two windows of 64 KiB, and sixteen short WebSocket frames.
    """

    def __init__(self, side: Side, *, may_be_inside: bool) -> None:
        self._side = side
        self._lines = bytearray()
        self._sync = FrameSync()
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
        proofs: list[tuple[int, str]] = []
        line_end = self._line_proof(data)
        if line_end is not None:
            proofs.append((line_end, _HTTP1))
        before = self._seen - len(self._sync.buffer)
        found = self._sync.feed(data)
        if found:
            proofs.append((before + found[1], _HTTP2))
        else:
            self._sync.drop(self._sync.droppable())
        chain = self._chain
        if chain is not None:
            before = self._seen - len(chain.buffer)
            found = chain.feed(data)
            if found:
                proofs.append((before + found[1], _WEBSOCKET))
            else:
                chain.drop(chain.droppable())
        self._seen += len(data)
        return min(proofs)[1] if proofs else None

    def _line_proof(self, data: bytes) -> int | None:
        lines = self._lines
        before = self._seen - len(lines)
        lines += data
        if b"\n" not in data:
            if len(lines) > 2 * _BUFFER_BYTES:
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


class Detector:
    """A decoder for a connection with an unknown protocol, or of which only the ALPN is known.

    It buffers until the bytes of either side prove a protocol. Then it feeds all buffered bytes,
    and later ones, to a decoder of that protocol. When the connection switches protocols, it
    changes the decoder. Bytes beyond the buffer are undecoded, and the search continues: a capture
    may join in the middle of a long body. ``from_start``: it did not join in the middle.

    Memory: ``_BUFFER_BYTES`` and two searches (under 360 KiB in all) until a decoder is found,
    then the decoder's own.
    """

    def __init__(
        self, alpn: str | None = None, *, frames: bool = False, from_start: bool = False
    ) -> None:
        self.feed: Callable[[Side, bytes], list[Message]] = self._search
        """See ``Decoder``. Once there is a decoder, it is the decoder's method."""
        self.growth = _SEARCH_GROWTH
        """See ``Decoder``."""
        self._frames = frames
        self._from_start = from_start
        self._decoder: Decoder | None = None
        self._buffered: deque[tuple[Side, bytearray | int]] = deque()
        """Bytes, or the size of a loss, by the side that sent them."""
        self._buffered_bytes = 0
        self._ended: list[Side] = []
        self._opaque = OpaqueDecoder()
        self._is_named = False
        self._searches: dict[Side, _ProtocolSearch] = {}
        self._tunnels = 0
        known = _ALPN.get(alpn or "")
        if known is not None:
            self._use(_DECODERS[known](frames, self._switch_decoder))
        else:
            self._begin_search()

    def _begin_search(self) -> None:
        self._searches = {side: self._new_search(side) for side in Side}

    def _new_search(self, side: Side) -> _ProtocolSearch:
        return _ProtocolSearch(side, may_be_inside=not self._from_start)

    @property
    def protocol(self) -> str:
        """The protocol, ``unknown`` until it is proven."""
        return self._decoder.protocol if self._decoder is not None else self._opaque.protocol

    def _search(self, side: Side, data: bytes) -> list[Message]:
        if not data:
            return []
        proven = self._searches[side].feed(data)
        self._buffer(side, data)
        return self._drop_oldest() if proven is None else self._start_decoder(proven)

    def _use(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.feed = decoder.feed
        self.growth = decoder.growth

    def gap(self, side: Side, missing: int) -> list[Message]:
        """Note lost bytes."""
        if self._decoder is not None:
            return self._decoder.gap(side, missing)
        if missing <= 0:
            return []
        self._buffered.append((side, missing))
        self._buffered_bytes += _PIECE_BYTES
        self._from_start = False  # what was lost may have been the beginning of a WebSocket
        self._searches[side] = self._new_search(side)
        return self._drop_oldest()

    @property
    def held_bytes(self) -> int:
        """See ``Decoder``."""
        if self._decoder is not None:
            return self._decoder.held_bytes
        return self._buffered_bytes + sum(search.held_bytes for search in self._searches.values())

    def end(self, side: Side, reason: str = CLOSED) -> list[Message]:
        """See ``Decoder``; if both sides ended without proof, the buffered bytes are undecoded."""
        if self._decoder is not None:
            return self._decoder.end(side, reason)
        self._ended.append(side)
        if reason != CLOSED:
            self._opaque = OpaqueDecoder(reason=reason)
        self._searches[side] = self._new_search(side)
        return self.finish() if len(self._ended) == len(Side) else []

    def successor(self) -> "Detector":
        """Return a new decoder for the next bytes, which starts as after a loss."""
        alpn = next((name for name, known in _ALPN.items() if known == self.protocol), None)
        successor = Detector(alpn, frames=self._frames)
        if alpn is not None:
            for side in Side:
                successor.gap(side, 1)
        return successor

    def finish(self) -> list[Message]:
        """Report buffered bytes as undecoded, or the totals of HTTP/2: no more bytes come."""
        if isinstance(self._decoder, Http2Decoder):
            return self._decoder.totals()
        return self._drop_oldest(0)

    def _buffer(self, side: Side, data: bytes) -> None:
        self._buffered_bytes += len(data)
        if self._buffered and self._buffered[-1][0] is side:
            last = self._buffered[-1][1]
            if isinstance(last, bytearray):
                last += data
                return
        self._buffered.append((side, bytearray(data)))
        self._buffered_bytes += _PIECE_BYTES

    def _drop_oldest(self, most: int = _BUFFER_BYTES) -> list[Message]:
        """Report the oldest buffered bytes as undecoded, until the buffer uses ``most`` bytes."""
        out: list[Message] = []
        while self._buffered_bytes > most:
            side, oldest = self._buffered[0]
            if not self._is_named:
                self._name(side, oldest)
            if isinstance(oldest, int):
                out += self._opaque.gap(side, oldest)
            else:
                data = bytes(oldest[: self._buffered_bytes - most])
                del oldest[: len(data)]
                self._buffered_bytes -= len(data)
                out += self._opaque.feed(side, data)
                if oldest:
                    break
            del self._buffered[0]
            self._buffered_bytes -= _PIECE_BYTES
        return out

    def _name(self, side: Side, first: bytearray | int) -> None:
        """Name the protocol in the reports on undecoded bytes, if the first line does."""
        self._is_named = True
        line = b"" if isinstance(first, int) else bytes(first[:_LINE_BYTES]).partition(b"\n")[0]
        name = undecoded_name(side, line.removesuffix(b"\r"))
        if name is not None:
            self._opaque = OpaqueDecoder(reason=name)

    def _start_decoder(self, proven: str) -> list[Message]:
        self._use(_DECODERS[proven](self._frames, self._switch_decoder))
        buffered, self._buffered = self._buffered, deque()
        ended, self._ended = self._ended, []
        self._buffered_bytes = 0
        self._searches.clear()
        out: list[Message] = []
        for side, piece in buffered:
            # By self, not by the decoder: the connection may switch within the buffered bytes.
            if isinstance(piece, int):
                out += self.gap(side, piece)
            else:
                out += self.feed(side, bytes(piece))
        for side in ended:
            out += self.end(side)
        return out

    def _switch_decoder(self, switch: Switch, out: list[Message]) -> None:
        """Change to the decoder of a switch; search for the protocol inside a tunnel."""
        factory = _SWITCHES.get(switch.token)
        if factory is not None:
            self._use(factory(switch, self._frames))
        elif switch.token == _TUNNEL and self._tunnels < _MAX_TUNNELS:
            self._tunnels += 1
            self._decoder = None
            self.feed = self._search
            self.growth = _SEARCH_GROWTH
            self._opaque = OpaqueDecoder(reason=_IN_TUNNEL)
            self._from_start = True
            self._begin_search()
        else:
            self._use(OpaqueDecoder(reason=f"upgraded to {switch.token or 'nothing named'}"))
        for side, pending in switch.pending.items():
            if pending:
                out += self.feed(side, pending)
