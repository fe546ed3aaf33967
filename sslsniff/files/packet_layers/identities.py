"""Says which network a packet is in, by the layers around it.

Two networks may use the same addresses: what tells them apart is the number of a VLAN, of a virtual
network, of a tunnel or of an interface, or the addresses of a tunnel's ends.
"""

import struct
from collections.abc import Callable
from typing import Any

from sslsniff.files.packet_layers.ip import Carrier
from sslsniff.files.packet_layers.layer import Numbers, Protocol, word

Identity = tuple[int, int | bytes | tuple[int, ...] | tuple[bytes, bytes]]
"""The number of a layer's protocol, and what the layer says of the network."""

Path = tuple[Identity, ...]
"""The identities of a packet's layers, from the outermost; () for most packets."""

_OUTER = -1
"""The number of the layer of a tunnel's addresses, whether IPv4 or IPv6."""

_VLAN = 0x0FFF
_GRE_CHECKSUM_OR_ROUTING, _GRE_KEY, _GRE_SEQUENCE = 0xC000, 0x2000, 0x1000
_ERSPANS = frozenset((0x88BE, 0x22EB))
_SESSION = 0x03FF
_L2TP_LENGTH = 0x4000
_WORDS = struct.Struct(">I")


def _number(start: int, end: int) -> Callable[[bytes], int]:
    return lambda packet: int.from_bytes(packet[start:end], "big")


def _vlan(packet: bytes) -> int | None:
    """IEEE 802.1Q clause 9.6; VLAN 0 is a frame with a priority and without a VLAN."""
    return word(packet, 0) & _VLAN or None


def _labels(packet: bytes) -> tuple[int, ...]:
    """RFC 3032 section 2.1, without traffic class and hops."""
    labels: tuple[int, ...] = ()
    at, is_last = 0, 0
    while not is_last:
        (entry,) = _WORDS.unpack_from(packet, at)
        labels += (entry >> 12,)
        at, is_last = at + 4, entry & 0x100
    return labels


def _gre(packet: bytes) -> tuple[int, ...] | None:
    """RFC 2890 section 2.1; the call of PPTP (RFC 2637 section 4.1) is the key's lower half.

    ERSPAN names the VLAN and the session that it mirrors (draft-foschiano-erspan-03 section 4).
    """
    flags, kind = word(packet, 0), word(packet, 2)
    found: tuple[int, ...] = ()
    at = 8 if flags & _GRE_CHECKSUM_OR_ROUTING else 4
    if flags & _GRE_KEY:
        is_pptp = flags & 7 == 1
        found += (word(packet, 6) if is_pptp else _WORDS.unpack_from(packet, at)[0],)
        at += 4
    if kind in _ERSPANS and flags & _GRE_SEQUENCE:
        vlan, session = struct.unpack_from(">HH", packet, at + 4)
        found += vlan & _VLAN, session & _SESSION
    return found or None


def _l2tp_session(packet: bytes) -> int:
    """RFC 2661 section 3.1: tunnel and session."""
    return _number(4, 8)(packet) if word(packet, 0) & _L2TP_LENGTH else _number(2, 6)(packet)


_NFLOG_INTERFACES = (4, 5)  # of arrival, of departure: linux/netfilter/nfnetlink_log.h


def _nflog_interface(packet: bytes) -> bytes | None:
    at = 4
    while at + 4 <= len(packet):
        size, kind = struct.unpack_from("<HH", packet, at)
        if kind & 0x7FFF in _NFLOG_INTERFACES:
            return packet[at + 4 : at + 8]
        at += max(4, size + (-size % 4))
    return None


_VNI = _number(4, 7)  # VXLAN (RFC 7348 section 5), Geneve (RFC 8926 section 3.4), NSH's path
_IDENTITIES: dict[Protocol, Callable[[bytes], Any]] = {
    Protocol(numbers, number): identity
    for numbers, identities in (
        (
            Numbers.LINK,
            {
                117: lambda packet: packet[4:20],  # PFLOG: the interface's name
                239: _nflog_interface,
                258: lambda packet: packet[12:36],  # PKTAP: the interface's name
                276: _number(4, 8),  # LINUX_SLL2: the interface's index
            },
        ),
        (
            Numbers.ETHER,
            {
                **dict.fromkeys((0x8100, 0x88A8, 0x9100, 0x9200), _vlan),
                **dict.fromkeys((0x8847, 0x8848), _labels),
                0x8864: _number(2, 4),  # PPPoE: the session (RFC 2516 section 4)
                0x88E7: _number(1, 4),  # IEEE 802.1ah: the service
                0x894F: _VNI,
            },
        ),
        (Numbers.PPP, {0x281: _labels}),
        (Numbers.IP, {47: _gre, 137: _labels}),
        (
            Numbers.UDP,
            {
                1701: _l2tp_session,
                2152: _number(4, 8),  # GTP: the tunnel (3GPP TS 29.281 section 5.1)
                4754: _gre,  # RFC 8086
                **dict.fromkeys((4789, 8472, 4790, 6081), _VNI),
                6635: _labels,
            },
        ),
    )
    for number, identity in identities.items()
}


def identity(protocol: Protocol, packet: bytes) -> Path:
    """Return what a layer says of the network: () if it says nothing.

    Raises ``IndexError`` or ``struct.error`` where the packet is too short.
    """
    identify = _IDENTITIES.get(protocol)
    found = identify(packet) if identify is not None else None
    return () if found is None else ((protocol.number, found),)


def outer_addresses(ip: Carrier) -> Path:
    """Return the identity of a tunnel by its ends, the same for both directions."""
    ends = sorted((ip.source, ip.destination))
    return ((_OUTER, (ends[0], ends[1])),)
