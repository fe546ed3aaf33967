"""Defines a layer of a packet: it carries a packet of another protocol."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple


class Numbers(Enum):
    """Who gives a protocol its number."""

    LINK = "link type"  # www.tcpdump.org/linktypes.html
    ETHER = "EtherType"  # IEEE 802 Numbers at IANA
    PPP = "PPP protocol"
    IP = "IP protocol"
    UDP = "UDP port"


class Protocol(NamedTuple):
    """A protocol, by its number."""

    numbers: Numbers
    number: int


Carried = tuple[Protocol, bytes]
"""What a layer carries: the protocol, and its packet."""

Layer = Callable[[bytes], Carried | None]
"""Takes a layer off a packet; None if nothing in it can be a TCP segment.

Raises ``IndexError`` or ``struct.error`` where the packet is too short."""

ETHERNET = Protocol(Numbers.LINK, 1)
PPP = Protocol(Numbers.LINK, 9)
IPV4, IPV6 = Protocol(Numbers.ETHER, 0x0800), Protocol(Numbers.ETHER, 0x86DD)


def ether(number: int, packet: bytes) -> Carried:
    """Return the packet of an EtherType."""
    return Protocol(Numbers.ETHER, number), packet


def ip_by_version(packet: bytes) -> Carried | None:
    """Return an IP packet, by the version in its first four bits."""
    version = packet[0] >> 4
    return (IPV4, packet) if version == 4 else (IPV6, packet) if version == 6 else None


def word(packet: bytes, at: int) -> int:
    """Return the number in the two bytes at ``at``."""
    return packet[at] << 8 | packet[at + 1]
