"""Finds a function without a symbol by the calls that hand it what public functions were given."""

from collections.abc import Iterator

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.conventions import Signature
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.instructions import ARGUMENTS
from sslsniff.machine_code.known_values import Argument, Number
from sslsniff.machine_code.operations import Code, OperationKind
from sslsniff.machine_code.returns import switches


def handed_calls(
    elf: Elf, function: Function, given: Signature, kind: int | None
) -> Iterator[tuple[int, Signature]]:
    """Yield what a function calls or jumps to with its own object and buffer, and a constant.

    Each with the signature that it has then. ``given`` is the function's own, ``kind`` the
    constant; None: any arguments may be beside them.
    """
    code = elf.code(function)
    cases = switches(code, function.address, elf.data)
    flow = Flow(Code(code, function.address, switches=cases))
    for address, state in flow.states.items():
        operation = flow.code.operations[address]
        is_call = operation.kind is OperationKind.CALL or flow.code.leaves(operation)
        if not is_call or operation.leads_to is None:
            continue
        places = {state.one(each): each for each in reversed(ARGUMENTS)}
        object_, buffer = places.get(Argument(given.object)), places.get(Argument(given.buffer))
        if object_ is None or buffer is None:
            continue
        if kind is None:
            yield operation.leads_to, Signature(object_, buffer)
        elif Number(kind) in places:
            constant = (places[Number(kind)], kind)
            yield operation.leads_to, Signature(object_, buffer, None, constant)
