"""Finds a function without a symbol by the calls that hand it what its caller was given."""

from collections.abc import Iterator

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.callers import arguments
from sslsniff.machine_code.conventions import Signature
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.instructions import ARGUMENTS
from sslsniff.machine_code.known_values import Argument, Low, Number, Value
from sslsniff.machine_code.operations import OperationKind
from sslsniff.machine_code.returns import switches
from sslsniff.matching.probe_set import UnfitError


def handed_calls(
    elf: Elf, function: Function, given: Signature, kind: int | None
) -> Iterator[tuple[int, Signature]]:
    """Yield what a function calls or jumps to with its own object and buffer, and with a kind.

    Each with the signature that it has then. ``given`` is the function's own. The kind is the
    function's own argument if ``given`` has one, else the constant ``kind``; None: there is none.
    """
    own = Number(kind or 0) if given.kind is None else Argument(given.kind[0])
    code = elf.code(function)
    cases = switches(code, function.address, elf.data)
    flow = Flow(Code(code, function.address, switches=cases))
    for address, state in flow.states.items():
        operation = flow.code.operations[address]
        is_call = operation.kind is OperationKind.CALL or flow.code.leaves(operation)
        if not is_call or operation.leads_to is None:
            continue
        held = {each: state.one(each) for each in ARGUMENTS}
        object_ = _holder(held, Argument(given.object))
        buffer = _holder(held, Argument(given.buffer))
        if object_ is None or buffer is None:
            continue
        if kind is None:
            yield operation.leads_to, Signature(object_, buffer)
        elif constant := _holder(held, own) or _holder(held, Low(own)):
            yield operation.leads_to, Signature(object_, buffer, None, (constant, kind))


def _holder(held: dict[str, Value | None], wanted: Value) -> str | None:
    return next((register for register, value in held.items() if value == wanted), None)


def record_function(
    elf: Elf, function: Function, given: Signature
) -> tuple[Function, Signature] | None:
    """Return the one function that gets a function's object, buffer and kind, and reads them.

    Its signature has the register of the count, which follows the buffer, as ``count_pointer``.
    None: there is no such function. Raises ``UnfitError`` if there are several.
    """
    assert given.kind is not None
    found = {}
    for address, signature in handed_calls(elf, function, given, given.kind[1]):
        callee = elf.function_at(address)
        after = ARGUMENTS.index(signature.buffer) + 1
        if callee is None or signature.kind is None or after == len(ARGUMENTS):
            continue
        counted = signature._replace(count_pointer=ARGUMENTS[after])
        needed = {counted.object, counted.buffer, ARGUMENTS[after], signature.kind[0]}
        if arguments(elf.code(callee), address) >= needed:
            found[callee] = counted
    if len(found) > 1:
        raise UnfitError(f"the function at {function.address:#x} hands records to several")
    return next(iter(found.items()), None)
