"""Chooses a decoder by the first bytes of a connection, and another when its protocol changes.

The protocol comes from ALPN (RFC 7301), from a switch of protocols (RFC 9110 section 7.8), or from
the bytes of a side, which prove it.
"""

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from sslsniff.decoders.databases.database_search import MYSQL, POSTGRESQL, REDIS
from sslsniff.decoders.decoder import CLOSED, Decoder, Switch
from sslsniff.decoders.http1.head import undecoded_name
from sslsniff.decoders.http1.http1_decoder import Http1Decoder
from sslsniff.decoders.http1.start_lines import begins_otherwise
from sslsniff.decoders.http2.http2_decoder import Http2Decoder
from sslsniff.decoders.inner.websocket import WebSocketDecoder
from sslsniff.decoders.json_rpc.rpc_call import JSON_RPC, PROTOCOLS
from sslsniff.decoders.messages import SIDES, Message, Side, Undecoded
from sslsniff.decoders.opaque import OpaqueDecoder
from sslsniff.decoders.preludes import NONE, SOCKS, Prelude, proxy_header, socks
from sslsniff.decoders.protocol_search import HTTP1, HTTP2, WEBSOCKET, ProtocolSearch
from sslsniff.decoders.tls_records import ENCRYPTED, begins_with_tls

if TYPE_CHECKING:
    from sslsniff.decoders.databases.database_decoder import DatabaseDecoder

_Switched = Callable[[Switch, list[Message]], None]
_Factory = Callable[[bool, _Switched], Decoder]
"""Makes a decoder, from whether HTTP/2 frames are wanted and what to call at a switch."""


# Few captures have these protocols, and the modules of their decoders take 10 ms to import.


def _postgresql_decoder(frames: bool, switched: _Switched) -> Decoder:
    from sslsniff.decoders.databases.postgresql.postgresql_decoder import PostgresqlDecoder

    return PostgresqlDecoder()


def _mysql_decoder(frames: bool, switched: _Switched) -> Decoder:
    from sslsniff.decoders.databases.mysql.mysql_decoder import MysqlDecoder

    return MysqlDecoder()


def _redis_decoder(frames: bool, switched: _Switched) -> Decoder:
    from sslsniff.decoders.databases.redis.redis_decoder import RedisDecoder

    return RedisDecoder()


def _json_rpc_decoder(frames: bool, switched: _Switched) -> Decoder:
    from sslsniff.decoders.json_rpc.json_rpc_decoder import JsonRpcDecoder

    return JsonRpcDecoder()


_DECODERS: dict[str, _Factory] = {
    HTTP1: lambda frames, switched: Http1Decoder(switched),
    HTTP2: lambda frames, switched: Http2Decoder(frames=frames),
    WEBSOCKET: lambda frames, switched: WebSocketDecoder(),
    POSTGRESQL: _postgresql_decoder,
    MYSQL: _mysql_decoder,
    REDIS: _redis_decoder,
    JSON_RPC: _json_rpc_decoder,
}

_DATABASES = (POSTGRESQL, MYSQL, REDIS)

_ALPN: dict[str, str] = {
    "h2": HTTP2,
    "http/1.1": HTTP1,
    "http/1.0": HTTP1,
    "postgresql": POSTGRESQL,
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

_BUFFER_BYTES = 64 * 1024
"""Memory of both sides' bytes until a protocol is proven."""
_SEARCH_GROWTH = 256
"""See ``Decoder.growth``: a single byte may be a piece and a possible start of a protocol."""
_CHECKED_BYTES = 64
"""Of a side, which show whether it keeps to an ALPN of HTTP/1."""
_LINE_BYTES = 8192  # of a first line that may name its protocol
_PIECE_BYTES = 128
"""Memory of a buffered piece beside its bytes: sides may take turns with single bytes."""


class Detector:
    """A decoder for a connection with an unknown protocol, or of which only the ALPN is known.

    It buffers until the bytes of either side prove a protocol. Then it feeds all buffered bytes,
    and later ones, to a decoder of that protocol. When the connection switches protocols, it
    changes the decoder. Bytes beyond the buffer are undecoded, and the search continues: a capture
    may join in the middle of a long body. ``from_start``: it did not join in the middle. Then it
    searches where ALPN says HTTP/1, too, if the first bytes are none: some clients and servers
    agree on it for another protocol. ``database_found`` is called with the decoder of a database.

    Memory: ``_BUFFER_BYTES`` and two searches (under 360 KiB in all) until a decoder is found,
    then the decoder's own.
    """

    def __init__(
        self,
        alpn: str | None = None,
        *,
        frames: bool = False,
        from_start: bool = False,
        database_found: "Callable[[DatabaseDecoder], None] | None" = None,
    ) -> None:
        self.feed: Callable[[Side, bytes], list[Message]] = self._search
        """See ``Decoder``. Once there is a decoder, it is the decoder's method."""
        self.growth = _SEARCH_GROWTH
        """See ``Decoder``."""
        self._frames = frames
        self._from_start = from_start
        self._database_found = database_found
        self._decoder: Decoder | None = None
        self._buffered: deque[tuple[Side, bytearray | int]] = deque()
        """Bytes, or the size of a loss, by the side that sent them."""
        self._buffered_bytes = 0
        self._ended: list[Side] = []
        self._opaque = OpaqueDecoder()
        self._is_named = False
        self._searches: dict[Side, ProtocolSearch] = {}
        self._last_side: Side | None = None
        self._first: dict[Side, bytes] = {}
        """The first bytes of each side, until it is known whether they are a prelude."""
        self._preludes: dict[Side, Prelude] = {}
        self._tunnels = 0
        self._is_foreign = False  # its beginning was seen, and is that of no protocol
        known = _ALPN.get(alpn or "")
        self._checked = {side: b"" for side in SIDES if known == HTTP1 and from_start}
        """The first bytes of each side, while they may contradict ALPN."""
        if self._checked:
            self.feed = self._check
        elif known is not None:
            self._use(_DECODERS[known](frames, self._switch_decoder))
        else:
            self._begin_search()

    def _begin_search(self) -> None:
        self._has_begun = self._is_foreign = False
        self._searches = {side: self._new_search(side) for side in SIDES}
        self._first = dict.fromkeys(SIDES, b"") if self._from_start else {}
        self._preludes = {}
        self._last_side = None

    def _new_search(self, side: Side) -> ProtocolSearch:
        return ProtocolSearch(side, may_be_inside=not self._from_start)

    @property
    def protocol(self) -> str:
        """The protocol, ``unknown`` until it is proven."""
        if self._checked:
            return HTTP1
        return self._decoder.protocol if self._decoder is not None else self._opaque.protocol

    @property
    def is_idle(self) -> bool:
        """Whether the protocol is known and, if its decoder can tell, no message came in part."""
        if self._checked or self._decoder is None:
            return False
        return bool(getattr(self._decoder, "is_idle", True))

    def _check(self, side: Side, data: bytes) -> list[Message]:
        """Buffer the first bytes until a side begins with a start line, or with something else."""
        self._buffer(side, data)
        first = self._checked[side] = (self._checked[side] + data).lstrip(b"\r\n")[:_CHECKED_BYTES]
        if begins_otherwise(side, first):
            self._checked.clear()
            self.feed = self._search
            self._begin_search()
            return self._feed_buffered()
        return self._believe_alpn() if b"\n" in first or len(first) == _CHECKED_BYTES else []

    def _believe_alpn(self) -> list[Message]:
        self._checked.clear()
        return self._start_decoder(_DECODERS[HTTP1](self._frames, self._switch_decoder))

    def _search(self, side: Side, data: bytes) -> list[Message]:
        if not data:
            return []
        self._has_begun = True
        search = self._searches[side]
        if self._last_side is not side:
            search.note_turn()
            self._last_side = side
        self._buffer(side, data)
        first = self._first.pop(side, None)
        if first is not None:
            data = self._without_prelude(side, first + data)
        elif search.is_new and begins_with_tls(data):
            return self._start_decoder(OpaqueDecoder(reason=ENCRYPTED))
        if not data or (self._is_foreign and search.may_be_inside):
            return self._drop_oldest()
        if first is not None and begins_with_tls(data):
            return self._start_decoder(OpaqueDecoder(reason=ENCRYPTED))
        proven = search.feed(data)
        self._is_foreign |= search.is_foreign
        if proven is None:
            return self._drop_oldest()
        return self._start_decoder(_DECODERS[proven](self._frames, self._switch_decoder))

    def _without_prelude(self, side: Side, data: bytes) -> bytes:
        """Return the first bytes of a side after what a proxy sent; empty until that is known."""
        prelude: Prelude | None = NONE
        if side is Side.CLIENT:
            prelude = proxy_header(data)
            if prelude is NONE:
                prelude = socks(side, data)
        elif self._preludes.get(Side.CLIENT, NONE).name == SOCKS or data[:1] == b"\x05":
            prelude = socks(side, data)
        if prelude is None:
            self._first[side] = data
            return b""
        self._preludes[side] = prelude
        return data[prelude.size :]

    def _use(self, decoder: Decoder) -> None:
        self._decoder = decoder
        if self._database_found is not None and decoder.protocol in _DATABASES:
            from sslsniff.decoders.databases.database_decoder import DatabaseDecoder

            assert isinstance(decoder, DatabaseDecoder)
            self._database_found(decoder)
        self.feed = decoder.feed
        self.growth = decoder.growth

    def gap(self, side: Side, missing: int) -> list[Message]:
        """Note lost bytes."""
        out = self._believe_alpn() if self._checked else []
        if self._decoder is not None:
            return out + self._decoder.gap(side, missing)
        if missing <= 0:
            return []
        if not self._has_begun:
            self._from_start = False  # what was lost may have been the beginning of a WebSocket
            self._begin_search()
        search = self._searches[side]
        if not search.is_foreign:
            self._first.pop(side, None)
            self._searches[side] = ProtocolSearch(side, may_be_inside=True)
        self._buffered.append((side, missing))
        self._buffered_bytes += _PIECE_BYTES
        return self._drop_oldest()

    @property
    def held_bytes(self) -> int:
        """See ``Decoder``."""
        if self._decoder is not None:
            return self._decoder.held_bytes
        return self._buffered_bytes + sum(search.held_bytes for search in self._searches.values())

    def end(self, side: Side, reason: str = CLOSED) -> list[Message]:
        """See ``Decoder``; if both sides ended without proof, the buffered bytes are undecoded."""
        out = self._believe_alpn() if self._checked else []
        if self._decoder is not None:
            return out + self._decoder.end(side, reason)
        self._ended.append(side)
        if reason != CLOSED:
            self._opaque = OpaqueDecoder(reason=reason)
        self._searches[side] = self._new_search(side)
        return self.finish() if len(self._ended) == len(SIDES) else []

    @property
    def preludes(self) -> dict[Side, Prelude]:
        """What a proxy sent before the protocol, on each side whose first bytes were decided."""
        return self._preludes

    def successor(self) -> "Detector":
        """Return a new decoder for the next bytes, which starts as after a loss."""
        alpn = next((name for name, known in _ALPN.items() if known == self.protocol), None)
        successor = Detector(alpn, frames=self._frames, database_found=self._database_found)
        if self._is_foreign or isinstance(self._decoder, OpaqueDecoder):
            successor._use(self._decoder or self._opaque)
        elif self.protocol in PROTOCOLS:
            successor._use(_DECODERS[JSON_RPC](False, self._switch_decoder))
            for side in SIDES:
                successor.gap(side, 1)
        elif alpn is not None:
            for side in SIDES:
                successor.gap(side, 1)
        return successor

    def finish(self) -> list[Message]:
        """Report buffered bytes as undecoded, or the totals of HTTP/2: no more bytes come."""
        if self._checked:
            return self._believe_alpn()
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
                self._preludes.clear()
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

    def _start_decoder(self, decoder: Decoder) -> list[Message]:
        self._use(decoder)
        self._searches.clear()
        return self._feed_buffered()

    def _feed_buffered(self) -> list[Message]:
        buffered, self._buffered = self._buffered, deque()
        ended, self._ended = self._ended, []
        self._buffered_bytes = 0
        out: list[Message] = []
        before = {side: prelude for side, prelude in self._preludes.items() if prelude.size}
        for side, piece in buffered:
            if side in before and not isinstance(piece, int):
                size, name = before[side]
                first = bytes(piece[:size])
                del piece[:size]
                out.append(Undecoded(side, first, len(first), name))
                before[side] = Prelude(size - len(first), name)
                if size == len(first):
                    del before[side]
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
