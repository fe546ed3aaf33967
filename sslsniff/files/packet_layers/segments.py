"""Finds the TCP segment in a captured packet: below tunnels, and in IP fragments."""

import struct
from collections import Counter

import dpkt

from sslsniff.files.packet_layers.fragments import Fragments
from sslsniff.files.packet_layers.identities import Path, identity, outer_addresses
from sslsniff.files.packet_layers.ip import Carrier, read_ip
from sslsniff.files.packet_layers.layer import IPV4, IPV6, Numbers, Protocol, word
from sslsniff.files.packet_layers.links import LINK_LAYERS, UNREAD_LINKS
from sslsniff.files.packet_layers.tcp_segment import Segment
from sslsniff.files.packet_layers.tunnels import TUNNELS, UNREAD_TUNNELS
from sslsniff.files.packets import ACK, RST, WORD

_LAYERS = {**LINK_LAYERS, **TUNNELS}
_UNREAD = {**UNREAD_LINKS, **UNREAD_TUNNELS}
_MOST_LAYERS = 40  # of a packet; more are an attack
_TCP, _UDP = 6, 17
_UDP_BYTES = 8

_HALF = 1 << 31

# Sequence numbers have 32 bits, and wrap around (RFC 9293 section 3.4).


def advance(sequence: int, count: int) -> int:
    """Return the sequence number ``count`` after another."""
    return (sequence + count) & WORD


def is_before(sequence: int, other: int) -> bool:
    """Return whether a sequence number is before another, by less than half of all numbers."""
    return 0 < ((other - sequence) & WORD) < _HALF


def nearest_position(sequence: int, near: int) -> int:
    """Return the position nearest to ``near`` whose lower 32 bits are ``sequence``."""
    return near + ((sequence - near + _HALF) & WORD) - _HALF


class SegmentReader:
    """Finds the TCP segments in packets; ``usual_segment`` parses most of these in less time.

    ``unread`` counts the packets that may have TCP or HTTP inside, by the name of what was not
    read. Memory: that of ``Fragments``.
    """

    def __init__(self) -> None:
        self.unread: Counter[str] = Counter()
        self._fragments = Fragments()

    def read(
        self, link_type: int, packet: bytes, time_ns: int, interface: int = 0
    ) -> Segment | None:
        """Return the TCP segment of the innermost IP packet; None if there is none, or not yet.

        Fragments of one packet come from one ``interface``, in equal layers.
        """
        try:
            return self._read(Protocol(Numbers.LINK, link_type), packet, time_ns, interface)
        except (IndexError, struct.error, dpkt.UnpackError):  # cut by the capture, or damaged
            return None

    def finish(self) -> None:
        """Count what waits for more packets: no more come."""
        self._fragments.finish()
        if self._fragments.incomplete:
            self.unread["IP fragments without the rest of their packet"] = (
                self._fragments.incomplete
            )

    def _read(
        self, protocol: Protocol, packet: bytes, time_ns: int, interface: int
    ) -> Segment | None:
        path: Path = ()
        for _ in range(_MOST_LAYERS):
            if protocol in (IPV4, IPV6):
                ip = read_ip(packet, is_ipv6=protocol == IPV6)
                if ip.fragment is not None:
                    whole = self._fragments.add(ip, ip.fragment, time_ns, (interface, path))
                    if whole is None:
                        return None
                    ip = whole
                if ip.protocol == _TCP:
                    return _segment(ip, path)
                path += outer_addresses(ip)
                protocol, packet = _inside(ip)
            layer = _LAYERS.get(protocol)
            if layer is None:
                self._count_unread(protocol)
                return None
            carried = layer(packet)
            if carried is None:
                return None
            path += identity(protocol, packet)
            protocol, packet = carried
        return None

    def _count_unread(self, protocol: Protocol) -> None:
        name = _UNREAD.get(protocol)
        if name is not None:
            self.unread[name] += 1
        elif protocol.numbers is Numbers.LINK:
            self.unread[f"link type {protocol.number}"] += 1


def _inside(ip: Carrier) -> tuple[Protocol, bytes]:
    """Return what is in an IP packet; in UDP, by the port of the one that is known."""
    if ip.protocol != _UDP:
        return Protocol(Numbers.IP, ip.protocol), ip.payload
    ports = [Protocol(Numbers.UDP, word(ip.payload, at)) for at in (2, 0)]
    known = next((port for port in ports if port in _LAYERS or port in _UNREAD), ports[0])
    return known, ip.payload[_UDP_BYTES:]


def _segment(ip: Carrier, path: Path) -> Segment | None:
    tcp = dpkt.tcp.TCP(ip.payload)
    size = ip.sent - tcp.off * 4
    if size < 0:
        return None
    return Segment(
        (ip.source, tcp.sport),
        (ip.destination, tcp.dport),
        tcp.seq,
        tcp.ack if tcp.flags & (ACK | RST) == ACK else None,
        tcp.flags & 0xFF,  # without the ninth (RFC 3540)
        tcp.data[:size],
        size,
        path,
    )
