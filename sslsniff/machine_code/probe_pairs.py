"""Finds cheap places for probes in a function: a way in, and the ways out of it (x86-64).

Problem. A probe must see the arguments of each call, and later its result. The kernel emulates few
instructions (``probe_sites``); a probe on any other costs a second trap. ``endbr64``, ``sub`` and
``mov``, with which functions begin, and ``ret`` are not among them. So both probes belong inside of
the function, and the machine code must prove that they see the same calls.

Why simpler ways fail. A return probe of the kernel replaces the return address on the stack: a
program that switches coroutines inside of the call dies. A probe on ``ret`` is safe, but
single-stepped. The last emulated instruction before ``ret`` may be on one of several paths only, or
come before the result is complete. Offsets from a table differ between builds.

The rules. A probe at the way in sees the arguments, probes at the ways out see the result. Data
flow (``data_flow``, ``result_origins``) proves that they belong together:

- Each call that may succeed passes the way in, once. A path that avoids it returns 0 or a negative
  number, or never returns (``sees_all``). No path leads from the way in back to it.
- At the way in each needed value is in a known register, the argument's own one if possible.
- From there the call passes one of the ways out, once, before it returns. A way out is the last
  emulated instruction of a path at which the result is settled (``_last``), and no path avoids all
  ways out (``_misses``).
- At a way out the result is settled: it is in one register or one stack slot. After it the function
  calls nothing, and stores nothing but on its stack and in its object. So the buffer and the count
  are complete, too. A call of a function that never returns does not count, as at the failed check
  of a stack protector.
- A call that fails has no plaintext. So where the result is known to be 0 or negative, calls may
  still follow.
- At all places the distance of the stack pointer from that of the entry is known. The stack pointer
  of the entry identifies the call (bpf/open_calls.bpf.h).

A conditional jump is emulated, too, and its two sides may differ. Then the place counts on one side
only: ``Leave.condition`` has the condition, and the BPF program looks at the flags. If both sides
are ways out with different results, the place has two entries in ``Pair.leaves``.

Example: the code that GCC makes for a short function, with offsets
(tests/unit/machine_code/test_probe_pairs.py).

     0  endbr64
     4  sub  rsp, 0x18
     8  test rdi, rdi
    11  js   28         way in: the arguments are in their registers, depth 24
    13  call ...        does the work
    18  test rdi, rdi
    21  jne  28         way out: the result is in rax, depth 24
    23  add  rsp, 0x18
    27  ret
    28  call ...        never returns: nothing follows

At 21 one side returns rax, and the other never returns, so the place counts on both sides.
``SSL_read`` of Debian's OpenSSL 3.0 is like this. Its way in, at 22, is a check of the size. Its
way out, at 56, is the check of the stack protector.

In ``nop; call; test eax, eax; je 11; ret; 11: call; nop; ret`` the way in is at 0. The ways out are
the ``je`` at 8, which counts only if it is not taken, and the ``nop`` at 16.

The proof assumes that callees keep rbx, rsp, rbp and r12 to r15. It assumes that they write to a
function's stack frame only where they may have an address. A value that is not proved is unknown.

Limits:

- Nothing is proved for a function with bytes that are no instructions, with system calls, or with
  jumps to other functions or unknown places. ``Needs.tails`` are the exception.
- A structure that the object points to counts as part of the object. So a store to a caller's
  buffer through a pointer in the object would not be noticed.
- Conditions, other registers and stack slots need attach cookies. ``Needs.is_plain`` asks for pairs
  that need none.

Sources: arch/x86/kernel/uprobes.c (``push_setup_ops``, ``branch_setup_ops``),
kernel/events/uprobes.c (``uprobe_handle_trampoline``); attach cookies since Linux 5.15. System V
ABI, AMD64 supplement, section 3.2.1. Costs: docs/sites.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.known_values import Argument, Failure, MemoryField, Number, State, Value
from sslsniff.machine_code.operations import MemoryOperand, Operation, OperationKind
from sslsniff.machine_code.result_origins import Origin, result_origins


class Enter(NamedTuple):
    """A way in: the place where a probe sees the arguments of a call.

    ``depth``: by how many bytes the stack pointer is below that of the entry.
    ``registers``: the name of each value of ``Needs`` -> the register that holds it.
    """

    address: int
    depth: int
    registers: dict[str, str]


class Leave(NamedTuple):
    """A way out: a place where a probe sees the result of a call.

    ``depth``: as of ``Enter``.
    ``condition``: the call ends here only if this condition of the jump is true, as x86 numbers it;
    None: always.
    ``result``: the register that has the result, or its offset from the entry's stack pointer;
    None: the call fails.
    """

    address: int
    depth: int
    condition: int | None
    result: str | int | None


class Pair(NamedTuple):
    """The cheap places in a function that see each of its calls once."""

    enter: Enter
    leaves: tuple[Leave, ...]


class Needs(NamedTuple):
    """What a pair must have.

    ``values``: the values that are needed at the way in, by name.
    ``object``: a pointer to the structure that the function may change after its result is settled.
    ``in_place``: arguments must be in their own registers.
    ``is_plain``: also the result must be in ``rax``, without a condition, and the stack pointer the
    same at all places.
    ``tails``: the addresses of functions whose returns are seen in another way. A jump to one of
    them is no way out.
    """

    values: Mapping[str, Value]
    object: Value | None = None
    in_place: bool = False
    is_plain: bool = False
    tails: frozenset[int] = frozenset()


def arguments_in_place(registers: Sequence[str], *, is_plain: bool) -> Needs:
    """Return the needs of BPF programs that find values only in the registers of a call.

    The first register has the object.
    """
    values = {each: Argument(each) for each in registers}
    return Needs(values, next(iter(values.values()), None), in_place=True, is_plain=is_plain)


def find_pair(flow: Flow, needs: Needs) -> Pair | None:
    """Return cheap places in a function; None where it has none that are proved."""
    if not flow.code.is_whole:
        return None
    search = _PairSearch(flow, needs)
    for enter in search.enters():
        leaves = search.leaves(enter.address)
        if needs.is_plain and not all(_is_plain(each, enter) for each in leaves):
            continue
        if leaves and search.sees_all(enter.address):
            return Pair(enter, leaves)
    return None


def _is_plain(leave: Leave, enter: Enter) -> bool:
    return leave == Leave(leave.address, enter.depth, None, "rax")


class _PairSearch:
    """A search for pairs in one function."""

    def __init__(self, flow: Flow, needs: Needs) -> None:
        self._flow = flow
        self._operations = flow.code.operations
        self._needs = needs
        self._exits = {address for address in flow.states if self._is_exit(address)}

    @cached_property
    def _origins(self) -> Mapping[int, frozenset[Origin]]:
        return result_origins(self._flow)

    def _is_exit(self, address: int) -> bool:
        operation = self._operations[address]
        if self._flow.code.leaves(operation):
            return operation.leads_to not in self._needs.tails
        return operation.kind is OperationKind.RETURN

    def enters(self) -> Iterator[Enter]:
        """Yield the places that may be a way in, near the entry first."""
        for address in self._flow.reached([self._flow.code.address]):
            state = self._flow.states[address]
            if not self._operations[address].is_emulated or state.depth is None:
                continue
            registers = {
                name: register
                for name, value in self._needs.values.items()
                for register in _holders(state, value, in_place=self._needs.in_place)
            }
            if len(registers) == len(self._needs.values):
                yield Enter(address, state.depth, registers)

    def sees_all(self, enter: int) -> bool:
        """Say whether each call that may succeed passes the instruction at ``enter``."""
        around = self._flow.reached([self._flow.code.address], avoided={enter})
        missed = self._exits.intersection(around) - {enter}
        if any(self._operations[each].kind is not OperationKind.RETURN for each in missed):
            return False
        without = self._flow.states_without({enter}) if missed else {}
        return all(_fails(without[each]) for each in missed)

    def leaves(self, enter: int) -> tuple[Leave, ...]:
        """Return the ways out of calls that passed ``enter``; none if a call may miss them."""
        after = self._flow.reached(self._flow.ways[enter])
        if enter in after or self._misses(enter):
            return ()
        return tuple(each for address in after for each in self._leaves_at(address))

    @cached_property
    def _last(self) -> Mapping[tuple[int, int], str | int | None]:
        """The last steps of paths at which the result is settled -> the place of the result.

        A step is a pair of addresses: an instruction, which a probe can be on, and the next one.
        """
        settled = {
            (address, following): result
            for address in self._flow.states
            if self._operations[address].is_emulated
            for following in self._flow.ways[address]
            for result in self._settled(address, following)
        }
        before_others = self._flow.leading_to({address for address, _ in settled})
        return {way: result for way, result in settled.items() if way[1] not in before_others}

    def _settled(self, address: int, following: int) -> Iterator[str | int | None]:
        """Yield the place of the result between two instructions, if it is settled there."""
        operation = self._operations[address]
        found = self._origins[following if operation.kind is OperationKind.BRANCH else address]
        if not found or self._flow.states[address].depth is None:
            return
        if all(isinstance(each, Number) and is_failure(each) for each in found):
            yield None
        elif (
            len(found) == 1
            and operation.kind is not OperationKind.CALL
            and following not in self._busy
        ):
            [result] = found
            if isinstance(result, str | int):
                yield result

    def _leaves_at(self, address: int) -> Iterator[Leave]:
        last = self._last
        operation = self._operations[address]
        depth = self._flow.states[address].depth
        ways = [each for each in self._flow.ways[address] if (address, each) in last]
        if not ways or depth is None:
            return
        others = [each for each in self._flow.ways[address] if each not in ways]
        results = {last[address, each] for each in ways}
        if len(results) == 1 and not any(self._origins[each] for each in others):
            yield Leave(address, depth, None, results.pop())
            return
        for way in ways:
            condition = operation.condition
            if condition is not None and way != operation.leads_to:
                condition ^= 1  # they are in pairs, each with its opposite
            yield Leave(address, depth, condition, last[address, way])

    def _misses(self, enter: int) -> bool:
        """Say whether a call may get from ``enter`` to an exit without one of the last steps.

        A step from ``enter`` itself does not count: a probe there sees no return.
        """
        found = {enter}
        waiting = [enter]
        while waiting:
            address = waiting.pop()
            if address in self._exits:
                return True
            new = {
                each
                for each in self._flow.ways[address]
                if address == enter or (address, each) not in self._last
            } - found
            found |= new
            waiting += new
        return False

    @cached_property
    def _busy(self) -> set[int]:
        """The instructions before a call, or before a store outside of the stack and the object."""
        return self._flow.leading_to(
            {address for address in self._flow.states if self._acts(self._operations[address])}
        )

    def _acts(self, operation: Operation) -> bool:
        if operation.kind is OperationKind.CALL:
            return not self._flow.code.is_fatal(operation)
        state = self._flow.states[operation.address]
        return any(
            state.place(each) is None and not self._is_in_object(each, state)
            for each in operation.stores
        )

    def _is_in_object(self, memory: MemoryOperand, state: State) -> bool:
        base = state.one(memory.base) if memory.base else None
        while isinstance(base, MemoryField):
            base = base.base
        return base is not None and base == self._needs.object


def _holders(state: State, value: Value, *, in_place: bool) -> Iterator[str]:
    """Yield a register that holds a value, if any: preferably the argument's own register."""
    holders = sorted(name for name in state.registers if state.one(name) == value)
    own = [each for each in holders if Argument(each) == value]
    yield from (own or ([] if in_place else holders))[:1]


def _fails(state: State) -> bool:
    """Say whether the result of a return with this state means failure or an end."""
    values = state.registers.get("rax")
    return values is not None and all(is_failure(each) for each in values)


def is_failure(result: Value) -> bool:
    """Say whether a result, an int, is 0 or negative."""
    low = result.value & 0xFFFFFFFF if isinstance(result, Number) else 1
    return isinstance(result, Failure) or low == 0 or low >= 1 << 31
