"""Classic pcap, written and read."""

import io
import os
import resource
import struct
from pathlib import Path

import dpkt
import pytest
from scapy.layers.inet import IP, TCP
from scapy.utils import PcapReader as ScapyReader
from scapy.utils import PcapWriter as ScapyWriter

from sslsniff.core.errors import OutputError
from sslsniff.files.packets import LINK_RAW
from sslsniff.files.packing import BATCH_BYTES
from sslsniff.files.pcap import Origin, PacketWriter, PcapWriter
from sslsniff.files.pcap_reader import PcapReader, is_pcap
from tests.unit.files.packed import BEHIND, START, add_packet, expected

TIME_NS = 1_700_000_000_123_456_789


def add(writer: PacketWriter, time_ns: int, data: bytes, zeros: int = 0) -> None:
    template = writer.template(Origin(0, None, inbound=False), START, BEHIND, zeros=zeros)
    add_packet(writer, template, time_ns, data)


def written(count: int = 3) -> bytes:
    file = io.BytesIO()
    writer = PcapWriter(file)
    for number in range(count):
        add(writer, TIME_NS + number * 1000, b"data%d" % number, zeros=2)
    writer.flush()
    return file.getvalue()


def read(raw: bytes) -> tuple[list[tuple[int, int, bytes]], bool]:
    reader = PcapReader(io.BytesIO(raw[4:]), raw[:4])
    packets = [(packet.time_ns, packet.link_type, packet.data) for packet in reader]
    return packets, reader.truncated


def test_written_is_read() -> None:
    packets, truncated = read(written())
    assert packets == [
        (TIME_NS // 1000 * 1000 + number * 1000, LINK_RAW, expected(b"data%d" % number, 2))
        for number in range(3)
    ]
    assert not truncated


def test_dpkt_and_scapy_agree(tmp_path: Path) -> None:
    raw = written()
    theirs = [(round(time * 1e6), data) for time, data in dpkt.pcap.Reader(io.BytesIO(raw))]
    assert theirs == [(time_ns // 1000, data) for time_ns, _, data in read(raw)[0]]
    packet = IP() / TCP() / b"hello"
    file = io.BytesIO()
    writer = PcapWriter(file)
    start, behind = bytes(packet)[:24], bytes(packet)[32:]
    template = writer.template(Origin(0, None, inbound=False), start, behind)
    numbers = struct.unpack(">II", bytes(packet)[24:32])
    add_packet(writer, template, TIME_NS, numbers=numbers)
    writer.flush()
    (tmp_path / "capture").write_bytes(file.getvalue())
    with ScapyReader(str(tmp_path / "capture")) as reader:
        (seen,) = reader
    assert bytes(seen) == bytes(packet)
    assert int(seen.time * 10**6) == TIME_NS // 1000


@pytest.mark.parametrize("endianness", ["<", ">"])
@pytest.mark.parametrize("nano", [False, True])
def test_byte_orders_and_resolutions(endianness: str, nano: bool) -> None:
    file = io.BytesIO()
    writer = ScapyWriter(file, linktype=1, endianness=endianness, nano=nano, sync=True)
    writer.write_header(None)
    writer.write_packet(b"data", sec=1_700_000_000, usec=123_456_789 if nano else 123_456)
    time_ns = 1_700_000_000_123_456_789 if nano else 1_700_000_000_123_456_000
    assert read(file.getvalue()) == ([(time_ns, 1, b"data")], False)


def test_every_cut() -> None:
    raw = written()
    whole, _ = read(raw)
    record = (len(raw) - 24) // 3
    for cut in range(4, len(raw)):
        packets, truncated = read(raw[:cut])
        assert packets == whole[: max(cut - 24, 0) // record]
        assert truncated == (cut < 24 or (cut - 24) % record != 0)


def test_packet_that_cannot_be() -> None:
    raw = written(1)
    claimed = raw + struct.pack("<IIII", 1, 1, 0xFFFFFFFF, 0xFFFFFFFF) + b"x"
    packets, truncated = read(claimed)
    assert len(packets) == 1
    assert truncated


def test_magic() -> None:
    assert is_pcap(written()[:4])
    assert not is_pcap(b"PK\3\4")
    assert not is_pcap(b"")


def test_batches() -> None:
    file = io.BytesIO()
    writer = PcapWriter(file)
    add(writer, TIME_NS, b"x")
    assert file.getvalue() == b""
    add(writer, TIME_NS, bytes(BATCH_BYTES))
    assert len(read(file.getvalue())[0]) == 2


def test_room_that_was_reserved_is_given_back(tmp_path: Path) -> None:
    with (tmp_path / "capture.pcap").open("wb", buffering=0) as file:
        writer = PcapWriter(file)
        for _ in range(8):
            add(writer, TIME_NS, bytes(BATCH_BYTES))
        during = os.fstat(file.fileno())
        assert during.st_size < 9 * BATCH_BYTES < during.st_blocks * 512
        writer.close()
        after = os.fstat(file.fileno())
    assert after.st_size == during.st_size
    assert after.st_blocks * 512 < 9 * BATCH_BYTES


def test_file_that_others_write_is_not_cut_back(tmp_path: Path) -> None:
    path = tmp_path / "capture.pcap"
    path.write_bytes(bytes(BATCH_BYTES))
    with path.open("ab", buffering=0) as file:
        writer = PcapWriter(file)
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (BATCH_BYTES + 30, before[1]))
        try:
            add(writer, TIME_NS, b"data")
            with pytest.raises(OutputError):
                writer.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.stat().st_size == BATCH_BYTES + 30


class _Short(io.BytesIO):
    """Takes a part of what is written, as unbuffered files may."""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        return super().write(bytes(data)[:7])


def test_short_writes() -> None:
    file = _Short()
    writer = PcapWriter(file)
    add(writer, TIME_NS, b"data")
    writer.flush()
    assert len(read(file.getvalue())[0]) == 1


@pytest.mark.parametrize("size", [100, 100_000])
def test_file_that_takes_a_part_is_cut_back_to_whole_packets(tmp_path: Path, size: int) -> None:
    with (tmp_path / "capture.pcap").open("w+b", buffering=0) as file:
        writer = PcapWriter(file)
        for _ in range(3):
            add(writer, TIME_NS, bytes(size))
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        whole = 24 + 2 * (16 + len(expected(bytes(size))))
        resource.setrlimit(resource.RLIMIT_FSIZE, (whole + size // 2, before[1]))
        try:
            with pytest.raises(OutputError, match="File too large"):
                writer.flush()
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        file.seek(0)
        packets, truncated = read(file.read())
    assert [data for _, _, data in packets] == [expected(bytes(size))] * 2
    assert not truncated


def test_error_is_told_once_and_nothing_piles_up() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        writer = PcapWriter(full)
        with pytest.raises(OutputError, match="its first 0 bytes are whole"):
            writer.flush()
        for _ in range(10):
            add(writer, TIME_NS, bytes(BATCH_BYTES))
        writer.flush()
    assert writer.batch.size == 0


def test_pcap_tells_nothing_beside() -> None:
    writer = PcapWriter(io.BytesIO())
    assert writer.interface("name", "") == 0
    before = writer.batch.size
    template = writer.template(Origin(0, None, inbound=True), START, BEHIND, comment="comment")
    add_packet(writer, template, 0)
    assert writer.batch.size == before + 16 + len(expected(b""))
    writer.statistics(0, "comment")
    assert writer.batch.size == before + 16 + len(expected(b""))
