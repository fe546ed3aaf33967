"""What PostgreSQL drops unasked: statements and portals without a name, and all portals.

The answers are those of PostgreSQL 15.
"""

import pytest

from sslsniff.decoders.messages import Side
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
    NO_STATEMENT,
    NO_SUCH,
    OLD,
    ONE,
    RAN,
    SKIPPED,
    by_name,
    parsed,
    query,
    text,
)
from tests.unit.decoders.wires import C, S, Step

IN_TRANSACTION, IN_FAILED = pg("Z", b"T"), pg("Z", b"E")
SYNTAX = pg_error("42601", "syntax error")
ABORTED = pg_error("25P02", "current transaction is aborted")
NO_PORTAL = pg_error("34000", "portal does not exist")
PORTAL = pg("E", b"p\0", bytes(4))
BEGIN: list[Step] = [query(b"begin"), (S, pg_tag("BEGIN") + IN_TRANSACTION)]
BEGUN = Decoded("BEGIN", "begin")
BAD = text(b"bad", None, "42601")._replace(parameters=None)
UNKNOWN = Decoded(None, None, code="34000")
DROPPED_ALL = (b"discard all", b"deallocate all")


def dropped_all(asked: bytes) -> tuple[list[Step], list[Decoded]]:
    tag = pg_tag(asked.decode().upper())
    return [
        *parsed(ONE, b""),
        *parsed(OLD, b"s"),
        (C, pg_parse(asked, name=b"d") + pg_bind(name=b"d", portal=b"p") + PORTAL + PG_SYNC),
        (S, pg("1") + pg("2") + tag + PG_READY),
        (C, by_name(b"") + by_name(b"s")),
        (S, RAN + NO_SUCH),
    ], [text(asked, None), text(ONE), NO_STATEMENT]


CASES: dict[str, tuple[list[Step], list[Decoded]]] = {
    "a Parse that failed": (
        [
            *parsed(ONE, b""),
            (C, pg_parse(b"bad") + PG_SYNC),
            (S, SYNTAX + PG_READY),
            (C, by_name(b"")),
            (S, NO_SUCH),
        ],
        [BAD, NO_STATEMENT],
    ),
    "a Parse that failed, and all was sent before": (
        [
            (C, pg_parse(ONE) + PG_SYNC + pg_parse(b"bad") + PG_SYNC + by_name(b"")),
            (S, pg("1") + PG_READY + SYNTAX + PG_READY + NO_SUCH),
        ],
        [NO_STATEMENT, BAD],
    ),
    "a Parse in a transaction that had failed": (
        [
            *parsed(ONE, b""),
            (C, pg_parse(b"begin", name=b"b") + pg_bind(name=b"b") + PG_EXECUTE + PG_SYNC),
            (S, pg("1") + pg("2") + pg_tag("BEGIN") + IN_TRANSACTION),
            (C, pg_parse(b"bad", name=b"x") + PG_SYNC + pg_parse(OLD) + PG_SYNC),
            (S, SYNTAX + IN_FAILED + ABORTED + IN_FAILED),
            (C, pg_parse(b"rollback", name=b"r") + pg_bind(name=b"r") + PG_EXECUTE + PG_SYNC),
            (S, pg("1") + pg("2") + pg_tag("ROLLBACK") + PG_READY),
            (C, by_name(b"")),
            (S, NO_SUCH),
        ],
        [
            text(b"begin", None),
            BAD,
            text(OLD, None, "25P02")._replace(parameters=None),
            text(b"rollback", None),
            NO_STATEMENT,
        ],
    ),
    "a Parse that was skipped": (
        [
            *parsed(ONE, b""),
            (C, pg_parse(b"bad", name=b"s") + pg_parse(OLD) + PG_SYNC),
            (S, SYNTAX + PG_READY),
            (C, by_name(b"")),
            (S, RAN),
        ],
        [BAD, text(ONE)],
    ),
    "a query that failed": (
        [
            *parsed(ONE, b""),
            query(b"bad"),
            (S, SYNTAX + PG_READY),
            (C, by_name(b"")),
            (S, NO_SUCH),
        ],
        [BAD, NO_STATEMENT],
    ),
    "a query that was skipped": (
        [
            *parsed(ONE, b""),
            (C, pg_parse(b"bad", name=b"s") + pg("Q", b"select 2\0") + PG_SYNC),
            (S, SYNTAX + PG_READY),
            (C, by_name(b"")),
            (S, RAN),
        ],
        [Decoded("SELECT", "select 2", ended=SKIPPED), BAD, text(ONE)],
    ),
    "closed": (
        [
            *parsed(ONE, b""),
            (C, pg("C", b"S\0") + PG_SYNC + by_name(b"")),
            (S, pg("3") + PG_READY + NO_SUCH),
        ],
        [NO_STATEMENT],
    ),
    "a Close that was skipped": (
        [
            *parsed(ONE, b""),
            (C, pg_parse(b"bad", name=b"s") + pg("C", b"S\0") + PG_SYNC + by_name(b"")),
            (S, SYNTAX + PG_READY + RAN),
        ],
        [text(ONE), BAD],
    ),
    "a Bind that failed, to a statement that there was": (
        [
            *BEGIN,
            (C, pg_parse(ONE) + pg_bind() + PG_SYNC),
            (S, pg("1") + pg("2") + IN_TRANSACTION),
            (C, pg_parse(b"select $1::int", name=b"n") + pg_bind(b"x", name=b"n") + PG_SYNC),
            (S, pg("1") + pg_error("22P02", "invalid input") + IN_FAILED),
            (C, PG_EXECUTE + PG_SYNC),
            (S, pg("I") + IN_FAILED),
        ],
        [
            BEGUN,
            Decoded("SELECT", "select $1::int", ["x"], code="22P02"),
            Decoded(None, None),
        ],
    ),
    "a portal after its transaction": (
        [
            (C, pg_parse(ONE) + pg_bind() + PG_EXECUTE + PG_SYNC),
            (S, pg("1") + RAN),
            (C, PG_EXECUTE + PG_SYNC),
            (S, NO_PORTAL + PG_READY),
        ],
        [text(ONE), UNKNOWN],
    ),
    "a portal with a name after its transaction": (
        [
            *BEGIN,
            (C, pg_parse(ONE) + pg_bind(portal=b"p") + PG_SYNC + PORTAL + PG_SYNC),
            (S, pg("1") + pg("2") + IN_TRANSACTION + PG_ROW + pg_tag("SELECT 1") + IN_TRANSACTION),
            query(b"rollback"),
            (S, pg_tag("ROLLBACK") + PG_READY),
            (C, PORTAL + PG_SYNC),
            (S, NO_PORTAL + PG_READY),
        ],
        [BEGUN, text(ONE), Decoded("ROLLBACK", "rollback"), UNKNOWN],
    ),
    "a Describe of a portal that has the name of a statement": (
        [
            *parsed(ONE, b"p"),
            (C, pg("D", b"Pp\0") + PG_SYNC),
            (S, NO_PORTAL + PG_READY),
            *parsed(ONE, b""),
            (C, pg("D", b"P\0") + PG_SYNC),
            (S, NO_PORTAL + PG_READY),
        ],
        [UNKNOWN] * 2,
    ),
    "a portal of a statement that was replaced": (
        [
            *BEGIN,
            (C, pg_parse(ONE) + pg_bind(portal=b"p") + pg_parse(OLD) + PORTAL + PG_SYNC),
            (S, pg("1") + pg("2") + pg("1") + PG_ROW + pg_tag("SELECT 1") + IN_TRANSACTION),
        ],
        [BEGUN, text(ONE)],
    ),
    **{asked.decode(): dropped_all(asked) for asked in DROPPED_ALL},
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1 << 30, 1, 7])
def test_statements(name: str, size: int) -> None:
    wire, shown = CASES[name]
    assert decoded([*PG_LOGIN, *wire], size) == shown


@pytest.mark.parametrize("lost", [C, S])
def test_lost_bytes_may_have_replaced_what_has_no_name(lost: Side) -> None:
    wire: list[Step] = [
        *parsed(OLD, b"s"),
        *BEGIN,
        (C, pg_parse(ONE) + pg_bind() + pg_bind(portal=b"p") + PG_SYNC),
        (S, pg("1") + pg("2") * 2 + IN_TRANSACTION),
        (lost, 100),
        (C, PORTAL + PG_SYNC),
        (S, PG_ROW + pg_tag("SELECT 1") + IN_TRANSACTION),
        (C, by_name(b"")),
        (S, RAN),
        (C, by_name(b"s")),
        (S, RAN),
    ]
    unknown = Decoded(None, None, [], 1)
    shown = decoded([*PG_LOGIN, *wire])
    assert shown[1:] == [unknown._replace(parameters=None), unknown, text(OLD)]


@pytest.mark.parametrize("change", [pg("C", b"Ss\0"), pg("C", b"Ss\0") + pg_parse(ONE, name=b"s")])
def test_lost_answers_leave_unknown_what_was_changed(change: bytes) -> None:
    wire: list[Step] = [
        *parsed(OLD, b"s"),
        (C, change + PG_SYNC),
        (S, len(pg("3") + PG_READY)),
        (C, by_name(b"s")),
        (S, RAN),
    ]
    assert decoded([*PG_LOGIN, *wire]) == [Decoded(None, None, [], 1)]
