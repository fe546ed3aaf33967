"""Parses IP: the packet that it carries, whole or a fragment (RFC 791, RFC 8200)."""

from typing import Any, NamedTuple

import dpkt

from sslsniff.files.packet_layers.layer import word

_IPV6_BYTES = 40
_AH, _FRAGMENT = 51, 44
_EXTENSIONS = frozenset((0, 43, 60, 135, 139, 140))
"""IPv6 extension headers with their length in units of eight bytes, the first not counted."""


class Fragment(NamedTuple):
    """Where a fragment is in its packet: that is known by ``identity``."""

    identity: tuple[bytes, bytes, int, int]
    offset: int
    more: bool


class Carrier(NamedTuple):
    """An IP packet. ``sent`` is the size of what it carries; ``payload`` may be cut shorter."""

    source: bytes
    destination: bytes
    protocol: int
    payload: bytes
    sent: int
    fragment: Fragment | None = None


def read_ip(packet: bytes, *, is_ipv6: bool) -> Carrier:
    """Parse an IP packet. Raise ``IndexError`` or ``dpkt.UnpackError`` if it is too short.

    IPv6 not by dpkt, which takes what follows the header of a fragment for more headers.
    """
    return _read_ipv6(packet) if is_ipv6 else _read_ipv4(packet)


class _Ipv4(dpkt.ip.IP):
    _protosw: dict[int, type] = {}  # noqa: RUF012 - so that dpkt leaves what is inside as bytes


def _read_ipv4(packet: bytes) -> Carrier:
    ip: Any = _Ipv4(packet)  # type: ignore[no-untyped-call]
    header = ip.hl * 4
    # 0: the network card was to divide the packet into segments
    sent = max(0, (ip.len or len(packet)) - header)
    if ip.mf or ip.offset:
        identity = ip.src, ip.dst, ip.id, ip.p
        fragment = Fragment(identity, ip.offset * 8, bool(ip.mf))
        return Carrier(ip.src, ip.dst, ip.p, ip.data, sent, fragment)
    return without_extensions(Carrier(ip.src, ip.dst, ip.p, ip.data, sent))


def _read_ipv6(packet: bytes) -> Carrier:
    sent = word(packet, 4) or len(packet) - _IPV6_BYTES
    return without_extensions(
        Carrier(
            packet[8:24],
            packet[24:_IPV6_BYTES],
            packet[6],
            packet[_IPV6_BYTES : _IPV6_BYTES + sent],
            sent,
        )
    )


def without_extensions(packet: Carrier) -> Carrier:
    """Return the packet without its extension headers, or those up to the one of a fragment.

    IPv4 has one of them, too: the Authentication Header (RFC 4302).
    """
    source, destination, protocol, payload, sent, _ = packet
    while True:
        if protocol == _FRAGMENT and len(source) == 16:
            following, place = payload[0], word(payload, 2)
            identity = source, destination, int.from_bytes(payload[4:8], "big"), -1
            protocol, size = following, 8
            if place & ~6:  # else an atomic fragment: the whole packet (RFC 6946)
                fragment = Fragment(identity, place & ~7, bool(place & 1))
                return Carrier(source, destination, protocol, payload[8:], sent - 8, fragment)
        elif protocol == _AH:
            protocol, size = payload[0], (payload[1] + 2) * 4
        elif protocol in _EXTENSIONS and len(source) == 16:
            protocol, size = payload[0], (payload[1] + 1) * 8
        else:
            return Carrier(source, destination, protocol, payload, sent)
        payload = payload[size:]
        sent -= size
