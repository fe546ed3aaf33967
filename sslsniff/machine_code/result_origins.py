"""Finds the register or stack slot that holds a function's result before it returns (x86-64)."""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush

from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.instructions import CallingConvention
from sslsniff.machine_code.known_values import (
    FRAME_POINTERS,
    INT_BYTES,
    WORD_BYTES,
    Number,
    Stack,
    State,
)
from sslsniff.machine_code.operations import (
    MemoryOperand,
    Operand,
    Operation,
    OperationKind,
    Register,
)

Origin = str | int | Number | None
"""Where the later result of a function is: in a register (its name), on the stack (the offset from
the entry's stack pointer), or it is a number; None: elsewhere."""

_UNKNOWN: frozenset[Origin] = frozenset({None})


def result_origins(flow: Flow) -> dict[int, frozenset[Origin]]:
    """Return the origins of the result before each instruction: one for each path to a return.

    The empty set: no path leads from the instruction to a return.
    """
    found: dict[int, frozenset[Origin]] = dict.fromkeys(flow.states, frozenset())
    waiting = [-address for address in found]  # a heap, the last instruction first
    heapify(waiting)
    queued = set(found)
    while waiting:
        address = -heappop(waiting)
        queued.remove(address)
        now = _origins_at(address, flow, found)
        if now != found[address]:
            found[address] = now
            for before in (flow.predecessors.get(address, set()) & found.keys()) - queued:
                queued.add(before)
                heappush(waiting, -before)
    return found


def _origins_at(
    address: int, flow: Flow, found: Mapping[int, frozenset[Origin]]
) -> frozenset[Origin]:
    operation = flow.code.operations[address]
    convention = flow.convention
    if operation.kind is OperationKind.RETURN:
        return frozenset({convention.result})
    after = frozenset[Origin]().union(*(found[each] for each in flow.ways[address]))
    if flow.code.leaves(operation):
        after |= _UNKNOWN
    state = flow.states[address]
    return frozenset(
        each for origin in after for each in _before(origin, operation, state, convention)
    )


def _before(
    origin: Origin, operation: Operation, state: State, convention: CallingConvention
) -> Iterator[Origin]:
    """Yield where the value of ``origin`` after an operation was before it."""
    if isinstance(origin, str):
        if operation.kind is OperationKind.CALL and origin not in convention.kept:
            yield None
        else:
            yield from _register_before(origin, operation, state)
    elif isinstance(origin, int):
        yield _slot_before(origin, operation, state)
    else:
        yield origin


def _register_before(register: str, operation: Operation, state: State) -> Iterator[Origin]:
    if register not in operation.registers:
        yield register
        return
    target = operation.target
    is_target = isinstance(target, Register) and target.name == register and _is_int(target)
    if operation.kind is OperationKind.POP and is_target:
        pointer = state.one("rsp")
        yield pointer.offset if isinstance(pointer, Stack) else None
    elif operation.kind in (OperationKind.MOVE, OperationKind.CHOOSE) and is_target:
        yield _origin(operation.source, state)
        if operation.kind is OperationKind.CHOOSE:
            yield register
    else:
        yield None


def _slot_before(slot: int, operation: Operation, state: State) -> Origin:
    if operation.kind is OperationKind.CALL:
        is_own = state.depth is not None and slot >= -state.depth
        is_kept = is_own and not state.is_exposed(slot)
        return slot if is_kept else None
    if operation.kind is OperationKind.PUSH:
        pointer = state.one("rsp")
        if not isinstance(pointer, Stack):
            return None
        is_pushed = pointer.offset - WORD_BYTES == slot
        return _origin(operation.source, state) if is_pushed else slot
    for memory in operation.stores:
        place = state.place(memory)
        if place == slot and operation.kind is OperationKind.MOVE and _is_int(memory):
            return _origin(operation.source, state)
        if place is None and (memory.base in FRAME_POINTERS or state.is_exposed(slot)):
            return None
        if (
            place is not None
            and place < slot + INT_BYTES
            and (slot < place + memory.size or operation.fills)
        ):
            return None
    return slot


def _origin(operand: Operand | None, state: State) -> Origin:
    if isinstance(operand, int):
        return Number(operand)
    if isinstance(operand, Register) and _is_int(operand):
        return operand.name
    return state.place(operand) if isinstance(operand, MemoryOperand) and _is_int(operand) else None


def _is_int(operand: Operand | None) -> bool:
    return isinstance(operand, Register | MemoryOperand) and operand.size >= INT_BYTES
