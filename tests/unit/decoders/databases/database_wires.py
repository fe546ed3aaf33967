"""What passes between clients and databases, and what a decoder makes of it."""

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.detect import Detector
from sslsniff.decoders.messages import Message, StatementEnd, StatementStart, Undecoded
from tests.unit.decoders.wires import C, S, Step, run


class Decoded(NamedTuple):
    """A statement as decoded; ``ended``: why it ended early, ``open`` if it did not end."""

    operation: str | None
    text: str | None
    parameters: list[object] | None = None
    rows: int | None = None
    affected: int | None = None
    code: str | None = None
    ended: str | None = None


def statements(messages: Iterable[Message]) -> list[Decoded]:
    """Return the statements in the order in which they were sent."""
    begun: dict[int, Statement] = {}
    ended: dict[int, str | None] = {}
    for message in messages:
        if isinstance(message, StatementStart):
            begun[message.stream] = message.statement
        elif isinstance(message, StatementEnd):
            ended[message.stream] = message.error
    return [
        Decoded(
            each.operation,
            each.text,
            each.parameters,  # type: ignore[arg-type]
            each.rows,
            each.affected,
            each.code,
            ended.get(stream, "open"),
        )
        for stream, each in begun.items()
    ]


def decoded(wire: Iterable[Step], size: int = 1 << 30, *, from_start: bool = True) -> list[Decoded]:
    return statements(run(Detector(from_start=from_start), wire, size))


def undecoded_bytes(messages: Iterable[Message]) -> int:
    return sum(each.size for each in messages if isinstance(each, Undecoded))


def pg(kind: str, *parts: bytes) -> bytes:
    data = b"".join(parts)
    return kind.encode() + struct.pack(">I", len(data) + 4) + data


def pg_startup(**words: str) -> bytes:
    pairs = b"".join(f"{name}\0{word}\0".encode() for name, word in words.items())
    data = b"\0\3\0\0" + pairs + b"\0"
    return struct.pack(">I", len(data) + 4) + data


def pg_bind(
    *values: bytes | None, name: bytes = b"", portal: bytes = b"", binary: bool = False
) -> bytes:
    sized = b"".join(
        struct.pack(">i", -1) if each is None else struct.pack(">i", len(each)) + each
        for each in values
    )
    formats = struct.pack(">HH", 1, 1) if binary else struct.pack(">H", 0)
    count = struct.pack(">H", len(values))
    return pg("B", portal, b"\0", name, b"\0", formats, count, sized, b"\0\0")


def pg_parse(text: bytes, *kinds: int, name: bytes = b"") -> bytes:
    numbers = struct.pack(f">H{len(kinds)}I", len(kinds), *kinds)
    return pg("P", name, b"\0", text, b"\0", numbers)


PG_EXECUTE = pg("E", b"\0", bytes(4))
PG_SYNC = pg("S")
PG_READY = pg("Z", b"I")
PG_ROW = pg("D", b"\0\1", b"\0\0\0\3Ada")
PG_LOGIN: list[Step] = [
    (C, pg_startup(user="app", database="shop")),
    (S, pg("R", b"\0\0\0\x0a", b"SCRAM-SHA-256\0\0")),
    (C, pg("p", b"secret")),
    (S, pg("R", bytes(4)) + pg("S", b"a\0b\0") + pg("K", bytes(8)) + PG_READY),
]


def pg_tag(tag: str) -> bytes:
    return pg("C", tag.encode(), b"\0")


def pg_error(code: str, message: str) -> bytes:
    return pg("E", b"SERROR\0", b"C", code.encode(), b"\0M", message.encode(), b"\0\0")


def my(number: int, data: bytes) -> bytes:
    return struct.pack("<I", len(data))[:3] + bytes((number,)) + data


def my_answer(*packets: bytes) -> bytes:
    return b"".join(my(number & 255, each) for number, each in enumerate(packets, 1))


_FLAGS = 0x200 | 0x8000 | 0x80000 | 0x8 | (1 << 21)
MY_HELLO = struct.pack("<IIB23x", _FLAGS, 1 << 24, 45) + b"app\0" + b"\x14" + b"x" * 20 + b"shop\0"
MY_OK = b"\0\0\0\2\0\0\0"
MY_EOF = b"\xfe\0\0\2\0"
MY_COLUMN = b"\3def\0\0\0\1n\0\x0c?\0\1\0\0\0\3\0\0\0\0\0"
MY_LOGIN: list[Step] = [(C, my(2, MY_HELLO)), (S, my(3, MY_OK))]
MY_COLUMNS = (b"\1", MY_COLUMN, MY_EOF)


def my_query(text: bytes) -> bytes:
    return my(0, b"\x03" + text)


def my_changed(count: int) -> bytes:
    return b"\0" + bytes((count,)) + b"\0\2\0\0\0"


def resp(*words: bytes) -> bytes:
    each = b"".join(b"$%d\r\n%b\r\n" % (len(word), word) for word in words)
    return b"*%d\r\n" % len(words) + each


def cuts(wire: list[Step]) -> Iterator[list[Step]]:
    """Yield the wire with each of its steps lost."""
    for at, (side, step) in enumerate(wire):
        assert isinstance(step, bytes)
        yield [*wire[:at], (side, len(step)), *wire[at + 1 :]]
