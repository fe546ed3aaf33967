"""Headers of synthetic TCP, and packets taken apart; scapy and dpkt check both ways."""

import dpkt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.l2 import CookedLinux, Dot1AD, Dot1Q, Ether, Loopback
from scapy.packet import Packet

from sslsniff.model import Address
from sslsniff.packets import ACK, FIN, LINK_RAW, SYN, Sender, address, connect, is_known_link, parse

NEAR, FAR = Address("192.0.2.1", 40000), Address("198.51.100.2", 443)
NEAR6, FAR6 = Address("2001:db8::1", 40000), Address("fe80::2%eth0", 443)


@pytest.mark.parametrize(("client", "server"), [(NEAR, FAR), (NEAR6, FAR6)])
def test_handshake_and_data(client: Address, server: Address) -> None:
    near, far = connect(client, server, 1)
    packets = [near.control(SYN), far.control(SYN | ACK), near.control(ACK)]
    packets += [near.data(5) + b"hello", far.data(3) + b"bye", near.control(FIN | ACK)]
    segments = [parse(LINK_RAW, packet) for packet in packets]
    first, second = near.sequence - 7, far.sequence - 4
    assert [segment.sequence for segment in segments if segment] == [
        first, second, first + 1, first + 1, second + 1, first + 6,
    ]  # fmt: skip
    tcps = [(IP(raw) if client is NEAR else IPv6(raw))[TCP] for raw in packets]
    assert [tcp.ack for tcp in tcps] == [
        0, first + 1, second + 1, second + 1, first + 6, second + 4,
    ]  # fmt: skip
    assert [str(tcp.flags) for tcp in tcps] == ["S", "SA", "A", "PA", "PA", "FA"]
    assert dict(tcps[0].options) == {"MSS": 65475, "NOP": None, "WScale": 7}
    assert segments[3]
    assert segments[3].payload == b"hello"
    assert address(segments[3].source) == client
    assert address(segments[3].destination)[1] == server.port


def test_headers_agree_with_dpkt() -> None:
    near, _ = connect(NEAR, FAR, 3)
    packet = dpkt.ip.IP(near.data(100) + bytes(100))
    stated = packet.sum
    packet.sum = 0
    assert dpkt.ip.IP(bytes(packet)).sum == stated  # dpkt sums anew
    assert (packet.len, packet.df, packet.p, packet.ttl) == (140, 1, 6, 64)


def test_sequence_numbers_wrap() -> None:
    near, far = connect(NEAR, FAR, 1)
    near.sequence = 2**32 - 3
    near.data(10)
    assert near.sequence == 7
    acknowledged = parse(LINK_RAW, far.data(1) + b"x")
    assert acknowledged
    assert IP(far.control(ACK))[TCP].ack == 7
    near.sequence = 2**32 - 1
    near.control(FIN | ACK)
    assert near.sequence == 0


def test_initial_numbers_differ() -> None:
    initial = {end.sequence for number in range(1000) for end in connect(NEAR, FAR, number)}
    assert len(initial) == 2000


def test_bytes_in_flight_end_with_an_acknowledgement() -> None:
    near, far = connect(NEAR, FAR, 1)
    near.data(1000)
    near.data(500)
    assert near.in_flight_bytes == 1500
    far.control(ACK)
    assert near.in_flight_bytes == 0


def test_mixed_families_are_written_mapped() -> None:
    near, _ = connect(NEAR, NEAR6, 1)
    segment = parse(LINK_RAW, near.data(0))
    assert segment
    assert address(segment.source) == NEAR
    assert address(segment.destination) == NEAR6


def test_sender_is_abstract() -> None:
    with pytest.raises(NotImplementedError):
        Sender(b"", 0).control(ACK)


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
