"""RustlsConnections of connections are put together, whatever order their events come in."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.core import events
from sslsniff.core.fast_path import FastPath
from sslsniff.core.flows import Flows
from sslsniff.core.model import Address, Chunk, Connection, Direction
from sslsniff.libraries.rustls.joiner import MOST_WAITING_BYTES, WAIT_NS, RustlsConnections
from tests.chunks_only import ChunksOnly

READ, WRITE = Direction.READ, Direction.WRITE
R, W, R2, W2 = 101, 102, 103, 104
SOCKET, OTHER = 0xA000, 0xB000
CLIENT, SERVER = Address("192.0.2.1", 4000), Address("192.0.2.2", 443)


def opened(number: int, half: Direction | None, time_ns: int = 0, **facts: Any) -> events.Opened:
    event = events.Opened(time_ns, 7, number, 70, 0, "app", 0, None, from_start=True, half=half)
    return event._replace(**facts)


def data(number: int, half: Direction, position: int, told: bytes, time_ns: int = 0) -> events.Data:
    return events.Data(time_ns, 7, number, half, position, len(told), told)


def addresses(number: int, socket: int = SOCKET, port: int = 4000) -> events.Addresses:
    return events.Addresses(1, number, CLIENT._replace(port=port), SERVER, socket)


class Seen(ChunksOnly):
    """What a listener after the halves was told of each connection."""

    def __init__(self, *records: events.Record) -> None:
        self.connections: list[Connection] = []
        self.closed_ones: list[Connection] = []
        self.chunks: list[Chunk] = []
        self.halves = RustlsConnections(FastPath())
        self._flows = Flows(["rustls"], self)
        self.handle(*records)

    def handle(self, *records: events.Record) -> "Seen":
        for record in records:
            self.tell(self.halves.handle(record))
        return self

    def tell(self, events: Iterable[events.Event]) -> None:
        for event in events:
            assert getattr(event, "half", None) is None
            self._flows.handle(event)

    def opened(self, connection: Connection, time_ns: int) -> None:
        self.connections.append(connection)

    def chunk(self, chunk: Chunk) -> None:
        self.chunks.append(chunk)

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        raise AssertionError

    def handshake(self, handshake: object) -> None:
        """Ignore it."""

    def closed(self, connection: Connection, time_ns: int) -> None:
        self.closed_ones.append(connection)

    def bytes_of(self, connection: Connection, direction: Direction) -> bytes:
        """Return all that passed; its offsets must be what they say, and nothing missing."""
        chunks = [
            each
            for each in self.chunks
            if each.connection is connection and each.direction is direction
        ]
        for one, other in pairwise(chunks):
            assert one.offset + len(one.data) == other.offset
        assert not any(each.missing for each in chunks)
        return b"".join(each.data for each in chunks)

    @property
    def only(self) -> Connection:
        [connection] = self.connections
        return connection


WRITES: list[events.Record] = [
    opened(W, WRITE),
    data(W, WRITE, 0, b"GET "),
    addresses(W),
    data(W, WRITE, 4, b"/"),
]
READS: list[events.Record] = [
    opened(R, READ),
    addresses(R),
    data(R, READ, 0, b"200"),
    data(R, READ, 3, b" OK"),
]


def assert_one(seen: Seen) -> None:
    assert seen.bytes_of(seen.only, WRITE) == b"GET /"
    assert seen.bytes_of(seen.only, READ) == b"200 OK"


def test_a_clients_request_waits_for_its_socket() -> None:
    seen = Seen(*WRITES[:2])
    assert not seen.connections
    seen.handle(*WRITES[2:], *READS)
    assert_one(seen)
    assert (seen.only.local, seen.only.remote) == (CLIENT, SERVER)
    seen.handle(events.SocketGone(9, SOCKET))
    assert seen.closed_ones == [seen.only]


@pytest.mark.tools
@given(st.lists(st.booleans(), max_size=len(WRITES) + len(READS)), st.integers(0, 8))
def test_any_interleaving_gives_the_same(turns: list[bool], paired_at: int) -> None:
    """By their socket, or also as a pair; each half's own events are in order."""
    writes, reads, records = WRITES.copy(), READS.copy(), list[events.Record]()
    for is_write in turns:
        if first := writes if is_write else reads:
            records.append(first.pop(0))
    records += writes + reads
    assert_one(Seen(*records))
    records.insert(paired_at, events.Paired(2, W, R))
    assert_one(Seen(*records))
    without_sockets = [each for each in records if not isinstance(each, events.Addresses)]
    assert_one(Seen(*without_sockets))


def test_new_keys_go_on_in_the_same_connection() -> None:
    seen = Seen(*WRITES, *READS, events.Closed(5, W, 0, 5))
    seen.handle(opened(W2, WRITE), addresses(W2), data(W2, WRITE, 0, b" HTTP/1.1"))
    seen.handle(opened(R2, READ), data(R2, READ, 0, b"!"), addresses(R2))
    assert seen.bytes_of(seen.only, WRITE) == b"GET / HTTP/1.1"
    assert seen.bytes_of(seen.only, READ) == b"200 OK!"
    assert not seen.closed_ones


def test_what_a_half_told_is_forgotten_where_it_is_left_out() -> None:
    seen = Seen(*WRITES[:2], events.LeftOut(2, W), events.Closed(5, W, 0, 4))
    seen.tell(seen.halves.release())
    assert not seen.connections
    seen.handle(*WRITES[:2])  # its next socket is one that is not left out
    seen.handle(*WRITES[2:], *READS)
    assert_one(seen)


def test_a_half_that_was_shown_already_ends_where_it_is_left_out() -> None:
    seen = Seen(*WRITES[:2])
    seen.tell(seen.halves.release())
    seen.handle(events.LeftOut(2, W))
    assert seen.closed_ones == [seen.only]
    assert seen.bytes_of(seen.only, WRITE) == b"GET "


def test_a_half_that_is_left_out_leaves_its_connection_as_it_was() -> None:
    seen = Seen(*WRITES, *READS, events.LeftOut(2, W), data(R, READ, 6, b"!"))
    assert seen.bytes_of(seen.only, READ) == b"200 OK!"
    assert not seen.closed_ones


def test_a_loss_behind_the_last_event_is_told() -> None:
    seen = Seen(*WRITES, *READS, events.Closed(5, W, 0, 8), events.Closed(5, R, 6, 0))
    assert seen.only.missing_bytes == 3
    assert not seen.closed_ones
    seen.handle(events.SocketGone(9, SOCKET))
    assert seen.closed_ones == [seen.only]
    assert (seen.only.bytes_written, seen.only.bytes_read) == (8, 6)


def test_positions_at_the_captures_end_are_those_of_the_connection() -> None:
    seen = Seen(*WRITES, opened(W2, WRITE), addresses(W2), data(W2, WRITE, 0, b"abc"))
    seen.handle(events.Checked(5, W2, 0, 7), events.Checked(5, W, 0, 5))
    assert seen.only.missing_bytes == 4
    assert seen.only.bytes_written == 12


def test_a_socket_that_ends_unseen_ends_with_the_next_one_at_its_address() -> None:
    seen = Seen(*WRITES, opened(W2, WRITE), addresses(W2, port=4001), data(W2, WRITE, 0, b"x"))
    first, second = seen.connections
    assert seen.closed_ones == [first]
    assert seen.bytes_of(second, WRITE) == b"x"
    assert second.local == CLIENT._replace(port=4001)


def test_a_half_without_a_socket_is_shown_in_the_end() -> None:
    seen = Seen(*WRITES[:2])
    seen.tell(seen.halves.release(WAIT_NS - 1))
    assert not seen.connections
    seen.tell(seen.halves.release(WAIT_NS))
    assert seen.bytes_of(seen.only, WRITE) == b"GET "
    seen.handle(events.Paired(2, W, R), READS[0], *READS[2:], *WRITES[2:])
    assert_one(seen)


def test_not_more_is_held_than_allowed() -> None:
    seen = Seen(opened(W, WRITE), data(W, WRITE, 0, bytes(MOST_WAITING_BYTES)))
    assert not seen.connections
    seen.handle(data(W, WRITE, MOST_WAITING_BYTES, b"x"))
    assert len(seen.bytes_of(seen.only, WRITE)) == MOST_WAITING_BYTES + 1


def test_what_waits_is_told_before_its_end() -> None:
    for end in (events.Closed(5, W, 0, 4), events.Exited(5, 70)):
        seen = Seen(*WRITES[:2], end)
        assert seen.bytes_of(seen.only, WRITE) == b"GET "
        assert seen.closed_ones == [seen.only]
        assert list(seen.halves.release()) == []


def test_a_half_that_was_on_a_wrong_socket_goes_to_the_right_one() -> None:
    seen = Seen(*READS, opened(W, WRITE), addresses(W, OTHER, 4001), data(W, WRITE, 0, b"GET "))
    first, wrong = seen.connections
    seen.handle(addresses(W), data(W, WRITE, 4, b"/"))
    assert seen.bytes_of(wrong, WRITE) == b"GET "
    assert seen.bytes_of(first, WRITE) == b"/"
    assert seen.closed_ones == [wrong]


def test_a_pair_stays_together_when_its_socket_is_another() -> None:
    seen = Seen(*WRITES, *READS, events.Paired(2, W, R), addresses(W, OTHER, 4001))
    assert seen.only.local == CLIENT._replace(port=4001)
    seen.handle(data(R, READ, 6, b"!"))
    assert seen.bytes_of(seen.only, READ) == b"200 OK!"


def test_one_that_was_joined_late_says_so() -> None:
    seen = Seen(opened(W, WRITE), opened(R, READ, from_start=False), events.Paired(2, W, R))
    assert not seen.only.from_start


@pytest.mark.parametrize(
    "event",
    [
        opened(1, None),
        data(1, READ, 0, b"x"),
        addresses(1),
        events.Checked(5, 1, 1, 0),
        events.Ended(5, 1, READ, 1),
        events.Closed(5, 1, 1, 0),
        events.Exited(5, 70),
    ],
)
def test_whole_connections_pass(event: events.Event) -> None:
    assert list(RustlsConnections(FastPath()).handle(event)) == [event]


def test_nothing_is_kept_of_what_is_over() -> None:
    halves = RustlsConnections(FastPath())
    for record in (*WRITES, *READS, events.Paired(2, W, R), events.SocketGone(9, SOCKET)):
        list(halves.handle(record))
    kept = {name: each for name, each in vars(halves).items() if isinstance(each, dict)}
    assert kept.pop("_handlers")
    assert not any(kept.values())


def test_joined_data_says_which_half_it_is_of() -> None:
    halves = RustlsConnections(FastPath())
    records: list[events.Record] = [opened(1, Direction.READ), data(1, Direction.READ, 0, b"a")]
    records += [
        addresses(1),
        opened(2, Direction.WRITE),
        addresses(2),
        data(2, Direction.WRITE, 0, b"b"),
    ]
    joined = [event for record in records for event in halves.handle(record)]
    found = [each for each in joined if isinstance(each, events.Data)]
    assert [(each.connection, each.origin) for each in found] == [(-1, 1), (-1, 2)]
