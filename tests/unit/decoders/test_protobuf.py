"""Fields without a schema, of messages that the protobuf library made."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.decoders.inner.protobuf import ProtobufField as Field
from sslsniff.decoders.inner.protobuf import parse
from tests.unit.linear import Spent
from tests.unit.protos import CLASSES

Hello = CLASSES["Hello"]


def test_each_kind() -> None:
    message = Hello(
        name="wörld",
        count=-1,
        data=b"\xff\x00",
        ratio=0.5,
        tags=["a", "b"],
        numbers=[1, 300],
        inner=[Hello(name="deep", inner=[Hello(count=3)])],
        small=7,
        delta=-2,
    )
    assert parse(message.SerializeToString()) == [
        Field(1, "text", "wörld"),
        Field(2, "varint", (1 << 64) - 1),
        Field(3, "bytes", b"\xff\x00"),
        Field(4, "fixed64", 0x3FE0_0000_0000_0000),
        Field(5, "text", "a"),
        Field(5, "text", "b"),
        Field(6, "bytes", b"\x01\xac\x02"),
        Field(
            7,
            "message",
            [
                Field(1, "text", "deep"),
                Field(7, "message", [Field(2, "varint", 3)]),
            ],
        ),
        Field(8, "fixed32", 7),
        Field(16, "varint", 3),
    ]


CASES: dict[str, tuple[bytes, list[Field] | None]] = {
    "nothing": (b"", []),
    "an empty value": (b"\x0a\x00", [Field(1, "text", "")]),
    "a group": (b"\x0b\x10\x05\x0c", [Field(1, "group", [Field(2, "varint", 5)])]),
    "a group of another number's end": (b"\x0b\x14", None),
    "a group without end": (b"\x0b\x10\x05", None),
    "an end without a group": (b"\x0c", None),
    "field 0": (b"\x00\x01", None),
    "wire type 6": (b"\x0e\x01", None),
    "cut in a tag": (b"\x80", None),
    "cut in a varint": (b"\x08\xff", None),
    "cut in a fixed number": (b"\x0d\x01\x02", None),
    "cut in a value": (b"\x0a\x05abc", None),
    "a varint of ten bytes": (b"\x08" + b"\xff" * 9 + b"\x01", [Field(1, "varint", (1 << 64) - 1)]),
    "a varint of eleven bytes": (b"\x08" + b"\x80" * 10 + b"\x01", None),
    "a varint longer than it need be": (b"\x08\x80\x00", None),
    "a varint over 64 bits": (b"\x08" + b"\xff" * 9 + b"\x03", None),
    "a length of 2 to the 63": (b"\x0a" + b"\xff" * 9 + b"\x01", None),
    "a message": (b"\x0a\x02\x0a\x00", [Field(1, "message", [Field(1, "text", "")])]),
    "text with control characters": (b"\x0a\x02\x1b[", [Field(1, "bytes", b"\x1b[")]),
    "text with a tab": (b"\x0a\x02\ta", [Field(1, "text", "\ta")]),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_parse(name: str) -> None:
    data, fields = CASES[name]
    assert parse(data) == fields


def test_deep_nesting_stays_bytes() -> None:
    data = b"\x08\x01"
    for _ in range(100):
        data = b"\x0a" + varint(len(data)) + data
    fields = parse(data)
    depth = 0
    while fields and isinstance(fields[0].value, list):
        fields = fields[0].value
        depth += 1
    assert depth == 32
    assert fields
    assert isinstance(fields[0].value, bytes)
    assert parse(b"\x0b" * 100 + b"\x0c" * 100) is None


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes((value & 127 | 128,))
        value >>= 7
    return out + bytes((value,))


@pytest.mark.parametrize(
    "data",
    [
        b"\x08\x01" * (2 << 20),
        (b"\x12\xc8\x01" + b"\x08\x01" * 99 + b"\x0f\x0f") * 20_000,
        b"\x0b" * (4 << 20),
        b"\x0a\x00" * (2 << 20),
    ],
    ids=["fields", "messages that are none", "groups", "empty values"],
)
def test_hostile_messages_take_no_time(data: bytes) -> None:
    spent = Spent()
    assert parse(data) is None
    assert spent.units() < 1_000_000


hellos = st.recursive(
    st.builds(Hello, name=st.text(), count=st.integers(-(1 << 31), (1 << 31) - 1)),
    lambda inner: st.builds(
        Hello,
        data=st.binary(max_size=20),
        numbers=st.lists(st.integers(0, (1 << 64) - 1), max_size=3),
        inner=st.lists(inner, max_size=3),
        delta=st.integers(-(1 << 63), (1 << 63) - 1),
    ),
    max_leaves=8,
)


@pytest.mark.tools
@given(message=hellos)
def test_the_library_made_it(message: object) -> None:
    data = message.SerializeToString()  # type: ignore[attr-defined]
    fields = parse(data)
    assert fields is not None
    assert encode(fields) == data


def encode(fields: list[Field]) -> bytes:
    """Put fields together again."""
    out = b""
    for field in fields:
        value = field.value
        if field.kind == "varint":
            assert isinstance(value, int)
            out += varint(field.number << 3) + varint(value)
            continue
        if isinstance(value, int):
            size = {"fixed64": 8, "fixed32": 4}[field.kind]
            wire_type = {"fixed64": 1, "fixed32": 5}[field.kind]
            out += varint(field.number << 3 | wire_type) + value.to_bytes(size, "little")
            continue
        data = value.encode() if isinstance(value, str) else value
        data = encode(data) if isinstance(data, list) else data
        if field.kind == "group":
            out += varint(field.number << 3 | 3) + data + varint(field.number << 3 | 4)
            continue
        out += varint(field.number << 3 | 2) + varint(len(data)) + data
    return out


@pytest.mark.tools
@given(data=st.binary())
def test_anything_may_come(data: bytes) -> None:
    parse(data)
