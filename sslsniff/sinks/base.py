"""The hooks of a sink, all doing nothing: a sink overrides those it wants."""

from sslsniff.decoders.messages import Frame, Http2Totals, Side, Undecoded
from sslsniff.fast_path import Consumer
from sslsniff.model import (
    Chunk,
    Connection,
    Direction,
    Exchange,
    FlowControlStall,
    InnerMessage,
    Summary,
)


class Sink:
    """Base of all sinks. Hooks come in the order in which things happened."""

    wants_bodies = False
    """Whether exchanges must carry body bytes, not only their sizes."""

    wants_plaintext = False
    """Whether chunks with data are wanted, not only losses."""

    wants_messages = True
    """Whether anything decoded is wanted: exchanges or frames."""

    def opened(self, connection: Connection, time_ns: int) -> None:
        """Note a connection seen for the first time."""

    def chunk(self, chunk: Chunk) -> None:
        """Take plaintext as captured, or a loss."""

    def consumer(self, connection: Connection, direction: Direction) -> Consumer | None:
        """Return the fast path's consumer of the next bytes; None: pass them as chunks."""
        return None

    def exchange(self, exchange: Exchange) -> None:
        """Take an exchange that ended."""

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """Take an HTTP/2 frame as it passed."""

    def stall(self, connection: Connection, stall: FlowControlStall, time_ns: int) -> None:
        """Note that a side waits, or waited, for flow control on an HTTP/2 connection.

        Called once while it lasts, when it has lasted for a while, and when it is over.
        """

    def frame_totals(self, connection: Connection, totals: Http2Totals, time_ns: int) -> None:
        """Take what the frames of an HTTP/2 connection came to, at its end or the capture's."""

    def message(self, inner: InnerMessage) -> None:
        """Take a message of a protocol inside HTTP, as soon as it is whole."""

    def unknown(self, connection: Connection, side: Side, first: bytes, time_ns: int) -> None:
        """Note that a protocol is unknown a while after ``side`` sent the first bytes.

        These, and all that follow, come as ``undecoded`` later, unless something in them is
        recognised.
        """

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """Note bytes that no decoder could read."""

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """Note that nothing follows in one direction, though the connection stays."""

    def closed(self, connection: Connection, time_ns: int) -> None:
        """Note a connection's end."""

    def summary(self, summary: Summary) -> None:
        """Take the figures of the whole capture: the last hook but ``close``."""

    def flush(self) -> None:
        """Make what was taken visible; called when the source pauses."""

    def close(self) -> None:
        """Finish; the sink is not used again."""
