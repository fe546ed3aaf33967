"""Captured packets taken apart: what scapy builds, damaged and cut, over every link type."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import GRE, CookedLinux, Dot1AD, Dot1Q, Ether, Loopback
from scapy.packet import Packet

from sslsniff.capture_files.packet_layers.segments import is_known_link, parse
from sslsniff.capture_files.packets import LINK_RAW

V4 = IP(src="192.0.2.1", dst="198.51.100.2") / TCP(sport=1, dport=2, seq=77, flags="PA") / b"data"
V6 = IPv6(src="2001:db8::1", dst="::2") / TCP(sport=1, dport=2, seq=77, flags="PA") / b"data"
HOPS = IPv6(src="2001:db8::1", dst="::2") / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt()
COOKED2 = bytes.fromhex("0800 0000 00000001 0001 00 06 0011223344550000")


@pytest.mark.parametrize(
    ("link_type", "packet"),
    [
        (LINK_RAW, V4),
        (LINK_RAW, V6),
        (12, V4),
        (228, V4),
        (229, V6),
        (1, Ether() / V4),
        (1, Ether() / V6),
        (1, Ether() / Dot1Q(vlan=5) / V4),
        (1, Ether() / Dot1AD(vlan=5) / Dot1Q(vlan=6) / V6),
        (0, Loopback(type=2) / V4),
        (108, Loopback(type=2) / V4),
        (113, CookedLinux(proto=0x0800) / V4),
        (113, CookedLinux(proto=0x86DD) / V6),
        (276, COOKED2 + bytes(V4)),
        (LINK_RAW, HOPS / V6[TCP]),
        (LINK_RAW, IP() / V4),
        (LINK_RAW, IPv6() / V4),
        (1, Ether() / IP() / GRE() / V4),
        (1, bytes(Ether() / V4) + bytes(6)),  # filled up to the least size of a frame
    ],
)
def test_link_types(link_type: int, packet: Packet | bytes) -> None:
    assert is_known_link(link_type)
    segment = parse(link_type, bytes(packet))
    assert segment
    assert (segment.payload, segment.size, segment.sequence) == (b"data", 4, 77)
    assert (segment.source[1], segment.destination[1]) == (1, 2)


def test_cut_packet_tells_its_size() -> None:
    packet = bytes(V4 / (b"x" * 1000))
    segment = parse(LINK_RAW, packet[:60])
    assert segment
    assert (len(segment.payload), segment.size) == (20, 1004)


def test_length_zero_means_the_rest() -> None:
    packet = bytearray(bytes(V4))
    packet[2:4] = b"\0\0"  # as segmentation offloading leaves it
    segment = parse(LINK_RAW, bytes(packet))
    assert segment
    assert segment.payload == b"data"


@pytest.mark.parametrize(
    ("link_type", "packet"),
    [
        (LINK_RAW, IP() / UDP() / b"data"),
        (LINK_RAW, IP(flags="MF") / TCP() / b"data"),
        (LINK_RAW, IP(frag=8) / TCP() / b"data"),
        (LINK_RAW, IPv6() / IPv6ExtHdrFragment(m=1) / TCP() / b"data"),
        (LINK_RAW, b"\x00" * 60),
        (LINK_RAW, b""),
        (1, Ether(type=0x0806) / (b"x" * 40)),
        (9999, V4),
    ],
)
def test_not_tcp(link_type: int, packet: Packet | bytes) -> None:
    assert parse(link_type, bytes(packet)) is None


@given(st.sampled_from([0, 1, 101, 113, 276]), st.binary(max_size=120))
def test_any_bytes(link_type: int, packet: bytes) -> None:
    parse(link_type, packet)


@given(st.integers(0, 119), st.integers(0, 255))
def test_any_damage(at: int, value: int) -> None:
    for packet in (V4, HOPS / V6[TCP]):
        damaged = bytearray(bytes(packet))
        damaged[at % len(damaged)] = value
        parse(LINK_RAW, bytes(damaged))
        parse(LINK_RAW, bytes(damaged)[:at])
