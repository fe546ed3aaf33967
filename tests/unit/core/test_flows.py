"""Positions -> chunks and losses."""

from sslsniff.core import events
from sslsniff.core.flows import Flows
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Address, Chunk, Connection, Direction
from sslsniff.decoders.messages import Side
from tests.chunks_only import ChunksOnly


class Recorder(ChunksOnly):
    def __init__(self) -> None:
        self.seen: list[object] = []
        self.connections: list[Connection] = []

    def opened(self, connection: Connection, time_ns: int) -> None:
        self.connections.append(connection)
        self.seen.append("opened")

    def chunk(self, chunk: Chunk) -> None:
        what = (chunk.missing, chunk.cause) if chunk.missing else chunk.data
        self.seen.append((chunk.direction, chunk.offset, what))

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        self.seen.append(("ended", direction))

    def handshake(self, handshake: object) -> None:
        """Ignore it."""

    def closed(self, connection: Connection, time_ns: int) -> None:
        self.seen.append("closed")


def opened(connection: int = 1, pid: int = 7) -> events.Opened:
    return events.Opened(0, pid, connection, pid, 0, "demo", 0, Side.CLIENT, True)


def data(
    position: int,
    payload: bytes,
    span: int = 0,
    direction: Direction = Direction.READ,
    cut: LossCause | None = None,
) -> events.Data:
    return events.Data(5, 7, 1, direction, position, span or len(payload), payload, cut)


def run(*events: events.Event) -> Recorder:
    recorder = Recorder()
    flows = Flows(["openssl"], recorder)
    for event in events:
        flows.handle(event)
    return recorder


def test_directions_are_counted_apart() -> None:
    recorder = run(
        opened(),
        data(0, b"abc"),
        data(0, b"xy", direction=Direction.WRITE),
        data(3, b"d"),
        events.Closed(9, 1, 4, 2),
    )
    assert recorder.seen == [
        "opened",
        (Direction.READ, 0, b"abc"),
        (Direction.WRITE, 0, b"xy"),
        (Direction.READ, 3, b"d"),
        "closed",
    ]
    [connection] = recorder.connections
    assert (connection.bytes_read, connection.bytes_written, connection.missing) == (4, 2, {})


def test_announced_twice() -> None:
    """Two threads may use a connection for the first time at once."""
    recorder = run(opened(), data(0, b"abc"), opened(), data(3, b"d"), events.Closed(9, 1, 4, 0))
    assert recorder.seen == [
        "opened",
        (Direction.READ, 0, b"abc"),
        (Direction.READ, 3, b"d"),
        "closed",
    ]


def test_a_lost_event_is_a_gap() -> None:
    recorder = run(opened(), data(0, b"abc"), data(10, b"k"))
    assert recorder.seen[2:] == [
        (Direction.READ, 10, (7, LossCause.RING_FULL)),
        (Direction.READ, 10, b"k"),
    ]
    assert recorder.connections[0].missing == {LossCause.RING_FULL: 7}
    assert recorder.connections[0].bytes_read == 11


def test_a_cut_call_is_told_at_once() -> None:
    recorder = run(opened(), data(0, b"abc", span=9, cut=LossCause.CALL_LIMIT), data(9, b"j"))
    assert recorder.seen[1:] == [
        (Direction.READ, 0, b"abc"),
        (Direction.READ, 9, (6, LossCause.CALL_LIMIT)),
        (Direction.READ, 9, b"j"),
    ]


def test_a_call_without_bytes_is_a_loss() -> None:
    recorder = run(opened(), data(0, b"", span=9, cut=LossCause.SENDFILE))
    assert recorder.seen[1:] == [(Direction.READ, 9, (9, LossCause.SENDFILE))]


def test_what_was_lost_before_the_end_is_told() -> None:
    for end in (events.Closed(9, 1, 3, 4), events.Checked(9, 1, 3, 4)):
        recorder = run(opened(), data(0, b"abc"), end)
        assert recorder.seen[2] == (Direction.WRITE, 4, (4, LossCause.RING_FULL))
        assert recorder.seen[3:] == (["closed"] if isinstance(end, events.Closed) else [])


def test_one_direction_may_end_before_the_other() -> None:
    recorder = run(opened(), data(0, b"abc"), events.Ended(9, 1, Direction.READ, 5))
    assert recorder.seen[2:] == [
        (Direction.READ, 5, (2, LossCause.RING_FULL)),
        ("ended", Direction.READ),
    ]


def test_a_process_takes_its_connections_along() -> None:
    recorder = run(opened(1, 7), opened(2, 8), events.Exited(9, 7), opened(3, 8))
    assert recorder.seen == ["opened", "opened", "closed", "opened"]
    assert [each.id for each in recorder.connections] == ["7-1", "8-2", "8-3"]


def test_a_connection_that_is_left_out_has_an_end() -> None:
    recorder = run(opened(), data(0, b"abc"), events.LeftOut(9, 1), events.Closed(10, 1, 9, 9))
    assert recorder.seen == ["opened", (Direction.READ, 0, b"abc"), "closed"]
    [connection] = recorder.connections
    assert (connection.left_out, connection.bytes_read, connection.missing) == (True, 3, {})


def test_addresses_fill_in() -> None:
    local, remote = Address("127.0.0.1", 4000), Address("127.0.0.1", 443)
    recorder = run(opened(), events.Addresses(1, 1, local, remote))
    [connection] = recorder.connections
    assert (connection.client, connection.server) == (local, remote)


def test_news_of_unknown_connections_are_ignored() -> None:
    recorder = run(data(0, b"x"), events.Closed(1, 1, 1, 1), events.Checked(1, 1, 1, 1))
    recorder.seen += run(events.Ended(1, 1, Direction.READ, 1)).seen
    assert recorder.seen == []


def test_recorded_connection_keeps_its_id() -> None:
    recorder = run(opened(1)._replace(name="7-42"), events.Closed(9, 1, 0, 0), opened(3))
    assert [connection.id for connection in recorder.connections] == ["7-42", "7-1"]


def test_process_may_change_its_user() -> None:
    recorder = run(opened(1), opened(2), opened(3)._replace(uid=33))
    first, second, third = (connection.process for connection in recorder.connections)
    assert first is second
    assert (third.pid, third.uid) == (first.pid, 33)
