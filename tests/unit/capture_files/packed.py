"""The simplest packets that can be written: IPv6 headers that say nothing but their length."""

import struct

START = b"\x60" + bytes(43)  # up to the sequence numbers
BEHIND = b">\0\0"
NUMBERS = 0x01020304, 0x05060708


def expected(data: bytes, zeros: int = 0, numbers: tuple[int, int] = NUMBERS) -> bytes:
    """Return the packet with ``START`` and ``BEHIND``; a record around its data has ``zeros``."""
    behind = BEHIND[:-2] + struct.pack(">H", len(data) + zeros & 0xFFFF if zeros else 0)
    behind = struct.pack(">II", *numbers) + behind + data + bytes(zeros)
    length = struct.pack(">H", 4 + len(behind) & 0xFFFF)
    return START[:4] + length + START[6:] + behind
