"""Writes and reads pcapng.

Format: draft-ietf-opsawg-pcapng; the block and option names here are its.
Not by dpkt: its writer takes 9 us for each packet with a comment, which is made once for many here;
its reader knows only the first interface, has times as floats and drops comments.
"""

import functools
import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

from sslsniff.files.packets import LINK_RAW, WORD
from sslsniff.files.pcap import (
    LARGEST_PACKET_BYTES,
    FileSeries,
    Origin,
    Packet,
    PacketWriter,
    Readable,
)

SECTION = b"\x0a\x0d\x0d\x0a"
"""The first 4 bytes of a pcapng file: the type of a section header, a palindrome."""

_SECTION_TYPE = 0x0A0D0D0A
_BYTE_ORDER = 0x1A2B3C4D
_INTERFACE, _OLD_PACKET, _SIMPLE_PACKET, _STATISTICS, _ENHANCED_PACKET = 1, 2, 3, 5, 6

_SECRETS, _TLS_KEY_LOG = 10, 0x544C534B
"""A Decryption Secrets Block, and what it may contain."""

_COMMENT = 1
_SHB_OS, _SHB_APPLICATION = 3, 4
_IF_NAME, _IF_DESCRIPTION, _IF_RESOLUTION, _IF_OFFSET = 2, 3, 9, 14
_EPB_FLAGS, _EPB_PROCESS = 2, 8
_INBOUND, _OUTBOUND = 1, 2
_NANOSECONDS = b"\x09"

_LONGEST_TEXT_BYTES = 32 << 10
_KEPT_OPTIONS = 64
_KEPT_NOTES, _KEPT_NOTES_BYTES = 2048, 512
"""What was read of so many packets' options is kept, if they are not longer: 5 MB at most."""

_EPB_START = struct.Struct("<III")
_LENGTH = struct.Struct("<I")
_OPTION = struct.Struct("<HH")


def _option(code: int, value: bytes) -> bytes:
    return _OPTION.pack(code, len(value)) + value + bytes(-len(value) & 3)


def _text_option(code: int, text: str) -> bytes:
    raw = text.encode("utf-8", "replace")[:_LONGEST_TEXT_BYTES]
    return _option(code, raw) if raw else b""


_END_OF_OPTIONS = _option(0, b"")


def _block(kind: int, body: bytes) -> bytes:
    total = len(body) + 12
    return struct.pack("<II", kind, total) + body + _LENGTH.pack(total)


class PcapngWriter(PacketWriter):
    """Writes a section of raw IP packets with nanoseconds into each file."""

    kind = "pcapng"
    high_ns = 1 << 32
    low_ns = 1

    def __init__(
        self,
        file: BinaryIO,
        application: str,
        system: str,
        comment: str,
        series: FileSeries | None = None,
    ) -> None:
        self._section = _block(
            _SECTION_TYPE,
            struct.pack("<IHHq", _BYTE_ORDER, 1, 0, -1)
            + _text_option(_COMMENT, comment)
            + _text_option(_SHB_OS, system)
            + _text_option(_SHB_APPLICATION, application)
            + _END_OF_OPTIONS,
        )
        super().__init__(file, series)

    def _begin(self) -> None:
        self._interfaces = 0
        self._add(self._section)

    def interface(self, name: str, description: str) -> int:
        """See ``PacketWriter``."""
        self._add(
            _block(
                _INTERFACE,
                struct.pack("<HHI", LINK_RAW, 0, 0)
                + _text_option(_IF_NAME, name)
                + _text_option(_IF_DESCRIPTION, description)
                + _option(_IF_RESOLUTION, _NANOSECONDS)
                + _END_OF_OPTIONS,
            )
        )
        self._interfaces += 1
        return self._interfaces - 1

    def _surround(self, origin: Origin, comment: str) -> tuple[bytes, bytes]:
        options = _packet_options(origin.process, origin.inbound, comment)
        return _EPB_START.pack(_ENHANCED_PACKET, 0, origin.interface), options + bytes(_LENGTH.size)

    def secrets(self, key_log: bytes) -> None:
        """Add lines of an NSS key log, for the packets that are added later."""
        padded = key_log + bytes(-len(key_log) & 3)
        self._add(_block(_SECRETS, struct.pack("<II", _TLS_KEY_LOG, len(key_log)) + padded))

    def recorded(self, interface: int, time_ns: int, packet: bytes) -> None:
        """Add an IP packet as it was recorded."""
        high, low = time_ns >> 32 & WORD, time_ns & WORD
        fields = struct.pack("<IIIII", interface, high, low, len(packet), len(packet))
        self._add(_block(_ENHANCED_PACKET, fields + packet + bytes(-len(packet) & 3)))

    def statistics(self, time_ns: int, comment: str) -> None:
        """See ``PacketWriter``: as interface statistics, the only place at a file's end."""
        interface = 0 if self._interfaces else self.interface("sslsniff", "")
        fields = struct.pack("<III", interface, time_ns >> 32 & WORD, time_ns & WORD)
        options = _text_option(_COMMENT, comment) + _END_OF_OPTIONS
        self._add(_block(_STATISTICS, fields + options))

    def _record_bytes(self, batch: bytes, at: int, position: int) -> int:
        return int(_LENGTH.unpack_from(batch, at + 4)[0])


@functools.lru_cache(_KEPT_OPTIONS)
def _packet_options(process: tuple[int, int] | None, inbound: bool, comment: str) -> bytes:
    """Return the comment, ``epb_flags`` and ``epb_processid_threadid``."""
    return (
        _text_option(_COMMENT, comment)
        + _option(_EPB_FLAGS, _LENGTH.pack(_INBOUND if inbound else _OUTBOUND))
        + (_option(_EPB_PROCESS, struct.pack("<II", *process)) if process else b"")
        + _END_OF_OPTIONS
    )


class _Interface(NamedTuple):
    link_type: int
    units_per_s: int
    offset_s: int

    def time_ns(self, high: int, low: int) -> int:
        ticks = high << 32 | low
        return self.offset_s * 1_000_000_000 + ticks * 1_000_000_000 // self.units_per_s


class PcapngReader:
    """Reads every packet of every section, with its comments, process and thread."""

    def __init__(self, file: Readable) -> None:
        """Begin after the 4 bytes of ``SECTION``, which the caller has read."""
        self.truncated = False
        self.has_keys = False
        self._file = file
        self._set_order("<")
        self._interfaces: list[_Interface] = []

    def __iter__(self) -> Iterator[Packet]:
        """See ``PacketReader``."""
        readers = {
            _ENHANCED_PACKET: self._enhanced_packet,
            _SIMPLE_PACKET: self._simple_packet,
            _OLD_PACKET: self._old_packet,
        }
        kind = SECTION
        while kind:
            body = self._body(kind)
            if body is None:
                self.truncated = True
                return
            number = int.from_bytes(kind, "little" if self._order == "<" else "big")
            try:
                if kind == SECTION:
                    self._interfaces = []
                elif number == _INTERFACE:
                    self._interfaces.append(self._interface(body))
                elif number == _SECRETS:
                    (kind_of_secrets,) = struct.unpack_from(self._order + "I", body)
                    self.has_keys |= kind_of_secrets == _TLS_KEY_LOG
                elif number in readers:
                    yield readers[number](body)
            except (struct.error, IndexError):  # a block that contradicts itself
                self.truncated = True
                return
            kind = self._file.read(4)

    def _set_order(self, order: str) -> None:
        """Set the byte order of the section that begins."""
        self._order = order
        self._length, self._packet_head = struct.Struct(order + "I"), struct.Struct(order + "IIII")

    def _body(self, kind: bytes) -> bytes | None:
        """Return the body of the block whose type was read; None when it is not whole."""
        head = self._file.read(8 if kind == SECTION else 4)
        if kind == SECTION and len(head) == 8:
            self._set_order("<" if head[4:] == _LENGTH.pack(_BYTE_ORDER) else ">")
            if head[4:] != struct.pack(self._order + "I", _BYTE_ORDER):
                return None
        if len(kind) < 4 or len(head) < 4:
            return None
        (total,) = self._length.unpack_from(head)
        rest = total - 4 - len(head)
        if rest < 4 or total & 3 or total > 2 * LARGEST_PACKET_BYTES:
            return None
        body = self._file.read(rest)
        return body[:-4] if len(body) == rest else None

    def _interface(self, body: bytes) -> _Interface:
        (link_type,) = struct.unpack_from(self._order + "H", body)
        units_per_s, offset_s = 1_000_000, 0
        for code, value in _options(self._order, body, 8):
            if code == _IF_RESOLUTION and value:
                units_per_s = (2 if value[0] & 0x80 else 10) ** (value[0] & 0x7F)
            elif code == _IF_OFFSET and len(value) == 8:
                (offset_s,) = struct.unpack(self._order + "q", value)
        return _Interface(link_type, units_per_s, offset_s)

    def _enhanced_packet(self, body: bytes) -> Packet:
        number, high, low, size = self._packet_head.unpack_from(body)
        interface = self._interfaces[number]
        data = self._data(body, 20, size)
        options = body[20 + size + (-size & 3) :]
        read = _packet_notes if len(options) <= _KEPT_NOTES_BYTES else _packet_notes.__wrapped__
        comments, process = read(self._order, options)
        time_ns, link_type = interface.time_ns(high, low), interface.link_type
        return Packet(time_ns, link_type, data, comments, process, number)

    def _old_packet(self, body: bytes) -> Packet:
        number, high, low, size = struct.unpack_from(self._order + "H2xIII", body)
        interface, data = self._interfaces[number], self._data(body, 20, size)
        time_ns, link_type = interface.time_ns(high, low), interface.link_type
        return Packet(time_ns, link_type, data, interface=number)

    def _simple_packet(self, body: bytes) -> Packet:
        """Return a packet without a time: 0, which outputs show as unknown."""
        (size,) = struct.unpack_from(self._order + "I", body)
        data = body[4 : 4 + size]  # may be cut by the interface's snap length
        return Packet(0, self._interfaces[0].link_type, data)

    def _data(self, body: bytes, at: int, size: int) -> bytes:
        if at + size > len(body):
            raise IndexError
        return body[at : at + size]


def _options(order: str, body: bytes, at: int) -> Iterator[tuple[int, bytes]]:
    """Yield code and value of each option from ``at``, up to one that is cut off."""
    header = struct.Struct(order + "HH")
    while at + 4 <= len(body):
        code, size = header.unpack_from(body, at)
        at += 4
        if code == 0 or at + size > len(body):
            return
        yield code, body[at : at + size]
        at += size + (-size & 3)


@functools.lru_cache(_KEPT_NOTES)
def _packet_notes(order: str, options: bytes) -> tuple[tuple[str, ...], tuple[int, int] | None]:
    """Return the comments in the options of a packet, and its process and thread; None: unknown.

    Many packets have the same: those that a process sent on a connection.
    """
    comments: tuple[str, ...] = ()
    process = None
    for code, value in _options(order, options, 0):
        if code == _COMMENT:
            comments += (value.decode("utf-8", "replace"),)
        elif code == _EPB_PROCESS and len(value) == 8:
            process = struct.unpack(order + "II", value)
    return comments, process
