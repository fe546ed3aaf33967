"""Where a probe sees a call of a function once, with most of its arguments.

In optimised code that is the first instruction which the kernel emulates, while the arguments are
known there. Unoptimised code writes its arguments to the frame first, and debug info tells only
that: an argument in the frame counts once an instruction has written it there.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.fetching.locations import (
    REGISTER_NAMES,
    ComputedNumber,
    ConstantBytes,
    LocationPiece,
    ValueInMemory,
    ValueLocation,
    push_register,
    register_of,
)
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.dwarf.function_model import Variable
from sslsniff.functions.locations.expression_run import CanonicalFrame, ExpressionContext
from sslsniff.functions.locations.location_expressions import (
    expression_location,
    variable_location,
)
from sslsniff.functions.places.beginnings import BeginningStep, EntryCopy
from sslsniff.machine_code.instructions import ARGUMENTS

Located = ValueLocation | Missing

_WORD_BYTES = 8
_PART_OF_REGISTER = frozenset(
    (StepKind.REGISTER, StepKind.CONSTANT, StepKind.SHIFT_RIGHT, StepKind.AND)
)
_FRAME_REGISTERS = ("rsp", "rbp")
_REGISTER_OF_WORD = {
    push_register(number)[0].value: name for number, name in enumerate(REGISTER_NAMES)
}


class EntrySite(NamedTuple):
    """A place for a probe at a call: its instruction, and where each argument is there."""

    step: BeginningStep
    arguments: Mapping[str, Located]


class EntryFunction(NamedTuple):
    """What the search for a place needs to know of a function.

    ``entry``: its address.
    ``parameters``: as debug info describes them, in order.
    ``frame_base``: the expression of its frame.
    ``prologue_end``: the address where debug info says that the frame is set up; None: unknown.
    ``has_precise_frame``: locations in the frame count from its canonical address, which is known
    everywhere; else from a register that must be set up first.
    ``spilled``: the names of those whose place in the caller's frame the function itself fills: Go
    leaves space there for arguments in registers.
    ``may_assign``: the language's functions often assign to their parameters. Debug info of clang
    says at the entry what a parameter is after the statements whose code is not there yet.
    """

    entry: int
    parameters: Sequence[Variable] = ()
    frame_base: bytes | None = None
    prologue_end: int | None = None
    has_precise_frame: bool = True
    spilled: frozenset[str] = frozenset()
    may_assign: bool = False


def entry_site(beginning: Sequence[BeginningStep], function: EntryFunction) -> EntrySite | None:
    """Return the best place in the ``beginning`` of a function; None: there is none.

    Most known arguments count first, then that the instruction is emulated, then that it is near.
    """
    allowed = [each for each in beginning if not each.may_be_replaced]
    steps = [each for each in allowed if not each.is_return] or allowed
    sites = [EntrySite(each, _arguments(each, function)) for each in steps]
    return max(
        sites,
        key=lambda each: (_known(each.arguments.values()), each.step.is_emulated),
        default=None,
    )


def canonical_frame(step: BeginningStep) -> CanonicalFrame | None:
    """Return the canonical frame address where a step is; None: not known."""
    for name in (*_FRAME_REGISTERS, *sorted(step.pointers)):
        if name in step.pointers:
            register = REGISTER_NAMES.index(name)
            return CanonicalFrame(register, _WORD_BYTES - step.pointers[name])
    return None


def registers_used(location: ValueLocation) -> set[str]:
    """Return the names of the registers that a value is computed from."""
    return {
        _REGISTER_OF_WORD[step.value]
        for piece in location
        for step in _steps(piece)
        if step.kind is StepKind.REGISTER
    }


def _steps(piece: LocationPiece) -> tuple[FetchStep, ...]:
    return piece.source.steps if isinstance(piece.source, ComputedNumber | ValueInMemory) else ()


def _known(arguments: Iterable[Located]) -> int:
    """Return how many arguments are known, counting their pieces in half."""
    return sum(
        not isinstance(each, Missing)
        and not any(isinstance(piece.source, Missing) for piece in each)
        for each in arguments
    )


def _arguments(step: BeginningStep, function: EntryFunction) -> dict[str, Located]:
    found = {each.name: _argument(step, function, each) for each in function.parameters}
    if not function.may_assign:
        return found
    uses: Counter[str | None] = Counter()
    for located in found.values():
        if not isinstance(located, Missing):
            uses.update({register_of(piece) for piece in located})
    for each in function.parameters:
        if each.locations:  # else it is a constant, or nothing
            found[each.name] = _as_passed(found[each.name], uses)
    return found


def _as_passed(located: Located, uses: Mapping[str | None, int]) -> Located:
    """Return an argument without the pieces that may be what the function assigned.

    These are numbers that are computed or constant, and a register that is another argument, too.
    """
    if isinstance(located, Missing):
        return located
    pieces = [
        piece._replace(source=Missing.OPTIMISED_OUT) if _may_be_assigned(piece, uses) else piece
        for piece in located
    ]
    return tuple(pieces)


def _may_be_assigned(piece: LocationPiece, uses: Mapping[str | None, int]) -> bool:
    if isinstance(piece.source, ConstantBytes):
        return True
    if not isinstance(piece.source, ComputedNumber):
        return False
    register = register_of(piece)
    if register is not None:
        return uses[register] > 1
    kinds = {each.kind for each in piece.source.steps}
    return piece.size is None or StepKind.REGISTER not in kinds or not kinds <= _PART_OF_REGISTER


def _argument(step: BeginningStep, function: EntryFunction, variable: Variable) -> Located:
    """Return where the value is before ``step`` that a parameter had at the call."""
    if variable.has_one_location:
        found = variable_location(variable, _context(step, function))
        if isinstance(found, Missing) or _is_written(step, function, variable, found):
            return found
        return Missing.OPTIMISED_OUT
    expression = variable.expression_at(function.entry, is_call=True)
    if expression is None:
        if function.prologue_end is not None and step.address <= function.prologue_end:
            # No statement has run: where it is for the first time, it is as at the call.
            return variable_location(variable, _context(step, function))
        return variable_location(variable, ExpressionContext(function.entry))
    # Later locations tell what the code made of it.
    size = variable.type.size if variable.type else _WORD_BYTES
    context = ExpressionContext(step.address, is_entry=True, address_at=variable.address_at)
    found = expression_location(expression, context)
    if isinstance(found, tuple) and not _needs_frame(found, function):
        copied = [_of_copies(step, piece, size) for piece in found]
        if None in copied:
            return Missing.OPTIMISED_OUT
        return tuple(piece for piece in copied if piece is not None)
    if found is Missing.NOT_READABLE:
        return found
    if variable.expression_at(step.address) != expression:
        return Missing.OPTIMISED_OUT
    context = _context(step, function)._replace(address_at=variable.address_at)
    found = expression_location(expression, context)
    if isinstance(found, Missing):
        return found
    return found if _is_unchanged(step, function, found, size) else Missing.OPTIMISED_OUT


def _context(step: BeginningStep, function: EntryFunction) -> ExpressionContext:
    return ExpressionContext(
        step.address,
        function.frame_base if _is_set_up(step, function) else None,
        canonical_frame(step),
        is_entry=step.address == function.entry,
    )


def _is_set_up(step: BeginningStep, function: EntryFunction) -> bool:
    """Say whether locations in the frame count from what the registers have before ``step``."""
    return function.has_precise_frame or (
        function.prologue_end is not None and step.address >= function.prologue_end
    )


def _needs_frame(location: ValueLocation, function: EntryFunction) -> bool:
    """Say whether a location at the entry means the frame as it is after the prologue."""
    return not function.has_precise_frame and bool(registers_used(location) & {*_FRAME_REGISTERS})


def _of_copies(step: BeginningStep, piece: LocationPiece, size: int) -> LocationPiece | None:
    """Return a piece at the entry by registers that still have the same; None: not all do."""
    if not isinstance(piece.source, ComputedNumber | ValueInMemory):
        return piece
    is_whole = len(piece.source.steps) == 1 and isinstance(piece.source, ComputedNumber)
    used_bytes = min(piece.size or size, _WORD_BYTES) if is_whole else _WORD_BYTES
    steps = []
    for each in piece.source.steps:
        if each.kind is StepKind.REGISTER and _REGISTER_OF_WORD[each.value] != "rip":
            name = step.copy_of(_REGISTER_OF_WORD[each.value], used_bytes)
            if name is None:
                return None
            each = push_register(REGISTER_NAMES.index(name))[0]
        steps.append(each)
    return piece._replace(source=type(piece.source)(tuple(steps)))


def _is_unchanged(
    step: BeginningStep, function: EntryFunction, location: ValueLocation, size: int
) -> bool:
    """Say whether all pieces are in the frame of the caller, and nothing wrote there."""
    if not _is_set_up(step, function):
        return False
    for piece in location:
        slot = _frame_slot(step, piece)
        if slot is None:
            return False
        offset, is_pointer = slot
        end = offset + (_WORD_BYTES if is_pointer else piece.size or size)
        if offset < 0 or not step.written.isdisjoint(range(offset, end)):
            return False
    return True


def _is_written(
    step: BeginningStep, function: EntryFunction, variable: Variable, location: ValueLocation
) -> bool:
    """Say whether a parameter that has only one location is there already.

    A register counts if it is one of arguments, and unchanged. Above the return address is what the
    caller wrote.
    """
    at = 0
    for piece in location:
        size = piece.size or max((variable.type.size if variable.type else 1) - at, 1)
        at += size
        slot = _frame_slot(step, piece)
        if slot is None:
            used = registers_used((piece,))
            if not used <= {*ARGUMENTS} or any(
                step.copies.get(each) != EntryCopy(each, _WORD_BYTES) for each in used
            ):
                return False
            continue
        offset, is_pointer = slot
        slot_bytes = _WORD_BYTES if is_pointer else size
        if offset < 0 or variable.name in function.spilled:
            if not step.has_written(offset, slot_bytes):
                return False
        elif not step.written.isdisjoint(range(offset, offset + slot_bytes)):
            return False
    return True


def _frame_slot(step: BeginningStep, piece: LocationPiece) -> tuple[int, bool] | None:
    """Return the distance of a piece in the frame to the entry's stack pointer.

    And whether it is a pointer to the value that is there. None: it is not in the frame.
    """
    steps = _steps(piece)
    if not steps or steps[0].kind is not StepKind.REGISTER:
        return None
    distance = step.pointers.get(_REGISTER_OF_WORD[steps[0].value])
    if distance is None:
        return None
    for each in steps[1:]:
        if each.kind is StepKind.ADD_CONSTANT:
            distance += each.value
        elif each.kind is StepKind.READ:
            return distance + each.value, True
        else:
            return None
    return (distance, False) if isinstance(piece.source, ValueInMemory) else None
