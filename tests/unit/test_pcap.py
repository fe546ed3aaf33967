"""Classic pcap, written and read."""

import io
import struct

import dpkt
import pytest
from scapy.layers.inet import IP, TCP
from scapy.utils import PcapReader as ScapyReader
from scapy.utils import PcapWriter as ScapyWriter

from sslsniff.errors import OutputError
from sslsniff.packets import LINK_RAW
from sslsniff.pcap import BATCH_BYTES, PacketWriter, PcapWriter
from sslsniff.pcap_reader import PcapReader, is_pcap

TIME_NS = 1_700_000_000_123_456_789


def written(count: int = 3) -> bytes:
    file = io.BytesIO()
    writer = PcapWriter(file)
    for number in range(count):
        writer.packet(0, TIME_NS + number * 1000, b"head", b"data%d" % number, 2)
    writer.flush()
    return file.getvalue()


def read(raw: bytes) -> tuple[list[tuple[int, int, bytes]], bool]:
    reader = PcapReader(io.BytesIO(raw[4:]), raw[:4])
    packets = [(packet.time_ns, packet.link_type, packet.data) for packet in reader]
    return packets, reader.truncated


def test_written_is_read() -> None:
    packets, truncated = read(written())
    assert packets == [
        (TIME_NS // 1000 * 1000 + number * 1000, LINK_RAW, b"headdata%d\0\0" % number)
        for number in range(3)
    ]
    assert not truncated


def test_dpkt_and_scapy_agree() -> None:
    raw = written()
    theirs = [(round(time * 1e6), data) for time, data in dpkt.pcap.Reader(io.BytesIO(raw))]
    assert theirs == [(time_ns // 1000, data) for time_ns, _, data in read(raw)[0]]
    packet = IP() / TCP() / b"hello"
    file = io.BytesIO()
    writer = PcapWriter(file)
    writer.packet(0, TIME_NS, bytes(packet))
    writer.flush()
    file.seek(0)
    with ScapyReader(file) as reader:
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
    writer.packet(0, TIME_NS, b"x")
    assert file.getvalue() == b""
    writer.packet(0, TIME_NS, b"x", bytes(BATCH_BYTES))
    assert len(read(file.getvalue())[0]) == 2


class _Short(io.BytesIO):
    """Takes a part of what is written, as unbuffered files may."""

    def write(self, data: bytes) -> int:  # type: ignore[override]
        return super().write(bytes(data)[:7])


class _Full(io.BytesIO):
    def write(self, data: bytes) -> int:  # type: ignore[override]
        raise OSError(28, "No space left on device")


def test_short_writes() -> None:
    file = _Short()
    writer = PcapWriter(file)
    writer.packet(0, TIME_NS, b"head", b"data")
    writer.flush()
    assert len(read(file.getvalue())[0]) == 1


def test_error_is_told_once_and_nothing_piles_up() -> None:
    writer = PcapWriter(_Full())
    with pytest.raises(OutputError, match="its first 0 bytes are whole"):
        writer.flush()
    for _ in range(10):
        writer.packet(0, TIME_NS, b"x", bytes(BATCH_BYTES))
    writer.flush()
    assert writer._parts == []


def test_pcap_tells_nothing_beside() -> None:
    writer = PcapWriter(io.BytesIO())
    assert writer.interface("name", "") == 0
    assert writer.options((1, 2), True, "comment") == b""
    writer.statistics(0, "comment")
    with pytest.raises(NotImplementedError):
        PacketWriter(io.BytesIO()).interface("", "")
    with pytest.raises(NotImplementedError):
        PacketWriter(io.BytesIO()).packet(0, 0, b"")
