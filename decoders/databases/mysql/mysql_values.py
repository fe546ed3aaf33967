"""Numbers and values of MySQL's protocol (MySQL 8.4 source documentation, "Protocol Basics")."""

import struct

from sslsniff.decoders.databases.statement import Parameter, shown_value

_NUMBERS: dict[int, tuple[struct.Struct, struct.Struct]] = {
    1: (struct.Struct("<b"), struct.Struct("<B")),
    2: (struct.Struct("<h"), struct.Struct("<H")),
    3: (struct.Struct("<i"), struct.Struct("<I")),
    4: (struct.Struct("<f"), struct.Struct("<f")),
    5: (struct.Struct("<d"), struct.Struct("<d")),
    8: (struct.Struct("<q"), struct.Struct("<Q")),
    9: (struct.Struct("<i"), struct.Struct("<I")),
    13: (struct.Struct("<h"), struct.Struct("<H")),
}
"""By type: signed, and unsigned."""
_NULL, _TIMESTAMP, _DATE, _TIME, _DATETIME = 6, 7, 10, 11, 12


def lenenc(data: bytes, at: int) -> tuple[int, int]:
    """Return a length-encoded number and where it ends. Raise ``IndexError`` if it is cut."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}.get(first, 0)
    if len(data) < at + 1 + size:
        raise IndexError
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size


def value(data: bytes, at: int, kind: int, is_unsigned: bool) -> tuple[Parameter, int]:
    """Return a value in binary form and where it ends. Raise ``IndexError`` or ``struct.error``."""
    if kind in _NUMBERS:
        number = _NUMBERS[kind][is_unsigned]
        return number.unpack_from(data, at)[0], at + number.size
    if kind == _NULL:
        return None, at
    size, at = lenenc(data, at)
    raw = data[at : at + size]
    if kind in {_DATE, _DATETIME, _TIMESTAMP}:
        return _date(raw), at + size
    return (_time(raw) if kind == _TIME else shown_value(raw)), at + size


def _date(raw: bytes) -> str:
    year, month, day, hour, minute, second, part = struct.unpack("<H5BI", raw.ljust(11, b"\0"))
    shown = f"{year:04}-{month:02}-{day:02}"
    if len(raw) > 4:
        shown += f" {hour:02}:{minute:02}:{second:02}"
    return f"{shown}.{part:06}" if len(raw) > 7 else shown


def _time(raw: bytes) -> str:
    negative, days, hour, minute, second, part = struct.unpack("<BI3BI", raw.ljust(12, b"\0"))
    shown = f"{'-' if negative else ''}{days * 24 + hour:02}:{minute:02}:{second:02}"
    return f"{shown}.{part:06}" if len(raw) > 8 else shown
