"""Reads the parameters of an execution whose COM_STMT_PREPARE was not seen.

Only the answer to that command says how many parameters the statement has, unless the client
supports query attributes. The execution has a bitmap of NULLs, whose length depends on that number,
a 1, the type of each parameter, and the values ("COM_STMT_EXECUTE" in MySQL 8.4's source). So each
number is tried. The true one uses up the packet; if no other number does, it is proven.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from sslsniff.decoders.databases.mysql.mysql_values import lenenc
from sslsniff.decoders.databases.mysql.parameters import COUNT_AVAILABLE, bound
from sslsniff.decoders.databases.mysql.prepared_statements import MysqlStatement
from sslsniff.decoders.databases.statement import MOST_PARAMETERS, Parameters

_BITMAP_AT = 9  # after the statement's number, flags, and the count of iterations
_ARE_SENT = 1  # the types of the parameters, in this execution
_SIGNS = frozenset((0, 0x80))  # of a type's second byte: whether it is unsigned
_KINDS = frozenset((*range(20), *range(242, 256)))
_MOST_TYPES = 20_000
"""Types that are looked at for one execution; beyond, its parameters are not known."""


class _Layout(NamedTuple):
    """How an execution may be read: from ``at`` on, with names among the types or without them."""

    parameters: int
    at: int
    has_names: bool


def executed_unseen(
    data: bytes, prepared: MysqlStatement
) -> tuple[Parameters, MysqlStatement] | None:
    """Return the parameters in what follows a COM_STMT_EXECUTE, and the statement with their types.

    Later executions may leave the types out. None: the parameters are not certain.
    ``data``: all of it.
    """
    if prepared.pieces:
        return None  # values that are not in the packet
    try:
        at, count = _BITMAP_AT, prepared.count
        if data[4] & COUNT_AVAILABLE:
            count, at = lenenc(data, at)
        if prepared.kinds and not data[at + (count + 7) // 8]:
            found, end = bound(data, at, count, prepared, has_names=False)
            return (found, prepared) if end == len(data) else None
        layouts = _layouts(data)
    except (IndexError, struct.error):
        return None
    fitting = [read for each in layouts if (read := _read(data, each)) is not None]
    if len(fitting) != 1:
        return None
    parameters, kinds = fitting[0]
    return parameters, MysqlStatement(None, 0, len(kinds), kinds)


def _layouts(data: bytes) -> list[_Layout]:
    """Return all layouts that may fit; none if there are too many to try."""
    if data[4] & COUNT_AVAILABLE:
        count, at = lenenc(data, _BITMAP_AT)
        return [_Layout(count, at, has_names=True)] if count <= MOST_PARAMETERS else []
    if len(data) == _BITMAP_AT:
        return [_Layout(0, _BITMAP_AT, has_names=False)]
    found: list[_Layout] = []
    room = _MOST_TYPES
    for count in _counts(data):
        room -= count
        if room < 0 or count > MOST_PARAMETERS:
            return []
        found += (_Layout(count, _BITMAP_AT, has_names) for has_names in (False, True))
    return found


def _counts(data: bytes) -> Iterator[int]:
    """Yield the numbers of parameters for which a 1 follows the bitmap, and types may follow."""
    at = data.find(_ARE_SENT, _BITMAP_AT + 1)
    while at >= 0:
        most = 8 * (at - _BITMAP_AT)
        for count in range(most - 7, most + 1):
            if at + 1 + 2 * count > len(data):
                return
            yield count
        at = data.find(_ARE_SENT, at + 1)


def _read(data: bytes, layout: _Layout) -> tuple[Parameters, list[int]] | None:
    trial = MysqlStatement(None, 0, layout.parameters)
    try:
        found, end = bound(data, layout.at, layout.parameters, trial, has_names=layout.has_names)
    except (IndexError, struct.error):
        return None
    are_types = all(kind & 0xFF in _KINDS and kind >> 8 in _SIGNS for kind in trial.kinds)
    return (found, trial.kinds) if end == len(data) and are_types else None
