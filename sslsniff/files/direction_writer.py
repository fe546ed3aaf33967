"""Writes the packets of one direction of a synthetic connection: see ``tcp_writer``."""

from typing import Protocol

from sslsniff.core.fast_path import HEAD_OF_DATA
from sslsniff.core.model import Direction
from sslsniff.core.ring_records import Records
from sslsniff.files import null_tls
from sslsniff.files.packets import ACK
from sslsniff.files.packing import KEPT_TEMPLATES, Endpoint, Template
from sslsniff.files.pcap import PacketWriter

SEGMENT_BYTES = null_tls.LARGEST_RECORD_BYTES
"""Most plaintext in a packet."""

SEARCHED_PACKETS = 8
"""In so many packets the start of a message is searched for, after the sides take turns."""

_TIME = 5  # the index of the time among the fields of HEAD_OF_DATA


class PacketConnection(Protocol):
    """The connection of two directions: see ``tcp_writer.SyntheticConnection``."""

    @property
    def is_elsewhere(self) -> bool:
        """Whether its next packet comes into another file than its last."""

    def enter_file(self, time_ns: int) -> None:
        """Go on in another file."""

    def prepare(self, writer: "DirectionWriter", time_ns: int, data: bytes | memoryview) -> None:
        """Prepare a packet that begins with ``data``."""

    def template(self, writer: "DirectionWriter", tid: int) -> Template:
        """Return the template of packets with a thread's plaintext."""

    def control_template(self, writer: "DirectionWriter", flags: int) -> Template:
        """Return the template of a packet without data."""


class DirectionWriter:
    """Writes one direction of a connection; its ``fast_path.Consumer``.

    ``start`` is the first bytes of its packets: the headers up to the sequence number. ``ended``
    says that no data follows, ``has_fin`` that its FIN is written.
    """

    __slots__ = (
        "_connection",
        "_packet_writer",
        "_templates",
        "acknowledgement",
        "direction",
        "ended",
        "has_fin",
        "start",
        "state",
    )

    start: bytes
    acknowledgement: Template
    """The template of packets that acknowledge what the peer sends."""

    def __init__(
        self,
        connection: PacketConnection,
        direction: Direction,
        packet_writer: PacketWriter,
        state: Endpoint,
    ) -> None:
        self.direction = direction
        self.ended = self.has_fin = False
        self.state = state
        self._connection = connection
        self._packet_writer = packet_writer
        self._templates: dict[int, Template] = {}

    @property
    def position(self) -> int:
        """See ``fast_path.Consumer``."""
        return self.state.position

    @property
    def last_ns(self) -> int:
        """See ``fast_path.Consumer``."""
        return self.state.last_ns

    @property
    def by_record(self) -> "DirectionWriter":
        """See ``fast_path.Consumer``."""
        return self

    def begin(self, start: bytes) -> None:
        """Continue in another synthetic connection, whose packets begin with ``start``."""
        self.start = start
        self.ended = self.has_fin = False
        self.state.looks = SEARCHED_PACKETS
        self._templates.clear()
        self.state.set_templates(())
        self.acknowledgement = self._connection.control_template(self, ACK)
        self.state.acknowledge_by(self.acknowledgement)

    def feed(self, time_ns: int, tid: int, data: bytes | memoryview) -> None:
        """See ``fast_path.Consumer``."""
        state = self.state
        self._connection.prepare(self, time_ns, data)
        for start in range(0, len(data), SEGMENT_BYTES):
            if start and self._packet_writer.is_full:
                self._connection.enter_file(time_ns)
            piece = data[start : start + SEGMENT_BYTES]
            self._packet_writer.next_packet(state, self._template(tid), time_ns, bytes(piece))

    def consume(self, key: int, records: Records, clock_offset_ns: int) -> None:
        """See ``fast_path.RecordConsumer``."""
        if self._connection.is_elsewhere:
            time_ns = HEAD_OF_DATA.unpack_from(records.data, records.position)[_TIME]
            self._connection.enter_file(time_ns + clock_offset_ns)
        self._packet_writer.follow(self.state, key, records, clock_offset_ns)

    def forget(self) -> None:
        """See ``fast_path.RecordConsumer``."""
        self._packet_writer.batch.forget(self.state)

    def flush(self) -> None:
        """See ``fast_path.RecordConsumer``."""
        self._packet_writer.flush()

    def _template(self, tid: int) -> Template:
        template = self._templates.get(tid)
        if template is None:
            if len(self._templates) >= KEPT_TEMPLATES:
                self._templates.clear()
            template = self._templates[tid] = self._connection.template(self, tid)
            self.state.set_templates(self._templates.values())
        return template
