"""Where a function that returns still has the address of its result in memory.

The caller passes the address in the first register of arguments. By the System V ABI it is in rax
at the return. LLVM leaves that out, where it knows all callers (since its pass ArgumentPromotion
removes the attribute ``sret``), so the address is looked for where it is proved to be: at the
return instruction, or in what comes right before, when the result is complete.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.fetching.locations import (
    REGISTER_NAMES,
    RSP,
    LocationPiece,
    ValueInMemory,
    push_register,
)
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.known_values import Argument, State
from sslsniff.machine_code.operations import OperationKind

_WORD_BYTES = 8
_ADDRESS = frozenset({Argument("rdi")})
_FURTHEST_INSTRUCTIONS = 24
_WRITING = frozenset({OperationKind.CALL, OperationKind.PUSH})


class ReturnSite(NamedTuple):
    """An instruction that every call which returns by one return instruction passes.

    ``depth_bytes``: how far the stack pointer is below that of the entry there.
    ``result``: where the result is; None: not known.
    """

    address: int
    depth_bytes: int
    result: LocationPiece | None


def memory_return_sites(flow: Flow, returns: Iterable[int], size: int) -> Iterator[ReturnSite]:
    """Yield a place for each of ``returns``, where a result of ``size`` bytes is complete."""
    for address in returns:
        yield next(_sites(flow, address, size), ReturnSite(address, 0, None))


def _sites(flow: Flow, address: int, size: int) -> Iterator[ReturnSite]:
    """Yield the places before a return instruction at which the address is known, last first."""
    for at in _straight_before(flow, address):
        state = flow.states[at]
        depth = state.depth
        steps = _pointer_steps(state)
        if steps and depth is not None:
            yield ReturnSite(at, depth, LocationPiece(ValueInMemory(steps), size))


def _straight_before(flow: Flow, address: int) -> Iterator[int]:
    """Yield an instruction and those that always come right before it, without writing memory."""
    for _ in range(_FURTHEST_INSTRUCTIONS):
        if address not in flow.states:
            return
        yield address
        before = flow.predecessors.get(address, set())
        if len(before) != 1:
            return
        [address] = before
        operation = flow.code.operations[address]
        if flow.ways[address] != (operation.following,):
            return
        if operation.stores or operation.fills or operation.kind in _WRITING:
            return


def _pointer_steps(state: State) -> tuple[FetchStep, ...]:
    """Return the steps that push the address of the result; none: it is not known."""
    for name in ("rax", *sorted(state.registers)):
        if state.registers.get(name) == _ADDRESS:
            return push_register(REGISTER_NAMES.index(name))
    for offset, (size, values) in sorted(state.slots.items()):
        if values == _ADDRESS and size == _WORD_BYTES and state.depth is not None:
            read = FetchStep(StepKind.READ, offset + state.depth, item=_WORD_BYTES)
            return (*push_register(RSP), read)
    return ()
