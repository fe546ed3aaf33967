"""Executions of statements that were prepared before the capture: their names and parameters."""

import struct
from random import Random
from typing import NamedTuple

import pytest

from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import Message, StatementStart
from tests.unit.decoders.databases.database_wires import (
    MY_COLUMNS,
    MY_EOF,
    MY_OK,
    PG_EXECUTE,
    PG_READY,
    PG_SYNC,
    Decoded,
    my,
    my_answer,
    my_changed,
    my_query,
    pg,
    pg_bind,
    pg_parse,
    pg_tag,
    statements,
)
from tests.unit.decoders.databases.postgresql_wires import NO_SUCH, RAN, by_name, query
from tests.unit.decoders.wires import C, S, Step, run
from tests.unit.linear import Spent


class Unseen(NamedTuple):
    """A statement as decoded: see ``Decoded``."""

    prepared: str | None
    text: str | None
    parameters: list[object] | None
    lacks_text: bool = True


def pg_types(*kinds: int) -> bytes:
    return pg("t", struct.pack(f">H{len(kinds)}I", len(kinds), *kinds)) + pg("n")


def execute(number: int, rest: bytes = b"", flags: int = 0) -> bytes:
    return my(0, b"\x17" + struct.pack("<IBI", number, flags, 1) + rest)


BEGUN: list[Step] = [query(b"SELECT 1"), (S, pg_tag("SELECT 1") + PG_READY)]
TWO_BYTES = pg_bind(b"\x03\x8f", name=b"_pg3_0", binary=True) + PG_EXECUTE + PG_SYNC
ROWS = my_answer(*MY_COLUMNS, b"\3Ada", MY_EOF)
MY_BEGUN: list[Step] = [(C, my_query(b"SELECT name")), (S, ROWS)]
DATE = b"\x07" + struct.pack("<H5B", 2026, 11, 25, 10, 30, 0)
TYPES = struct.pack("<4H", 0x8003, 0xFD, 0x0C, 3)
BOUND = b"\x08\1" + TYPES + b"\xff\xff\xff\xff\2hi" + DATE
AGAIN = b"\x09\0" + b"\3new" + DATE
SHOWN: list[object] = [0xFFFFFFFF, "hi", "2026-11-25 10:30:00", None]

CASES: dict[str, tuple[list[Step], list[Unseen]]] = {
    "a name and text parameters": (
        [(C, pg_bind(b"sku-17", None, name=b"_pg3_0") + PG_EXECUTE + PG_SYNC), (S, RAN)],
        [Unseen("_pg3_0", None, ["sku-17", None])],
    ),
    "binary of unknown types": (
        [(C, TWO_BYTES), (S, RAN)],
        [Unseen("_pg3_0", None, ["\\x038f"])],
    ),
    "types by ParameterDescription": (
        [
            (C, pg("D", b"S_pg3_0\0") + PG_SYNC),
            (S, pg_types(21) + PG_READY),
            (C, TWO_BYTES),
            (S, RAN),
        ],
        [Unseen("_pg3_0", None, [911])],
    ),
    "without a name": (
        [(C, pg_bind(b"1") + PG_EXECUTE + PG_SYNC), (S, RAN)],
        [Unseen("", None, ["1"])],
    ),
    "prepared anew": (
        [
            (C, by_name(b"s")),
            (S, RAN),
            (C, pg("C", b"Ss\0") + pg_parse(b"select 1", name=b"s") + PG_SYNC),
            (S, pg("3") + pg("1") + PG_READY),
            (C, by_name(b"s")),
            (S, RAN),
        ],
        [Unseen("s", None, []), Unseen("s", "select 1", [], lacks_text=False)],
    ),
    "one that does not exist": (
        [(C, by_name(b"none")), (S, NO_SUCH)],
        [Unseen("none", None, [], lacks_text=False)],
    ),
    "a portal whose Bind was not seen": (
        [(C, PG_EXECUTE + PG_SYNC), (S, pg_tag("SELECT 1") + PG_READY)],
        [Unseen(None, None, None)],
    ),
}
MYSQL_CASES: dict[str, tuple[list[Step], list[Unseen]]] = {
    "types with the values, then without": (
        [(C, execute(3, BOUND)), (S, ROWS), (C, execute(3, AGAIN)), (S, my_answer(MY_OK))],
        [
            Unseen("3", None, SHOWN),
            Unseen("3", None, [None, "new", "2026-11-25 10:30:00", None]),
        ],
    ),
    "types that were sent before": (
        [(C, execute(3, AGAIN)), (S, ROWS)],
        [Unseen("3", None, None)],
    ),
    "no parameters": ([(C, execute(4)), (S, ROWS)], [Unseen("4", None, [])]),
    "nine parameters": (
        [(C, execute(5, b"\0\0\1" + b"\1\0" * 9 + bytes(range(9)))), (S, ROWS)],
        [Unseen("5", None, [*range(9)])],
    ),
    "query attributes": (
        [(C, execute(6, b"\1\0\1\xfd\0\1n\2hi", flags=8)), (S, ROWS)],
        [Unseen("6", None, ["hi"])],
    ),
    "a parameter in pieces": (
        [
            (C, my(0, b"\x18" + struct.pack("<IH", 7, 0) + b"long")),
            (C, execute(7, b"\0\1\xfd\0")),
            (S, ROWS),
        ],
        [Unseen("7", None, None)],
    ),
    "values that do not fit": (
        [(C, execute(8, b"\0\1\x03\0\1\0\0")), (S, ROWS)],
        [Unseen("8", None, None)],
    ),
    # Three NULLs, or two with empty names: the bytes say both.
    "two readings": (
        [(C, execute(9, b"\7\1\xfd\0\0\0\0\0")), (S, ROWS)],
        [Unseen("9", None, None)],
    ),
}


def unseen(messages: list[Message]) -> list[Unseen]:
    begun = [each.statement for each in messages if isinstance(each, StatementStart)]
    return [
        Unseen(each.prepared, each.text, each.parameters, each.lacks_text)  # type: ignore[arg-type]
        for each in begun
    ]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("size", [1 << 30, 1, 7])
def test_postgresql(name: str, size: int) -> None:
    wire, shown = CASES[name]
    decoder = Detector()
    run(decoder, BEGUN)
    assert unseen(run(decoder, wire, size)) == shown


@pytest.mark.parametrize("name", MYSQL_CASES)
@pytest.mark.parametrize("size", [1 << 30, 1, 7])
def test_mysql(name: str, size: int) -> None:
    wire, shown = MYSQL_CASES[name]
    decoder = Detector()
    run(decoder, MY_BEGUN)
    assert unseen(run(decoder, wire, size)) == shown


def test_executions_alone_are_recognised() -> None:
    """The connections of a pool may send nothing else."""
    wire, shown = MYSQL_CASES["types with the values, then without"]
    assert unseen(run(Detector(), wire)) == shown
    other = execute(3, BOUND) + b"more"
    assert run(Detector(), [(C, other)] * 3 + [(C, b"")]) == []


def test_a_preparation_follows() -> None:
    """The number of one that was not seen means the new one, if the session was reset."""
    prepared = b"\0" + struct.pack("<IHHBH", 3, 0, 1, 0, 0)
    wire: list[Step] = [
        *MY_BEGUN,
        (C, execute(3, BOUND)),
        (S, ROWS),
        (C, my(0, b"\x1f")),
        (S, my_answer(MY_OK)),
        (C, my(0, b"\x16SELECT ?")),
        (S, my_answer(prepared, MY_COLUMNS[1])),
        (C, execute(3, b"\0\1\xfd\0\2hi")),
        (S, ROWS),
    ]
    assert statements(run(Detector(), wire))[-1] == Decoded("SELECT", "SELECT ?", ["hi"], 1)


def test_attributes_of_a_client_whose_log_in_was_not_seen() -> None:
    prepared = b"\0" + struct.pack("<IHHBH", 3, 0, 1, 0, 0)
    wire: list[Step] = [
        *MY_BEGUN,
        (C, my(0, b"\x16SELECT ?")),
        (S, my_answer(prepared, MY_COLUMNS[1])),
        (C, execute(3, b"\1\0\1\xfd\0\1n\2hi", flags=8)),
        (S, ROWS),
    ]
    assert statements(run(Detector(), wire))[-1] == Decoded("SELECT", "SELECT ?", ["hi"], 1)


def test_changed_rows_of_what_was_not_seen() -> None:
    changed = my_answer(my_changed(3))
    decoder = Detector()
    run(decoder, MY_BEGUN)
    [found] = statements(run(decoder, [(C, execute(3)), (S, changed)]))
    assert (found.text, found.affected) == (None, 3)


def test_random_parameters_are_right_or_not_shown() -> None:
    """Nothing is guessed: where another number of parameters fits, too, none are shown."""
    random, shown_rightly = Random(1), 0
    for _ in range(500):
        values: list[object] = []
        types = data = b""
        count = random.randint(0, 20)
        nulls = bytearray((count + 7) // 8)
        for place in range(count):
            kind = random.choice([1, 3, 8, 0xFD, 0xFC, 6])
            types += struct.pack("<H", kind)
            if kind == 6 or random.random() < 0.2:
                values.append(None)
                nulls[place // 8] |= (kind != 6) << place % 8
                continue
            if kind in {0xFD, 0xFC}:
                text = "".join(random.choices("ab\0\1\3", k=random.randint(0, 5)))
                values.append(text)
                data += bytes((len(text),)) + text.encode()
            else:
                number = random.choice([0, 1, 3, random.randint(0, 127)])
                values.append(number)
                data += number.to_bytes({1: 1, 3: 4, 8: 8}[kind], "little")
        rest = bytes(nulls) + b"\1" + types + data if count else b""
        [found] = unseen(run(Detector(), [*MY_BEGUN, (C, execute(1, rest)), (S, ROWS)]))[1:]
        assert found.parameters in (values, None)
        shown_rightly += found.parameters == values
    assert shown_rightly > 450


@pytest.mark.parametrize("piece", [b"\1", b"\1\0", b"\0\1", b"\0\0\1\0", b"\1\0\0\0"])
def test_hostile_executions_take_little_time(piece: bytes) -> None:
    wire: list[Step] = [*MY_BEGUN, (C, execute(1, (piece * 60_000)[:60_000]))]
    spent = Spent()
    run(Detector(), wire)
    assert spent.units() < 500_000
