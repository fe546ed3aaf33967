"""Lines of HTTP/2 frames fit the terminal, and wait a moment for the address of their peer."""

import io
import re

import pytest

from sslsniff.core.model import Address, Connection, InnerMessage
from sslsniff.core.sink import FlowControlStall, Summary
from sslsniff.decoders.messages import Frame, Side, WebSocketMessage
from sslsniff.outputs.lines import peer_wait
from sslsniff.outputs.lines.frame_lines import FrameLines
from tests.unit.exchanges import START_NS, connection

MS = 1_000_000
PEER = Address("127.0.0.1", 8443)


def frame(number: int, size: int = 5) -> Frame:
    return Frame(number, Side.CLIENT, "DATA", [], size, {"data": bytes(size)})


def unknown(number: int = 1) -> Connection:
    made = connection(number)
    made.remote = None
    return made


class Shown:
    def __init__(self, *, is_live: bool = True, columns: int | None = None) -> None:
        self.file = io.StringIO()
        self.sink = FrameLines(self.file, columns=lambda: columns, is_live=is_live)

    def frame(self, on: Connection, number: int) -> None:
        self.sink.frame(on, frame(number), START_NS, 7)

    @property
    def lines(self) -> list[tuple[str, str]]:
        """The peer and the stream of each line."""
        return [
            (found[1], found[2])
            for line in self.file.getvalue().splitlines()
            if (found := re.search(r"\]\s+(\S+)\s+-> #(\d+) ", line)) is not None
        ]


def test_a_frame_waits_for_the_address_and_others_do_not() -> None:
    shown, late = Shown(), unknown()
    shown.frame(late, 1)
    shown.frame(late, 3)
    shown.frame(connection(2), 5)
    shown.sink.flush()
    assert shown.lines == [("127.0.0.1:8443", "5")]
    late.remote = PEER
    shown.sink.flush()
    assert shown.lines == [("127.0.0.1:8443", stream) for stream in ("5", "1", "3")]
    shown.frame(late, 7)
    assert len(shown.lines) == 4


def test_the_next_frame_brings_those_that_wait() -> None:
    shown, late = Shown(), unknown()
    shown.frame(late, 1)
    late.remote = PEER
    shown.frame(late, 3)
    assert shown.lines == [("127.0.0.1:8443", "1"), ("127.0.0.1:8443", "3")]


def test_what_stays_unknown_is_shown_without_it() -> None:
    shown, late = Shown(), unknown()
    shown.frame(late, 1)
    shown.sink.tick(START_NS + 199 * MS)
    assert shown.lines == []
    shown.sink.tick(START_NS + 200 * MS)
    shown.frame(late, 3)
    assert shown.lines == [("?", "1"), ("?", "3")]
    shown.sink.closed(late, START_NS)
    shown.frame(late, 5)
    assert len(shown.lines) == 2


@pytest.mark.parametrize("end", ["closed", "summary", "message", "many"])
def test_nothing_is_lost(end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_wait, "MOST_BYTES", 800)
    shown, late = Shown(), unknown()
    for stream in (1, 3, 5):
        shown.frame(late, stream)
    assert shown.lines == []
    if end == "closed":
        shown.sink.closed(late, START_NS)
    elif end == "summary":
        shown.sink.summary(Summary())
    elif end == "message":
        message = WebSocketMessage(1, Side.CLIENT, b"a", 1)
        shown.sink.message(InnerMessage(late, None, message, START_NS, 7))
    else:
        shown.frame(unknown(2), 7)
    assert [stream for _, stream in shown.lines][:3] == ["1", "3", "5"]
    assert not shown.sink._wait._waiting
    assert shown.sink._wait._bytes == 0


def test_a_file_does_not_wait() -> None:
    shown = Shown(is_live=False)
    shown.frame(unknown(), 1)
    assert shown.lines == [("?", "1")]


def test_it_is_said_once_that_waits_are_not_seen() -> None:
    """Where a connection was joined in the middle, before its first frame."""
    shown, joined = Shown(is_live=False), connection()
    joined.from_start = False
    for stream in (1, 3):
        shown.frame(joined, stream)
    shown.frame(connection(2), 5)
    said = ["waits are not seen" in line for line in shown.file.getvalue().splitlines()]
    assert said == [True, False, False, False]
    shown.sink.closed(joined, START_NS)
    shown.frame(joined, 7)
    assert shown.file.getvalue().count("so its windows are not known") == 2


def test_frames_are_cut_to_the_terminal_and_stalls_are_not() -> None:
    shown = Shown(columns=80)
    shown.sink.frame(connection(), frame(1, 16_384), START_NS, 7)
    stall = FlowControlStall(1, Side.CLIENT, START_NS, False, None, {1: "GET /report"})
    shown.sink.stall(connection(), stall, START_NS + 1000 * MS)
    cut, whole = shown.file.getvalue().splitlines()
    assert len(cut) == 80
    assert cut.endswith("…")
    assert whole.endswith("-> #1 has waited 1.00 s: the window of stream 1 GET /report is 0")
