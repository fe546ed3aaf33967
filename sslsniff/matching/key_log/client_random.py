"""Finds where a connection's object has the client random, which names it in a key log.

The instructions of the library's accessor show it, or else those of the function that gets the
secrets, which writes the client random beside them. There is no table of releases.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from sslsniff.core.errors import ElfError
from sslsniff.core.logged_secret import RANDOM_BYTES
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.instructions import ARGUMENTS
from sslsniff.machine_code.known_values import (
    Argument,
    Inside,
    MemoryField,
    Number,
    State,
    Value,
)
from sslsniff.machine_code.operations import MemoryOperand, OperationKind
from sslsniff.matching.hidden_functions import flow_of
from sslsniff.matching.probe_set import UnfitError

_OBJECT = Argument("rdi")
_MOST_BODY_BYTES = 1024
_MOST_FIELD = 1 << 16

Offsets = tuple[int, ...]
"""From the object to the bytes: each but the last leads to a pointer."""


def client_random(
    elf: Elf, log_function: int, *, copied_by: str = "", stored_by: str = ""
) -> Offsets:
    """Return where the objects of a library have it, beginning with the object's address.

    ``log_function``: the address of what ``labelled_function`` finds. ``copied_by``: the name of a
    function ``(object, to, size)`` that copies it; ``stored_by``: of one ``(object, datum)`` that
    stores its address. Raises ``UnfitError``.
    """
    body = _body(elf, log_function)
    for found in (
        *_copied_by(elf, copied_by),
        *_stored_by(elf, stored_by),
        *_passed_on(body),
        *_written_in_hexadecimal(body),
    ):
        if all(0 <= each < _MOST_FIELD for each in found):
            return found
    raise UnfitError("where its connections have the client random was not found")


def random_in_object(elf: Elf, *, copied_by: str = "", stored_by: str = "") -> Offsets:
    """Return where a connection's object has the client random, by one of these functions.

    See ``client_random``. If the copy is inlined, it is the one address that the function takes.
    Empty if that is not found, or is after more than one pointer.
    """
    flow = _flow(elf, copied_by)
    addresses = {
        (*before, operation.source.offset)
        for address, state in flow.states.items()
        if (operation := flow.code.operations[address]).kind is OperationKind.ADDRESS
        and isinstance(operation.source, MemoryOperand)
        and operation.source.base is not None
        for base in state.registers.get(operation.source.base, ())
        for before in _pointers(base)
        if operation.source.offset
    }
    own = [each for each in addresses if len(each) == 1]
    found = [*_copied_by(elf, copied_by), *_stored_by(elf, stored_by)][:1] or own or [*addresses]
    is_field = len(found) == 1 and all(0 <= each < _MOST_FIELD for each in found[0])
    return found[0] if is_field and len(found[0]) <= 2 else ()


def _copied_by(elf: Elf, name: str) -> Iterator[Offsets]:
    """Yield what a function ``(object, to, size)`` passes to ``memcpy`` as the source."""
    for state in _transfers(_flow(elf, name)):
        if state.one("rdi") == Argument("rsi"):
            yield from _offsets(state.registers.get("rsi", ()))


def _stored_by(elf: Elf, name: str) -> Iterator[Offsets]:
    """Yield the address that a function ``(object, datum)`` stores as the datum's bytes."""
    flow = _flow(elf, name)
    for address, state in flow.states.items():
        operation = flow.code.operations[address]
        for memory in operation.stores:
            if memory.base and memory.offset == 0 and state.one(memory.base) == Argument("rsi"):
                yield from _offsets(state.value(operation.source) or ())


def _passed_on(body: Flow) -> Iterator[Offsets]:
    """Yield the addresses that the function passes on, each with the size after it."""
    for state in _transfers(body):
        for register, following in pairwise(ARGUMENTS):
            if state.one(following) == Number(RANDOM_BYTES):
                yield from sorted(_offsets(state.registers.get(register, ())))


def _written_in_hexadecimal(body: Flow) -> Iterator[Offsets]:
    """Yield the lowest place in the object that the function takes the address of, or reads bytes.

    OpenSSL 4.0 has a second client random after it, that of connections with ECH.
    """
    found: list[Offsets] = []
    for address, state in body.states.items():
        operation = body.code.operations[address]
        memory = operation.source
        if not isinstance(memory, MemoryOperand) or memory.base is None:
            continue
        if operation.kind is OperationKind.ADDRESS or memory.size == 1:
            base = state.one(memory.base)
            is_pointer = base == _OBJECT if memory.is_exact else isinstance(base, MemoryField)
            if is_pointer and base is not None:
                found += [(*before, memory.offset) for before in _pointers(base)]
    yield from sorted(found)[:1]


def _pointers(value: Value) -> Iterator[Offsets]:
    """Yield how a pointer in the object is reached."""
    if value == _OBJECT:
        yield ()
    elif isinstance(value, MemoryField):
        for before in _pointers(value.base):
            yield (*before, value.offset)


def _offsets(values: Iterable[Value]) -> Iterator[Offsets]:
    """Yield how addresses inside of the object, or of what it points to, are reached."""
    for each in values:
        if isinstance(each, Inside):
            for before in _pointers(each.base):
                yield (*before, each.offset)


def _transfers(flow: Flow) -> Iterator[State]:
    """Yield what is known at each call and jump of a function."""
    for address, state in flow.states.items():
        if flow.code.operations[address].kind in (OperationKind.CALL, OperationKind.JUMP):
            yield state


def _flow(elf: Elf, name: str) -> Flow:
    function = elf.function(name) if name else None  # an empty name ends every other one
    return Flow(Code(b"", 0)) if function is None else flow_of(elf, function)


def _body(elf: Elf, address: int) -> Flow:
    """Return the flow from an address on: the function's length may be unknown."""
    try:
        code = elf.code(Function(address, _MOST_BODY_BYTES))
    except ElfError:
        code = b""
    return Flow(Code(code, address))
