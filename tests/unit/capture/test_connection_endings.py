"""The end of a connection waits for that of its socket, which may come before or after."""

import time
from collections.abc import Callable

import pytest

from sslsniff.capture.connection_endings import ConnectionEndings
from sslsniff.core import events
from sslsniff.core.endings import ConnectionEnding
from sslsniff.core.handshakes import SocketEnding
from sslsniff.core.model import Address, Direction

HERE, THERE = Address("127.0.0.1", 5), Address("127.0.0.1", 443)


def opened(connection: int = 1, pid: int = 70) -> events.Opened:
    return events.Opened(1, 7, connection, pid, 0, "demo", 0, None, True)


def addresses(connection: int = 1, socket: int = 9) -> events.Addresses:
    return events.Addresses(2, connection, HERE, THERE, socket)


def ended(ending: SocketEnding, time_ns: int = 5, socket: int = 9) -> events.SocketEnded:
    return events.SocketEnded(time_ns, 0, socket, ending)


def closed(connection: int = 1, *, follows: bool = False) -> events.Closed:
    return events.Closed(6, connection, 10, 20, follows, False, False)


class Seen:
    def __init__(self) -> None:
        self.endings = ConnectionEndings()
        self.seen: list[events.Event] = []

    def feed(self, *records: events.Event | events.SocketEnded) -> "Seen":
        for each in records:
            if isinstance(each, events.SocketEnded):
                self.seen += self.endings.end_socket(each)
            else:
                self.seen += self.endings.handle([each])
        return self

    def last(self) -> list[events.Event]:
        """Return what came after the addresses."""
        return [
            each for each in self.seen if not isinstance(each, events.Opened | events.Addresses)
        ]


EXPECTED = ConnectionEnding(SocketEnding.PEER_CLOSED, 5, False, False)


def test_the_socket_ends_first() -> None:
    seen = Seen().feed(opened(), addresses(), ended(SocketEnding.PEER_CLOSED), closed())
    assert seen.last() == [events.Ending(6, 1, EXPECTED), closed()]


def test_the_object_is_freed_first() -> None:
    seen = Seen().feed(opened(), addresses(), closed(follows=True))
    assert seen.last() == []
    seen.feed(opened(2), addresses(2, 10), ended(SocketEnding.PEER_CLOSED))
    assert seen.last() == [events.Ending(6, 1, EXPECTED), closed(follows=True)]


def test_a_known_connection_needs_no_socket() -> None:
    end = events.SocketEnded(5, 1, 99, SocketEnding.PEER_CLOSED)
    assert Seen().feed(opened(), end, closed()).last() == [events.Ending(6, 1, EXPECTED), closed()]


def test_only_the_first_end_counts() -> None:
    ends = ended(SocketEnding.PEER_CLOSED), ended(SocketEnding.RESET, 6)
    seen = Seen().feed(opened(), addresses(), *ends, closed())
    assert seen.last() == [events.Ending(6, 1, EXPECTED), closed()]


def test_the_end_of_a_wrong_socket_is_not_its() -> None:
    seen = Seen().feed(opened(), addresses(socket=8), ended(SocketEnding.PEER_RESET, 4, socket=8))
    seen.feed(addresses(), ended(SocketEnding.PEER_CLOSED), closed())
    assert seen.last() == [events.Ending(6, 1, EXPECTED), closed()]


@pytest.mark.parametrize(
    "later", [lambda now: now + 1, lambda now: now], ids=["too late", "capture is over"]
)
def test_nothing_waits_for_ever(
    monkeypatch: pytest.MonkeyPatch, later: Callable[[float], float]
) -> None:
    now_s = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    seen = Seen().feed(opened(), addresses(), closed(follows=True), opened(2, 71), addresses(2, 10))
    seen.feed(events.Exited(7, 71))
    assert list(seen.endings.release()) == []
    is_over = later(0) == 0
    now_s = later(now_s)
    assert list(seen.endings.release(is_over=is_over)) == [
        events.Ending(6, 1, ConnectionEnding(sent_notify=False, received_notify=False)),
        closed(follows=True),
        events.Ending(7, 2, ConnectionEnding(process_ended=True)),
        events.Exited(7, 71),
    ]
    assert list(seen.endings.release(is_over=True)) == []


def test_the_kernel_closes_what_a_process_left_open() -> None:
    exited = events.Exited(4, 70)
    seen = Seen().feed(opened(), addresses(), opened(2), addresses(2, 10), opened(3))
    seen.feed(exited, ended(SocketEnding.CLOSED))
    assert seen.last() == []
    seen.feed(ended(SocketEnding.RESET, 6, 10))
    ended_with = ConnectionEnding(process_ended=True)
    assert seen.last() == [
        events.Ending(4, 1, ended_with._replace(socket=SocketEnding.CLOSED, time_ns=5)),
        events.Ending(4, 2, ended_with._replace(socket=SocketEnding.RESET, time_ns=6)),
        events.Ending(4, 3, ended_with),
        exited,
    ]


def test_a_connection_may_be_over_before_its_process() -> None:
    seen = Seen().feed(opened(), addresses(), ended(SocketEnding.CLOSED), events.Exited(9, 70))
    [ending, _] = seen.last()
    assert ending == events.Ending(9, 1, ConnectionEnding(SocketEnding.CLOSED, 5))


def test_the_next_program_of_a_process_keeps_its_connections() -> None:
    exited = events.Exited(4, 70, is_exec=True)
    seen = Seen().feed(opened(), addresses(), exited, opened(2))
    assert seen.seen == [opened(), addresses(), exited, opened(2)]


def test_a_close_notify_ends_a_direction() -> None:
    end = events.Ended(3, 1, Direction.READ, 10, notified=True)
    seen = Seen().feed(opened(), addresses(), end, ended(SocketEnding.CLOSED), closed())
    assert seen.last() == [
        events.Ending(3, 1, ConnectionEnding(received_notify=True)),
        end,
        events.Ending(6, 1, ConnectionEnding(SocketEnding.CLOSED, 5, False, True)),
        closed(),
    ]


@pytest.mark.parametrize(("ended_ns", "counts"), [(4, False), (6, True)])
@pytest.mark.parametrize("is_reported_late", [False, True])
def test_an_alert_that_answers_an_end_is_no_cause(
    ended_ns: int, counts: bool, is_reported_late: bool
) -> None:
    seen = Seen().feed(opened(), addresses())
    end = ended(SocketEnding.PEER_CLOSED, ended_ns)
    if not is_reported_late and not counts:
        seen.feed(end)
    seen.endings.alert(5, 1, 50, None)
    seen.feed(end, closed())
    [ending, _] = seen.last()
    assert isinstance(ending, events.Ending)
    assert ending.ending.sent_alert == (50 if counts else None)


def test_an_alert_that_was_received_counts() -> None:
    seen = Seen().feed(opened(), addresses(), ended(SocketEnding.PEER_CLOSED))
    seen.endings.alert(5, 1, None, 80)
    [ending, _] = seen.feed(closed()).last()
    assert isinstance(ending, events.Ending)
    assert ending.ending.received_alert == 80


def test_nothing_is_kept_of_what_is_gone() -> None:
    seen = Seen().feed(opened(), addresses(), closed())
    seen.feed(opened(2), addresses(2), events.LeftOut(4, 2))
    seen.feed(opened(3), addresses(3), events.Exited(4, 70), ended(SocketEnding.CLOSED))
    kept = vars(seen.endings)
    assert not any(kept[name] for name in ("_open", "_by_socket", "_held", "_exits"))
