"""TCP in IP: headers of the packets of synthetic connections.

By hand: the headers of a packet take 25 us with dpkt; ours are made once for each thread, as
only lengths and sequence numbers differ between packets, and ``packing`` counts and fills those in.
The TCP checksum is left zero, as it is in captures from hosts that leave it to the network card.
"""

import socket
import struct

from sslsniff.capture_files.packing import Endpoint
from sslsniff.model import Address

LINK_RAW = 101
"""Link type of packets that begin with their IP header (LINKTYPE_RAW)."""

FIN, SYN, RST, PUSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

_WINDOW = 0xFFFF
_WINDOW_SHIFT = 7  # with the full window 8 MiB may be under way (RFC 7323 section 2)
_SYN_OPTIONS = struct.pack(">BBHBBBB", 2, 4, 65475, 1, 3, 3, _WINDOW_SHIFT)

WORD = 0xFFFFFFFF

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


def numbers_taken(flags: int) -> int:
    """Return how many sequence numbers a packet without data takes (RFC 9293 section 3.4)."""
    return 1 if flags & (SYN | FIN) else 0


def connect(
    client: Address, server: Address, number: int, endpoints: tuple[Endpoint, Endpoint]
) -> tuple[bytes, bytes]:
    """Begin the ``number``-th synthetic connection, between the client's and the server's endpoint.

    Return the headers of what each of both sends, up to the sequence numbers. The connection's
    number spreads the initial ones: two connections between the same addresses must differ in
    theirs, or the second looks like a repetition of the first.
    """
    ips = [_pack_ip(client.ip), _pack_ip(server.ip)]
    ipv6 = max(map(len, ips)) == 16
    if ipv6:  # IPv4 beside IPv6 is written mapped (RFC 4291 section 2.5.5.2)
        ips = [raw if len(raw) == 16 else b"\0" * 10 + b"\xff\xff" + raw for raw in ips]
    for which, endpoint in enumerate(endpoints):
        endpoint.sequence = number * 0x9E3779B1 + which & WORD
        endpoint.in_flight_bytes = 0
    ports = struct.pack(">HHH", client.port, server.port, client.port)
    start = _IPV6_START if ipv6 else _IPV4_START
    return start + ips[0] + ips[1] + ports[:4], start + ips[1] + ips[0] + ports[2:]


def _pack_ip(text: str) -> bytes:
    text = text.partition("%")[0]
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
