"""Which statements and portals of PostgreSQL there are, after errors, Close and DEALLOCATE."""

import struct

import pytest

from tests.unit.decoders.databases.database_wires import (
    PG_EXECUTE,
    PG_LOGIN,
    PG_READY,
    PG_ROW,
    PG_SYNC,
    Decoded,
    decoded,
    pg,
    pg_bind,
    pg_error,
    pg_parse,
    pg_tag,
)
from tests.unit.decoders.databases.postgresql_wires import (
    BATCH,
    COPIED,
    COPY_FAILED,
    COPY_IN,
    DONE,
    NO_STATEMENT,
    NO_SUCH,
    OLD,
    ONE,
    RAN,
    ROWS,
    SELECT,
    SELECTED,
    SKIPPED,
    by_name,
    parsed,
    query,
    text,
)
from tests.unit.decoders.wires import C, S, Step

CASES: dict[str, tuple[list[Step], list[Decoded]]] = {
    "the rest of a failed batch is not run": (
        [
            (C, pg_parse(SELECT) + (pg_bind(b"42") + PG_EXECUTE) * 2 + PG_SYNC + BATCH),
            (S, pg("1") + pg("2") + pg_error("22012", "division by zero") + PG_READY + DONE),
        ],
        [
            Decoded("SELECT", SELECT.decode(), ["42"], code="22012"),
            Decoded(
                "SELECT",
                SELECT.decode(),
                ["42"],
                ended=SKIPPED,
            ),
            SELECTED,
        ],
    ),
    "a statement that cannot be prepared": (
        [
            (C, pg_parse(b"SELECT a", name=b"s") + pg("D", b"Ss\0") + PG_SYNC),
            (S, pg_error("42703", "no a") + PG_READY),
        ],
        [Decoded("SELECT", "SELECT a", code="42703")],
    ),
    "one that cannot be prepared, before another batch": (
        [
            (C, pg_parse(b"SELECT a", name=b"s") + PG_SYNC + BATCH),
            (S, pg_error("42703", "no a") + PG_READY + DONE),
        ],
        [SELECTED, Decoded("SELECT", "SELECT a", code="42703")],
    ),
    "a Parse that failed": (
        [
            *parsed(ONE, b"s"),
            (C, pg_parse(b"select 'dup'", name=b"s") + PG_SYNC + by_name(b"s")),
            (S, pg_error("42P05", "exists") + PG_READY + RAN),
        ],
        [text(ONE), Decoded("SELECT", "select 'dup'", code="42P05")],
    ),
    "a Parse and a Close that were skipped": (
        [
            *parsed(ONE, b"s1"),
            *parsed(OLD, b"s2"),
            (C, pg_parse(b"bad") + pg_bind() + PG_EXECUTE + pg_parse(b"select 1", name=b"s2")),
            (C, pg("C", b"Ss1\0") + PG_SYNC),
            (S, pg_error("42601", "syntax error") + PG_READY),
            (C, by_name(b"s2") + by_name(b"s1")),
            (S, RAN * 2),
        ],
        [text(b"bad", None, "42601"), text(OLD), text(ONE)],
    ),
    "executed after a Parse that failed": (
        [
            (C, pg_parse(b"bad", name=b"s") + PG_SYNC + by_name(b"s")),
            (S, pg_error("42601", "syntax error") + PG_READY + NO_SUCH),
        ],
        [NO_STATEMENT, Decoded("BAD", "bad", code="42601")],
    ),
    "a Parse of another statement failed": (
        [
            *parsed(ONE, b"a"),
            (C, pg_parse(b"bad", name=b"b") + by_name(b"a") + by_name(b"a")),
            (S, pg_error("42601", "syntax error") + PG_READY + RAN),
        ],
        [
            text(ONE, None)._replace(ended=SKIPPED),
            text(ONE),
            Decoded("BAD", "bad", code="42601"),
        ],
    ),
    "a Bind that failed": (
        [
            *parsed(b"select $1::int", b"a"),
            (C, (pg_bind(b"x", name=b"a") + PG_EXECUTE) + (pg_bind(b"1", name=b"a") + PG_EXECUTE)),
            (C, PG_SYNC),
            (S, pg_error("22P02", "invalid input") + PG_READY),
        ],
        [
            Decoded("SELECT", "select $1::int", ["x"], code="22P02"),
            Decoded("SELECT", "select $1::int", ["1"], ended=SKIPPED),
        ],
    ),
    "a Describe that failed": (
        [
            (C, pg("D", b"Snone\0") + PG_SYNC + pg("D", b"Pnone\0") + PG_SYNC),
            (S, NO_SUCH + pg_error("34000", "no such portal") + PG_READY),
        ],
        [Decoded(None, None, code="26000"), Decoded(None, None, code="34000")],
    ),
    "closed": (
        [
            *parsed(ONE, b"a"),
            (C, pg("C", b"Sa\0") + PG_SYNC + by_name(b"a")),
            (S, pg("3") + PG_READY + NO_SUCH),
        ],
        [NO_STATEMENT],
    ),
    "two portals": (
        [
            *parsed(ONE, b"a"),
            (C, pg_bind(name=b"a", portal=b"p") + pg("E", b"p\0", b"\0\0\0\1") + pg_parse(OLD)),
            (C, pg_bind() + PG_EXECUTE + pg("E", b"p\0", bytes(4)) + pg("C", b"Pp\0") + PG_SYNC),
            (S, pg("2") + PG_ROW + pg("s") + pg("1") + pg("2") + PG_ROW + pg_tag("SELECT 1")),
            (S, PG_ROW + pg_tag("SELECT 1") + pg("3") + PG_READY),
            (C, pg("E", b"p\0", bytes(4)) + PG_SYNC),
            (S, pg_error("34000", "no such portal") + PG_READY),
        ],
        [text(ONE), text(OLD), text(ONE), Decoded(None, None, code="34000")],
    ),
    "a query ends the statement without a name": (
        [
            *parsed(ONE, b""),
            query(b"select 2"),
            (S, pg("T", b"\0\0") + PG_ROW + pg_tag("SELECT 1") + PG_READY),
            (C, by_name(b"")),
            (S, NO_SUCH),
        ],
        [text(b"select 2")._replace(parameters=None), NO_STATEMENT],
    ),
    "deallocated as far as it went": (
        [
            *parsed(ONE, b"a"),
            *parsed(OLD, b"B"),
            query(b'deallocate A; deallocate nope; deallocate "B"'),
            (S, pg_tag("DEALLOCATE") + pg_error("26000", "no such statement") + PG_READY),
            (C, by_name(b"a") + by_name(b"B")),
            (S, NO_SUCH + RAN),
        ],
        [
            Decoded("DEALLOCATE", 'deallocate A; deallocate nope; deallocate "B"', code="26000"),
            NO_STATEMENT,
            text(OLD),
        ],
    ),
    "all are deallocated": (
        [
            *parsed(ONE, b"a"),
            query(b"discard all"),
            (S, pg_tag("DISCARD ALL") + PG_READY),
            (C, by_name(b"a")),
            (S, NO_SUCH),
        ],
        [Decoded("DISCARD", "discard all"), NO_STATEMENT],
    ),
    "prepared by SQL": (
        [
            query(b"prepare Foo(int) as select $1"),
            (S, pg_tag("PREPARE") + PG_READY),
            (C, pg_bind(b"7", name=b"foo") + PG_EXECUTE + PG_SYNC),
            (S, RAN),
        ],
        [
            Decoded("PREPARE", "prepare Foo(int) as select $1"),
            Decoded("SELECT", "select $1", ["7"], 1),
        ],
    ),
    "a rollback ends no statement": (
        [
            query(b"begin"),
            (S, pg_tag("BEGIN") + pg("Z", b"T")),
            *parsed(ONE, b"a"),
            query(b"rollback"),
            (S, pg_tag("ROLLBACK") + PG_READY),
            (C, by_name(b"a")),
            (S, RAN),
        ],
        [Decoded("BEGIN", "begin"), Decoded("ROLLBACK", "rollback"), text(ONE)],
    ),
    "a query is skipped, too": (
        [
            (C, pg_parse(b"bad") + pg("H")),
            (S, pg_error("42601", "syntax error")),
            (C, pg_parse(ONE) + pg_bind() + PG_EXECUTE),
            query(b"select 6"),
            (C, PG_SYNC),
            (S, PG_READY),
            (C, BATCH),
            (S, DONE),
        ],
        [
            Decoded("BAD", "bad", code="42601"),
            text(ONE, None)._replace(ended=SKIPPED),
            Decoded("SELECT", "select 6", ended=SKIPPED),
            SELECTED,
        ],
    ),
    "copied in, with a Sync before the data": (
        [
            (C, COPY_IN + PG_SYNC),
            (S, pg("1") + pg("2") + pg("G", b"\0\0\0")),
            (C, COPIED),
            (S, pg_tag("COPY 2") + PG_READY),
            (C, BATCH),
            (S, DONE),
        ],
        [text(b"copy t from stdin", None)._replace(affected=2), SELECTED],
    ),
    "not copied in": (
        [
            (C, COPY_IN + PG_SYNC),
            (S, pg("1") + pg("2") + pg("G", b"\0\0\0")),
            (C, pg("d", b"x\n")),
            (S, COPY_FAILED),
            (C, COPIED),
            (S, PG_READY),
            (C, BATCH + COPY_IN + PG_SYNC),
            (S, DONE + pg("1") + pg("2") + pg("G", b"\0\0\0")),
            (C, COPIED),
            (S, COPY_FAILED + PG_READY),
            query(b"copy t from stdin"),
            (S, pg("G", b"\0\0\0")),
            (C, pg("d", b"x\n")),
            (S, COPY_FAILED + PG_READY),
            (C, pg("c") + BATCH),
            (S, DONE),
        ],
        [
            text(b"copy t from stdin", None, "22P02"),
            SELECTED,
            text(b"copy t from stdin", None, "22P02"),
            text(b"copy t from stdin", None, "22P02")._replace(parameters=None),
            SELECTED,
        ],
    ),
    "a constraint that fails at the end": (
        [
            (C, BATCH),
            (S, pg("1") + pg("2") + ROWS + pg_error("23503", "violates") + PG_READY),
            (C, BATCH),
            (S, DONE),
        ],
        [SELECTED, Decoded("COMMIT", None, code="23503"), SELECTED],
    ),
    "types described in the same batch": (
        [
            (C, pg_parse(b"SELECT $1", name=b"s") + pg("D", b"Ss\0")),
            (C, pg_bind(b"\0\0\0\5", name=b"s", binary=True) + PG_EXECUTE + PG_SYNC),
            (S, pg("1") + pg("t", struct.pack(">HI", 1, 23)) + pg("n") + RAN),
        ],
        [Decoded("SELECT", "SELECT $1", [5], 1)],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1 << 30, 1, 7])
def test_statements(name: str, size: int) -> None:
    wire, shown = CASES[name]
    assert decoded([*PG_LOGIN, *wire], size) == shown
