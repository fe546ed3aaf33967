"""The protocol of MySQL and MariaDB: queries, prepared statements, results, losses."""

import struct

import pytest

from sslsniff.decoders.databases.mysql.mysql_decoder import MysqlDecoder
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import StatementStart, Undecoded
from tests.unit.decoders.databases.database_wires import (
    MY_COLUMN,
    MY_COLUMNS,
    MY_EOF,
    MY_HELLO,
    MY_LOGIN,
    MY_OK,
    Decoded,
    cuts,
    decoded,
    my,
    my_answer,
    my_changed,
    my_query,
)
from tests.unit.decoders.wires import C, S, Step, run

SELECT = my_query(b"SELECT name FROM users")
RESULT = my_answer(*MY_COLUMNS, b"\3Ada", b"\5Grace", MY_EOF)
NEWER = my_answer(b"\1", MY_COLUMN, b"\3Ada", b"\5Grace", b"\xfe\0\0\2\0\0\0")
"""With CLIENT_DEPRECATE_EOF."""
SELECTED = Decoded("SELECT", "SELECT name FROM users", None, 2)
PREPARE = my(0, b"\x16INSERT INTO a VALUES (?, ?, ?)")
PREPARED = b"\0" + struct.pack("<IHHBH", 7, 0, 3, 0, 0)
BOUND = struct.pack("<B3H", 1, 0x8003, 0xFD, 0x0C)
DATE = b"\x07" + struct.pack("<H5B", 2026, 11, 25, 10, 30, 0)
NUMBER_7 = b"\x17" + struct.pack("<IBI", 7, 0, 1)
EXECUTE = my(0, NUMBER_7 + b"\0" + BOUND + b"\xff\xff\xff\xff\2hi" + DATE)
AGAIN = my(0, NUMBER_7 + b"\2\0" + b"\1\0\0\0" + DATE)
ERROR = b"\xff\x1e\x04#42S22Unknown column"
INSERTED = Decoded(
    "INSERT", "INSERT INTO a VALUES (?, ?, ?)", [0xFFFFFFFF, "hi", "2026-11-25 10:30:00"], None, 1
)
LAST = 0xFFFFFFFF
LAST_BYTES = b"\xff\xff\xff\xff"
PREPARED_8 = b"\0" + struct.pack("<IHHBH", 8, 0, 1, 0, 0)
UNKNOWN = b"\xff\xdb\x04#HY000Unknown prepared statement"
BULK = b"\xfa\7\0\0\0"
BULK_ROWS = b"\0\1\0\0\0\0\3one\1\0\3two\0\3\0\0\0\2\3\0\4four"
BULK_SHOWN: list[object] = [[1, "one"], [None, "two"], [3, "(DEFAULT)"], ["(IGNORE)", "four"]]
PIECES = my(0, NUMBER_7 + b"\0" + BOUND + b"\1\0\0\0" + DATE)


def execute(number: int, value: bytes | None = None) -> bytes:
    """Execute a statement; without a ``value``, that of ``EXECUTE``."""
    head = b"\x17" + struct.pack("<IBI", number, 0, 1)
    if value is None:
        return my(0, head + EXECUTE[4 + len(head) :])
    return my(0, head + b"\0\1\xfd\0" + bytes((len(value),)) + value)


def said(parameters: list[object]) -> Decoded:
    return Decoded("SELECT", "SELECT ?", parameters, 2)


CASES: dict[str, tuple[list[Step], list[Decoded]]] = {
    "rows": ([(C, SELECT), (S, RESULT)], [SELECTED]),
    "rows without EOF": ([(C, SELECT), (S, NEWER)], [SELECTED]),
    "rows of columns that the client knows": (
        [(C, SELECT), (S, my_answer(b"\1\0", b"\3Ada", b"\5Grace", b"\xfe\0\0\2\0\0\0"))],
        [SELECTED],
    ),
    "no rows": (
        [(C, SELECT), (S, my_answer(*MY_COLUMNS, MY_EOF))],
        [SELECTED._replace(rows=0)],
    ),
    "changes": (
        [(C, my_query(b"UPDATE a")), (S, my_answer(my_changed(7)))],
        [Decoded("UPDATE", "UPDATE a", None, None, 7)],
    ),
    "an error": (
        [(C, SELECT), (S, my_answer(ERROR))],
        [Decoded("SELECT", "SELECT name FROM users", code="1054")],
    ),
    "an error among rows": (
        [(C, SELECT), (S, my_answer(*MY_COLUMNS, b"\3Ada", ERROR))],
        [Decoded("SELECT", "SELECT name FROM users", None, 1, code="1054")],
    ),
    "several results": (
        [
            (C, my_query(b"CALL p")),
            (S, my_answer(*MY_COLUMNS[:2], b"\xfe\0\0\x0a\0", b"\3Ada", b"\xfe\0\0\x0a\0", MY_OK)),
        ],
        [Decoded("CALL", "CALL p", None, 1, 0)],
    ),
    "attributes of a query": (
        [(C, my(0, b"\3\0\1SELECT name FROM users")), (S, RESULT)],
        [SELECTED],
    ),
    "prepared": (
        [
            (C, PREPARE),
            (S, my_answer(PREPARED, MY_COLUMN, MY_COLUMN, MY_COLUMN, MY_EOF)),
            (C, EXECUTE),
            (S, my_answer(my_changed(1))),
            (C, AGAIN),
            (S, my_answer(my_changed(1))),
            (C, my(0, b"\x19\7\0\0\0") + SELECT),
            (S, RESULT),
        ],
        [INSERTED, INSERTED._replace(parameters=[1, None, "2026-11-25 10:30:00"]), SELECTED],
    ),
    "prepared and executed at once": (
        [
            (C, PREPARE + my(0, b"\x17" + struct.pack("<IBI", 0xFFFFFFFF, 0, 1))),
            (S, my_answer(PREPARED, *[MY_COLUMN] * 3) + my_answer(my_changed(1))),
        ],
        [INSERTED._replace(parameters=None)],  # they are cut
    ),
    # What follows was recorded of MariaDB 10.11.
    "the last one prepared": (
        [
            (C, PREPARE + execute(LAST) + my(0, b"\x16SELECT ?") + execute(LAST, b"a")),
            (S, my_answer(PREPARED, *[MY_COLUMN] * 3) + my_answer(my_changed(1))),
            (S, my_answer(PREPARED_8, MY_COLUMN, MY_EOF) + RESULT),
            (C, execute(LAST, b"b")),
            (S, RESULT),
        ],
        [INSERTED, said(["a"]), said(["b"])],
    ),
    "none is the last one": (
        [
            (C, my(0, b"\x16SELECT ?")),
            (S, my_answer(PREPARED_8, MY_COLUMN)),
            (C, my(0, b"\x16SELECT a") + execute(LAST, b"a") + execute(8, b"b")),
            (S, my_answer(ERROR) + my_answer(UNKNOWN) + RESULT),
            (C, execute(LAST, b"c")),
            (S, my_answer(UNKNOWN)),
        ],
        [
            Decoded(None, None, code="1243"),
            said(["b"]),
            Decoded("SELECT", "SELECT a", code="1054"),
            Decoded(None, None, code="1243"),
        ],
    ),
    "closed after an execution": (
        [
            (C, my(0, b"\x16SELECT ?")),
            (S, my_answer(PREPARED_8, MY_COLUMN)),
            (C, execute(8, b"a") + my(0, b"\x19" + LAST_BYTES) + execute(8, b"b")),
            (S, RESULT + my_answer(UNKNOWN)),
        ],
        [said(["a"]), Decoded(None, None, ["b"], code="1243")],
    ),
    "a connection that is reset": (
        [
            (C, my(0, b"\x16SELECT ?")),
            (S, my_answer(PREPARED_8, MY_COLUMN)),
            (C, execute(8, b"a") + my(0, b"\x1f") + execute(8, b"b")),
            (S, RESULT + my_answer(MY_OK) + my_answer(UNKNOWN)),
        ],
        [said(["a"]), Decoded("RESET CONNECTION", None), Decoded(None, None, ["b"], code="1243")],
    ),
    "a connection that cannot be reset": (
        [
            (C, my(0, b"\x16SELECT ?")),
            (S, my_answer(PREPARED_8, MY_COLUMN)),
            (C, my(0, b"\x1f") + execute(8, b"a")),
            (S, my_answer(ERROR) + RESULT),
        ],
        [Decoded("RESET CONNECTION", None, code="1054"), said(["a"])],
    ),
    "in bulk": (
        [
            (C, my(0, b"\x16INSERT INTO a VALUES (?, ?)")),
            (S, my_answer(b"\0" + struct.pack("<IHHBH", 7, 0, 2, 0, 0), MY_COLUMN, MY_COLUMN)),
            (C, my(0, BULK + b"\x80\0\3\0\xfd\0" + BULK_ROWS)),
            (S, my_answer(my_changed(4))),
            (C, my(0, BULK + b"\0\0" + BULK_ROWS)),
            (S, my_answer(my_changed(4))),
            (C, my(0, BULK + b"\0\0" + BULK_ROWS[:-2])),
            (S, my_answer(my_changed(4))),
        ],
        [
            Decoded("INSERT", "INSERT INTO a VALUES (?, ?)", rows, None, 4)
            for rows in (BULK_SHOWN, BULK_SHOWN, [*BULK_SHOWN[:-1], "..."])
        ],
    ),
    "pieces, and a statement that is reset": (
        [
            (C, PREPARE),
            (S, my_answer(PREPARED, *[MY_COLUMN] * 3)),
            (C, SELECT + my(0, b"\x18\7\0\0\0\1\0hello") * 2 + PIECES + EXECUTE),
            (S, RESULT + my_answer(my_changed(1)) * 2),
            (C, my(0, b"\x18\7\0\0\0\1\0hello") + my(0, b"\x1a\7\0\0\0") + EXECUTE),
            (S, my_answer(MY_OK) + my_answer(my_changed(1))),
        ],
        [
            SELECTED,
            INSERTED._replace(parameters=[1, "(sent in pieces)", "2026-11-25 10:30:00"]),
            INSERTED,
            Decoded("RESET STATEMENT", None),
            INSERTED,
        ],
    ),
    "progress is no error": (
        [
            (C, my_query(b"ALTER TABLE a ENGINE = x")),
            (S, my_answer(b"\xff\xff\xff\1\1\2\0\0\0\4copy", MY_OK)),
        ],
        [Decoded("ALTER", "ALTER TABLE a ENGINE = x")],
    ),
    "the log of a replica": (
        [
            (C, my(0, b"\x15" + bytes(16))),
            (S, my_answer(MY_OK)),
            (C, my(0, b"\x12" + bytes(10))),
            (S, my_answer(b"\0event", b"\0event", MY_EOF)),
        ],
        [Decoded("REGISTER REPLICA", None), Decoded("BINLOG DUMP", None, None, 2)],
    ),
    "sent in pieces": (
        [
            (C, PREPARE),
            (S, my_answer(PREPARED, *[MY_COLUMN] * 3)),
            (C, my(0, b"\x18\7\0\0\0\1\0hello")),
            (
                C,
                my(0, NUMBER_7 + b"\0" + BOUND + b"\1\0\0\0" + DATE),
            ),
            (S, my_answer(my_changed(1))),
        ],
        [INSERTED._replace(parameters=[1, "(sent in pieces)", "2026-11-25 10:30:00"])],
    ),
    "what cannot be prepared": (
        [(C, my(0, b"\x16SELECT a")), (S, my_answer(ERROR))],
        [Decoded("SELECT", "SELECT a", code="1054")],
    ),
    "other commands": (
        [
            (C, my(0, b"\x0e")),
            (S, my_answer(MY_OK)),
            (C, my(0, b"\2other")),
            (S, my_answer(MY_OK)),
            (C, my(0, b"\x09")),
            (S, my_answer(b"Uptime: 5")),
            (C, my(0, b"\1")),
        ],
        [Decoded("PING", None), Decoded("USE", "USE other"), Decoded("STATISTICS", None)],
    ),
    "a cursor": (
        [
            (C, SELECT),
            (S, my_answer(b"\1", MY_COLUMN, b"\xfe\0\0\x42\0")),
            (C, my(0, b"\x1c\7\0\0\0\2\0\0\0")),
            (S, my_answer(b"\0\0\3Ada", b"\0\0\5Grace", b"\xfe\0\0\x82\0")),
        ],
        [SELECTED._replace(rows=0), Decoded("FETCH", None, None, 2)],
    ),
    "a file of the client": (
        [
            (C, my_query(b"LOAD DATA LOCAL INFILE 'f'")),
            (S, my_answer(b"\xfbf")),
            (C, my(2, b"1\n2\n") + my(3, b"")),
            (S, my(4, my_changed(2))),
        ],
        [Decoded("LOAD", "LOAD DATA LOCAL INFILE 'f'", None, None, 2)],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1 << 30, 1, 7])
def test_statements(name: str, size: int) -> None:
    wire, shown = CASES[name]
    assert decoded([*MY_LOGIN, *wire], size) == shown


def test_a_refused_login() -> None:
    wire: list[Step] = [(C, my(2, MY_HELLO)), (S, my(3, b"\xff\x15\x04#28000Access denied"))]
    assert decoded(wire) == [Decoded("CONNECT", None, code="1045")]


def test_passwords_are_no_statements() -> None:
    asks = b"\xfemysql_clear_password\0"
    wire: list[Step] = [(C, my(2, MY_HELLO)), (S, my(3, asks)), (C, my(4, b"secret\0"))]
    wire += [(S, my(5, MY_OK)), (C, SELECT), (S, RESULT)]
    assert decoded(wire) == [SELECTED]


def test_the_login_says_who_asks() -> None:
    decoder = MysqlDecoder()
    run(decoder, [*MY_LOGIN, (C, SELECT)])
    assert (decoder.open[0].statement.user, decoder.open[0].statement.database) == ("app", "shop")


def test_the_session_changes_when_the_server_agrees() -> None:
    change = my(0, b"\x11bob\0\0other\0\x2d\0")
    asked = [my(0, b"\2no"), SELECT, my_query(b"use `an``y`"), SELECT, change, SELECT]
    changed: list[Step] = [(C, b"".join(asked)), (S, my_answer(ERROR) + RESULT)]
    changed += [(S, my_answer(MY_OK) + RESULT), (S, my(1, b"\xfeplugin\0")), (C, my(2, b"x"))]
    for answer, session in ((MY_OK, ("bob", "other")), (ERROR, ("app", "an`y"))):
        wire = [*MY_LOGIN, *changed, (S, my(3, answer) + RESULT)]
        messages = run(Detector(from_start=True), wire)
        begun = [each.statement for each in messages if isinstance(each, StatementStart)]
        assert [(each.operation, each.user, each.database) for each in begun] == [
            ("USE", "app", "shop"),
            ("SELECT", "app", "shop"),
            ("USE", "app", "an`y"),
            ("SELECT", "app", "an`y"),
            ("SELECT", *session),
            *([("CONNECT", "bob", "other")] if answer is ERROR else []),
        ]


def test_what_waits_is_bounded() -> None:
    decoder = MysqlDecoder()
    run(decoder, [*MY_LOGIN, (C, PREPARE), (S, my_answer(PREPARED, *[MY_COLUMN] * 3))])
    large = my(0, NUMBER_7 + b"\0" + BOUND + b"\1\0\0\0\xfd\x60\xea\0" + b"x" * 60_000 + DATE)
    for _ in range(500):
        decoder.feed(C, large)
    assert decoder.held_bytes < 6 << 20


def test_encryption_and_compression_are_named() -> None:
    greeting = my(0, b"\x0a8.4.0\0" + bytes(60))
    asks = my(1, struct.pack("<IIB23x", 0xA00, 1 << 24, 45))
    hello = b"\x16\x03\x01\0\x05\x01\0\0\1\0"
    messages = run(Detector(from_start=True), [(S, greeting), (C, asks), (C, hello)])
    assert messages == [Undecoded(C, hello, len(hello), "encrypted (TLS)")]
    compressed = bytearray(MY_HELLO)
    compressed[0] |= 0x20
    wire: list[Step] = [(C, my(2, bytes(compressed))), (S, my(3, MY_OK)), (C, SELECT)]
    messages = run(Detector(from_start=True), wire)
    assert messages == [Undecoded(C, SELECT, len(SELECT), "compressed MySQL protocol")]


@pytest.mark.parametrize("lost", range(4))
def test_a_loss_ends_what_is_open(lost: int) -> None:
    steps: list[Step] = [(C, SELECT), (S, RESULT), (C, SELECT), (S, RESULT)]
    shown = decoded([*MY_LOGIN, *[*cuts(steps)][lost], (C, SELECT), (S, RESULT)])
    assert shown[-1] == SELECTED
    assert {each.ended for each in shown} <= {None, "bytes lost"}
    assert len(shown) == (2 if lost in {0, 2} else 3)


@pytest.mark.parametrize("dropped", [0, 3, 10])
def test_joined_in_the_middle(dropped: int) -> None:
    whole: list[Step] = [(C, SELECT), (S, RESULT)]
    shown = decoded([(C, SELECT[dropped:]), (S, RESULT), *whole * 2], from_start=False)
    assert shown[-2:] == [SELECTED] * 2


def test_rows_whose_numbers_wrap() -> None:
    packets = [*MY_COLUMNS, *[b"\3Ada"] * 1000, MY_EOF]
    shown = decoded([*MY_LOGIN, (C, SELECT), (S, my_answer(*packets))])
    assert shown == [SELECTED._replace(rows=1000)]


def test_a_row_of_more_than_one_packet() -> None:
    row = my(4, b"\xfe" + bytes(0xFFFFFE)) + my(5, b"\xff" * 10)
    wire: list[Step] = [(C, SELECT), (S, my_answer(*MY_COLUMNS) + row + my(6, MY_EOF))]
    assert decoded([*MY_LOGIN, *wire]) == [SELECTED._replace(rows=1)]
