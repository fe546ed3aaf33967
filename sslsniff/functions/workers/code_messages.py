"""What a file says about its code, in the form of messages: call frames, and functions."""

from collections.abc import Sequence
from typing import Any

from sslsniff.analysis.checked_fields import (
    boolean,
    items,
    number_in,
    optional_number,
    optional_text,
    text,
)
from sslsniff.elf.call_frames import CallFrame, RegisterOffset, RegisterRule, RuleKind
from sslsniff.functions.stacks.stack_trace import CodePlace
from sslsniff.functions.values.fetch_program import RuntimeTypeName

_FARTHEST = 1 << 128  # of sums with numbers of 64 bits, before they are cut to these
_MOST_REGISTER = 1 << 64
_MOST_RULES = 256
_MOST_EXPRESSION_LETTERS = 1 << 12
_MOST_PLACES = 1 << 12
_MOST_LINE = 1 << 64
_KINDS = 32  # of Go's types (abi.KindMask)
_EXPRESSIONS = (RuleKind.EXPRESSION, RuleKind.VALUE_EXPRESSION)


def frame_row(frame: CallFrame | None) -> Any:
    """Return a frame in the form of messages; ``parse_frame`` is the inverse."""
    if frame is None:
        return None
    rules = [
        (register, rule.kind.value, _value_row(rule.value))
        for register, rule in frame.rules.items()
    ]
    return [_value_row(frame.address), rules, frame.return_register, frame.is_signal]


def _value_row(value: RegisterOffset | int | bytes) -> Any:
    return value.hex() if isinstance(value, bytes) else value


def parse_frame(row: Any) -> CallFrame | None:
    """Return the frame in a message; raises one of ``INVALID``."""
    if row is None:
        return None
    address, rules, return_register, is_signal = row
    if len(items(rules)) > _MOST_RULES:
        raise ValueError
    return CallFrame(
        _expression(address) if isinstance(address, str) else _register_offset(*address),
        {_register(register): _rule(kind, value) for register, kind, value in rules},
        _register(return_register),
        boolean(is_signal),
    )


def _rule(kind: Any, value: Any) -> RegisterRule:
    found = RuleKind(kind)
    if found in _EXPRESSIONS:
        return RegisterRule(found, _expression(value))
    if found is RuleKind.REGISTER:
        return RegisterRule(found, _register(value))
    return RegisterRule(found, number_in(value, -_FARTHEST, _FARTHEST))


def _register_offset(register: Any, offset: Any) -> RegisterOffset:
    return RegisterOffset(_register(register), number_in(offset, -_FARTHEST, _FARTHEST))


def _register(value: Any) -> int:
    return number_in(value, 0, _MOST_REGISTER)


def _expression(value: Any) -> bytes:
    if len(text(value)) > _MOST_EXPRESSION_LETTERS:
        raise ValueError
    return bytes.fromhex(value)


def place_rows(places: Sequence[CodePlace]) -> Any:
    """Return functions in the form of messages; ``parse_places`` is the inverse."""
    return [each[:4] for each in places]


def parse_places(rows: Any, module: str, address: int) -> tuple[CodePlace, ...]:
    """Return the functions at ``address`` of the file ``module``; raises one of ``INVALID``."""
    if not 0 < len(items(rows)) <= _MOST_PLACES:
        raise ValueError
    return tuple(
        CodePlace(
            optional_text(function),
            optional_text(file),
            optional_number(line, 0, _MOST_LINE),
            boolean(is_inlined),
            module,
            address,
        )
        for function, file, line, is_inlined in rows
    )


def parse_type_name(row: Any) -> RuntimeTypeName | None:
    """Return the name of a type of Go in a message; raises one of ``INVALID``."""
    if row is None:
        return None
    name, kind = row
    return RuntimeTypeName(text(name), number_in(kind, 0, _KINDS))
