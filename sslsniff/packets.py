"""TCP in IP: headers of the packets of synthetic connections.

By hand: the headers of a packet take 25 us with dpkt; ours are made once for each length.
Apart from the sequence numbers the packets of one length have the same.
The TCP checksum is left zero, as it is in captures from hosts that leave it to the network card.
"""

import socket
import struct

from sslsniff.model import Address
from sslsniff.packing import End

LINK_RAW = 101
"""Link type of packets that begin with their IP header (LINKTYPE_RAW)."""

FIN, SYN, RST, PUSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

WORD = 0xFFFFFFFF
_WINDOW = 0xFFFF
_WINDOW_SHIFT = 7  # with the full window 8 MiB may be under way (RFC 7323 section 2)
_SYN_OPTIONS = struct.pack(">BBHBBBB", 2, 4, 65475, 1, 3, 3, _WINDOW_SHIFT)

NUMBERS_BYTES = 8
"""Two sequence numbers: that of the packet's first byte, and what is acknowledged."""

_IPV4 = struct.Struct(">2sH6sH12s")
_IPV6 = struct.Struct(">4sH38s")
_IPV4_START = b"\x45\x00"
_IPV4_MIDDLE = b"\x00\x00\x40\x00\x40\x06"  # do not fragment, 64 hops, TCP
_IPV6_START = b"\x60\x00\x00\x00"
_IPV6_MIDDLE = b"\x06\x40"


def _header_end(flags: int) -> bytes:
    options = _SYN_OPTIONS if flags & SYN else b""
    return struct.pack(">BBHHH", 5 + len(options) // 4 << 4, flags, _WINDOW, 0, 0) + options


DATA_END = _header_end(PUSH | ACK)
"""What stands in the TCP header of a packet with data behind the sequence numbers."""


class Sender:
    """One end of a synthetic TCP connection: the headers of what it sends.

    Every packet acknowledges all that the peer sent. ``end`` and ``peer`` count.
    """

    __slots__ = ("_addresses", "end", "peer")

    def __init__(self, addresses: bytes, end: End, peer: End) -> None:
        self._addresses = addresses
        self.end = end
        self.peer = peer

    def start(self, size: int) -> bytes:
        """Return what stands before the sequence numbers of a packet with ``size`` bytes of data.

        65,000 at most.
        """
        raise NotImplementedError

    def numbers(self, size: int) -> tuple[int, int]:
        """Return the sequence numbers of the next packet, sent and acknowledged.

        ``size`` is how many of them it takes: a byte of data one, SYN and FIN too (RFC 9293, 3.4).
        """
        end, peer = self.end, self.peer
        sequence = end.sequence
        end.sequence = sequence + size & WORD
        end.in_flight_bytes += size
        peer.in_flight_bytes = 0
        return sequence, peer.sequence

    def control(self, flags: int) -> tuple[bytes, bytes]:
        """Return the headers of a packet without data, up to the sequence numbers and the rest."""
        end = _header_end(flags)
        return self.start(len(end) - len(DATA_END)), end

    def control_numbers(self, flags: int) -> tuple[int, int]:
        """Return the sequence numbers of the next packet without data, as ``numbers`` does."""
        sequence, acknowledged = self.numbers(1 if flags & (SYN | FIN) else 0)
        return sequence, acknowledged if flags & ACK else 0


class _SenderIPv4(Sender):
    __slots__ = ("_sum",)

    def __init__(self, addresses: bytes, end: End, peer: End) -> None:
        super().__init__(addresses, end, peer)
        fixed = _IPV4_START + _IPV4_MIDDLE + addresses[:8]
        self._sum = sum(struct.unpack(f">{len(fixed) // 2}H", fixed))

    def start(self, size: int) -> bytes:
        length = 40 + size
        total = self._sum + length  # RFC 1071: only the length differs between packets
        total = (total & 0xFFFF) + (total >> 16)
        total = (total & 0xFFFF) + (total >> 16)
        return _IPV4.pack(_IPV4_START, length, _IPV4_MIDDLE, total ^ 0xFFFF, self._addresses)


class _SenderIPv6(Sender):
    __slots__ = ()

    def __init__(self, addresses: bytes, end: End, peer: End) -> None:
        super().__init__(_IPV6_MIDDLE + addresses, end, peer)

    def start(self, size: int) -> bytes:
        return _IPV6.pack(_IPV6_START, 20 + size, self._addresses)


def connect(
    client: Address, server: Address, number: int, ends: tuple[End, End]
) -> tuple[Sender, Sender]:
    """Return both ends of the ``number``-th synthetic connection, before their handshake.

    The number spreads the initial sequence numbers: two connections between the same
    addresses must differ in theirs, or the second looks like a repetition of the first.
    ``ends`` are where the client and the server count; they begin anew.
    """
    ips = [_pack_ip(client.ip), _pack_ip(server.ip)]
    ipv6 = max(map(len, ips)) == 16
    if ipv6:  # IPv4 beside IPv6 is written mapped (RFC 4291 section 2.5.5.2)
        ips = [raw if len(raw) == 16 else b"\0" * 10 + b"\xff\xff" + raw for raw in ips]
    for which, end in enumerate(ends):
        end.sequence = (number * 0x9E3779B1 + which) & WORD
        end.in_flight_bytes = 0
    kind = _SenderIPv6 if ipv6 else _SenderIPv4
    near, far = ends
    forth, back = (
        struct.pack(">HH", client.port, server.port),
        struct.pack(">HH", server.port, client.port),
    )
    return kind(ips[0] + ips[1] + forth, near, far), kind(ips[1] + ips[0] + back, far, near)


def _pack_ip(text: str) -> bytes:
    text = text.partition("%")[0]
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
