"""IP fragments put together, in any order, repeated, lost, overlapping, cut."""

import functools
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP, fragment
from scapy.layers.inet6 import IPv6, IPv6ExtHdrFragment, fragment6
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet

from sslsniff.files.packet_layers import fragments as fragments_module
from sslsniff.files.packet_layers.segments import SegmentReader
from sslsniff.files.packet_layers.tcp_segment import Segment
from sslsniff.files.packets import LINK_RAW
from sslsniff.files.replay import ReplaySource
from tests.unit.captures import WRITE
from tests.unit.files.foreign import ETHER, FAR, NEAR, Wire
from tests.unit.files.test_replay_foreign import summary

DATA = random.Random(7).randbytes(5000)
V4 = IP(src="192.0.2.1", dst="198.51.100.2", id=77) / TCP(sport=1, dport=2, seq=7, flags="A") / DATA
V6 = IPv6(src="2001:db8::1", dst="::2") / TCP(sport=1, dport=2, seq=7, flags="A") / DATA


def fragments(packet: Packet, size: int) -> list[bytes]:
    return [bytes(each) for each in fragment(packet, fragsize=size)]  # type: ignore[no-untyped-call]


@functools.cache
def pieces(version: int) -> list[bytes]:
    if version == 4:
        return fragments(V4, 1480)
    whole = IPv6(src="2001:db8::1", dst="::2") / IPv6ExtHdrFragment(id=9) / V6[TCP]
    return [bytes(each) for each in fragment6(whole, 1500)]  # type: ignore[no-untyped-call]


def read(
    packets: list[bytes], step_ns: int = 1, reader: SegmentReader | None = None
) -> list[Segment]:
    reader = reader or SegmentReader()
    found = [reader.read(LINK_RAW, packet, at * step_ns) for at, packet in enumerate(packets)]
    reader.finish()
    return [each for each in found if each is not None]


@pytest.mark.tools
@given(st.sampled_from([4, 6]), st.randoms(), st.lists(st.integers(0, 3), max_size=4))
def test_any_order_and_repetitions(version: int, order: random.Random, again: list[int]) -> None:
    packets = pieces(version)
    assert len(packets) == 4
    last, *rest = order.sample(packets, 4)
    shuffled = [*rest, *(packets[at] for at in again if packets[at] != last)]
    order.shuffle(shuffled)
    [segment] = read([*shuffled, last])
    assert (segment.payload, segment.size, segment.sequence) == (DATA, 5000, 7)


@pytest.mark.parametrize("version", [4, 6])
def test_a_lost_fragment(version: int) -> None:
    reader = SegmentReader()
    assert read([*pieces(version)[:2], pieces(version)[3]], reader=reader) == []
    assert dict(reader.unread) == {"IP fragments without the rest of their packet": 3}


def test_packets_between_each_other() -> None:
    other = fragments(IP(src="192.0.2.1", id=78) / V4[TCP], 1000)
    mixed = [each for pair in zip(pieces(4), other, strict=False) for each in pair]
    assert [each.payload for each in read([*mixed, *other[4:]])] == [DATA, DATA]


def test_atomic_fragments_are_whole_packets() -> None:
    """RFC 6946: also beside fragments of the same number."""
    packet = IPv6(src="2001:db8::1", dst="::2") / IPv6ExtHdrFragment(id=9) / V6[TCP]
    packets = pieces(6)
    found = read([packets[0], bytes(packet), *packets[1:]])
    assert [each.payload for each in found] == [DATA, DATA]


def test_overlapping_fragments_are_dropped() -> None:
    """RFC 5722: two readers may put them together differently."""
    reader = SegmentReader()
    first, second, *rest = pieces(4)
    overlap = IP(second)
    overlap.frag -= 1
    assert read([first, bytes(overlap), *rest], reader=reader) == []
    assert reader.unread.total() > 0
    longer = IP(first)
    longer.len += 8
    assert read([first, bytes(longer) + b"x" * 8, *rest]) == []


def test_late_fragments_are_of_another_packet() -> None:
    """Numbers are used again."""
    first, *rest = pieces(4)
    assert read([first, *rest], step_ns=31_000_000_000) == []
    reader = SegmentReader()
    for at, packet in enumerate([first, first, *rest]):
        found = reader.read(LINK_RAW, packet, 31_000_000_000 * bool(at))
    assert found is not None
    assert found.payload == DATA


def test_a_fragment_that_the_capture_cut() -> None:
    first, second, *rest = pieces(4)
    [segment] = read([first, second[:500], *rest])
    assert segment.size == 5000
    assert segment.payload == DATA[: 1480 - 20 + 480]


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fragments_module, "_MOST_BYTES", 20_000)
    reader = SegmentReader()
    for number in range(200):
        reader.read(LINK_RAW, fragments(IP(id=number) / V4[TCP], 1480)[0], number)
        assert reader._fragments._bytes <= 20_000
    reader.finish()
    assert reader.unread.total() == 200
    assert reader._fragments._bytes == 0


def test_many_tiny_fragments_are_refused() -> None:
    packets = fragments(IP() / TCP() / (b"x" * 8000), 8)
    assert len(packets) > 1000
    assert read(packets) == []


def test_a_fragmented_tunnel() -> None:
    inner = VXLAN() / ETHER / V4
    packets = fragments(IP(id=3) / UDP(dport=4789) / inner, 1400)
    assert [each.payload for each in read(packets)] == [DATA]


def test_a_capture_with_fragments_has_no_loss(tmp_path: Path) -> None:
    tcp = Wire()
    tcp.handshake()
    tcp.send(NEAR, DATA)
    tcp.send(FAR, flags="A")
    tcp.send(NEAR, b"next")
    tcp.packets[3:4] = [ETHER / IP(each) for each in reversed(fragments(tcp.packets[3][IP], 800))]
    tcp.write(tmp_path / "file")
    source = ReplaySource(tmp_path / "file")
    assert summary(list(source))[2:] == [(WRITE, 0, DATA), (WRITE, 5000, b"next")]
    assert source.warnings == []
