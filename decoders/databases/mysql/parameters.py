"""The parameters of prepared statements and queries in MySQL's protocol."""

import struct
import sys
from dataclasses import dataclass, field

from sslsniff.decoders.databases.mysql.mysql_values import lenenc, value
from sslsniff.decoders.databases.statement import MOST_PARAMETERS, Parameter

_UNSIGNED = 0x8000
_COUNT_AVAILABLE = 0x08  # of an execution's flags, with CLIENT_QUERY_ATTRIBUTES
_IN_PIECES = "(sent in pieces)"


@dataclass(slots=True)
class Prepared:
    """A prepared statement.

    ``kinds``: the types as bound last. ``pieces``: the parameters that were sent by
    COM_STMT_SEND_LONG_DATA.
    """

    text: str
    size: int
    count: int
    kinds: list[int] = field(default_factory=list)
    pieces: set[int] = field(default_factory=set)

    @property
    def held_bytes(self) -> int:
        """About how much memory it may take."""
        return sys.getsizeof(self.text) + 150 * self.count + 500


def executed(data: bytes, prepared: Prepared, has_attributes: bool) -> list[Parameter] | None:
    """Return the parameters in what follows a COM_STMT_EXECUTE; None if they are cut."""
    try:
        count, at = prepared.count, 9
        if has_attributes and data[4] & _COUNT_AVAILABLE:
            count, at = lenenc(data, at)
        return _bound(data, at, count, prepared, has_attributes)[0]
    except (IndexError, struct.error):
        return None


def after_attributes(data: bytes) -> bytes:
    """Return the text of a COM_QUERY with CLIENT_QUERY_ATTRIBUTES, which are before it."""
    try:
        count, at = lenenc(data, 0)
        _, at = lenenc(data, at)
        if count:
            at = _bound(data, at, count, Prepared("", 0, count), has_names=True)[1]
    except (IndexError, struct.error):
        return data
    return data[at:]


def _bound(
    data: bytes, at: int, count: int, prepared: Prepared, has_names: bool
) -> tuple[list[Parameter], int]:
    """Return values and where they end. Raise ``IndexError`` or ``struct.error`` if cut."""
    if not count:
        return [], at
    nulls = data[at : at + (count + 7) // 8]
    at += len(nulls)
    if data[at]:
        at += 1
        prepared.kinds = []
        for _ in range(min(count, MOST_PARAMETERS)):
            prepared.kinds.append(struct.unpack_from("<H", data, at)[0])
            at += 2
            if has_names:
                size, at = lenenc(data, at)
                at += size
    else:
        at += 1
    found: list[Parameter] = []
    for number, kind in enumerate(prepared.kinds[:count]):
        if nulls[number // 8] >> number % 8 & 1:
            found.append(None)
        elif number in prepared.pieces:
            found.append(_IN_PIECES)
        else:
            shown, at = value(data, at, kind & 0xFF, bool(kind & _UNSIGNED))
            found.append(shown)
    return found, at
