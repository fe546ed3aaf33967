"""Cheap places for probes in the functions of Go programs (x86-64).

The stack of a goroutine moves, and a goroutine goes on on other threads: nothing that a probe
noted at a function's entry would be found again at its return. So one probe sees all of a call, at
an instruction at which the arguments are still there, and where it reads, the count already, too.
"""

from collections.abc import Collection, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.known_values import Argument, Low, State, Value
from sslsniff.machine_code.operations import OperationKind
from sslsniff.machine_code.probe_pairs import is_failure
from sslsniff.machine_code.result_origins import Origin, result_origins


class GoPlace(NamedTuple):
    """An instruction, and where each value is there.

    A register, or an offset from the stack pointer. ``condition`` is that of the jump at
    ``address``, as x86 numbers it, under which it counts; None: always.
    """

    address: int
    condition: int | None
    values: tuple[str | int, ...]
    is_emulated: bool = True


def at_entry(
    flow: Flow, arguments: Sequence[str | int], kind: str | int | None = None
) -> GoPlace | None:
    """Return the first cheap place that each call passes once, with its arguments unchanged.

    The values are the ``arguments`` and, of which the low byte is meant, ``kind``. A function whose
    stack is too small jumps away, has it moved, and begins anew: that jump counts only where it is
    not taken.
    """
    search = _Search(flow)
    for address in search.emulated():
        values = search.arguments(address, arguments, kind)
        if values is None or not search.sees_all(address):
            continue
        loops = [each for each in flow.ways[address] if address in flow.reached([each])]
        operation = flow.code.operations[address]
        if not loops:
            return GoPlace(address, None, values)
        if len(loops) < len(flow.ways[address]) and operation.condition is not None:
            taken_loops = operation.leads_to in loops
            return GoPlace(address, operation.condition ^ taken_loops, values)
    return None


def after_copy(
    flow: Flow, arguments: Sequence[str | int], copies: Collection[int]
) -> list[GoPlace]:
    """Return places where the result is known, and what was read is in its buffer.

    ``copies`` are the functions of which one copies it. Every call that reads something passes one
    of the places, once. The values are the ``arguments`` and the result. Where there is no cheap
    place, they are the return instructions. The empty list: the arguments are not known there, or
    none of ``copies`` is called.
    """
    search = _Search(flow)
    copying = {
        address
        for address in flow.states
        if flow.code.operations[address].kind is OperationKind.CALL
        and flow.code.operations[address].leads_to in copies
    }
    if not copying:
        return []
    before_copies = flow.leading_to(copying)
    for address in search.emulated():
        values = search.arguments(address, arguments)
        result = search.result(address)
        if values is None or result is None or before_copies.intersection(flow.ways[address]):
            continue
        if address not in flow.reached(flow.ways[address]) and search.sees_success(address):
            return [GoPlace(address, None, (*values, result))]
    return search.returns(arguments)


class _Search:
    """A search for places in one function."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._operations = flow.code.operations
        self._convention = flow.convention

    def emulated(self) -> Iterator[int]:
        """Yield the instructions on which a probe is cheap, near ones first."""
        if not self._flow.code.is_whole:
            return
        for address in self._flow.reached([self._flow.code.address]):
            if self._operations[address].is_emulated:
                yield address

    def arguments(
        self, address: int, arguments: Sequence[str | int], kind: str | int | None = None
    ) -> tuple[str | int, ...] | None:
        """Return where the arguments are before an instruction; None where one is not known."""
        state = self._flow.states[address]
        wanted: list[set[Value]] = [{Argument(each)} for each in arguments]
        if kind is not None:
            wanted.append({Argument(kind), Low(Argument(kind))})
        places = [_place(state, each) for each in wanted]
        known = tuple(each for each in places if each is not None)
        return known if len(known) == len(places) else None

    def result(self, address: int) -> str | int | None:
        """Return what will be the result, on each way on; None where that is not one thing."""
        is_branch = self._operations[address].kind is OperationKind.BRANCH
        afterwards = self._flow.ways[address] if is_branch else (address,)
        found = frozenset[Origin]().union(*(self._origins[each] for each in afterwards))
        depth = self._flow.states[address].depth
        if len(found) != 1 or depth is None or self._operations[address].kind is OperationKind.CALL:
            return None
        [origin] = found
        if isinstance(origin, int):
            return origin + depth
        return origin if isinstance(origin, str) else None

    @cached_property
    def _origins(self) -> dict[int, frozenset[Origin]]:
        return result_origins(self._flow)

    @cached_property
    def _exits(self) -> set[int]:
        code = self._flow.code
        return {
            address
            for address in self._flow.states
            if self._operations[address].kind is OperationKind.RETURN
            or code.leaves(self._operations[address])
        }

    def sees_all(self, address: int) -> bool:
        """Say whether each call passes ``address``."""
        around = self._flow.reached([self._flow.code.address], avoided={address})
        return self._exits.isdisjoint(around)

    def sees_success(self, address: int) -> bool:
        """Say whether each call passes ``address`` that returns more than 0."""
        around = self._flow.states_without({address})
        missed = self._exits & around.keys()
        return all(
            self._operations[each].kind is OperationKind.RETURN and self._fails(around[each])
            for each in missed
        )

    def _fails(self, state: State) -> bool:
        """Say whether a return with this state means that nothing was read."""
        place = self._convention.result
        if isinstance(place, str):
            values = state.registers.get(place)
        else:
            _, values = state.slots.get(place, (0, None))
        return values is not None and all(map(is_failure, values))

    def returns(self, arguments: Sequence[str | int]) -> list[GoPlace]:
        """Return the return instructions with the arguments and the result."""
        places = []
        for address in sorted(self._exits):
            values = self.arguments(address, arguments)
            if values is None or self._operations[address].kind is not OperationKind.RETURN:
                return []
            values = (*values, self._convention.result)
            places.append(GoPlace(address, None, values, is_emulated=False))
        return places


def _place(state: State, wanted: Collection[Value]) -> str | int | None:
    """Return a register that has one of some values, or its offset from the stack pointer."""
    if state.depth is None:
        return None
    for register, values in sorted(state.registers.items()):
        if values.issubset(wanted):
            return register
    for at, (_, values) in sorted(state.slots.items()):
        if values.issubset(wanted) and at + state.depth >= 0:
            return at + state.depth
    return None
