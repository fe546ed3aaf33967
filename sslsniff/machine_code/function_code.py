"""A function's code as operations, and the ways through it (x86-64)."""

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

from sslsniff.machine_code.instructions import instruction_lines
from sslsniff.machine_code.operations import (
    InstructionShape,
    MemoryOperand,
    Operation,
    OperationKind,
    instruction_shape,
)

_INTO_THE_KERNEL = frozenset({"syscall", "sysenter", "int"})  # which may change any register
_EQUAL, _NOT_EQUAL = 4, 5


class Code:
    """A function's operations by address.

    ``fatal``: some functions that never return, and words with the address of such a function.
    ``switches``: the targets of indirect jumps, by address, as far as known (``returns.switches``).
    ``cold_parts``: parts of the function elsewhere, to which jumps lead: addresses and bytes.
    """

    def __init__(
        self,
        code: bytes,
        address: int,
        fatal: Iterable[int] = (),
        switches: Mapping[int, tuple[int, ...]] = MappingProxyType({}),
        cold_parts: Iterable[tuple[int, bytes]] = (),
    ) -> None:
        self.address = address
        self.operations: dict[int, Operation] = {}
        self.is_whole = bool(code)
        shapes = self._read(code, address)
        for start, part in cold_parts:
            self._read(part, start)
        self._switches = switches
        self._fatal = {*fatal, *_fatal_calls(shapes, self.operations)}

    def _read(self, code: bytes, address: int) -> list[InstructionShape]:
        """Add the operations of a part; return their shapes."""
        shapes = []
        at = 0
        for start, size, mnemonic, _ in instruction_lines(code, address):
            shape = instruction_shape(code[at : at + size])
            at += size
            shapes.append(shape)
            self.operations[start] = shape.at(start)
            self.is_whole &= mnemonic not in _INTO_THE_KERNEL
        self.is_whole &= at == len(code)
        return shapes

    def ways_on(self, operation: Operation) -> Iterator[int]:
        """Yield the addresses of the operations that may follow one in the function."""
        jumps = operation.kind in (OperationKind.JUMP, OperationKind.BRANCH)
        if jumps and operation.leads_to is not None and operation.leads_to in self.operations:
            yield operation.leads_to
        yield from self._switches.get(operation.address, ())
        if operation.kind in (
            OperationKind.JUMP,
            OperationKind.RETURN,
            OperationKind.END,
        ) or self.is_fatal(operation):
            return
        if operation.following in self.operations:
            yield operation.following

    def is_fatal(self, operation: Operation) -> bool:
        """Say whether an operation is a call of a function that never returns."""
        return operation.kind is OperationKind.CALL and (
            _called(operation) in self._fatal or operation.following not in self.operations
        )

    @property
    def called(self) -> set[int]:
        """The functions that it calls, and the words whose functions it calls."""
        calls = (each for each in self.operations.values() if each.kind is OperationKind.CALL)
        return {found for found in map(_called, calls) if found is not None}

    def leaves(self, operation: Operation) -> bool:
        """Say whether an operation may leave the function other than by a return or a call."""
        if operation.kind in (OperationKind.JUMP, OperationKind.BRANCH):
            is_switch = operation.address in self._switches
            return not is_switch and operation.leads_to not in self.operations
        return (
            operation.kind not in (OperationKind.RETURN, OperationKind.END, OperationKind.CALL)
            and operation.following not in self.operations
        )


def _called(call: Operation) -> int | None:
    """Return the function that a call leads to, or the word that has its address; None: neither."""
    source = call.source
    if isinstance(source, MemoryOperand) and source.is_exact and source.base is None:
        return source.offset
    return call.leads_to


def _fatal_calls(shapes: list[InstructionShape], operations: dict[int, Operation]) -> Iterator[int]:
    """Yield the functions that are called where a stack protector's check fails."""
    branches = list(operations.values())[2:]
    for load, check, branch in zip(shapes, shapes[1:], branches, strict=False):
        if branch.condition not in (_EQUAL, _NOT_EQUAL) or not check.is_check:
            continue
        if not (load.reads_protector or check.reads_protector):
            continue
        failed = branch.leads_to if branch.condition == _NOT_EQUAL else branch.following
        at = operations.get(failed or 0)
        while at is not None and at.kind in (OperationKind.MOVE, OperationKind.OTHER):
            at = operations.get(at.following)
        if at is not None and at.kind is OperationKind.CALL and at.leads_to is not None:
            yield at.leads_to
