"""The hooks of a sink, all doing nothing: a sink overrides those it wants."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from sslsniff.core.fast_path import Consumer
from sslsniff.core.losses import Loss
from sslsniff.core.model import (
    Chunk,
    Connection,
    Direction,
    Exchange,
    Handshake,
    InnerMessage,
    NotProbed,
)
from sslsniff.core.redacted import SecretTotals
from sslsniff.decoders.messages import Frame, Http2Totals, Side, Undecoded, WindowUse

_MOST_FAILURES = 256

CAPTURE_ENDED = "capture ended"
"""The error of an exchange that was still open when the capture ended."""


LEAST_IDLE_NS = 1_000_000_000
"""So long a session is idle in a transaction at the end that a summary names."""
MOST_IDLE_SESSIONS = 100
"""Of a summary; a person reads no more."""


class IdleSession(NamedTuple):
    """A session with a database that was idle in a transaction when the capture ended."""

    connection: Connection
    idle_ns: int


@dataclass(slots=True)
class HandshakeCounts:
    """How many TLS handshakes were seen.

    ``seen``: those of connections, too. ``failures``: kind and text -> how many failed so, of the
    first ``_MOST_FAILURES`` kinds and texts. ``unused``: after which no data passed.
    """

    seen: int = 0
    failed: int = 0
    unused: int = 0
    failures: dict[tuple[str, str], int] = field(default_factory=dict)

    def add(self, handshake: Handshake) -> None:
        """Count a handshake without data, or one that failed though data passed."""
        self.seen += not handshake.has_data
        if not handshake.end.is_failure:
            self.unused += 1
            return
        self.failed += 1
        key = handshake.end.kind, handshake.end.text
        if key in self.failures or len(self.failures) < _MOST_FAILURES:
            self.failures[key] = self.failures.get(key, 0) + 1


@dataclass(slots=True)
class TreeCounts:
    """What was joined. ``trees``: how many there are, also of one exchange only.

    ``ends``: exchanges that both ends of a connection saw. ``joined``: those that a process made
    for a request that it served. ``ambiguous``: left apart, as several requests with their id fit;
    ``too_old``: as those that may fit were forgotten.
    """

    trees: int = 0
    ends: int = 0
    joined: int = 0
    ambiguous: int = 0
    too_old: int = 0


@dataclass(slots=True)
class Summary:
    """The figures of a whole capture.

    ``exchanges``: None if nothing was decoded. ``shown``: those that matched a filter;
    ``shown_connections``, ``shown_bytes``: connections with such an exchange, and their plaintext;
    None without a filter. All other figures are of everything that was captured.
    ``joined``: connections whose beginning was not seen. ``unplaced_bytes``: of connections all of
    whose events were lost. ``left_out``: connections that sampling left out, counted nowhere else.
    ``not_probed``: None in capture files. ``began_ns``: when the first connection was seen.
    ``without_request``: responses on joined connections whose requests were not seen.
    ``without_text``: statements to databases whose text was not seen. ``tests_sql``: whether a
    filter tests such texts. ``idle_sessions``: those that were idle in a transaction at the end.
    ``trees``: None if they are not asked for.
    ``secrets``: that were blanked.
    """

    exchanges: int | None = None
    connections: int = 0
    bytes: int = 0
    duration_ns: int = 0
    losses: list[Loss] = field(default_factory=list)
    lossy_connections: list[Connection] = field(default_factory=list)
    unplaced_bytes: int = 0
    shown: int | None = None
    shown_connections: int | None = None
    shown_bytes: int | None = None
    joined: int = 0
    left_out: int | None = None
    not_probed: list[NotProbed] | None = None
    evictions: int = 0
    began_ns: int | None = None
    handshakes: HandshakeCounts = field(default_factory=HandshakeCounts)
    without_request: int = 0
    without_text: int = 0
    tests_sql: bool = False
    trees: TreeCounts | None = None
    idle_sessions: list[IdleSession] = field(default_factory=list)
    secrets: SecretTotals = field(default_factory=SecretTotals)


class FlowControlStall(NamedTuple):
    """``side`` may not send since ``since_ns``: a flow-control window is 0 (RFC 9113 section 5.2).

    ``stream`` 0 is the connection's window, on which all streams wait. ``use``: who uses up the
    window, None if that is not known. ``requests``: of streams that it names, the method and the
    path, such as ``GET /report``, as far as they are known.
    """

    stream: int
    side: Side
    since_ns: int
    is_over: bool
    use: WindowUse | None = None
    requests: Mapping[int, str] = MappingProxyType({})


class DeliveryCount(NamedTuple):
    """How many items, such as spans, a ``receiver`` took, and how many were dropped."""

    receiver: str
    delivered: int
    dropped: int


class Sink:
    """Base of all sinks. Hooks come in the order in which things happened."""

    wants_bodies = False
    """Whether exchanges must carry body bytes, not only their sizes."""

    wants_plaintext = False
    """Whether chunks with data are wanted, not only losses."""

    wants_messages = True
    """Whether anything decoded is wanted: exchanges or frames."""

    wants_stalls = False
    """Whether flow-control stalls are wanted also where frames are not asked for."""

    wants_trees = False
    """Whether exchanges are wanted in trees also where lines are not."""

    wants_only_model_calls = False
    """Whether only exchanges with a model call are wanted; the sink gets them before others do."""

    def decoded_by(self, is_idle: Callable[[Connection], bool]) -> None:
        """Get what says whether a connection is between two exchanges; called first, once.

        Then all bytes that were passed on so far are those of whole messages.
        """

    def opened(self, connection: Connection, time_ns: int) -> None:
        """Handle a connection that is seen for the first time."""

    def chunk(self, chunk: Chunk) -> None:
        """Handle plaintext as captured, or a loss."""

    def consumer(self, connection: Connection, direction: Direction) -> Consumer | None:
        """Return the fast path's consumer of the next bytes; None: pass them as chunks."""
        return None

    def began(self, exchange: Exchange) -> None:
        """Handle an exchange that begins: the head of its request or its statement is known."""

    def exchange(self, exchange: Exchange) -> None:
        """Handle an exchange that ended."""

    def handshake(self, handshake: Handshake) -> None:
        """Handle a TLS handshake after which no data passed."""

    def frame(self, connection: Connection, frame: Frame, time_ns: int, tid: int) -> None:
        """Handle an HTTP/2 frame as it was sent."""

    def stall(self, connection: Connection, stall: FlowControlStall, time_ns: int) -> None:
        """Handle a side that waits, or waited, for flow control on an HTTP/2 connection.

        Called when a stall has lasted for a while, and when it is over.
        """

    def frame_totals(self, connection: Connection, totals: Http2Totals, time_ns: int) -> None:
        """Handle the sums over an HTTP/2 connection's frames, at its end or the capture's."""

    def message(self, inner: InnerMessage) -> None:
        """Handle a message of a protocol inside HTTP, as soon as it is complete."""

    def unknown(self, connection: Connection, side: Side, first: bytes, time_ns: int) -> None:
        """Handle a protocol that is unknown some time after ``side`` sent the ``first`` bytes.

        They and all later bytes come as ``undecoded``, unless a protocol is recognised in them.
        """

    def undecoded(self, connection: Connection, message: Undecoded, time_ns: int) -> None:
        """Handle bytes that no decoder could read."""

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """Handle the end of one direction; the connection stays open."""

    def closed(self, connection: Connection, time_ns: int) -> None:
        """Handle the end of a connection."""

    def left_open(self, connection: Connection) -> None:
        """Handle the end of the capture where a connection is still open."""

    def summary(self, summary: Summary) -> None:
        """Handle the figures of the whole capture; after it come only ``flush`` and ``close``."""

    def tick(self, now_ns: int) -> None:
        """Handle that it is ``now_ns``, by the clock of the events."""

    def flush(self) -> None:
        """Write what is buffered; called when the source pauses."""

    def deliveries(self) -> list[DeliveryCount]:
        """Return what was sent to other programs so far."""
        return []

    def persist(self) -> None:
        """Store or deliver what was handled, so that it outlives this process.

        Raises ``OutputError`` if it was dropped.
        """
        self.flush()

    def close(self) -> None:
        """Finish; the sink is not used again."""
