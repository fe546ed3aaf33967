"""What a capture makes of records that are not finished, not read in time, or impossible."""

import os
import struct
import time

import pytest

from sslsniff.core import wire
from sslsniff.core.events import Closed, Data, EventKind, Exited, Opened
from sslsniff.core.losses import LossCause
from sslsniff.kernel.memory.ring_set import RingSet
from sslsniff.preload.preload_capture import PreloadCapture
from tests.unit.kernel.memory.ring_writer import PAGE, Writer

CONNECTION = 1
HELLO = wire.DATA.pack(EventKind.DATA, 1, 0, 70, 1, CONNECTION, 0, 5, 5, 0) + b"hello"
OPENED = wire.OPENED.pack(
    *(EventKind.OPENED, 0, 0, 70, 1, CONNECTION, 1, 0, 1, 1, 0x304, 1, 1, 0, 0, 9, 9),
    *(b"", b"", b"", b""),
)
CLOSED = wire.CLOSED.pack(EventKind.CLOSED, 0, 0, 70, 1, CONNECTION, 5, 0)
NOT_DECODED = [(LossCause.NO_TIME, 5)]
OVERWRITTEN = "overwrote the memory that it shares with sslsniff"


def test_what_ends_when_the_capture_was_stopped(
    capture: PreloadCapture, rings: RingSet, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last plaintext was not written, so neither is its end known."""
    stop = rings.control.stop_programs

    def stop_before_the_end() -> None:
        stop()
        header = (EventKind.CLOSED, 0, 0, 70, time.monotonic_ns(), CONNECTION)
        writer.put(wire.CLOSED.pack(*header, 5, 0))

    monkeypatch.setattr(rings.control, "stop_programs", stop_before_the_end)
    writer.put(HELLO)
    assert [type(each) for each in capture.finish()] == [Data]


@pytest.mark.slow
def test_thread_that_is_stopped_until_the_end(
    capture: PreloadCapture, writer: Writer, notes: list[str]
) -> None:
    """The records after its own are waited for, and shown when the capture ends."""
    writer.put(HELLO, busy_thread=os.getpid())
    writer.put(CLOSED)
    assert list(capture.poll(0)) == []
    [event] = capture.finish()
    assert isinstance(event, Closed)
    assert notes == [
        "1 record was not finished: their threads were killed, or stopped until the end"
    ]


def test_no_time_to_read(capture: PreloadCapture, writer: Writer, notes: list[str]) -> None:
    """What is not decoded is counted as lost."""
    writer.put(HELLO)
    writer.put(CLOSED)
    lost, closed = capture.finish(lambda: True)
    assert isinstance(lost, Data)
    assert (lost.data, lost.span, lost.cut) == (b"", 5, LossCause.NO_TIME)
    assert isinstance(closed, Closed)
    assert [(loss.cause, loss.bytes) for loss in capture.counted_losses()] == NOT_DECODED
    assert notes == []


def test_no_time_to_read_an_ended_program(
    capture: PreloadCapture, rings: RingSet, writer: Writer, notes: list[str]
) -> None:
    """What was read of it before, and not handled, still belongs to it."""
    for record in (HELLO, OPENED, HELLO, CLOSED):
        writer.put(record)
    [ring] = rings.receive()
    rings.end_process(ring.pid)
    is_late = iter((False, True))
    found = [*capture.finish(lambda: next(is_late, True))]
    assert [type(each) for each in found] == [Data, Opened, Data, Closed, Exited]
    assert isinstance(found[1], Opened)
    assert (found[1].pid, found[1].comm) == (ring.pid, ring.comm)
    assert [(loss.cause, loss.bytes) for loss in capture.counted_losses()] == NOT_DECODED
    assert notes == []


def test_no_time_even_to_count(capture: PreloadCapture, writer: Writer, notes: list[str]) -> None:
    """Its plaintext is summed up where it lies."""
    writer.put(HELLO)
    assert list(capture.finish(lambda: True, lambda: True)) == []
    assert [(loss.cause, loss.bytes) for loss in capture.counted_losses()] == NOT_DECODED
    assert notes == []


@pytest.mark.parametrize(
    ("at", "word"),
    [
        pytest.param(PAGE, 1 << 40, id="a later position"),
        pytest.param(PAGE, (1 << 64) - 8, id="an earlier position"),
        pytest.param(2 * PAGE, 20, id="a short record"),
        pytest.param(2 * PAGE + 8, 0xFFFF, id="a kind that is none"),
        pytest.param(2 * PAGE + 8, EventKind.DATA | 9 << 16, id="a direction that is none"),
    ],
)
def test_overwritten(
    at: int, word: int, capture: PreloadCapture, writer: Writer, notes: list[str]
) -> None:
    """It is said once, and the capture goes on to its end without the ring."""
    writer.put(HELLO)
    struct.pack_into("<Q", writer.pages, at, word)
    assert list(capture.poll(0)) == []
    assert list(capture.finish()) == []
    [note] = notes
    assert OVERWRITTEN in note


def test_overwritten_length(capture: PreloadCapture, writer: Writer, notes: list[str]) -> None:
    """What is before it is shown; where the next record begins is not known."""
    writer.put(HELLO)
    at = writer.put(CLOSED)
    struct.pack_into("<I", writer.pages, 2 * PAGE + at, 1 << 20)
    [event] = capture.poll(0)
    assert isinstance(event, Data)
    assert event.data == b"hello"
    assert list(capture.finish()) == []
    [note] = notes
    assert OVERWRITTEN in note
    assert f"[{os.getpid()}]" in note
