"""Reads tunnels: packets inside of IP or UDP."""

from sslsniff.files.packet_layers.layer import (
    ETHERNET,
    PPP,
    Carried,
    Layer,
    Numbers,
    Protocol,
    ether,
    ip_by_version,
    word,
)

_CHECKSUM, _ROUTING, _KEY, _SEQUENCE, _ACKNOWLEDGED = 0x8000, 0x4000, 0x2000, 0x1000, 0x0080
_ERSPAN, _ERSPAN_3, _WCCP = 0x88BE, 0x22EB, 0x883E  # EtherTypes
_L2TP_3 = Protocol(Numbers.IP, 115)


def _gre(packet: bytes) -> Carried | None:
    """RFC 2784, RFC 2890; version 1 is PPTP's (RFC 2637 section 4.1)."""
    flags, kind = word(packet, 0), word(packet, 2)
    sequence = 4 * bool(flags & _SEQUENCE)
    if flags & 7 == 1:
        return PPP, packet[8 + sequence + 4 * bool(flags & _ACKNOWLEDGED) :]
    at = 4 + 4 * bool(flags & (_CHECKSUM | _ROUTING)) + 4 * bool(flags & _KEY) + sequence
    if flags & _ROUTING:  # RFC 1701
        while packet[at + 3]:
            at += 4 + packet[at + 3]
        at += 4
    inner = packet[at:]
    if kind == _ERSPAN:
        # Type I has no header, and no sequence number (draft-foschiano-erspan-03 section 4).
        return ETHERNET, inner[8:] if flags & _SEQUENCE else inner
    if kind == _ERSPAN_3:
        return ETHERNET, inner[20 if inner[11] & 1 else 12 :]
    if kind == _WCCP:  # version 2 has four more bytes
        return ip_by_version(inner) or ip_by_version(inner[4:])
    return ether(kind, inner)


def _vxlan_gpe(packet: bytes) -> Carried | None:
    """draft-ietf-nvo3-vxlan-gpe-13 section 3."""
    inner = packet[8:]
    return (ETHERNET, inner) if packet[3] == 3 else ip_by_version(inner)


def _geneve(packet: bytes) -> Carried:
    """RFC 8926 section 3.4."""
    return ether(word(packet, 2), packet[8 + (packet[0] & 0x3F) * 4 :])


def _gtp(packet: bytes) -> Carried | None:
    """3GPP TS 29.281 section 5.1: only G-PDUs carry packets."""
    flags, kind = packet[0], packet[1]
    if flags >> 5 != 1 or kind != 255:
        return None
    at, following = (12, packet[11]) if flags & 7 else (8, 0)
    while flags & 4 and following:  # extension headers (section 5.2)
        size = packet[at] * 4
        if not size:
            return None
        at += size
        following = packet[at - 1]
    return ip_by_version(packet[at:]) or (ETHERNET, packet[at:])


def _l2tp(packet: bytes) -> Carried | None:
    """RFC 2661 section 3.1: data messages of version 2."""
    flags = word(packet, 0)
    if flags & 15 == 3:
        return _L2TP_3, packet
    if flags & 0x8000 or flags & 15 != 2:
        return None
    at = 6 + 2 * bool(flags & 0x4000) + 4 * bool(flags & 0x0800)
    if flags & 0x0200:
        at += 2 + word(packet, at)
    return PPP, packet[at:]


def _ayiya(packet: bytes) -> Carried:
    """draft-massar-v6ops-ayiya-02 section 3."""
    identity, signature = 1 << (packet[0] >> 4), (packet[1] >> 4) * 4
    return Protocol(Numbers.IP, packet[3]), packet[8 + identity + signature :]


def _teredo(packet: bytes) -> Carried | None:
    """RFC 4380 section 5.1.1."""
    if packet[:2] == b"\0\1":
        packet = packet[13 + packet[2] + packet[3] :]
    if packet[:2] == b"\0\0":
        packet = packet[8:]
    return ip_by_version(packet)


_IP_PROTOCOLS: dict[int, Layer] = {
    4: ip_by_version,
    41: ip_by_version,
    47: _gre,
    94: ip_by_version,
    97: lambda packet: (ETHERNET, packet[2:]),  # EtherIP (RFC 3378)
    137: lambda packet: ether(0x8847, packet),  # MPLS (RFC 4023)
}

_UDP_PORTS: dict[int, Layer] = {
    1701: _l2tp,
    2152: _gtp,
    3544: _teredo,
    4754: _gre,  # RFC 8086
    **dict.fromkeys((4789, 8472), lambda packet: (ETHERNET, packet[8:])),  # VXLAN (RFC 7348)
    4790: _vxlan_gpe,
    5072: _ayiya,
    6081: _geneve,
    6635: lambda packet: ether(0x8847, packet),  # MPLS (RFC 7510)
}

TUNNELS: dict[Protocol, Layer] = {
    Protocol(numbers, number): layer
    for numbers, layers in ((Numbers.IP, _IP_PROTOCOLS), (Numbers.UDP, _UDP_PORTS))
    for number, layer in layers.items()
}

UNREAD_TUNNELS: dict[Protocol, str] = {
    Protocol(Numbers.IP, 50): "ESP (encrypted)",
    Protocol(Numbers.IP, 108): "IPComp (compressed)",
    _L2TP_3: "L2TP version 3",
    Protocol(Numbers.UDP, 443): "QUIC (encrypted)",
    Protocol(Numbers.UDP, 4500): "ESP in UDP (encrypted)",
    Protocol(Numbers.UDP, 51820): "WireGuard (encrypted)",
}
"""Names of what may have TCP or HTTP inside, and is not read."""
