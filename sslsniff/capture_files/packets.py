"""TCP in IP: headers of the packets of synthetic connections.

By hand: the headers of a packet take 25 us with dpkt; ours are made once for each thread, as
only lengths and sequence numbers differ between packets, and those ``packing`` fills in.
The TCP checksum is left zero, as it is in captures from hosts that leave it to the network card.
"""

import socket
import struct

from sslsniff.capture_files.packing import End
from sslsniff.model import Address

LINK_RAW = 101
"""Link type of packets that begin with their IP header (LINKTYPE_RAW)."""

FIN, SYN, RST, PUSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

WORD = 0xFFFFFFFF
_WINDOW = 0xFFFF
_WINDOW_SHIFT = 7  # with the full window 8 MiB may be under way (RFC 7323 section 2)
_SYN_OPTIONS = struct.pack(">BBHBBBB", 2, 4, 65475, 1, 3, 3, _WINDOW_SHIFT)

NUMBERS_BYTES = 8
"""Two sequence numbers: that of the packet's first byte, and what is acknowledged."""

_IPV4_START = b"\x45\x00\x00\x00\x00\x00\x40\x00\x40\x06\x00\x00"  # not fragmented, 64 hops, TCP
_IPV6_START = b"\x60\x00\x00\x00\x00\x00\x06\x40"


def header_end(flags: int) -> bytes:
    """Return what is after the sequence numbers of a packet with these flags."""
    options = _SYN_OPTIONS if flags & SYN else b""
    return struct.pack(">BBHHH", 5 + len(options) // 4 << 4, flags, _WINDOW, 0, 0) + options


DATA_END = header_end(PUSH | ACK)
"""That of a packet with data."""


class Sender:
    """One end of a synthetic TCP connection: the headers of what it sends.

    Every packet acknowledges all that the peer sent. ``start`` is what is before the sequence
    numbers; ``end`` and ``peer`` count.
    """

    __slots__ = ("end", "peer", "start")

    def __init__(self, start: bytes, end: End, peer: End) -> None:
        self.start = start
        self.end = end
        self.peer = peer

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

    def control_numbers(self, flags: int) -> tuple[int, int]:
        """Return the sequence numbers of the next packet without data, as ``numbers`` does."""
        sequence, acknowledged = self.numbers(1 if flags & (SYN | FIN) else 0)
        return sequence, acknowledged if flags & ACK else 0


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
    near, far = ends
    ports = struct.pack(">HHH", client.port, server.port, client.port)
    start = _IPV6_START if ipv6 else _IPV4_START
    return (
        Sender(start + ips[0] + ips[1] + ports[:4], near, far),
        Sender(start + ips[1] + ips[0] + ports[2:], far, near),
    )


def _pack_ip(text: str) -> bytes:
    text = text.partition("%")[0]
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
