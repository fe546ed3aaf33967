"""Packets in memory, and what of the ring buffer's records becomes one without Python."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from sslsniff.core import wire
from sslsniff.core.errors import OutputError
from sslsniff.core.events import EventKind
from sslsniff.core.fast_path import direction_key
from sslsniff.files import packing
from sslsniff.files.packing import (
    BATCH_BYTES,
    KEPT_TEMPLATES,
    Batch,
    Endpoint,
    EndpointPair,
    Template,
    reserve,
)
from tests.unit.files.packed import BEHIND, START, expected
from tests.unit.kernel.ring import laid_out

OFFSET_NS = 1_700_000_000_000_000_000
KEY = direction_key(1, 1)
TID = 70


def template(tid: int = TID) -> Template:
    """Return the template of packets as classic pcap has them."""
    return Template(bytes(16) + START + bytes(8) + BEHIND, b"", 0, 0, tid)


def packet(time_ns: int, sequence: int, acknowledged: int, data: bytes) -> bytes:
    """Return the packet of such a template."""
    packed = expected(data, numbers=(sequence, acknowledged))
    times = time_ns >> 32, time_ns & 0xFFFFFFFF
    return struct.pack("<IIII", *times, len(packed), len(packed)) + packed


def record(position: int, data: bytes, tid: int = TID, cut: int = 0, connection: int = 1) -> bytes:
    sizes = (position, len(data) + cut, len(data), 0)
    return wire.DATA.pack(EventKind.DATA, 1, cut, tid, 5, connection, *sizes) + data


class Writing:
    """The written direction of a connection."""

    def __init__(self) -> None:
        self.batch = Batch(1 << 32, 1)
        self.pair = EndpointPair()
        self.pair.settled = True
        self.end: Endpoint = self.pair.ends[1]
        self.template = template()
        self.end.set_templates([self.template])
        self.pair.ends[0].acknowledge_by(self.template)

    def follow(self, records: list[bytes], **flags: int) -> tuple[bytes, int]:
        """Return what became of records, and how many there are left."""
        ring = laid_out(records, **flags)
        self.batch.follow(self.end, KEY, ring, OFFSET_NS)
        packets = self.batch.joined()
        self.batch.clear()
        return packets, len(list(iter(ring.next, None)))


def test_records_of_a_known_end_become_packets() -> None:
    writing = Writing()
    writing.pair.ends[0].sequence = 9
    long = b"x" * 5000
    packets, left = writing.follow([record(0, b"a"), record(1, b"bc"), record(3, long)])
    assert packets == b"".join(
        packet(OFFSET_NS + 5, sequence, 9, data)
        for sequence, data in ((0, b"a"), (1, b"bc"), (3, long))
    )
    assert left == 0
    assert writing.end.position == writing.end.sequence == 5003
    assert writing.end.last_ns == OFFSET_NS + 5


@pytest.mark.parametrize(
    "other",
    [
        record(2, b"b"),
        record(1, bytes(16_385)),
        record(1, b""),
        record(1, b"b", tid=71),
        record(1, b"b", cut=1),
        record(1, b"b", connection=2),
        record(1, b"b", connection=1 + 4096),
        wire.LEFT_OUT.pack(EventKind.LEFT_OUT, 0, 0, 70, 1, 1),
    ],
    ids=["gap", "long", "empty", "thread", "cut", "unknown", "same bits", "kind"],
)
def test_what_is_out_of_the_ordinary_is_left(other: bytes) -> None:
    writing = Writing()
    packets, left = writing.follow([record(0, b"a"), other, record(1, b"b")])
    assert packets == packet(OFFSET_NS + 5, 0, 0, b"a")
    assert left == 2


@pytest.mark.parametrize(("flag", "left"), [("busy", 0), ("discarded", 1)])
def test_records_that_are_not_whole_are_left(flag: str, left: int) -> None:
    assert Writing().follow([record(0, b"a"), record(1, b"b"), record(1, b"c")], **{flag: 1}) == (
        packet(OFFSET_NS + 5, 0, 0, b"a"),
        left,
    )


def test_bytes_are_looked_at_first_while_they_cannot_be_dissected() -> None:
    writing = Writing()
    writing.pair.settled = False
    assert writing.follow([record(0, b"a")]) == (b"", 1)  # it is not the speaker
    writing.pair.speaker = 1
    assert writing.follow([record(0, b"a")])[1] == 0
    writing.end.looks = 1
    assert writing.follow([record(1, b"a")]) == (b"", 1)


def test_a_batch_that_is_full_takes_no_more() -> None:
    writing = Writing()
    records = [record(5000 * number, b"x" * 5000) for number in range(500)]
    ring = laid_out(records)
    packets = b""
    for _ in range(3):
        writing.batch.follow(writing.end, KEY, ring, OFFSET_NS)
        assert writing.batch.is_full == (ring.position < ring.end)
        assert writing.batch.size < BATCH_BYTES + 6000
        packets += writing.batch.joined()
        writing.batch.clear()
    assert ring.position == ring.end
    assert packets.count(expected(b"x" * 5000)[:40]) == 500


def test_the_peer_acknowledges_what_is_in_flight() -> None:
    writing = Writing()
    writing.end.in_flight_bytes = (1 << 20) - 1
    packets, _ = writing.follow([record(0, b"a"), record(1, b"b"), record(2, b"c")])
    data = [packet(OFFSET_NS + 5, number, 0, bytes([97 + number])) for number in range(3)]
    assert packets == data[0] + data[1] + packet(OFFSET_NS + 5, 0, 2, b"") + data[2]
    assert writing.end.in_flight_bytes == 1


def test_an_end_is_forgotten() -> None:
    writing = Writing()
    other = Writing()
    assert writing.follow([record(0, b"a")])[1] == 0
    writing.batch.forget(writing.end)
    ring = laid_out([record(1, b"b")])
    writing.batch.follow(other.end, direction_key(2, 1), ring, OFFSET_NS)
    assert ring.position == 0


def test_an_end_is_known_by_its_last_key() -> None:
    writing = Writing()
    writing.follow([])
    ring = laid_out([record(0, b"a")])
    writing.batch.follow(writing.end, direction_key(7, 1), ring, OFFSET_NS)
    assert ring.position == 0


def test_shapes_are_as_many_as_are_kept() -> None:
    writing = Writing()
    templates = [template(tid) for tid in range(KEPT_TEMPLATES + 1)]
    writing.end.set_templates(templates[:KEPT_TEMPLATES])
    records = [record(tid, b"a", tid=tid) for tid in range(KEPT_TEMPLATES + 1)]
    assert writing.follow(records)[1] == 1
    with pytest.raises(ValueError, match="same size"):
        writing.end.set_templates(templates)


def test_data_that_does_not_fit_is_refused() -> None:
    batch, pair = Batch(1 << 32, 1), EndpointPair()
    huge = bytes(2 * BATCH_BYTES + 1)
    puts: tuple[Callable[[], object], ...] = (
        lambda: batch.put(pair.ends[0], template(), 0, huge, count=len(huge)),
        lambda: batch.put_next(pair.ends[0], template(), 0, huge),
        lambda: batch.add(huge),
    )
    for refused in puts:
        with pytest.raises(ValueError, match="longer"):
            refused()
    assert batch.joined() == b""


def test_writing_goes_on_where_it_stopped() -> None:
    writing = Writing()
    long = b"x" * 5000
    ring = laid_out([record(0, b"a"), record(1, long), record(5001, b"b")])
    writing.batch.follow(writing.end, KEY, ring, OFFSET_NS)
    whole = writing.batch.joined()
    reader, writer = os.pipe()
    for skipped in (0, 1, 90, 5030, len(whole) - 1):
        assert writing.batch.write(writer, skipped) == len(whole) - skipped
        assert os.read(reader, len(whole)) == whole[skipped:]
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        writing.batch.write(writer, 0)
    os.close(writer)


def test_missing_library_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(packing, "_LIBRARY", tmp_path / "libpacking.so")
    packing._library.cache_clear()
    try:
        with pytest.raises(OutputError, match="is missing: build it"):
            Batch(1, 1)
    finally:
        packing._library.cache_clear()


def test_reserved_room_does_not_lengthen_a_file(tmp_path: Path) -> None:
    with (tmp_path / "file").open("wb", buffering=0) as file:
        file.write(b"begun")
        reserve(file.fileno(), 5, 1 << 20)
        assert os.fstat(file.fileno()).st_size == 5
        assert os.fstat(file.fileno()).st_blocks * 512 >= 1 << 20
