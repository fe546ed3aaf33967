"""Finds the values that are known at each instruction of a function, by data flow (x86-64)."""

from collections.abc import Collection, Iterable
from functools import cached_property
from heapq import heappop, heappush

from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.instructions import SYSTEM_V, CallingConvention
from sslsniff.machine_code.known_values import (
    INT_BYTES,
    WORD_BYTES,
    Argument,
    Failure,
    Inside,
    Low,
    MemoryField,
    Number,
    Result,
    Stack,
    State,
    Value,
    Values,
    narrowed,
)
from sslsniff.machine_code.operations import MemoryOperand, Operation, OperationKind, Register

# Conditions of jumps, as x86 numbers them; they are in pairs, each with its opposite.
_EQUAL, _NEGATIVE, _NOT_POSITIVE = 4, 8, 14


class Flow:
    """The flow of data in the function with this ``code``, which follows a calling convention."""

    def __init__(self, code: Code, convention: CallingConvention = SYSTEM_V) -> None:
        self.code = code
        self.convention = convention

    @cached_property
    def states(self) -> dict[int, State]:
        """What is known at each instruction that can be reached from the entry."""
        return self.states_without(())

    def states_without(self, avoided: Collection[int]) -> dict[int, State]:
        """Return what is known at each instruction that can be reached without ``avoided`` ones."""
        code = self.code
        if code.address not in code.operations:
            return {}
        known = {code.address: self._at_entry()}
        waiting = [code.address]
        while waiting:
            address = heappop(waiting)
            if address in avoided:
                continue
            operation = code.operations[address]
            after = state_after(operation, known[address], self.convention)
            for following in self.ways[address]:
                state = state_on_way(operation, after, following)
                joined = known[following].join(state) if following in known else state
                if following not in known or not joined.is_as(known[following]):
                    known[following] = joined
                    if following not in waiting:
                        heappush(waiting, following)
        return known

    def _at_entry(self) -> State:
        registers: dict[str, Values] = {"rsp": frozenset({Stack(0)})}
        slots: dict[int, tuple[int, Values]] = {}
        for place in self.convention.arguments:
            value: Values = frozenset({Argument(place)})
            if isinstance(place, str):
                registers[place] = value
            else:
                slots[place] = (WORD_BYTES, value)
        return State(registers, slots, has_own_arguments=self.convention.has_own_arguments)

    @cached_property
    def ways(self) -> dict[int, tuple[int, ...]]:
        """The addresses of the instructions that may follow each one in the function."""
        code = self.code
        return {address: tuple(code.ways_on(each)) for address, each in code.operations.items()}

    @cached_property
    def predecessors(self) -> dict[int, set[int]]:
        """The addresses of the instructions that may come right before each one."""
        predecessors: dict[int, set[int]] = {}
        for address, ways in self.ways.items():
            for each in ways:
                predecessors.setdefault(each, set()).add(address)
        return predecessors

    def reached(self, starts: Iterable[int], avoided: Collection[int] = ()) -> list[int]:
        """Return the instructions that can be reached from ``starts``, with these, near ones first.

        Only paths without the instructions ``avoided`` count.
        """
        found = dict.fromkeys(starts)
        waiting = list(found)
        for address in waiting:
            if address in avoided:
                continue
            new = [each for each in self.ways[address] if each not in found]
            found.update(dict.fromkeys(new))
            waiting += new
        return waiting

    def leading_to(self, ends: Collection[int]) -> set[int]:
        """Return the instructions that can reach one of ``ends``, with these."""
        found = set(ends)
        waiting = list(ends)
        while waiting:
            new = self.predecessors.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found


def state_after(operation: Operation, before: State, convention: CallingConvention) -> State:
    """Return what is known after an operation."""
    state = before.copy()
    result = Result(operation.address)
    if operation.kind is OperationKind.CALL or operation.compares:
        state.replace(result, None)
    values = _moved(operation, before)
    if values is None and any(before.has_address(each) for each in operation.computes_with):
        state.note_unknown_address()
    if "rflags" in operation.registers:
        state.compared = operation.compares
    for register in operation.registers:
        if state.compared and register == state.compared.register and not operation.compares:
            state.compared = None
        state.set(register, None)
    target = operation.target
    if operation.kind is OperationKind.CALL:
        state.set("rsp", before.registers.get("rsp"))
        state.compared = None
        state.call()
        for register in state.registers.keys() - convention.kept:
            state.set(register, None)
        state.set("rax", frozenset({result}))
    elif operation.kind in (OperationKind.PUSH, OperationKind.POP, OperationKind.LEAVE):
        _use_stack(operation, before, state)
    else:
        for memory in operation.stores:
            state.store(memory, values if memory == target else None, fills=operation.fills)
        if isinstance(target, Register) and target.name in operation.registers:
            state.set(target.name, values if target.size >= INT_BYTES else None)
    return state


def _moved(operation: Operation, before: State) -> Values | None:
    """Return the values of an operation's target after it; None: unknown."""
    kind, target, source = operation.kind, operation.target, operation.source
    if kind is OperationKind.MOVE:
        size = target.size if isinstance(target, Register | MemoryOperand) else WORD_BYTES
        return narrowed(before.value(source), size)
    if kind is OperationKind.CHOOSE:
        old, new = before.value(target), before.value(source)
        return None if old is None or new is None else old | new
    if kind is OperationKind.ADDRESS and isinstance(source, MemoryOperand) and source.is_exact:
        if source.base is None:
            return frozenset({Number(source.offset)})
        is_address = isinstance(target, Register) and target.size == WORD_BYTES
        return _address(before.one(source.base), source.offset) if is_address else None
    if kind is OperationKind.ADD and isinstance(target, Register) and isinstance(source, int):
        return _address(before.one(target.name), source) if target.size == WORD_BYTES else None
    return frozenset({Result(operation.address)}) if operation.compares else None


def _address(base: Value | None, offset: int) -> Values | None:
    """Return the address ``base`` + ``offset``; None: unknown.

    Of an ``Inside``, it is unknown: pointers that run through memory would have a value a round.
    """
    if isinstance(base, Stack):
        return frozenset({Stack(base.offset + offset)})
    if isinstance(base, Argument | MemoryField):
        return frozenset({Inside(base, offset)})
    return None


def _use_stack(operation: Operation, before: State, state: State) -> None:
    """Change ``state`` as a push, a pop or a ``leave`` does."""
    pointer = before.one("rbp" if operation.kind is OperationKind.LEAVE else "rsp")
    if not isinstance(pointer, Stack):
        state.set("rsp", None)
        state.slots.clear()
        return
    if operation.kind is OperationKind.PUSH:
        state.set("rsp", frozenset({Stack(pointer.offset - WORD_BYTES)}))
        state.store(
            MemoryOperand("rsp", 0, WORD_BYTES, is_exact=True), before.value(operation.source)
        )
        return
    state.set("rsp", frozenset({Stack(pointer.offset + WORD_BYTES)}))
    size, values = before.slots.get(pointer.offset, (0, None))
    target = (
        Register("rbp", WORD_BYTES) if operation.kind is OperationKind.LEAVE else operation.target
    )
    if isinstance(target, Register) and target.name != "rsp":
        state.set(target.name, values if size == WORD_BYTES else None)


def state_on_way(operation: Operation, state: State, following: int) -> State:
    """Return what is known after an operation if ``following`` is next: a branch shows more."""
    condition = operation.condition
    if condition is None or state.compared is None:
        return state
    if following != operation.leads_to:
        condition ^= 1
    register, size, number = state.compared
    known: Value | None = None
    if condition == _EQUAL:
        known = Number(number)
    elif size == INT_BYTES and number == 0 and condition in (_NEGATIVE, _NOT_POSITIVE):
        known = Failure()
    if known is None:
        return state
    old = state.one(register)
    if isinstance(old, Low):
        old = old.value
    if isinstance(old, Argument):
        return state  # where both paths join, the argument would be unknown
    chosen = state.copy()
    if isinstance(old, Result):
        chosen.replace(old, known)
    chosen.set(register, frozenset({known}))
    return chosen
