"""The simplest packets that can be written: IPv6 headers that say nothing but their length."""

import struct

from sslsniff.files.packing import EndpointPair, Template
from sslsniff.files.pcap import PacketWriter

START = b"\x60" + bytes(43)  # up to the sequence numbers
BEHIND = b">\0\0"
NUMBERS = 0x01020304, 0x05060708


def expected(data: bytes, zeros: int = 0, numbers: tuple[int, int] = NUMBERS) -> bytes:
    """Return the packet with ``START`` and ``BEHIND``; a record around its data has ``zeros``."""
    behind = BEHIND[:-2] + struct.pack(">H", len(data) + zeros & 0xFFFF if zeros else 0)
    behind = struct.pack(">II", *numbers) + behind + data + bytes(zeros)
    length = struct.pack(">H", 4 + len(behind) & 0xFFFF)
    return START[:4] + length + START[6:] + behind


def add_packet(
    writer: PacketWriter,
    template: Template,
    time_ns: int,
    data: bytes = b"",
    numbers: tuple[int, ...] = NUMBERS,
) -> None:
    """Add a packet with these sequence numbers, its own and the acknowledged."""
    pair = EndpointPair()
    sender, peer = pair.ends
    sender.sequence, peer.sequence = numbers
    writer.packet(sender, template, time_ns, data, count=0)
