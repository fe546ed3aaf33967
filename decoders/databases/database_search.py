"""Recognises the protocols of databases by how they begin, or by a message in the middle."""

import re

from sslsniff.decoders.messages import Side

POSTGRESQL, MYSQL, REDIS = "postgresql", "mysql", "redis"
"""Protocols, as shown to users."""

_Proofs = dict[Side, re.Pattern[bytes]]

_SQL = rb"(?i:SELECT|INSERT|UPDATE|DELETE|BEGIN|COMMIT|ROLLBACK|CREATE|SET|SHOW|WITH)[\s;]"
_HAS_41 = b"[" + b"".join(re.escape(bytes((n,))) for n in range(256) if n & 2) + b"]"

# A start-up message, or a request for encryption or for the end of a statement.
POSTGRESQL_START = rb"\0\0..\0\x03\0[\0-\x02][a-z_]+\0|\0\0\0[\x08\x10]\x04\xd2\x16[\x2e-\x30]"
_POSTGRESQL_QUERY = rb"[QP]\0[\0-\x10]..[A-Za-z0-9_]{0,63}\0?" + _SQL
_POSTGRESQL_EXECUTE = rb"E\0\0\0\x09\0....S\0\0\0\x04"
POSTGRESQL_COMMAND = _POSTGRESQL_QUERY + rb"|" + _POSTGRESQL_EXECUTE
# A log-in: its number in the sequence, the flag of the protocol of MySQL 4.1, and zeros.
MYSQL_LOGIN = rb"..\0[\x01\x02]." + _HAS_41 + rb".{7}\0{19}.{4}"
MYSQL_COMMAND = rb"\0[\x03\x16](?:\0\x01)?" + _SQL

_BEGINNINGS: _Proofs = {
    Side.CLIENT: re.compile(
        rb"(?P<postgresql>" + POSTGRESQL_START + rb")|(?P<mysql>" + MYSQL_LOGIN + rb")"
        rb"|(?P<redis>\*[1-9][0-9]{0,6}\r\n\$[1-9][0-9]?\r\n[A-Za-z]+\r\n)",
        re.DOTALL,
    ),
    Side.SERVER: re.compile(
        # A greeting: the version of the protocol and of the server.
        rb"(?P<mysql>..\0\0\x0a[0-9]{1,2}\.[0-9]{1,2}\.[0-9])",
        re.DOTALL,
    ),
}
"""How the bytes of a connection begin, seen from its start."""

_MIDDLES: dict[Side, tuple[tuple[str, re.Pattern[bytes]], ...]] = {
    Side.CLIENT: (
        (POSTGRESQL, re.compile(_POSTGRESQL_QUERY, re.DOTALL)),
        (POSTGRESQL, re.compile(_POSTGRESQL_EXECUTE, re.DOTALL)),
        # ``MYSQL_COMMAND`` from its second byte on: zeros are many.
        (MYSQL, re.compile(rb"[\x03\x16](?<=\0.)(?:\0\x01)?" + _SQL, re.DOTALL)),
        (
            REDIS,
            re.compile(
                rb"\*[1-9][0-9]{0,4}\r\n\$[1-9]\r\n"
                rb"(?i:GET|SET|MGET|MSET|HGET|HSET|HGETALL|DEL|EXISTS|EXPIRE|INCR|DECR|LPUSH|RPUSH|LPOP"
                rb"|RPOP|BLPOP|BRPOP|LRANGE|SADD|ZADD|XADD|XREAD|XREADGROUP|EVAL|EVALSHA|PUBLISH"
                rb"|SUBSCRIBE|PING|MULTI|EXEC|AUTH|HELLO|SELECT|CLIENT|INFO|SCAN|SETEX|TTL|REPLCONF)\r\n"
            ),
        ),
    ),
    Side.SERVER: (
        # The end of a command, and that the server is ready for the next one.
        (
            POSTGRESQL,
            re.compile(rb"C\0\0\0[\x08-\x20][A-Z]{3,12}[A-Z0-9 ]*\0Z\0\0\0\x05[ITE]", re.DOTALL),
        ),
    ),
}
"""What is in the middle of a connection. A pattern for each: ``re`` skips to its first byte."""

_LONGEST = 128  # bytes that a proof takes
_EXECUTION = re.compile(rb"...\0\x17...\0[\0-\x0f]\x01\0\0\0", re.DOTALL)


def _is_execution(data: bytes) -> bool:
    """Return whether ``data`` is one packet of MySQL that executes a prepared statement.

    A client of a pool may send nothing else for long. The packet's length, the command, a number
    below 2^24, flags and the count of iterations are proof.
    """
    return int.from_bytes(data[:3], "little") == len(data) - 4 and bool(_EXECUTION.match(data))


class DatabaseSearch:
    """Searches the bytes of ``side``. ``may_be_inside``: the beginning was not seen.

    Memory: twice the length of a proof.
    """

    def __init__(self, side: Side, *, may_be_inside: bool) -> None:
        self._side = side
        self._may_be_inside = may_be_inside
        self._beginning: bytes | None = b""  # None once there are enough bytes of it
        self._rest = b""

    def feed(self, data: bytes) -> str | None:
        """Return the database whose protocol ``data`` proves; None if it proves none."""
        if self._beginning is not None:
            beginning = self._beginning + data[:_LONGEST]
            found = _BEGINNINGS[self._side].match(beginning)
            if found is not None:
                return found.lastgroup
            self._beginning = beginning if len(beginning) < _LONGEST else None
        if not self._may_be_inside:
            return None
        if self._side is Side.CLIENT and _is_execution(data):
            return MYSQL
        data = self._rest + data
        self._rest = data[-_LONGEST:]
        proofs = [
            (match.start(), name)
            for name, proof in _MIDDLES[self._side]
            if (match := proof.search(data)) is not None
        ]
        return min(proofs)[1] if proofs else None
