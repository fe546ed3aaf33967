"""Handshakes without data that preloaded programs report: each is shown once, at its end."""

import os

import pytest

from sslsniff.core.events import HandshakeEnded
from sslsniff.core.handshakes import SocketEnding, explain
from sslsniff.decoders.messages import Side
from sslsniff.kernel.memory.ring_set import RingSet
from sslsniff.preload import preloaded_handshakes
from sslsniff.preload.preload_capture import PreloadCapture
from tests.unit.kernel.memory.ring_writer import Writer
from tests.unit.preload.handshake_records import failure, handshake, opened

CLOSED = {"ending": SocketEnding.CLOSED, "ended_ns": 2, "is_gone": 1}


def ended(capture: PreloadCapture) -> list[HandshakeEnded]:
    return [each for each in capture.finish() if isinstance(each, HandshakeEnded)]


def kinds(capture: PreloadCapture) -> list[str]:
    return [explain(each.facts, each.role, each.sni).kind for each in ended(capture)]


def test_why_a_library_gave_up(capture: PreloadCapture, writer: Writer) -> None:
    """The process is the ring's, whatever the record says; the alert is the one OpenSSL sends."""
    for record in (handshake(1), failure(1), handshake(1, received=900, **CLOSED)):
        writer.put(record)
    [event] = ended(capture)
    assert (event.pid, event.uid, event.cgroup) == (os.getpid(), os.getuid(), 0)
    assert (event.library, event.role, event.sni) == ("openssl", Side.CLIENT, "localhost")
    assert explain(event.facts, event.role, event.sni).text == (
        "the certificate of the server has expired, or is not valid yet, says the client"
        " (alert 45, certificate expired; certificate has expired)"
    )


def test_two_connections_with_one_address(capture: PreloadCapture, writer: Writer) -> None:
    """A reason is that of its own connection."""
    for number in (1, 2):
        writer.put(handshake(number))
    writer.put(failure(2))
    for number in (1, 2):
        writer.put(handshake(number, received=900, **CLOSED))
    assert sorted(kinds(capture)) == ["closed", "expired"]


def test_data_ends_it(capture: PreloadCapture, writer: Writer) -> None:
    for record in (handshake(1), handshake(1, is_complete=1), opened(1)):
        writer.put(record)
    assert kinds(capture) == []


def test_program_that_is_killed(capture: PreloadCapture, writer: Writer, rings: RingSet) -> None:
    """What it knew last is shown when it has ended, and not when the capture ends."""
    writer.put(handshake(1))
    writer.put(handshake(2, received=5))
    [ring] = rings.receive()
    rings.end_process(ring.pid)
    list(capture.poll(0))
    assert sorted(kinds(capture)) == ["closed", "timeout"]


@pytest.mark.parametrize(("is_complete", "kind"), [(0, "unfinished"), (1, "unused")])
def test_end_of_the_capture(
    is_complete: int, kind: str, capture: PreloadCapture, writer: Writer
) -> None:
    writer.put(handshake(1, is_complete=is_complete, received=900))
    assert kinds(capture) == [kind]


def test_most_that_wait(
    capture: PreloadCapture, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preloaded_handshakes, "_MOST_WAITING", 2)
    for number in range(1, 5):
        writer.put(handshake(number))
    assert len(kinds(capture)) == 2


@pytest.mark.parametrize(
    "record",
    [
        handshake(1)[:-1],
        handshake(1, family=1),
        handshake(1, start=2),
        handshake(1, start=99),
        handshake(1, sends=11),
        handshake(1, hello_bytes=2000),
        handshake(1, hello_start=9),
        handshake(1, ending=99),
        failure(1)[:-1],
        failure(1, alert=256),
        failure(1, alert=-2),
        failure(1, family=99),
    ],
    ids=range(12),
)
def test_records_that_cannot_be(
    record: bytes, capture: PreloadCapture, writer: Writer, notes: list[str]
) -> None:
    writer.put(record)
    assert kinds(capture) == []
    [note] = notes
    assert "overwrote the memory that it shares with sslsniff" in note
