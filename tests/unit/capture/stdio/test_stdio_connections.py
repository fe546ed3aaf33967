"""Which connections by standard input and output are passed on: those of JSON-RPC, whole."""

from collections.abc import Sequence

import pytest

from sslsniff.capture.stdio.stdio_connections import (
    _MOST_WAITING,
    _MOST_WAITING_BYTES,
    StdioConnections,
)
from sslsniff.core import events
from sslsniff.core.events import Checked, Closed, Data, Exited, LeftOut, Opened
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Direction, Peer
from sslsniff.decoders.messages import Side

REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"initialize"}\n'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
WRITE, READ = Direction.WRITE, Direction.READ
COMMAND = ("python3", "/srv/tools.py", "--token", "secret")


def opened(number: int = 5, pid: int = 7, command: tuple[str, ...] = COMMAND) -> Opened:
    return Opened(
        *(1, pid, number, pid, 0, "agent", 0, Side.CLIENT, True),
        tls=False,
        peer=Peer(8, "python3", command),
        ways=(100, 101),
    )


def data(direction: Direction, text: bytes, number: int = 5, span: int | None = None) -> Data:
    cut = None if span is None else LossCause.NOT_READ
    return Data(2, 7, number, direction, 0, len(text) if span is None else span, text, cut)


class Recorded:
    """A ``StdioConnections`` with what it told the BPF programs."""

    def __init__(self) -> None:
        self.forgotten: list[Sequence[int]] = []
        self.connections = StdioConnections(3, self.forgotten.append, {5: (10, 20)}.get)

    def passed(self, *records: events.Record) -> list[events.Event]:
        """Return all that follows from records."""
        out: list[events.Event] = []
        for each in records:
            if isinstance(each, Opened):
                out += self.connections.begin(each)
                continue
            found = self.connections.handle(each)
            out += [each] if found is None else found  # type: ignore[list-item]
        return out


@pytest.mark.parametrize("pieces", [1, len(REQUEST)])
def test_json_rpc_is_passed_on_from_its_first_byte(pieces: int) -> None:
    size = len(REQUEST) // pieces
    sent = [data(WRITE, REQUEST[at : at + size]) for at in range(0, len(REQUEST), size)]
    records = [data(READ, b"ready\n"), *sent, data(READ, ANSWER)]
    recorded = Recorded()
    assert recorded.passed(opened(), *records) == [opened()._replace(library=3), *records]
    assert recorded.forgotten == []
    assert [*recorded.connections.final_positions(9)] == [Checked(9, 5, 10, 20)]
    closed = Closed(3, 5, 10, 20)
    assert recorded.passed(closed) == [closed]
    assert [*recorded.connections.final_positions(9)] == []


def test_a_request_that_is_seen_before_the_server_began_its_program() -> None:
    """The connection waits for its command line, or for the server's first bytes."""
    before, after = opened(command=()), opened()
    request = data(WRITE, REQUEST)
    recorded = Recorded()
    assert recorded.passed(before, request) == []
    assert recorded.passed(after) == [after._replace(library=3), request]
    assert recorded.passed(after) == []
    again = Recorded()
    answer = data(READ, ANSWER)
    assert again.passed(before, request, answer) == [before._replace(library=3), request, answer]


@pytest.mark.parametrize(
    "records",
    [
        [data(WRITE, b'{"a":1}\n')],
        [data(WRITE, b"hello\n")],
        [data(WRITE, REQUEST[:10], span=20)],
        [data(READ, b"x" * 100_000)] * 3,
    ],
)
def test_anything_else_is_not(records: list[events.Record]) -> None:
    recorded = Recorded()
    assert recorded.passed(opened(), *records) == []
    assert recorded.forgotten == [(100, 101)]
    assert recorded.connections.servers == 0


def test_what_ends_before_it_is_recognised() -> None:
    recorded = Recorded()
    assert recorded.passed(opened(), Closed(3, 5, 0, 0)) == []
    assert recorded.passed(opened(6), LeftOut(3, 6)) == []
    ended = Exited(3, 7)
    assert recorded.passed(opened(7), ended) == [ended]
    assert recorded.forgotten == [(100, 101)]


def test_what_waits_is_bounded() -> None:
    recorded = Recorded()
    for number in range(_MOST_WAITING + 10):
        recorded.passed(opened(number))
    assert len(recorded.forgotten) == 10
    for _ in range(_MOST_WAITING_BYTES // 100 + 1):  # pieces so small that each counts
        recorded.passed(data(READ, b"x", number=_MOST_WAITING))
    assert len(recorded.forgotten) == 11


def test_others_are_not_touched() -> None:
    record = data(WRITE, REQUEST, number=77)
    assert Recorded().passed(record) == [record]


def test_what_is_said_if_there_is_none() -> None:
    recorded = Recorded()
    assert "no program answered JSON-RPC" in recorded.connections.describe()
    recorded.passed(opened())
    assert "1 program" in recorded.connections.describe()
