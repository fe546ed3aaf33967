"""Values in PostgreSQL's binary format, by the type's number (pg_type.dat)."""

import struct
import uuid
from collections.abc import Callable

from sslsniff.decoders.databases.statement import Parameter, shown_value

_NUMBERS: dict[int, struct.Struct] = {
    16: struct.Struct(">?"),
    20: struct.Struct(">q"),
    21: struct.Struct(">h"),
    23: struct.Struct(">i"),
    26: struct.Struct(">I"),
    700: struct.Struct(">f"),
    701: struct.Struct(">d"),
}
_OTHERS: dict[int, Callable[[bytes], str]] = {
    17: lambda raw: "\\x" + raw[:2048].hex(),
    2950: lambda raw: str(uuid.UUID(bytes=raw)),
    3802: lambda raw: shown_value(raw[1:]),  # jsonb: after its version
}
_TEXTS = frozenset((18, 19, 25, 114, 142, 705, 1042, 1043))


def value(raw: bytes, is_binary: bool, kind: int) -> Parameter:
    """Return a parameter as shown. ``kind``: the number of its type; 0 if it is not known."""
    if not is_binary or kind in _TEXTS:
        return shown_value(raw)
    number = _NUMBERS.get(kind)
    if number is not None and len(raw) == number.size:
        (found,) = number.unpack(raw)
        return found  # type: ignore[no-any-return]
    if kind in _OTHERS and (kind != 2950 or len(raw) == 16):
        return _OTHERS[kind](raw)
    return "\\x" + raw[:2048].hex()
