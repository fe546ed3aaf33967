"""Reads the parameters of prepared statements and queries in MySQL's protocol."""

import struct

from sslsniff.decoders.databases.mysql.mysql_values import lenenc, value
from sslsniff.decoders.databases.mysql.prepared_statements import MysqlStatement
from sslsniff.decoders.databases.statement import MOST_PARAMETERS, Parameter, Parameters

_UNSIGNED = 0x8000
COUNT_AVAILABLE = 0x08  # of an execution's flags, with CLIENT_QUERY_ATTRIBUTES
_IN_PIECES = "(sent in pieces)"
_TYPES_ARE_SENT = 0x80  # of the flags of a bulk execution
_INDICATORS: dict[int, Parameter] = {1: None, 2: "(DEFAULT)", 3: "(IGNORE)"}
"""What a bulk execution says in place of a value (MariaDB, "COM_STMT_BULK_EXECUTE")."""
_CUT = "..."


def executed(data: bytes, prepared: MysqlStatement, has_attributes: bool) -> Parameters | None:
    """Return the parameters in what follows a COM_STMT_EXECUTE; None if they are cut."""
    try:
        count, at = prepared.count, 9
        if data[4] & COUNT_AVAILABLE:  # so the client has attributes, if its log-in was not seen
            has_attributes = True
            count, at = lenenc(data, at)
        return bound(data, at, count, prepared, has_names=has_attributes)[0]
    except (IndexError, struct.error):
        return None


def executed_in_bulk(data: bytes, prepared: MysqlStatement) -> Parameters | None:
    """Return a list for each row in what follows a COM_STMT_BULK_EXECUTE.

    Rows that are cut, or too many, are ``...``. None if the types are not known.
    """
    count = prepared.count
    rows: Parameters = []
    try:
        (flags,) = struct.unpack_from("<H", data, 4)
        at = 6
        if flags & _TYPES_ARE_SENT:
            prepared.kinds = list(struct.unpack_from(f"<{count}H", data, at))
            at += 2 * count
        if not count or len(prepared.kinds) != count:
            return None
        while at < len(data):
            if len(rows) * count >= MOST_PARAMETERS:
                return [*rows, _CUT]
            row, at = _row(data, at, prepared.kinds)
            rows.append(row)
    except (IndexError, struct.error):
        return [*rows, _CUT]
    return rows


def _row(data: bytes, at: int, kinds: list[int]) -> tuple[list[Parameter], int]:
    row: list[Parameter] = []
    for kind in kinds:
        indicator, at = data[at], at + 1
        shown = _INDICATORS.get(indicator)
        if not indicator:
            shown, at = value(data, at, kind & 0xFF, bool(kind & _UNSIGNED))
            if at > len(data):
                raise IndexError
        row.append(shown)
    return row, at


def after_attributes(data: bytes) -> bytes:
    """Return the text of a COM_QUERY with CLIENT_QUERY_ATTRIBUTES, which are before it."""
    try:
        count, at = lenenc(data, 0)
        _, at = lenenc(data, at)
        if count:
            at = bound(data, at, count, MysqlStatement("", 0, count), has_names=True)[1]
    except (IndexError, struct.error):
        return data
    return data[at:]


def bound(
    data: bytes, at: int, count: int, prepared: MysqlStatement, *, has_names: bool
) -> tuple[Parameters, int]:
    """Return values and where they end. Raise ``IndexError`` or ``struct.error`` if cut.

    ``has_names``: the types are sent with names, if they are sent.
    """
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
    found: Parameters = []
    for number, kind in enumerate(prepared.kinds[:count]):
        if nulls[number // 8] >> number % 8 & 1:
            found.append(None)
        elif number in prepared.pieces:
            found.append(_IN_PIECES)
        else:
            shown, at = value(data, at, kind & 0xFF, bool(kind & _UNSIGNED))
            found.append(shown)
    return found, at
