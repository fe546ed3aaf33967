"""Values as text of one line, and as JSON."""

import json

import pytest

from sslsniff.fetching.traced_values import (
    FollowedPointer,
    Items,
    Missing,
    NamedNumber,
    PointerValue,
    RawRegister,
    StructureValue,
    Text,
    Value,
)
from sslsniff.functions.outputs.value_json import json_value
from sslsniff.functions.outputs.value_text import arguments_text, value_text

POINT = StructureValue("point", (("x", 1), ("y", -2)))
PAIR = (("0", 1), ("1", Text("a")))


@pytest.mark.parametrize(
    ("value", "text", "shape"),
    [
        (None, "null", None),
        (True, "true", True),
        (1 << 64, "18446744073709551616", 1 << 64),
        (-0.5, "-0.5", -0.5),
        (float("nan"), "nan", "nan"),
        (float("-inf"), "-inf", "-inf"),
        ("'", "'\\''", "'"),
        (
            Text('say "hi"\n\x1b[0m\u202e'),
            '"say \\"hi\\"\\n\\x1b[0m\\u202e"',
            'say "hi"\n\x1b[0m\u202e',
        ),
        (Text("cut", 3), '"cut"... 3 more', {"text": "cut", "missing_bytes": 3}),
        (Text("cut", -1), '"cut"...', {"text": "cut", "missing_bytes": None}),
        (Missing.OPTIMISED_OUT, "<optimised out>", {"missing": "optimised out"}),
        (PointerValue(0x1000, "void"), "0x1000", "0x1000"),
        (FollowedPointer(0x1000, POINT), "&{x=1, y=-2}", {"x": 1, "y": -2}),
        (RawRegister("rdi", 255), "%rdi:0xff", {"register": "rdi", "value": "0xff"}),
        (NamedNumber("Red", 1), "Red", "Red"),
        (NamedNumber(None, 7), "7", 7),
        (Items((1, 2), 3), "[1, 2, ... 3 more]", {"items": [1, 2], "missing": 3}),
        (Items((1, 2), -1), "[1, 2, ...]", {"items": [1, 2], "missing": None}),
        (Items(()), "[]", []),
        (POINT, "{x=1, y=-2}", {"x": 1, "y": -2}),
        (StructureValue("empty"), "{}", {}),
        (StructureValue("()"), "()", None),
        (StructureValue("(i32, &str)", PAIR), '(1, "a")', [1, "a"]),
        (StructureValue("None", is_variant=True), "None", None),
        (StructureValue("Empty", is_variant=True), "Empty", "Empty"),
        (StructureValue("Some", (("0", 3),), is_variant=True), "Some(3)", {"Some": 3}),
        (StructureValue("Two", PAIR, is_variant=True), 'Two(1, "a")', {"Two": [1, "a"]}),
        (
            StructureValue("At", POINT.fields, is_variant=True),
            "At {x=1, y=-2}",
            {"At": {"x": 1, "y": -2}},
        ),
    ],
)
def test_forms(value: Value, text: str, shape: object) -> None:
    assert value_text(value) == text
    assert json_value(value) == shape
    json.dumps(json_value(value), allow_nan=False)


def test_arguments_are_in_order_and_names_are_escaped() -> None:
    assert arguments_text({"b": 1, "a\x1b": Text("x")}) == 'b=1, a\\x1b="x"'


def test_a_register_that_is_its_own_name_is_named_once() -> None:
    registers = {"rdi": RawRegister("rdi", 31), "arg2": RawRegister("rsi", 2)}
    assert arguments_text(registers) == "%rdi=0x1f, arg2=%rsi:0x2"
