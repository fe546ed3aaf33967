"""A TCP segment inside of every tunnel and link that is read, as scapy or a standard builds it."""

import struct

from scapy.contrib.geneve import GENEVE
from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
from scapy.contrib.mpls import MPLS
from scapy.contrib.nsh import NSH
from scapy.layers.dot11 import Dot11, Dot11QoS, RadioTap
from scapy.layers.inet import IP, TCP, UDP
from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt
from scapy.layers.l2 import GRE, GRE_PPTP, LLC, SNAP, CookedLinux, Dot1Q, Dot3, Ether
from scapy.layers.l2tp import L2TP
from scapy.layers.ppp import HDLC, PPP, PPPoE
from scapy.layers.vxlan import VXLAN
from scapy.packet import Packet

from tests.unit.files.foreign import ETHER

V4 = IP(src="192.0.2.1", dst="198.51.100.2") / TCP(sport=1, dport=2, seq=77, flags="PA") / b"data"
V6 = IPv6(src="2001:db8::1", dst="::2") / TCP(sport=1, dport=2, seq=77, flags="PA") / b"data"

_SNAP = LLC(dsap=0xAA, ssap=0xAA, ctrl=3) / SNAP(OUI=0, code=0x0800)
_FROM_NET, _TO_NET, _BOTH = 2, 1, 3  # "from DS" and "to DS"
_ERSPAN_2, _ERSPAN_3 = bytes.fromhex("1005080000000003"), bytes.fromhex("200508000000000300000000")
_NFLOG = struct.pack("<BBH", 2, 0, 0) + struct.pack("<HH", 8, 1) + b"\x08\0\0\0"

LINKED: dict[str, tuple[int, Packet | bytes]] = {
    "PPP": (9, HDLC() / PPP(proto=0x21) / V4),
    "PPP with a short number": (9, b"\x21" + bytes(V4)),
    "PPP in HDLC": (50, HDLC() / PPP(proto=0x57) / V6),
    "C-HDLC": (104, b"\x0f\x00\x08\x00" + bytes(V4)),
    "FDDI": (10, b"\x57" + bytes(12) + bytes(_SNAP / V4)),
    "ATM": (100, _SNAP / V4),
    "802.3": (1, Dot3(src=ETHER.src, dst=ETHER.dst) / _SNAP / V4),
    "802.11": (105, Dot11(type=2, FCfield=_FROM_NET) / _SNAP / V4),
    "802.11, QoS": (105, Dot11(type=2, subtype=8, FCfield=_TO_NET) / Dot11QoS() / _SNAP / V4),
    "802.11, four addresses": (
        105,
        Dot11(type=2, FCfield=_BOTH, addr4="02:00:00:00:00:01") / _SNAP / V4,
    ),
    "802.11, aggregated": (
        105,
        Dot11(type=2, subtype=8, FCfield=_TO_NET)
        / Dot11QoS(A_MSDU_Present=1)
        / (bytes(12) + struct.pack(">H", len(_SNAP / V4)) + bytes(_SNAP / V4)),
    ),
    "radiotap": (127, RadioTap() / Dot11(type=2, FCfield=_FROM_NET) / _SNAP / V4),
    "radiotap, padded": (
        127,
        RadioTap(present="TSFT+Flags", mac_timestamp=5, Flags="pad")
        / Dot11(type=2, subtype=8, FCfield=_TO_NET)
        / Dot11QoS()
        / (b"\0\0" + bytes(_SNAP / V4)),
    ),
    "Prism": (
        119,
        struct.pack("<II", 0x44, 24)
        + bytes(16)
        + bytes(Dot11(type=2, FCfield=_FROM_NET) / _SNAP / V4),
    ),
    "PPI": (192, struct.pack("<BBHI", 0, 0, 8, 1) + bytes(ETHER / V4)),
    "PKTAP": (258, struct.pack("<III", 108, 1, 101) + bytes(96) + bytes(V4)),
    "PFLOG": (117, bytes((61, 2)) + bytes(62) + bytes(V4)),
    "NFLOG": (239, _NFLOG + struct.pack("<HH", 4 + len(V4), 9) + bytes(V4)),
    "cooked with VLAN": (113, CookedLinux(proto=0x8100) / Dot1Q(vlan=5, type=0x0800) / V4),
    "three VLANs": (1, ETHER / Dot1Q(vlan=1) / Dot1Q(vlan=2) / Dot1Q(vlan=3) / V4),
    "PPPoE": (1, ETHER / PPPoE(sessionid=1) / PPP(proto=0x21) / V4),
    "MPLS": (1, ETHER / MPLS(label=5, s=0) / MPLS(label=6, s=1) / V4),
    "Ethernet in MPLS": (1, ETHER / MPLS(label=5, s=1) / (bytes(4) + bytes(ETHER / V4))),
    "HSR": (
        1,
        Ether(src=ETHER.src, dst=ETHER.dst, type=0x892F)
        / (bytes.fromhex("00390001 0800") + bytes(V4)),
    ),
    "VN-Tag": (
        1,
        Ether(src=ETHER.src, dst=ETHER.dst, type=0x8926)
        / (bytes.fromhex("00010002 0800") + bytes(V4)),
    ),
    "E-Tag": (
        1,
        Ether(src=ETHER.src, dst=ETHER.dst, type=0x893F)
        / (bytes.fromhex("000000010000 0800") + bytes(V4)),
    ),
    "NSH": (1, Ether(src=ETHER.src, dst=ETHER.dst, type=0x894F) / NSH(nextproto=3) / ETHER / V4),
    "provider backbone": (
        1,
        Ether(src=ETHER.src, dst=ETHER.dst, type=0x88E7) / (b"\0\0\0\5" + bytes(ETHER / V4)),
    ),
}
"""Packets by their link layer, with the link type."""

_AH = bytes.fromhex("0604 0000 00000005 00000001") + bytes(12)
_GTP = GTP_U_Header(gtp_type=255, teid=7)

TUNNELLED: dict[str, Packet] = {
    "IP in IP": V4,
    "IPv6 in IP": IP(proto=41) / V6,
    "AH": IP(src="192.0.2.1", dst="198.51.100.2", proto=51) / (_AH + bytes(V4[TCP])),
    "GRE": GRE() / V4,
    "GRE with a key": GRE(key_present=1, key=7) / V4,
    "GRE with all": GRE(chksum_present=1, key_present=1, key=7, seqnum_present=1) / V6,
    "Ethernet in GRE": GRE(key_present=1, key=7, proto=0x6558) / ETHER / V4,
    "ERSPAN I": GRE(proto=0x88BE) / ETHER / V4,
    "ERSPAN II": GRE(proto=0x88BE, seqnum_present=1) / (_ERSPAN_2 + bytes(ETHER / V4)),
    "ERSPAN III": GRE(proto=0x22EB, seqnum_present=1) / (_ERSPAN_3 + bytes(ETHER / V4)),
    "WCCP": GRE(proto=0x883E) / (bytes(4) + bytes(V4)),
    "PPTP": GRE_PPTP(seqnum_present=1, acknum_present=1) / HDLC() / PPP(proto=0x21) / V4,
    "EtherIP": IP(proto=97) / (b"\x30\0" + bytes(ETHER / V4)),
    "VXLAN": UDP(sport=5000, dport=4789) / VXLAN(vni=5) / ETHER / V4,
    "VXLAN at Linux's port": UDP(sport=5000, dport=8472) / VXLAN(vni=5) / ETHER / Dot1Q() / V4,
    "VXLAN GPE": UDP(sport=5000, dport=4790) / (b"\x0c\0\0\1\0\0\5\0" + bytes(V4)),
    "Geneve": UDP(sport=5000, dport=6081) / GENEVE(vni=5) / ETHER / V4,
    "Geneve with options": UDP(sport=5000, dport=6081)
    / GENEVE(vni=5, optionlen=2, options=[b"\0\1\2\1abcd"], proto=0x0800)
    / V4,
    "GTP-U": UDP(sport=2152, dport=2152) / _GTP / V4,
    "GTP-U with a sequence number": UDP(sport=2152, dport=2152)
    / GTP_U_Header(gtp_type=255, teid=7, S=1, seq=9)
    / V6,
    "GTP-U of 5G": UDP(sport=2152, dport=2152)
    / GTP_U_Header(gtp_type=255, teid=7, E=1, next_ex=0x85)
    / GTPPDUSessionContainer(type=1, QFI=3)
    / V4,
    "L2TP": UDP(sport=1701, dport=1701)
    / L2TP(hdr=["length"], version=2, tunnel_id=1, session_id=2)
    / HDLC()
    / PPP(proto=0x21)
    / V4,
    "AYIYA": UDP(sport=5000, dport=5072)
    / (bytes((0x41, 0x52, 0x11, 41)) + bytes(4) + bytes(16) + bytes(20) + bytes(V6)),
    "Teredo": UDP(sport=5000, dport=3544) / (b"\0\0" + bytes(6) + bytes(V6)),
    "MPLS in UDP": UDP(sport=5000, dport=6635) / MPLS(s=1) / V4,
    "GRE in UDP": UDP(sport=5000, dport=4754) / GRE() / V4,
    "a tunnel in a tunnel": GRE() / IP() / UDP(dport=4789) / VXLAN() / ETHER / IP() / V4,
}
"""What an outer IP packet carries."""


def _tunnels() -> dict[str, bytes]:
    """Return each tunnel in IPv4, and in IPv6 with an extension header, as an Ethernet frame."""
    outer4 = IP(src="203.0.113.1", dst="203.0.113.2")
    outer6 = IPv6(src="2001:db8::8", dst="2001:db8::9") / IPv6ExtHdrDestOpt()
    found = {}
    for name, carried in TUNNELLED.items():
        if isinstance(carried, IP) and carried.proto != 6:  # it is the outer packet itself
            found[name] = bytes(ETHER / carried)
            continue
        found[name] = bytes(ETHER / outer4 / carried)
        if not isinstance(carried, IP):  # which scapy numbers as IPv4's
            found[f"{name}, in IPv6"] = bytes(ETHER / outer6 / carried)
    return found


EVERY: dict[str, tuple[int, bytes]] = {
    **{name: (link, bytes(packet)) for name, (link, packet) in LINKED.items()},
    **{name: (1, packet) for name, packet in _tunnels().items()},
}
"""All of them, with the link type."""
