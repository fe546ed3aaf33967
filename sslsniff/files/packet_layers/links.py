"""Reads the layers below IP: link types of capture files, and EtherTypes."""

import struct

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

_SMALLEST_ETHERTYPE = 0x0600  # below: a length (IEEE 802.3), and LLC follows
_SNAP = b"\xaa\xaa\x03"
_LLC_IP = 6
_WIFI = Protocol(Numbers.LINK, 105)
_PROTECTED_WIFI = Protocol(Numbers.LINK, -105)


def _skip(count: int, then: Layer) -> Layer:
    return lambda packet: then(packet[count:])


def _llc(packet: bytes) -> Carried | None:
    """IEEE 802.2, with SNAP (RFC 1042)."""
    if packet[:3] == _SNAP:
        return ether(word(packet, 6), packet[8:])
    return ip_by_version(packet[3:]) if packet[0] == _LLC_IP else None


def _typed(at: int) -> Layer:
    """Return the layer of a header that ends with an EtherType at ``at``."""

    def layer(packet: bytes) -> Carried | None:
        kind, rest = word(packet, at), packet[at + 2 :]
        return _llc(rest) if kind < _SMALLEST_ETHERTYPE else ether(kind, rest)

    return layer


def _sll2(packet: bytes) -> Carried:
    return ether(word(packet, 0), packet[20:])


def _ppp(packet: bytes) -> Carried:
    """RFC 1661 section 2, RFC 1662 section 3.1; the first byte of a number may be left out."""
    at = 2 if packet[:2] == b"\xff\x03" else 0
    short = packet[at] & 1
    number = packet[at] if short else word(packet, at)
    return Protocol(Numbers.PPP, number), packet[at + (1 if short else 2) :]


def _mpls(packet: bytes) -> Carried | None:
    """RFC 3032 section 2.1; what follows the last label is known only by its first bits."""
    at = 0
    while not packet[at + 2] & 1:
        at += 4
    inner = packet[at + 4 :]
    if inner[0] >> 4 == 0:  # a control word (RFC 4385)
        return ETHERNET, inner[4:]
    return ip_by_version(inner) or (ETHERNET, inner)


def _nsh(packet: bytes) -> Carried | None:
    """RFC 8300 section 2.2."""
    inner = packet[(packet[1] & 0x3F) * 4 :]
    return (ETHERNET, inner) if packet[3] == 3 else ip_by_version(inner)


def _wifi(packet: bytes, pad: bool = False) -> Carried | None:
    """IEEE 802.11 section 9.2.4: data frames."""
    kind, flags = packet[0], packet[1]
    if kind & 0x0C != 0x08 or kind & 0x40:  # not a data frame, or one without data
        return None
    size = 30 if flags & 3 == 3 else 24
    if kind & 0x80:  # with quality of service
        is_aggregate = packet[size] & 0x80
        size += 6 if flags & 0x80 else 2
        if is_aggregate:  # of frames, each with its addresses, its length, and LLC
            return _llc(packet[size + 14 :])
    if flags & 0x40:
        return _PROTECTED_WIFI, b""
    return _llc(packet[size + (-size % 4 if pad else 0) :])


def _radiotap(packet: bytes) -> Carried | None:
    """www.radiotap.org: only whether the header after it is padded to four bytes is needed."""
    size, present = struct.unpack_from("<HI", packet, 2)
    at, more = 8, present
    while more >> 31:
        (more,) = struct.unpack_from("<I", packet, at)
        at += 4
    if present & 1:  # a time, aligned
        at += -at % 8 + 8
    padded = bool(present & 2) and bool(packet[at] & 0x20)
    return _wifi(packet[size:], padded)


def _after_length(order: str, at: int, kind: str) -> Layer:
    """Return the layer of a header before 802.11 whose length is at ``at``."""
    length = struct.Struct(order + kind)
    return lambda packet: (_WIFI, packet[length.unpack_from(packet, at)[0] :])


def _ppi(packet: bytes) -> Carried:
    size, link = struct.unpack_from("<HI", packet, 2)
    return Protocol(Numbers.LINK, link), packet[size:]


def _pktap(packet: bytes) -> Carried:
    size, _, link = struct.unpack_from("<III", packet)
    return Protocol(Numbers.LINK, link), packet[size:]


def _pflog(packet: bytes) -> Carried | None:
    return ip_by_version(packet[packet[0] + (-packet[0] % 4) :])


_NFLOG_PAYLOAD = 9


def _nflog(packet: bytes) -> Carried | None:
    """Attributes in the byte order of the host that captured: as x86 and Arm are, little-endian."""
    at = 4
    while True:
        size, kind = struct.unpack_from("<HH", packet, at)
        if kind & 0x7FFF == _NFLOG_PAYLOAD:
            return ip_by_version(packet[at + 4 : at + size])
        at += max(4, size + (-size % 4))


_LINKS: dict[int, Layer] = {
    0: _skip(4, ip_by_version),  # NULL: systems differ in IPv6's number, and in byte order
    1: _typed(12),  # ETHERNET
    9: _ppp,
    10: _skip(13, _llc),  # FDDI
    12: ip_by_version,  # RAW as some systems number it
    14: ip_by_version,
    50: _ppp,  # PPP_HDLC
    51: _skip(6, _ppp),  # PPP_ETHER
    100: _llc,  # ATM_RFC1483
    101: ip_by_version,  # RAW
    104: _typed(2),  # C_HDLC
    105: _wifi,
    108: _skip(4, ip_by_version),  # LOOP
    109: _skip(12, ip_by_version),  # ENC
    113: _typed(14),  # LINUX_SLL
    117: _pflog,
    119: _after_length("<", 4, "I"),  # IEEE802_11_PRISM
    127: _radiotap,
    163: _after_length(">", 4, "I"),  # IEEE802_11_AVS
    192: _ppi,
    204: _skip(1, _ppp),  # PPP_WITH_DIR
    228: ip_by_version,  # IPV4
    229: ip_by_version,  # IPV6
    239: _nflog,
    258: _pktap,
    276: _sll2,
}

_ETHERTYPES: dict[int, Layer] = {
    **dict.fromkeys((0x8100, 0x88A8, 0x9100, 0x9200), _typed(2)),  # VLAN
    **dict.fromkeys((0x8847, 0x8848), _mpls),
    0x6558: lambda packet: (ETHERNET, packet),
    0x8864: lambda packet: (PPP, packet[6:]),  # PPPoE (RFC 2516 section 4)
    0x880B: lambda packet: (PPP, packet),
    0x88E7: lambda packet: (ETHERNET, packet[4:]),  # IEEE 802.1ah
    0x8909: _typed(6),  # Cisco's metadata
    0x8926: _typed(4),  # Cisco's VN-Tag
    0x892F: _typed(4),  # HSR (IEC 62439-3); the trailer of PRP is after the IP packet
    0x893F: _typed(6),  # E-Tag (IEEE 802.1BR)
    0x894F: _nsh,
}

_PPP_PROTOCOLS: dict[int, Layer] = {
    0x21: ip_by_version,
    0x57: ip_by_version,
    0x281: _mpls,
}

LINK_LAYERS: dict[Protocol, Layer] = {
    Protocol(numbers, number): layer
    for numbers, layers in (
        (Numbers.LINK, _LINKS),
        (Numbers.ETHER, _ETHERTYPES),
        (Numbers.PPP, _PPP_PROTOCOLS),
    )
    for number, layer in layers.items()
}

UNREAD_LINKS: dict[Protocol, str] = {
    _PROTECTED_WIFI: "encrypted 802.11",
    Protocol(Numbers.ETHER, 0x88E5): "MACsec (encrypted)",
    Protocol(Numbers.PPP, 0x3D): "PPP Multilink",
    Protocol(Numbers.PPP, 0xFD): "compressed or encrypted PPP",
}
"""Names of what may have TCP inside, and is not read."""
