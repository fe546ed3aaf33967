"""What is parsed without dpkt, compared with what dpkt makes of the same packets."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6
from scapy.layers.l2 import CookedLinux, Dot1Q

from sslsniff.files.packet_layers.segments import SegmentReader
from sslsniff.files.packet_layers.tcp_segment import Segment
from sslsniff.files.packet_layers.usual_packets import usual_segment
from sslsniff.files.packets import LINK_RAW
from tests.unit.files.foreign import ETHER

_TCP = TCP(sport=1, dport=2, seq=77, ack=99, flags="PA", options=[("NOP", None)] * 4) / b"data"
_V4 = IP(src="192.0.2.1", dst="198.51.100.2") / _TCP
_V6 = IPv6(src="2001:db8::1", dst="::2") / _TCP
_USUAL = [
    (LINK_RAW, bytes(_V4)),
    (LINK_RAW, bytes(_V6)),
    (1, bytes(ETHER / _V4) + b"trailer"),
    (1, bytes(ETHER / _V6)),
    (113, bytes(CookedLinux(proto=0x0800) / _V4)),
    (113, bytes(CookedLinux(proto=0x86DD) / _V6)),
]


def by_dpkt(link_type: int, packet: bytes) -> Segment | None:
    return SegmentReader().read(link_type, packet, 0)


@pytest.mark.parametrize(("link_type", "packet"), _USUAL)
def test_usual_packets(link_type: int, packet: bytes) -> None:
    found = usual_segment(link_type, packet)
    assert found == by_dpkt(link_type, packet)
    assert found is not None
    assert (found.payload, found.size, found.acknowledges) == (b"data", 4, 99)


@pytest.mark.parametrize(
    "packet",
    [
        IP(options=b"\x01\x01\x01\x00") / _TCP,
        IP(flags="MF") / _TCP,
        IP(frag=1) / _TCP,
        IP() / UDP(),
        IP(len=0) / _TCP,
    ],
)
def test_others_are_left_to_dpkt(packet: IP) -> None:
    assert usual_segment(LINK_RAW, bytes(packet)) is None
    assert usual_segment(1, bytes(ETHER / Dot1Q(vlan=5) / packet)) is None


@pytest.mark.tools
@settings(max_examples=500)
@given(
    chosen=st.sampled_from(_USUAL),
    changes=st.lists(st.tuples(st.integers(0, 100), st.integers(0, 255)), max_size=4),
    length=st.integers(0, 120),
)
def test_damaged_packets(
    chosen: tuple[int, bytes], changes: list[tuple[int, int]], length: int
) -> None:
    link_type, packet = chosen[0], bytearray(chosen[1])
    for at, value in changes:
        packet[at % len(packet)] = value
    found = usual_segment(link_type, bytes(packet[:length]))
    assert found is None or found == by_dpkt(link_type, bytes(packet[:length]))
