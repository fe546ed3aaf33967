"""Reads DWARF's location expressions as steps that fetch (DWARF 5, sections 2.5 and 2.6).

What cannot be computed in a hit makes the value "optimised out", never a wrong number.
"""

from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.fetching.locations import (
    ComputedNumber,
    ConstantBytes,
    LocationPiece,
    ValueLocation,
    add_constant,
    in_register,
    push_address,
    push_constant,
    push_register,
)
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.dwarf.function_model import Variable
from sslsniff.functions.locations.expression_run import (
    CanonicalFrame,
    ExpressionContext,
    ExpressionOperation,
    ExpressionRun,
    NotComputable,
    Steps,
)

_WORD_BYTES = 8


def variable_location(
    variable: Variable, context: ExpressionContext, *, is_call: bool = False
) -> ValueLocation | Missing:
    """Return where a variable is at the place of ``context``, or why that is not known.

    ``is_call``: a call begins there, of which the variable is a parameter.
    """
    expression = variable.expression_at(context.place, is_call=is_call)
    if expression is not None:
        context = context._replace(address_at=variable.address_at)
        return expression_location(expression, context)
    if variable.constant is not None:
        return (LocationPiece(ConstantBytes(variable.constant)),)
    return Missing.OPTIMISED_OUT


def expression_location(expression: bytes, context: ExpressionContext) -> ValueLocation | Missing:
    """Return the pieces that ``expression`` describes; nothing raises, whatever the bytes are."""
    try:
        return ExpressionRun(expression, context, _OPERATIONS).pieces()
    except NotComputable as error:
        return error.reason


def _literal(run: ExpressionRun, code: int) -> None:
    run.push(push_constant(code - 0x30))


def _fixed(size: int, *, is_signed: bool) -> ExpressionOperation:
    def operate(run: ExpressionRun, code: int) -> None:
        run.push(push_constant(run.signed(size) if is_signed else run.unsigned(size)))

    return operate


def _constant_uleb(run: ExpressionRun, code: int) -> None:
    run.push(push_constant(run.uleb()))


def _constant_sleb(run: ExpressionRun, code: int) -> None:
    run.push(push_constant(run.sleb()))


def _address(run: ExpressionRun, code: int) -> None:
    run.push(push_address(run.unsigned(_WORD_BYTES), run.context.place))


def _indexed_address(run: ExpressionRun, code: int) -> None:
    """Push an address (addrx), or a constant that is no address (constx), of .debug_addr."""
    index = run.uleb()
    found = run.context.address_at(index) if run.context.address_at else None
    if found is None:
        raise NotComputable
    run.push(
        push_address(found, run.context.place) if code in (0xA1, 0xFB) else push_constant(found)
    )


def _in_register(run: ExpressionRun, code: int) -> None:
    run.describe(in_register(run.uleb() if code == 0x90 else code - 0x50))


def _from_register(run: ExpressionRun, code: int) -> None:
    register = run.uleb() if code == 0x92 else code - 0x70
    offset = run.sleb()
    run.push(_readable_register(register), add_constant(offset))


def _readable_register(register: int) -> Steps:
    steps = push_register(register)
    if not steps:
        raise NotComputable(Missing.NOT_READABLE)
    return steps


def _from_frame(run: ExpressionRun, code: int) -> None:
    offset = run.sleb()
    expression = run.context.frame_base
    if expression is None or run.nesting:
        raise NotComputable
    if len(expression) == 1 and 0x50 <= expression[0] <= 0x6F:  # the register itself is the base
        base = _readable_register(expression[0] - 0x50)
    else:
        base = run.inner(expression)
    run.push(base, add_constant(offset))


def _canonical_frame(run: ExpressionRun, code: int) -> None:
    frame = run.context.canonical_frame
    if isinstance(frame, bytes) and run.nesting < 2:
        run.push(run.inner(frame, levels=2))
    elif isinstance(frame, CanonicalFrame):
        run.push(_readable_register(frame.register), add_constant(frame.offset))
    else:
        raise NotComputable


def _entry_value(run: ExpressionRun, code: int) -> None:
    """Push what a register had at the function's entry: known as long as the probe is there."""
    inner = run.block(run.uleb())
    if not run.context.is_entry or run.nesting > 2:
        raise NotComputable
    if len(inner) == 1 and 0x50 <= inner[0] <= 0x6F:
        run.push(_readable_register(inner[0] - 0x50))
    else:
        run.push(run.inner(inner))


def _read(run: ExpressionRun, code: int) -> None:
    size = run.unsigned(1) if code == 0x94 else _WORD_BYTES
    if size not in (1, 2, 4, 8):
        raise NotComputable
    run.push(run.pop(), (FetchStep(StepKind.READ, item=size),))


def _unary(kind: StepKind) -> ExpressionOperation:
    def operate(run: ExpressionRun, code: int) -> None:
        run.push(run.pop(), (FetchStep(kind),))

    return operate


def _binary(kind: StepKind, *, is_swapped: bool = False) -> ExpressionOperation:
    def operate(run: ExpressionRun, code: int) -> None:
        second, first = run.pop(), run.pop()
        if is_swapped:
            first, second = second, first
        constant = _number(second)
        if kind is StepKind.ADD and constant is not None:
            run.push(first, add_constant(constant))
        elif kind is StepKind.SUBTRACT and constant is not None:
            run.push(first, add_constant(-constant))
        else:
            run.push(first, second, (FetchStep(kind),))

    return operate


def _number(steps: Steps) -> int | None:
    """Return the number that steps push if it is a small constant."""
    if len(steps) == 1 and steps[0].kind is StepKind.CONSTANT:
        return steps[0].value
    return None


def _plus_constant(run: ExpressionRun, code: int) -> None:
    run.push(run.pop(), add_constant(run.uleb()))


def _pick(run: ExpressionRun, code: int) -> None:
    index = _PICKED[code] if code in _PICKED else run.unsigned(1)
    if index >= len(run.stack):
        raise NotComputable
    run.push(run.stack[-1 - index])


_PICKED = {0x12: 0, 0x14: 1}  # dup, over


def _drop(run: ExpressionRun, code: int) -> None:
    run.pop()


def _swap(run: ExpressionRun, code: int) -> None:
    second, first = run.pop(), run.pop()
    run.stack += second, first


def _rotate(run: ExpressionRun, code: int) -> None:
    third, second, first = run.pop(), run.pop(), run.pop()
    run.stack += third, first, second


def _nothing(run: ExpressionRun, code: int) -> None:
    pass


def _stack_value(run: ExpressionRun, code: int) -> None:
    run.describe(LocationPiece(ComputedNumber(run.pop())))


def _implicit_value(run: ExpressionRun, code: int) -> None:
    run.describe(LocationPiece(ConstantBytes(run.block(run.uleb()))))


def _implicit_pointer(run: ExpressionRun, code: int) -> None:
    """Skip a pointer to what has no address: a reference to a unit of 4 bytes, an offset."""
    run.block(4)
    run.sleb()
    run.describe(LocationPiece(Missing.OPTIMISED_OUT))


def _piece(run: ExpressionRun, code: int) -> None:
    run.end_piece(run.uleb())


def _bit_piece(run: ExpressionRun, code: int) -> None:
    bits, offset = run.uleb(), run.uleb()
    if bits % 8 or offset:
        raise NotComputable
    run.end_piece(bits // 8)


# DWARF 5, table 7.9; 0xf2 and 0xf3 are GNU's before DWARF 5.
_OPERATIONS: dict[int, ExpressionOperation] = {
    0x03: _address,
    0x06: _read,
    **{0x08 + 2 * power: _fixed(1 << power, is_signed=False) for power in range(4)},
    **{0x09 + 2 * power: _fixed(1 << power, is_signed=True) for power in range(4)},
    0x10: _constant_uleb,
    0x11: _constant_sleb,
    0x12: _pick,
    0x13: _drop,
    0x14: _pick,
    0x15: _pick,
    0x16: _swap,
    0x17: _rotate,
    0x1A: _binary(StepKind.AND),
    0x1B: _binary(StepKind.DIVIDE),
    0x1C: _binary(StepKind.SUBTRACT),
    0x1E: _binary(StepKind.MULTIPLY),
    0x1F: _unary(StepKind.NEGATE),
    0x20: _unary(StepKind.COMPLEMENT),
    0x21: _binary(StepKind.OR),
    0x22: _binary(StepKind.ADD),
    0x23: _plus_constant,
    0x24: _binary(StepKind.SHIFT_LEFT),
    0x25: _binary(StepKind.SHIFT_RIGHT),
    0x26: _binary(StepKind.SHIFT_RIGHT_SIGNED),
    0x27: _binary(StepKind.XOR),
    0x29: _binary(StepKind.EQUAL),
    0x2A: _binary(StepKind.LESS_OR_EQUAL_SIGNED, is_swapped=True),
    0x2B: _binary(StepKind.LESS_SIGNED, is_swapped=True),
    0x2C: _binary(StepKind.LESS_OR_EQUAL_SIGNED),
    0x2D: _binary(StepKind.LESS_SIGNED),
    0x2E: _binary(StepKind.NOT_EQUAL),
    **dict.fromkeys(range(0x30, 0x50), _literal),
    **dict.fromkeys(range(0x50, 0x70), _in_register),
    **dict.fromkeys(range(0x70, 0x90), _from_register),
    0x90: _in_register,
    0x91: _from_frame,
    0x92: _from_register,
    0x93: _piece,
    0x94: _read,
    0x96: _nothing,
    0x9C: _canonical_frame,
    0x9D: _bit_piece,
    0x9E: _implicit_value,
    0x9F: _stack_value,
    0xA0: _implicit_pointer,
    0xA1: _indexed_address,
    0xA2: _indexed_address,
    0xA3: _entry_value,
    0xF2: _implicit_pointer,
    0xF3: _entry_value,
    0xFB: _indexed_address,
    0xFC: _indexed_address,
}
