"""Reads what a client of MySQL sends to log in ("Protocol::HandshakeResponse" in 8.4's source)."""

from typing import NamedTuple

from sslsniff.decoders.databases.mysql.mysql_values import lenenc
from sslsniff.decoders.databases.statement import Statement, shown_text

HELLO_BYTES = 32
"""Of what a client sends first, up to its name; alone, it asks for TLS."""
_CONNECT_WITH_DB, _COMPRESS, _SSL = 0x8, 0x20, 0x800
_PLUGIN_DATA_LENENC, _ATTRIBUTES, _ZSTD = 1 << 21, 1 << 27, 1 << 26


class LogIn(NamedTuple):
    """A log-in: ``statement`` has the user and the database.

    ``has_attributes``: queries may have attributes. ``is_compressed``: all that follows is.
    """

    statement: Statement
    has_attributes: bool
    is_compressed: bool


def asks_for_tls(data: bytes, size: int) -> bool:
    """Return whether a first packet of ``size`` bytes only asks for TLS."""
    return size == HELLO_BYTES and bool(int.from_bytes(data[:4], "little") & _SSL)


def log_in(data: bytes) -> LogIn:
    """Return what a client's first packet says. Raise ``IndexError`` if it is cut."""
    flags = int.from_bytes(data[:4], "little")
    user, _, rest = data[HELLO_BYTES:].partition(b"\0")
    database = b""
    if flags & _CONNECT_WITH_DB:
        size, at = lenenc(rest, 0) if flags & _PLUGIN_DATA_LENENC else (rest[0], 1)
        database = rest[at + size :].partition(b"\0")[0]
    statement = _connect(user, database)
    return LogIn(statement, bool(flags & _ATTRIBUTES), bool(flags & (_COMPRESS | _ZSTD)))


def change_of_user(data: bytes) -> Statement:
    """Return the log-in of a COM_CHANGE_USER, after its first byte."""
    user, _, rest = data.partition(b"\0")
    return _connect(user, rest[1 + rest[0] :].partition(b"\0")[0])


def _connect(user: bytes, database: bytes) -> Statement:
    statement = Statement("mysql", "CONNECT", user=shown_text(user))
    statement.database = shown_text(database) or None
    return statement
