"""pcapng blocks, written and read."""

import io
import struct
from pathlib import Path
from typing import Any

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.utils import RawPcapNgReader

from sslsniff.files.packets import LINK_RAW
from sslsniff.files.pcap import Origin, Packet
from sslsniff.files.pcapng import SECTION, PcapngReader, PcapngWriter
from tests.unit.files.packed import BEHIND, START, add_packet, expected

TIME_NS = 1_700_000_000_123_456_789


def written(*packets: tuple[bytes, str]) -> bytes:
    file = io.BytesIO()
    writer = PcapngWriter(file, "sslsniff 1", "Linux 6", "a section")
    interface = writer.interface("curl[7]", "a process")
    for number, (data, comment) in enumerate(packets):
        origin = Origin(interface, (7, 8), inbound=True)
        template = writer.template(origin, START, BEHIND, comment=comment)
        add_packet(writer, template, TIME_NS + number, data)
    writer.statistics(TIME_NS, "all there is")
    writer.flush()
    return file.getvalue()


def read(raw: bytes) -> tuple[list[Packet], bool]:
    assert raw[:4] == SECTION[: len(raw)]
    reader = PcapngReader(io.BytesIO(raw[4:]))
    return list(reader), reader.truncated


@pytest.mark.tools
@given(st.lists(st.tuples(st.binary(max_size=50), st.text(max_size=20)), max_size=5))
def test_written_is_read(packets: list[tuple[bytes, str]]) -> None:
    assert read(written(*packets)) == (
        [
            Packet(
                TIME_NS + number, LINK_RAW, expected(data), (comment,) if comment else (), (7, 8)
            )
            for number, (data, comment) in enumerate(packets)
        ],
        False,
    )


def test_scapy_and_dpkt_agree(tmp_path: Path) -> None:
    raw = written((b"hello", "a comment"), (b"four", ""))
    (tmp_path / "capture").write_bytes(raw)
    with RawPcapNgReader(str(tmp_path / "capture")) as reader:
        theirs: list[tuple[bytes, Any]] = list(reader)
    assert [data for data, _ in theirs] == [expected(b"hello"), expected(b"four")]
    assert theirs[0][1].comments == [b"a comment"]
    assert theirs[0][1].ifname == b"curl[7]"
    assert theirs[0][1].direction == 1
    times = [meta.tshigh << 32 | meta.tslow for _, meta in theirs]
    assert times == [TIME_NS, TIME_NS + 1]
    assert [data for _, data in dpkt.pcapng.Reader(io.BytesIO(raw))] == [
        expected(b"hello"),
        expected(b"four"),
    ]


def test_long_comment_is_cut_at_what_the_format_holds() -> None:
    (packet,), truncated = read(written((b"x", "c" * 100_000)))
    assert len(packet.comments[0]) == 32 << 10
    assert not truncated


def test_statistics_without_interface() -> None:
    file = io.BytesIO()
    writer = PcapngWriter(file, "sslsniff 1", "", "")
    writer.statistics(TIME_NS, "nothing")
    writer.flush()
    assert read(file.getvalue()) == ([], False)


def test_every_cut() -> None:
    raw = written((b"hello", "a comment"), (b"four", ""))
    whole, _ = read(raw)
    ends = block_ends(raw)
    for cut in range(4, len(raw)):
        packets, truncated = read(raw[:cut])
        assert packets == whole[: len(packets)]
        assert truncated == (cut not in ends)


def block_ends(raw: bytes) -> set[int]:
    at, ends = 0, set()
    while at < len(raw):
        at += struct.unpack_from("<I", raw, at + 4)[0]
        ends.add(at)
    return ends


@pytest.mark.tools
@given(st.data())
def test_any_damage(data: st.DataObject) -> None:
    raw = bytearray(written((b"hello", "a comment"), (b"four", "")))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(4, len(raw) - 1))] = data.draw(st.integers(0, 255))
    read(bytes(raw))


def block(order: str, kind: int, body: bytes) -> bytes:
    total = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + total + body + total


def section(order: str) -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order: str, link_type: int, *options: tuple[int, bytes]) -> bytes:
    body = struct.pack(order + "HHI", link_type, 0, 0)
    for code, value in options:
        body += struct.pack(order + "HH", code, len(value)) + value + bytes(-len(value) & 3)
    return block(order, 1, body)


def enhanced(order: str, number: int, ticks: int, data: bytes) -> bytes:
    fields = struct.pack(
        order + "IIIII", number, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data)
    )
    return block(order, 6, fields + data + bytes(-len(data) & 3))


@pytest.mark.parametrize("order", ["<", ">"])
def test_other_writers(order: str) -> None:
    raw = section(order)
    raw += interface(order, 1)  # microseconds, if nothing is said
    raw += interface(order, 101, (9, b"\x83"), (14, struct.pack(order + "q", 1000)))  # 1/8 s
    raw += block(order, 10, b"secrets.")  # a kind that is skipped
    raw += enhanced(order, 0, 5_000_001, b"one")
    raw += enhanced(order, 1, 4, b"two")
    raw += block(order, 2, struct.pack(order + "HHIIII", 0, 0, 0, 7, 4, 4) + b"old!")
    raw += block(order, 3, struct.pack(order + "I", 4) + b"easy")
    other = ">" if order == "<" else "<"
    raw += section(other) + interface(other, 113) + enhanced(other, 0, 1, b"next")
    packets, truncated = read(raw)
    assert [(packet.time_ns, packet.link_type, packet.data) for packet in packets] == [
        (5_000_001_000, 1, b"one"),
        (1_000_500_000_000, 101, b"two"),
        (7_000, 1, b"old!"),
        (0, 1, b"easy"),
        (1_000, 113, b"next"),
    ]
    assert not truncated


@pytest.mark.parametrize(
    "tail",
    [
        enhanced("<", 3, 0, b"no such interface"),
        block("<", 6, struct.pack("<IIIII", 0, 0, 0, 5000, 5000)),
        block("<", 6, b"tiny"),
        struct.pack("<III", 6, 8, 8),
        struct.pack("<III", 6, 0xFFFFFFF0, 8),
        b"\x0a\x0d\x0d\x0a\x1c\0\0\0nonsense",
    ],
)
def test_block_that_cannot_be(tail: bytes) -> None:
    packets, truncated = read(section("<") + interface("<", 1) + enhanced("<", 0, 1, b"ok") + tail)
    assert [packet.data for packet in packets] == [b"ok"]
    assert truncated
