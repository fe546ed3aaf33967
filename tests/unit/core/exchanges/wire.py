"""A connection that is driven by hand, through the real decoders."""

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Chunk, Connection, Direction, Exchange
from sslsniff.core.process import Process
from sslsniff.core.roles import Roles
from sslsniff.core.sink import Sink, Summary
from sslsniff.decoders.messages import Frame, Side, Undecoded

READ, WRITE = Direction.READ, Direction.WRITE


class Recorder(Sink):
    wants_bodies = True

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self.frames: list[Frame] = []
        self.totals: Summary | None = None
        self.unknowns: list[tuple[Side, bytes, int]] = []
        self.undecoded_bytes = 0

    def unknown(self, connection: Connection, side: Side, first: bytes, time_ns: int) -> None:
        self.unknowns.append((side, first, time_ns))

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        self.undecoded_bytes += message.size

    def exchange(self, exchange: Exchange) -> None:
        self.exchanges.append(exchange)

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        self.frames.append(frame)

    def summary(self, summary: Summary) -> None:
        self.totals = summary


class Wire:
    """One connection, driven by hand; a millisecond passes with each chunk."""

    def __init__(self, role: Side | None = Side.CLIENT, **options: object) -> None:
        self.sink = Recorder()
        self.builder = ExchangeBuilder([self.sink], **options)  # type: ignore[arg-type]
        self.connection = Connection("7-1", Process(7, "demo"), "openssl", role, True, 0)
        self.now_ns = 0
        self._roles = Roles()
        self.builder.opened(self.connection, 0)

    def pass_bytes(self, direction: Direction, data: bytes, missing: int = 0) -> None:
        self.now_ns += 1_000_000
        cause = LossCause.RING_FULL if missing else None
        if missing:
            self.connection.missing[LossCause.RING_FULL] = missing
        chunk = Chunk(self.connection, direction, self.now_ns, 70, 0, data, missing, cause)
        self._roles.observe(chunk)  # as flows do
        self.builder.chunk(chunk)

    def end_direction(self, direction: Direction) -> list[Exchange]:
        self.now_ns += 1_000_000
        self.builder.ended(self.connection, direction, self.now_ns)
        return self.sink.exchanges

    def end(self) -> list[Exchange]:
        self.builder.closed(self.connection, self.now_ns)
        self.builder.finish()
        return self.sink.exchanges


REQUEST = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"
RESPONSE = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
