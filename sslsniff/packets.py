"""TCP in IP: headers of the packets of synthetic connections.

By hand, because it is most of the cost of a packet that is written: 1 us here, 25 us with dpkt.
The TCP checksum is left zero, as it is in captures from hosts that leave it to the network card.
"""

import socket
import struct

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
