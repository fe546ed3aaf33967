"""Parses the TCP segments in captured packets: by dpkt, but for ``usual_packets``.

dpkt does not report how much of a packet was cut off, or what it could not parse: both are checked.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import dpkt

from sslsniff.capture_files.packet_layers.tcp_segment import Segment
from sslsniff.capture_files.packet_layers.usual_packets import usual_segment
from sslsniff.capture_files.packets import ACK, LINK_RAW, RST, WORD

_HALF = 1 << 31
_FRAGMENT = 44  # IPv6 extension header (RFC 8200 section 4.5)

# Sequence numbers have 32 bits, and wrap around (RFC 9293 section 3.4).


def advance(sequence: int, count: int) -> int:
    """Return the sequence number ``count`` after another."""
    return (sequence + count) & WORD


def distance(sequence: int, other: int) -> int:
    """Return how many numbers ``other`` is after ``sequence``, from 0 to 2^32 - 1."""
    return (other - sequence) & WORD


def is_before(sequence: int, other: int) -> bool:
    """Return whether a sequence number is before another, by less than half of all numbers."""
    return 0 < distance(sequence, other) < _HALF


def nearest_position(sequence: int, near: int) -> int:
    """Return the position nearest to ``near`` whose lower 32 bits are ``sequence``."""
    return near + ((sequence - near + _HALF) & WORD) - _HALF


def _ip(data: bytes) -> Any:
    return (dpkt.ip6.IP6 if data[0] >> 4 == 6 else dpkt.ip.IP)(data)


def _after_family(data: bytes) -> Any:
    # Systems differ in IPv6's number and in byte order; the version in the IP header is enough.
    return _ip(data[4:])


_LINKS: dict[int, Callable[[bytes], Any]] = {
    dpkt.pcap.DLT_NULL: _after_family,
    108: _after_family,  # LOOP
    12: _ip,  # RAW as some systems number it
    14: _ip,
    LINK_RAW: _ip,
    228: _ip,  # IPV4
    229: _ip,  # IPV6
    dpkt.pcap.DLT_EN10MB: dpkt.ethernet.Ethernet,
    dpkt.pcap.DLT_LINUX_SLL: dpkt.sll.SLL,
    dpkt.pcap.DLT_LINUX_SLL2: dpkt.sll2.SLL2,
}
"""Parsers of a packet by its link type (www.tcpdump.org/linktypes.html)."""


def is_known_link(link_type: int) -> bool:
    """Return whether ``parse`` can read packets of this link type."""
    return link_type in _LINKS


def parse(link_type: int, packet: bytes) -> Segment | None:
    """Return the TCP segment in a captured packet; None if there is none, or only a fragment.

    Where IP is inside IP or another tunnel, it is the innermost segment.
    """
    segment = usual_segment(link_type, packet)
    if segment is not None:
        return segment
    read = _LINKS.get(link_type)
    if read is None:
        return None
    # dpkt may raise anything: one damaged packet must not stop the reading of the others.
    with contextlib.suppress(Exception):
        return _segment(read(packet))
    return None


def _segment(layer: Any) -> Segment | None:
    ip = None
    while isinstance(layer, dpkt.Packet) and not isinstance(layer, dpkt.tcp.TCP):
        ip = layer
        layer = layer.data
    if not isinstance(layer, dpkt.tcp.TCP):
        return None
    if isinstance(ip, dpkt.ip.IP):
        if ip.mf or ip.offset:
            return None
        before_bytes, total_bytes = ip.hl * 4, ip.len
    elif isinstance(ip, dpkt.ip6.IP6):
        if _FRAGMENT in ip.extension_hdrs:
            return None
        before_bytes = sum(header.length for header in ip.all_extension_headers)
        total_bytes = ip.plen
    else:
        return None
    payload = layer.data
    # 0: the network card was to divide the packet into segments
    size = total_bytes - before_bytes - layer.off * 4 if total_bytes else len(payload)
    if size < len(payload):
        return None
    return Segment(
        source=(ip.src, layer.sport),
        destination=(ip.dst, layer.dport),
        sequence=layer.seq,
        acknowledges=layer.ack if layer.flags & (ACK | RST) == ACK else None,
        flags=layer.flags & 0xFF,  # without the ninth (RFC 3540)
        payload=payload,
        size=size,
    )
