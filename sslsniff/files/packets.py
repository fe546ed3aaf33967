"""Makes the TCP and IP headers of the packets of synthetic connections.

They are made once for each thread: only lengths and sequence numbers differ between its packets,
and ``packing`` fills those in. dpkt takes 25 us to make the headers of each packet anew.
The TCP checksum is zero, as in captures from hosts whose network card computes it.
"""

import functools
import socket
import struct

from sslsniff.core.model import Address
from sslsniff.files.packing import Endpoint

LINK_RAW = 101
"""Link type of packets that begin with their IP header (LINKTYPE_RAW)."""

FIN, SYN, RST, PUSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

_WINDOW = 0xFFFF
_WINDOW_SHIFT = 7  # with the full window 8 MiB may be under way (RFC 7323 section 2)
_SYN_OPTIONS = struct.pack(">BBHBBBB", 2, 4, 65475, 1, 3, 3, _WINDOW_SHIFT)

WORD = 0xFFFFFFFF

NUMBERS_BYTES = 8
"""Length of the sequence number and the acknowledgement number of a TCP header."""

_IPV4_START = b"\x45\x00\x00\x00\x00\x00\x40\x00\x40\x06\x00\x00"  # not fragmented, 64 hops, TCP
_IPV6_START = b"\x60\x00\x00\x00\x00\x00\x06\x40"


@functools.cache
def header_end(flags: int) -> bytes:
    """Return what follows the acknowledgement number in a TCP header with these flags."""
    options = _SYN_OPTIONS if flags & SYN else b""
    return struct.pack(">BBHHH", 5 + len(options) // 4 << 4, flags, _WINDOW, 0, 0) + options


DATA_END = header_end(PUSH | ACK)
"""The ``header_end`` of a packet with data."""


def numbers_taken(flags: int) -> int:
    """Return how many sequence numbers a packet without data takes (RFC 9293 section 3.4)."""
    return 1 if flags & (SYN | FIN) else 0


def connect(
    client: Address, server: Address, number: int, endpoints: tuple[Endpoint, Endpoint]
) -> tuple[bytes, bytes]:
    """Begin the ``number``-th synthetic connection: set the endpoints' initial sequence numbers.

    Return the headers of the client's and of the server's packets, up to the sequence number. The
    initial sequence numbers depend on ``number``: if two connections between the same addresses had
    the same ones, the second would look like a repetition of the first.
    """
    ips = [_pack_ip(client.ip), _pack_ip(server.ip)]
    ipv6 = max(map(len, ips)) == 16
    if ipv6:  # IPv4 beside IPv6 is written mapped (RFC 4291 section 2.5.5.2)
        ips = [raw if len(raw) == 16 else b"\0" * 10 + b"\xff\xff" + raw for raw in ips]
    for index, endpoint in enumerate(endpoints):
        endpoint.sequence = number * 0x9E3779B1 + index & WORD
        endpoint.in_flight_bytes = 0
    ports = struct.pack(">HHH", client.port, server.port, client.port)
    start = _IPV6_START if ipv6 else _IPV4_START
    return start + ips[0] + ips[1] + ports[:4], start + ips[1] + ips[0] + ports[2:]


def _pack_ip(text: str) -> bytes:
    text = text.partition("%")[0]
    return socket.inet_pton(socket.AF_INET6 if ":" in text else socket.AF_INET, text)
