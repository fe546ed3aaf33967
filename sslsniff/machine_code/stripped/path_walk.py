"""Follows known values along each path of a function whose end need not be known (x86-64).

``data_flow.Flow`` knows all values that a register may have at an instruction, but not which of
them belong together. Compilers merge calls: then one call has several pairs of arguments, and each
path has one of them. So this keeps the paths apart, up to a limit.
"""

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple

from sslsniff.elf.symbols import Function
from sslsniff.machine_code.data_flow import state_after, state_on_way
from sslsniff.machine_code.instructions import ARGUMENTS, SYSTEM_V
from sslsniff.machine_code.known_values import Argument, Inside, Stack, State, Value
from sslsniff.machine_code.operations import MemoryOperand, Operation, OperationKind
from sslsniff.machine_code.stripped.decoded_code import DecodedCode
from sslsniff.machine_code.stripped.function_starts import WINDOW_BYTES, FunctionStarts

_RESULT = "rax"  # of SYSTEM_V
_COPY = b"\xf3\xa4"  # rep movsb
_MOST_STATES = 24  # of one instruction: more are joined
_MOST_UNREACHED_BYTES = 64  # within a function: padding, and code after calls that never return
MOST_STEPS = 20_000


class WalkedCall(NamedTuple):
    """A call, or a jump out of the function, on one path.

    ``target``: where it leads; None: it is indirect, through the value ``through`` if that is
    known.
    """

    address: int
    target: int | None
    through: Value | None
    arguments: tuple[tuple[str, Value], ...]
    is_jump: bool

    def argument(self, register: str) -> Value | None:
        """Return the value of an argument register; None: unknown."""
        return dict(self.arguments).get(register)


class WalkedStore(NamedTuple):
    """A store of ``size`` bytes to memory at ``base`` + ``offset``, not on the function's stack.

    ``value``: what is stored; None: unknown, or computed.
    """

    address: int
    base: Value
    offset: int
    size: int
    value: Value | None


class Walk:
    """What a function does on its paths.

    ``start``: where it begins.
    ``reached``: its instructions: address -> size.
    ``calls``, ``stores``: each once for each different set of values.
    ``copies``: instructions that copy as memcpy does, with its arguments.
    ``returns``: the values of the result at return instructions; None: unknown.
    ``problem``: why not all paths were followed; None: they were.
    """

    def __init__(
        self,
        start: int,
        code: DecodedCode,
        starts: FunctionStarts,
        most_steps: int = MOST_STEPS,
    ) -> None:
        self._most_steps = most_steps
        self.start = start
        self.reached: dict[int, int] = {}
        self.calls: dict[WalkedCall, None] = {}
        self.stores: dict[WalkedStore, None] = {}
        self.copies: dict[WalkedCall, None] = {}
        self.returns: dict[tuple[int, Value | None], None] = {}
        self.problem: str | None = None
        self._code = code
        self._starts = starts
        described = starts.described(start)
        self._own = described if described and described.address == start else None
        self._cold: set[int] = set()
        self._seen: dict[int, list[State]] = {}
        self._joined: dict[int, State] = {}
        self._waiting: list[tuple[int, State]] = [(start, _at_entry())]
        self._follow()

    def tails(self) -> list[WalkedCall]:
        """Return the jumps to other functions, which then return in its stead."""
        return [each for each in self.calls if each.is_jump]

    def cold_parts(self) -> list[Function]:
        """Return the parts of the function that are elsewhere."""
        if self._own is None:
            return [each for each in self.parts() if each.address != self.start]
        return [each for at in sorted(self._cold) if (each := self._starts.described(at))]

    def parts(self) -> list[Function]:
        """Return the parts of a function without an entry in the unwind table, by address.

        A part ends where no path leads to what follows. One of them begins at the function's start.
        """
        parts: list[Function] = []
        for at in sorted(self.reached):
            end = at + self.reached[at]
            last = parts[-1] if parts else None
            if last and at != self.start and at - last.address - last.size < _MOST_UNREACHED_BYTES:
                parts[-1] = last._replace(size=max(end - last.address, last.size))
            else:
                parts.append(Function(at, end - at))
        return parts

    def _follow(self) -> None:
        steps = 0
        while self._waiting and self.problem is None:
            address, state = self._waiting.pop()
            at: int | None = address
            is_join = True
            while at is not None:
                if not self._belongs(at):
                    break
                if is_join or at in self._seen:
                    entered = self._enter(at, state)
                    if entered is None:
                        break
                    state = entered
                steps += 1
                operation = self._code.operation(at)
                if operation is None or steps > self._most_steps:
                    self.problem = (
                        f"there is no instruction at {at:#x}"
                        if operation is None
                        else f"it has too many paths ({self._most_steps} steps)"
                    )
                    break
                self.reached[at] = operation.size
                following = _STEPS.get(operation.kind, Walk._go_on)(self, operation, state)
                if following is None:
                    break
                at, state = following
                is_join = False

    def _enter(self, at: int, state: State) -> State | None:
        """Return the state to go on with at an instruction; None: that was followed already."""
        if at in self._joined:
            joined = self._joined[at].join(state)
            if joined.is_as(self._joined[at]):
                return None
            self._joined[at] = joined
            return joined.copy()
        seen = self._seen.setdefault(at, [])
        if any(each.is_as(state) for each in seen):
            return None
        seen.append(state.copy())
        if len(seen) <= _MOST_STATES:
            return state
        self._joined[at] = reduce(State.join, seen)
        return self._joined[at].copy()

    def _belongs(self, at: int) -> bool:
        """Say whether an instruction is the function's: a call before it may never return."""
        if at == self.start:
            return True
        if at in self._starts.starts:
            return False
        if self._own is None:  # a conditional jump may lead to a part that is far away
            return self._starts.described(at) is None
        return self._is_inside(at) or self._is_in_cold_part(at)

    def _is_inside(self, at: int) -> bool:
        if self._own is not None:
            return 0 <= at - self.start < self._own.size
        return abs(at - self.start) < WINDOW_BYTES and self._starts.described(at) is None

    def _is_in_cold_part(self, at: int) -> bool:
        if self._own is None or not self._cold:
            return False
        described = self._starts.described(at)
        return described is not None and described.address in self._cold

    def _note_cold_part(self, at: int) -> None:
        """Note that a conditional jump leads to ``at``: a part elsewhere begins so (GCC)."""
        described = self._starts.described(at)
        if described is not None and described.address not in self._starts.starts:
            self._cold.add(described.address)

    def _go_on(self, operation: Operation, state: State) -> tuple[int, State] | None:
        self._note_stores(operation, state)
        if operation.fills and self._code.bytes_at(operation.address, 2) == _COPY:
            registers = zip(ARGUMENTS[:3], ("rdi", "rsi", "rcx"), strict=True)
            values = ((name, state.one(register)) for name, register in registers)
            arguments = tuple((name, value) for name, value in values if value is not None)
            self.copies[WalkedCall(operation.address, None, None, arguments, False)] = None
        return operation.following, state_after(operation, state, SYSTEM_V)

    def _choose(self, operation: Operation, state: State) -> tuple[int, State] | None:
        moving = operation._replace(kind=OperationKind.MOVE)
        self._waiting.append((operation.following, state_after(moving, state, SYSTEM_V)))
        return operation.following, state.copy()

    def _call(self, operation: Operation, state: State) -> tuple[int, State] | None:
        self._note_call(operation, state, is_jump=False)
        target = operation.leads_to
        if target is not None and self._own is None and self._starts.never_returns(target):
            return None
        return operation.following, state_after(operation, state, SYSTEM_V)

    def _jump(self, operation: Operation, state: State) -> tuple[int, State] | None:
        target = operation.leads_to
        if target is not None and (
            target == self.start
            or (
                target not in self._starts.starts
                and (self._is_inside(target) or self._is_in_cold_part(target))
            )
        ):
            self._waiting.append((target, state_after(operation, state, SYSTEM_V)))
            return None
        self._note_call(operation, state, is_jump=True)
        return None

    def _branch(self, operation: Operation, state: State) -> tuple[int, State] | None:
        target = operation.leads_to
        later = state_after(operation, state, SYSTEM_V)
        if target is not None:
            if target != self.start and target in self._starts.starts:
                self._note_call(operation, state, is_jump=True)
            else:
                if self._own is not None and not self._is_inside(target):
                    self._note_cold_part(target)
                self._waiting.append((target, state_on_way(operation, later, target).copy()))
        return operation.following, state_on_way(operation, later, operation.following)

    def _return(self, operation: Operation, state: State) -> None:
        self.returns[operation.address, state.one(_RESULT)] = None

    def _end(self, _operation: Operation, _state: State) -> None:
        """Stop: nothing follows."""

    def _note_call(self, operation: Operation, state: State, *, is_jump: bool) -> None:
        through = None
        if operation.leads_to is None:
            values = state.value(operation.source)
            through = next(iter(values)) if values is not None and len(values) == 1 else None
        known = ((each, state.one(each)) for each in ARGUMENTS)
        arguments = tuple((name, value) for name, value in known if value is not None)
        self.calls[
            WalkedCall(operation.address, operation.leads_to, through, arguments, is_jump)
        ] = None

    def _note_stores(self, operation: Operation, state: State) -> None:
        if not operation.stores:
            return
        is_moved = operation.kind is OperationKind.MOVE
        values = state.value(operation.source) if is_moved else None
        value = next(iter(values)) if values is not None and len(values) == 1 else None
        for memory in operation.stores:
            base, offset = _base(memory, state), memory.offset
            if isinstance(base, Inside):
                offset += base.offset
                base = base.base
            if base is not None and not isinstance(base, Stack):
                store = WalkedStore(operation.address, base, offset, memory.size, value)
                self.stores[store] = None


def _base(memory: MemoryOperand, state: State) -> Value | None:
    return state.one(memory.base) if memory.base and memory.is_exact else None


def _at_entry() -> State:
    registers = {each: frozenset[Value]({Argument(each)}) for each in ARGUMENTS}
    return State(registers | {"rsp": frozenset({Stack(0)})}, {})


_Step = Callable[[Walk, Operation, State], tuple[int, State] | None]

_STEPS: dict[OperationKind, _Step] = {
    OperationKind.CALL: Walk._call,
    OperationKind.CHOOSE: Walk._choose,
    OperationKind.JUMP: Walk._jump,
    OperationKind.BRANCH: Walk._branch,
    OperationKind.RETURN: Walk._return,
    OperationKind.END: Walk._end,
}
