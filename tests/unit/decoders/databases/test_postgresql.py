"""PostgreSQL's protocol: queries, prepared statements, batches, errors, losses."""

import struct

import pytest

from sslsniff.decoders.databases.postgresql.postgresql_decoder import PostgresqlDecoder
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import StatementEnd, StatementStart, Undecoded
from tests.unit.decoders.databases.database_wires import (
    PG_EXECUTE,
    PG_LOGIN,
    PG_READY,
    PG_ROW,
    PG_SYNC,
    Decoded,
    cuts,
    decoded,
    pg,
    pg_bind,
    pg_error,
    pg_parse,
    pg_tag,
)
from tests.unit.decoders.databases.postgresql_wires import (
    BATCH,
    DONE,
    NUMBERS,
    ROWS,
    SELECT,
    SELECTED,
)
from tests.unit.decoders.wires import C, S, Step, run

CASES: dict[str, tuple[list[Step], list[Decoded]]] = {
    "a query": (
        [(C, pg("Q", b"select 1\0")), (S, ROWS + PG_READY)],
        [Decoded("SELECT", "select 1", None, 2)],
    ),
    "two statements in a query": (
        [
            (C, pg("Q", b"INSERT INTO a VALUES (1); SELECT 1\0")),
            (S, pg_tag("INSERT 0 3") + ROWS + PG_READY),
        ],
        [Decoded("INSERT", "INSERT INTO a VALUES (1); SELECT 1", None, 2, 3)],
    ),
    "no statement": ([(C, pg("Q", b"\0")), (S, pg("I") + PG_READY)], [Decoded(None, "")]),
    "no rows": (
        [(C, pg("Q", b"SELECT\0")), (S, pg("T", b"\0\0") + pg_tag("SELECT 0") + PG_READY)],
        [Decoded("SELECT", "SELECT", None, 0)],
    ),
    "an update": (
        [(C, pg("Q", b"/* x */ -- y\n update a\0")), (S, pg_tag("UPDATE 7") + PG_READY)],
        [Decoded("UPDATE", "/* x */ -- y\n update a", None, None, 7)],
    ),
    "a failed query": (
        [(C, pg("Q", b"SELECT a\0")), (S, pg_error("42703", "no a") + PG_READY)],
        [Decoded("SELECT", "SELECT a", code="42703")],
    ),
    "with a parameter": ([(C, BATCH), (S, DONE)], [SELECTED]),
    "pipelined": ([(C, BATCH * 3), (S, DONE), (S, DONE * 2)], [SELECTED] * 3),
    "one Sync for three": (
        [
            (C, pg_parse(SELECT) + (pg_bind(b"42") + PG_EXECUTE) * 3 + PG_SYNC),
            (S, pg("1") + (pg("2") + PG_ROW * 2 + pg_tag("SELECT 2")) * 3 + PG_READY),
        ],
        [SELECTED] * 3,
    ),
    "prepared by name": (
        [
            (C, pg_parse(SELECT, 23, name=b"s1") + pg("D", b"Ss1\0") + PG_SYNC),
            (S, pg("1") + pg("t", b"\0\1\0\0\0\x17") + pg("T", b"\0\0") + PG_READY),
            (C, (pg_bind(b"\0\0\0\x2a", name=b"s1", binary=True) + PG_EXECUTE + PG_SYNC) * 2),
            (S, (pg("2") + PG_ROW + pg_tag("SELECT 1") + PG_READY) * 2),
        ],
        [Decoded("SELECT", SELECT.decode(), [42], 1)] * 2,
    ),
    "types that the server describes": (
        [
            (C, pg_parse(b"SELECT $1, $2, $3", name=b"s") + pg("D", b"Ss\0") + PG_SYNC),
            (S, pg("1") + pg("t", struct.pack(">HIII", 3, 20, 701, 16)) + pg("n") + PG_READY),
            (
                C,
                pg_bind(*NUMBERS, name=b"s", binary=True) + PG_EXECUTE + PG_SYNC,
            ),
            (S, pg("2") + pg_tag("SELECT 0") + PG_READY),
        ],
        [Decoded("SELECT", "SELECT $1, $2, $3", [-5, 2.0, True], 0)],
    ),
    "NULL, bytes and text": (
        [
            (C, pg_parse(SELECT, 0, 17) + pg_bind(None, b"\xff\0") + PG_EXECUTE + PG_SYNC),
            (S, pg("1") + pg("2") + pg_tag("SELECT 0") + PG_READY),
        ],
        [Decoded("SELECT", SELECT.decode(), [None, "\\xff00"], 0)],
    ),
    "rows in portions": (
        [
            (C, pg("Q", b"BEGIN\0")),  # without a transaction a Sync ends the portal
            (S, pg_tag("BEGIN") + pg("Z", b"T")),
            (C, pg_parse(SELECT) + pg_bind(b"42") + (pg("E", b"\0", b"\0\0\0\2") + PG_SYNC)),
            (S, pg("1") + pg("2") + PG_ROW * 2 + pg("s") + pg("Z", b"T")),
            (C, pg("E", b"\0", b"\0\0\0\2") + PG_SYNC),
            (S, PG_ROW + pg_tag("SELECT 1") + pg("Z", b"T")),
        ],
        [
            Decoded("BEGIN", "BEGIN"),
            SELECTED,
            Decoded("SELECT", SELECT.decode(), ["42"], 1),
        ],
    ),
    "copied in": (
        [
            (C, pg("Q", b"COPY a FROM STDIN\0")),
            (S, pg("G", b"\0\0\0")),
            (C, pg("d", b"1\n") * 3 + pg("c")),
            (S, pg_tag("COPY 3") + PG_READY),
        ],
        [Decoded("COPY", "COPY a FROM STDIN", None, None, 3)],
    ),
    # What follows was recorded of PostgreSQL 15.
    "a notification between": (
        [(C, BATCH), (S, pg("A", bytes(4), b"a\0b\0") + pg("N", b"\0") + DONE)],
        [SELECTED],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1 << 30, 1, 7])
def test_statements(name: str, size: int) -> None:
    wire, shown = CASES[name]
    assert decoded([*PG_LOGIN, *wire], size) == shown


def test_a_refused_login() -> None:
    wire = [*PG_LOGIN[:3], (S, pg_error("28P01", "password authentication failed"))]
    assert decoded(wire) == [Decoded("CONNECT", None, code="28P01")]


def test_who_asks_what() -> None:
    [begun] = [
        each
        for each in run(Detector(from_start=True), [*PG_LOGIN, (C, BATCH), (S, DONE)])
        if isinstance(each, StatementStart)
    ]
    assert (begun.statement.user, begun.statement.database) == ("app", "shop")


def test_encryption_is_negotiated() -> None:
    request = struct.pack(">II", 8, 80877103)
    hello = b"\x16\x03\x01\0\x05\x01\0\0\1\0"
    messages = run(Detector(from_start=True), [(C, request), (S, b"S"), (C, hello)])
    assert messages == [Undecoded(C, hello, len(hello), "encrypted (TLS)")]
    assert decoded([(C, request), (S, b"N"), *PG_LOGIN, (C, BATCH), (S, DONE)]) == [SELECTED]


@pytest.mark.parametrize("lost", range(4))
def test_a_loss_ends_what_is_open(lost: int) -> None:
    steps: list[Step] = [(C, BATCH), (S, DONE), (C, BATCH), (S, DONE)]
    wire = [*PG_LOGIN, *[*cuts(steps)][lost], (C, BATCH), (S, DONE)]
    shown = decoded(wire)
    assert shown[-1] == SELECTED
    assert {each.ended for each in shown} <= {None, "bytes lost"}
    assert len(shown) == (2 if lost in {0, 2} else 3)


@pytest.mark.parametrize("dropped", [0, 3, 20, len(BATCH) - 1])
def test_joined_in_the_middle(dropped: int) -> None:
    wire: list[Step] = [
        (C, BATCH[dropped:]),
        (S, DONE),
        (C, BATCH),
        (S, DONE),
        (C, BATCH),
        (S, DONE),
    ]
    shown = decoded(wire, from_start=False)
    assert shown[-2:] == [SELECTED] * 2


def test_a_large_message_is_skipped() -> None:
    row = pg("D", b"\0\1", struct.pack(">I", 1 << 20), bytes(1 << 20))
    decoder = PostgresqlDecoder()
    run(decoder, [*PG_LOGIN, (C, BATCH), (S, pg("1") + pg("2") + pg("T", b"\0\0"))])
    most = 0
    for _ in range(3):
        for at in range(0, len(row), 1000):
            decoder.feed(S, row[at : at + 1000])
            most = max(most, decoder.held_bytes)
    assert most < 100_000
    assert decoder.feed(S, pg_tag("SELECT 3") + PG_READY) == [StatementEnd(1)]


def test_a_loss_inside_of_a_large_row_costs_nothing() -> None:
    row = pg("D", b"\0\1", struct.pack(">I", 1 << 20), bytes(1 << 20))
    wire: list[Step] = [
        (C, BATCH),
        (S, pg("1") + pg("2") + pg("T", b"\0\0") + row[:200_000]),
        (S, 500_000),
        (S, row[700_000:] + pg_tag("SELECT 1") + PG_READY),
    ]
    assert decoded([*PG_LOGIN, *wire]) == [Decoded("SELECT", SELECT.decode(), ["42"], 1)]


def test_what_waits_is_bounded() -> None:
    decoder = PostgresqlDecoder()
    run(decoder, PG_LOGIN)
    large = pg_parse(b"SELECT '" + b"x" * 60_000 + b"'") + pg_bind(b"y" * 60_000)
    for _ in range(1000):
        decoder.feed(C, large)
    assert decoder.held_bytes < 10 << 20


def test_what_is_no_message() -> None:
    messages = run(Detector(from_start=True), [*PG_LOGIN, (C, BATCH), (S, b"\xff" * 100)])
    assert Undecoded(S, b"\xff" * 100, 100, "not understood") in messages
