"""What passes between clients and PostgreSQL, and what a decoder makes of it."""

import struct

from tests.unit.decoders.databases.database_wires import (
    PG_EXECUTE,
    PG_READY,
    PG_ROW,
    PG_SYNC,
    Decoded,
    pg,
    pg_bind,
    pg_error,
    pg_parse,
    pg_tag,
)
from tests.unit.decoders.wires import C, S, Step

SELECT = b"SELECT name FROM users WHERE id = $1"
ROWS = pg("T", b"\0\0") + PG_ROW * 2 + pg_tag("SELECT 2")
BATCH = pg_parse(SELECT) + pg_bind(b"42") + pg("D", b"P\0") + PG_EXECUTE + PG_SYNC
DONE = pg("1") + pg("2") + ROWS + PG_READY
NUMBERS = struct.pack(">q", -5), struct.pack(">d", 2), b"\1"
ONE, OLD = b"select 'one'", b"select 'old'"
SKIPPED = "not run: another statement of the batch failed"
SELECTED = Decoded("SELECT", SELECT.decode(), ["42"], 2)


def by_name(name: bytes) -> bytes:
    return pg_bind(name=name) + PG_EXECUTE + PG_SYNC


def parsed(text: bytes, name: bytes) -> list[Step]:
    return [(C, pg_parse(text, name=name) + PG_SYNC), (S, pg("1") + PG_READY)]


def text(shown: bytes, rows: int | None = 1, code: str | None = None) -> Decoded:
    words = shown.decode()
    return Decoded(words.split()[0].upper(), words, [], rows, None, code)


def query(asked: bytes) -> Step:
    return C, pg("Q", asked, b"\0")


RAN = pg("2") + PG_ROW + pg_tag("SELECT 1") + PG_READY
NO_STATEMENT = Decoded(None, None, [], code="26000")
NO_SUCH = pg_error("26000", "no such statement") + PG_READY
COPY_IN = pg_parse(b"copy t from stdin") + pg_bind() + PG_EXECUTE
COPIED = pg("d", b"1\n") * 2 + pg("c") + PG_SYNC
COPY_FAILED = pg_error("22P02", "invalid input")
