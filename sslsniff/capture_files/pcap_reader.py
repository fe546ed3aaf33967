"""Reads classic pcap by dpkt: both byte orders, micro- and nanoseconds, the modified format too."""

from collections.abc import Iterator
from decimal import Decimal

import dpkt

from sslsniff.capture_files.pcap import LARGEST_PACKET_BYTES, Packet, Readable


class _Bounded:
    """A file that notes when a read came short, and limits a read to the longest packet.

    dpkt returns a cut-off packet as a whole one, and reads as much as a damaged header says.
    """

    def __init__(self, start: bytes, file: Readable) -> None:
        self.is_short = False
        self._start = start
        self._file = file

    def read(self, size: int) -> bytes:
        start, self._start = self._start, b""
        data = start + self._file.read(min(size, LARGEST_PACKET_BYTES) - len(start))
        self.is_short = len(data) < size
        return data


class PcapReader:
    """Reads a classic pcap ``file`` of which the first 4 bytes, ``start``, were read already."""

    def __init__(self, file: Readable, start: bytes) -> None:
        self.truncated = False
        self._file = _Bounded(start, file)
        try:
            self._reader = dpkt.pcap.Reader(self._file)
        except dpkt.NeedData:
            self.truncated = True

    def __iter__(self) -> Iterator[Packet]:
        """See ``PacketReader``."""
        if self.truncated:
            return
        link_type = self._reader.datalink() & 0xFFFF  # above: length of a frame check sequence
        try:
            for time_s, data in self._reader:
                if self._file.is_short:
                    break
                yield Packet(_time_ns(time_s), link_type, data)
            else:
                return
        except dpkt.NeedData:  # in the middle of a packet's header
            pass
        self.truncated = True


def is_pcap(start: bytes) -> bool:
    """Return whether a file that begins with these 4 bytes is classic pcap."""
    return int.from_bytes(start, "big") in dpkt.pcap.MAGIC_TO_PKT_HDR


def _time_ns(time_s: float | Decimal) -> int:
    """Return dpkt's time in ns: it is a float of microseconds, or a ``Decimal`` of nanoseconds."""
    if isinstance(time_s, Decimal):
        return int(time_s * 1_000_000_000)
    return round(time_s * 1_000_000) * 1000
