"""Captured packets taken apart: what scapy builds, damaged and cut, over every link type."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scapy.layers.dot11 import Dot11
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrFragment, IPv6ExtHdrHopByHop
from scapy.layers.ipsec import ESP
from scapy.layers.l2 import CookedLinux, Dot1AD, Dot1Q, Ether, Loopback
from scapy.layers.ppp import HDLC, PPP
from scapy.packet import Packet, Raw

from sslsniff.files.packet_layers.segments import SegmentReader
from sslsniff.files.packet_layers.tcp_segment import Segment
from sslsniff.files.packets import LINK_RAW
from tests.unit.files.foreign import ETHER
from tests.unit.files.packet_layers.tunnelled import EVERY, V4, V6

HOPS = IPv6(src="2001:db8::1", dst="::2") / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt()
COOKED2 = bytes.fromhex("0800 0000 00000001 0001 00 06 0011223344550000")


def parse(link_type: int, packet: Packet | bytes) -> Segment | None:
    return SegmentReader().read(link_type, bytes(packet), 0)


def unread(link_type: int, *packets: Packet | bytes) -> dict[str, int]:
    reader = SegmentReader()
    for packet in packets:
        assert reader.read(link_type, bytes(packet), 0) is None
    reader.finish()
    return dict(reader.unread)


@pytest.mark.parametrize(
    ("link_type", "packet"),
    [
        (LINK_RAW, V4),
        (LINK_RAW, V6),
        (12, V4),
        (228, V4),
        (229, V6),
        (1, ETHER / V4),
        (1, ETHER / V6),
        (1, ETHER / Dot1Q(vlan=5) / V4),
        (1, ETHER / Dot1AD(vlan=5) / Dot1Q(vlan=6) / V6),
        (0, Loopback(type=2) / V4),
        (108, Loopback(type=2) / V4),
        (113, CookedLinux(proto=0x0800) / V4),
        (113, CookedLinux(proto=0x86DD) / V6),
        (276, COOKED2 + bytes(V4)),
        (LINK_RAW, HOPS / V6[TCP]),
        (LINK_RAW, IPv6() / V4),
        (1, bytes(ETHER / V4) + bytes(6)),  # filled up to the least size of a frame
    ],
)
def test_link_types(link_type: int, packet: Packet | bytes) -> None:
    segment = parse(link_type, packet)
    assert segment
    assert (segment.payload, segment.size, segment.sequence) == (b"data", 4, 77)
    assert (segment.source[1], segment.destination[1]) == (1, 2)


@pytest.mark.parametrize("name", EVERY)
def test_layers_and_tunnels(name: str) -> None:
    segment = parse(*EVERY[name])
    assert segment
    assert (segment.payload, segment.size, segment.sequence) == (b"data", 4, 77)
    assert (segment.source[1], segment.destination[1]) == (1, 2)
    assert segment.source[0] in {bytes([192, 0, 2, 1]), bytes.fromhex("20010db8" + "0" * 23 + "1")}


NOT_IN_TSHARK = {
    "AYIYA",  # with a signature of another length than it wants
    "Ethernet in MPLS",  # which it shows only with an option
    "Prism",  # with a header that is shorter than the usual one
}


@pytest.mark.heavy
def test_tshark_finds_the_same(tmp_path: Path) -> None:
    """So what scapy built, and what is made by hand here, is what others send."""
    from scapy.utils import wrpcap

    for link_type in {link for link, _ in EVERY.values()}:
        packets = {name: packet for name, (link, packet) in EVERY.items() if link == link_type}
        path = tmp_path / f"{link_type}.pcap"
        wrpcap(str(path), [Raw(each) for each in packets.values()], linktype=link_type)
        command = [
            "tshark",
            "-r",
            str(path),
            "-d",
            "udp.port==8472,vxlan",
            "-T",
            "fields",
            "-e",
            "tcp.seq_raw",
            "-e",
            "tcp.len",
        ]
        shown = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
        lines = shown.stdout.splitlines()
        assert len(lines) == len(packets)
        wrong = {
            name for name, line in zip(packets, lines, strict=True) if line.split() != ["77", "4"]
        }
        assert wrong <= {name + where for name in NOT_IN_TSHARK for where in ("", ", in IPv6")}


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
        (1, Ether(src=ETHER.src, dst=ETHER.dst, type=0x0806) / (b"x" * 40)),
        (9999, V4),
        (105, Dot11(type=0, subtype=8)),
        (105, Dot11(type=2, subtype=4)),
    ],
)
def test_not_tcp(link_type: int, packet: Packet | bytes) -> None:
    assert parse(link_type, packet) is None


def test_what_is_not_read_is_counted() -> None:
    ppp = HDLC() / PPP(proto=0xFD) / b"x"
    assert unread(9999, V4, V4) == {"link type 9999": 2}
    assert unread(LINK_RAW, IP() / ESP(data=b"x" * 40), IP() / UDP(dport=4500) / b"x") == {
        "ESP (encrypted)": 1,
        "ESP in UDP (encrypted)": 1,
    }
    assert unread(LINK_RAW, IP() / UDP(sport=443, dport=5000) / b"x") == {"QUIC (encrypted)": 1}
    assert unread(LINK_RAW, IP(proto=115) / b"x") == {"L2TP version 3": 1}
    assert unread(9, ppp) == {"compressed or encrypted PPP": 1}
    assert unread(1, Ether(src=ETHER.src, dst=ETHER.dst, type=0x88E5) / b"x") == {
        "MACsec (encrypted)": 1
    }
    assert unread(105, Dot11(type=2, FCfield=0x40) / (b"x" * 40)) == {"encrypted 802.11": 1}
    assert unread(LINK_RAW, IP() / UDP(dport=53) / b"x", IP(proto=1) / b"x") == {}


@pytest.mark.tools
@given(st.sampled_from([0, 1, 9, 101, 104, 105, 113, 127, 239, 276]), st.binary(max_size=120))
def test_any_bytes(link_type: int, packet: bytes) -> None:
    parse(link_type, packet)


_DAMAGEABLE = [*EVERY.values(), (101, bytes(HOPS / V6[TCP]))]


@pytest.mark.tools
@given(st.data(), st.integers(0, 255))
def test_any_damage(data: st.DataObject, value: int) -> None:
    link_type, packet = data.draw(st.sampled_from(_DAMAGEABLE))
    damaged = bytearray(packet)
    at = data.draw(st.integers(0, len(damaged) - 1))
    damaged[at] = value
    parse(link_type, bytes(damaged))
    parse(link_type, bytes(damaged)[:at])
