"""Call frames and names that are sent are the same; forged ones are not believed."""

import json
from typing import Any

import pytest

from sslsniff.analysis.checked_fields import INVALID
from sslsniff.elf.call_frames import CallFrame, RegisterOffset, RegisterRule, RuleKind
from sslsniff.functions.stacks.stack_trace import CodePlace
from sslsniff.functions.values.fetch_program import RuntimeTypeName
from sslsniff.functions.workers.code_messages import (
    frame_row,
    parse_frame,
    parse_places,
    parse_type_name,
    place_rows,
)

RULES = {
    16: RegisterRule(RuleKind.OFFSET, -8),
    3: RegisterRule(RuleKind.EXPRESSION, b"\x77\x08"),
    6: RegisterRule(RuleKind.REGISTER, 7),
    7: RegisterRule(RuleKind.UNDEFINED),
}
FRAMES = [
    None,
    CallFrame(RegisterOffset(7, 16), RULES, 16, False),
    CallFrame(b"\x77\x90\x01\x06", {}, 16, True),
]
PLACES = (
    CodePlace("smaller", "a.c", 3, True, "program", 64),
    CodePlace(None, None, None, False, "program", 64),
)


def sent(row: Any) -> Any:
    return json.loads(json.dumps(row))


@pytest.mark.parametrize("frame", FRAMES)
def test_frames_that_are_sent_are_the_same(frame: CallFrame | None) -> None:
    assert parse_frame(sent(frame_row(frame))) == frame


def test_places_that_are_sent_are_the_same() -> None:
    assert parse_places(sent(place_rows(PLACES)), "program", 64) == PLACES


@pytest.mark.parametrize(
    "row",
    [
        1,
        [],
        [[7, 16], [], 16],
        [[7, 1 << 200], [], 16, False],
        [[-1, 0], [], 16, False],
        ["xx", [], 16, False],
        ["00" * 5000, [], 16, False],
        [[7, 8], [[16, "offset", "00"]], 16, False],
        [[7, 8], [[16, "expression", 8]], 16, False],
        [[7, 8], [[16, "other", 8]], 16, False],
        [[7, 8], [[16, "offset", 8]] * 1000, 16, False],
        [[7, 8], [], 16, 0],
    ],
)
def test_forged_frames_are_not_believed(row: Any) -> None:
    with pytest.raises(INVALID):
        parse_frame(row)


@pytest.mark.parametrize(
    "rows", [None, [], [[]], [["f", None, None]], [[1, None, None, False]], [["f", "a", -1, False]]]
)
def test_forged_places_are_not_believed(rows: Any) -> None:
    with pytest.raises(INVALID):
        parse_places(rows, "program", 64)


def test_names_of_types() -> None:
    assert parse_type_name(sent(RuntimeTypeName("*main.T", 22))) == RuntimeTypeName("*main.T", 22)
    assert parse_type_name(None) is None
    for row in (1, ["x"], ["x", 32], [1, 2]):
        with pytest.raises(INVALID):
            parse_type_name(row)
