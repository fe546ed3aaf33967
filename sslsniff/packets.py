"""TCP in IP: headers for synthetic connections, and packets taken apart.

By hand, because it is most of the cost of a packet: 1 us here, 25 us with dpkt, which also
hides how much of a packet was cut off. The TCP checksum is left zero, as it is in captures
from hosts that leave it to the network card.
"""

import socket
import struct
from typing import NamedTuple

from sslsniff.model import Address

LINK_RAW = 101
"""Link type of packets that begin with their IP header (LINKTYPE_RAW)."""

FIN, SYN, RST, PUSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

_WORD = 0xFFFFFFFF
_WINDOW = 0xFFFF
_WINDOW_SHIFT = 7  # with the full window 8 MiB may be under way (RFC 7323 section 2)
_SYN_OPTIONS = struct.pack(">BBHBBBB", 2, 4, 65475, 1, 3, 3, _WINDOW_SHIFT)

_IPV4 = struct.Struct(">2sH6sH12sII8s")
_IPV6 = struct.Struct(">4sH38sII8s")
_IPV4_START = b"\x45\x00"
_IPV4_MIDDLE = b"\x00\x00\x40\x00\x40\x06"  # do not fragment, 64 hops, TCP
_IPV6_START = b"\x60\x00\x00\x00"
_IPV6_MIDDLE = b"\x06\x40"


def _tcp_end(words: int, flags: int) -> bytes:
    return struct.pack(">BBHHH", words << 4, flags, _WINDOW, 0, 0)


_DATA_END = _tcp_end(5, PUSH | ACK)


class Sender:
    """One end of a synthetic TCP connection; makes the headers of what it sends.

    Every header acknowledges all that the peer sent. ``in_flight_bytes`` are those that the
    peer has not acknowledged.
    """

    __slots__ = ("_addresses", "in_flight_bytes", "peer", "sequence")

    peer: "Sender"

    def __init__(self, addresses: bytes, sequence: int) -> None:
        self._addresses = addresses
        self.sequence = sequence
        self.in_flight_bytes = 0

    def data(self, size: int) -> bytes:
        """Return the headers of a packet with ``size`` bytes of data, 65,000 at most."""
        header = self._header(size, _DATA_END)
        self.sequence = (self.sequence + size) & _WORD
        self.in_flight_bytes += size
        self.peer.in_flight_bytes = 0
        return header

    def control(self, flags: int) -> bytes:
        """Return a packet without data; SYN and FIN take a sequence number (RFC 9293, 3.4)."""
        if flags & SYN:
            size = len(_SYN_OPTIONS)
            packet = self._header(size, _tcp_end(5 + size // 4, flags), flags) + _SYN_OPTIONS
        else:
            packet = self._header(0, _tcp_end(5, flags))
        if flags & (SYN | FIN):
            self.sequence = (self.sequence + 1) & _WORD
        self.peer.in_flight_bytes = 0
        return packet

    def _header(self, size: int, end: bytes, flags: int = ACK) -> bytes:
        raise NotImplementedError


class _SenderIPv4(Sender):
    __slots__ = ("_sum",)

    def __init__(self, addresses: bytes, sequence: int) -> None:
        super().__init__(addresses, sequence)
        fixed = _IPV4_START + _IPV4_MIDDLE + addresses[:8]
        self._sum = sum(struct.unpack(f">{len(fixed) // 2}H", fixed))

    def _header(self, size: int, end: bytes, flags: int = ACK) -> bytes:
        total = self._sum + 40 + size  # RFC 1071: only the length differs between packets
        total = (total & 0xFFFF) + (total >> 16)
        total = (total & 0xFFFF) + (total >> 16)
        return _IPV4.pack(
            _IPV4_START,
            40 + size,
            _IPV4_MIDDLE,
            total ^ 0xFFFF,
            self._addresses,
            self.sequence,
            self.peer.sequence if flags & ACK else 0,
            end,
        )


class _SenderIPv6(Sender):
    __slots__ = ()

    def __init__(self, addresses: bytes, sequence: int) -> None:
        super().__init__(_IPV6_MIDDLE + addresses, sequence)

    def _header(self, size: int, end: bytes, flags: int = ACK) -> bytes:
        return _IPV6.pack(
            _IPV6_START,
            20 + size,
            self._addresses,
            self.sequence,
            self.peer.sequence if flags & ACK else 0,
            end,
        )


def connect(client: Address, server: Address, number: int) -> tuple[Sender, Sender]:
    """Return both ends of the ``number``-th synthetic connection, before their handshake.

    The number spreads the initial sequence numbers: two connections between the same
    addresses must differ in theirs, or the second looks like a repetition of the first.
    """
    ends = [_pack_ip(client.ip), _pack_ip(server.ip)]
    ipv6 = max(map(len, ends)) == 16
    if ipv6:  # IPv4 beside IPv6 is written mapped (RFC 4291 section 2.5.5.2)
        ends = [raw if len(raw) == 16 else b"\0" * 10 + b"\xff\xff" + raw for raw in ends]
    kind = _SenderIPv6 if ipv6 else _SenderIPv4
    senders = [
        kind(
            source + destination + struct.pack(">HH", source_port, destination_port),
            (number * 0x9E3779B1 + which) & _WORD,
        )
        for which, source, destination, source_port, destination_port in (
            (0, ends[0], ends[1], client.port, server.port),
            (1, ends[1], ends[0], server.port, client.port),
        )
    ]
    senders[0].peer, senders[1].peer = senders[1], senders[0]
    return senders[0], senders[1]


def _pack_ip(text: str) -> bytes:
    text = text.partition("%")[0]
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)


class Segment(NamedTuple):
    """A TCP segment. ``size`` is its length as sent; ``payload`` may be cut shorter."""

    source: tuple[bytes, int]
    destination: tuple[bytes, int]
    sequence: int
    flags: int
    payload: bytes
    size: int


def parse(link_type: int, packet: bytes) -> Segment | None:
    """Return the TCP segment in a captured packet; None where there is none, or only a fragment.

    Link types (www.tcpdump.org/linktypes.html): Ethernet with VLAN tags, raw IP, BSD loopback,
    Linux cooked v1 and v2.
    """
    start = _ip_offset(link_type, packet)
    if start is None or len(packet) <= start:
        return None
    version = packet[start] >> 4
    if version == 4:
        return _parse_ipv4(packet, start)
    if version == 6:
        return _parse_ipv6(packet, start)
    return None


_IP_TYPES = (b"\x08\x00", b"\x86\xdd")
_VLAN_TYPES = (b"\x81\x00", b"\x88\xa8", b"\x91\x00")
_PLAIN_LINKS = {
    0: 4,  # NULL: the address family in some byte order; IP's version tells as much
    12: 0,  # RAW as some systems number it
    14: 0,
    LINK_RAW: 0,
    108: 4,  # LOOP
    228: 0,  # IPv4
    229: 0,  # IPv6
}
_TYPED_LINKS = {
    1: (12, 14),  # Ethernet: offsets of the protocol and of what follows the header
    113: (14, 16),  # LINUX_SLL
    276: (0, 20),  # LINUX_SLL2
}


def is_known_link(link_type: int) -> bool:
    """Say whether ``parse`` can read packets of this link type."""
    return link_type in _PLAIN_LINKS or link_type in _TYPED_LINKS


def _ip_offset(link_type: int, packet: bytes) -> int | None:
    plain = _PLAIN_LINKS.get(link_type)
    if plain is not None:
        return plain
    typed = _TYPED_LINKS.get(link_type)
    if typed is None:
        return None
    at, start = typed
    kind = packet[at : at + 2]
    while kind in _VLAN_TYPES:  # IEEE 802.1Q; ends with the packet at the latest
        kind = packet[start + 2 : start + 4]
        start += 4
    return start if kind in _IP_TYPES else None


_TCP = struct.Struct(">HHI4xBB")


def _parse_ipv4(packet: bytes, start: int) -> Segment | None:
    if len(packet) < start + 20 or packet[start + 9] != socket.IPPROTO_TCP:
        return None
    if (packet[start + 6] & 0x3F) or packet[start + 7]:  # a fragment
        return None
    total = packet[start + 2] << 8 | packet[start + 3]
    end = start + total if total else len(packet)  # 0: cut into pieces by the network card
    tcp = start + (packet[start] & 0x0F) * 4
    ips = packet[start + 12 : start + 16], packet[start + 16 : start + 20]
    return _parse_tcp(packet, tcp, end, ips)


def _parse_ipv6(packet: bytes, start: int) -> Segment | None:
    if len(packet) < start + 40:
        return None
    size = packet[start + 4] << 8 | packet[start + 5]
    end = start + 40 + size if size else len(packet)
    following, at = packet[start + 6], start + 40
    while following in (0, 43, 51, 60):  # RFC 8200 section 4; 51 counts in 4-byte words
        if len(packet) < at + 2:
            return None
        words = packet[at + 1]
        following, at = packet[at], at + ((words + 2) * 4 if following == 51 else words * 8 + 8)
    if following != socket.IPPROTO_TCP:
        return None
    ips = packet[start + 8 : start + 24], packet[start + 24 : start + 40]
    return _parse_tcp(packet, at, end, ips)


def _parse_tcp(packet: bytes, at: int, end: int, ips: tuple[bytes, bytes]) -> Segment | None:
    if len(packet) < at + 20:
        return None
    source_port, destination_port, sequence, words, flags = _TCP.unpack_from(packet, at)
    data = at + (words >> 4) * 4
    if data < at + 20 or data > end:
        return None
    return Segment(
        (ips[0], source_port),
        (ips[1], destination_port),
        sequence,
        flags,
        packet[data:end],
        end - data,
    )


def address(end: tuple[bytes, int]) -> Address:
    """Return an end of a ``Segment`` with its IP address as text, mapped IPv4 as IPv4."""
    raw, port = end
    if len(raw) == 4:
        return Address(socket.inet_ntop(socket.AF_INET, raw), port)
    text = socket.inet_ntop(socket.AF_INET6, raw)
    return Address(text.removeprefix("::ffff:") if "." in text else text, port)
