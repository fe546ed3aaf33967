"""Finds the calls by which a function passes its own call on (x86-64).

Such a call gets the same object, buffer and pointer to the count, and the function returns its
result.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

from sslsniff.machine_code.conventions import Signature
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.instructions import ARGUMENTS
from sslsniff.machine_code.known_values import (
    Argument,
    Failure,
    Local,
    Low,
    MemoryField,
    Number,
    Result,
    Stack,
    State,
    Value,
)
from sslsniff.machine_code.operations import Operation, OperationKind
from sslsniff.machine_code.probe_pairs import Needs, Pair, find_pair, is_failure

_MOST_CACHED = 64
_MOST_CACHED_BYTES = 1 << 16


class Step(NamedTuple):
    """A call that passes a function's own call on.

    ``to``: the address of the called function, or the field that has it.
    ``kind``: the register that has the function's own kind (``Signature.kind``), if any does.
    ``constants``: the arguments that are numbers, by register.
    """

    to: int | MemoryField
    signature: Signature
    kind: str | None
    constants: Mapping[str, int]


class FunctionBody:
    """A function's code, with the results of its analysis."""

    def __init__(self, code: bytes, address: int) -> None:
        self._bytes = code
        self._address = address
        self._pairs: dict[Signature, Pair | None] = {}
        self._steps: dict[Signature, tuple[list[Step], bool]] = {}

    @cached_property
    def _flow(self) -> Flow:
        return Flow(Code(self._bytes, self._address))

    @property
    def _code(self) -> Code:
        return self._flow.code

    def forget_flow(self) -> None:
        """Free the flow of data, which takes much memory; results stay."""
        self.__dict__.pop("_flow", None)

    def pair(self, signature: Signature) -> Pair | None:
        """Return the cheap places for probes in the function; None: it has none."""
        if signature not in self._pairs:
            self._pairs[signature] = find_pair(
                self._flow, Needs(_values(signature), Argument(signature.object))
            )
        return self._pairs[signature]

    def steps(self, signature: Signature) -> tuple[list[Step], bool]:
        """Return the calls that pass its own call on, and whether all successes come from these."""
        if signature not in self._steps:
            self._steps[signature] = self._find_steps(signature)
        return self._steps[signature]

    def _find_steps(self, signature: Signature) -> tuple[list[Step], bool]:
        states = self._flow.states
        results = self._results()
        steps: dict[int, Step] = {}
        counts: set[Value | None] = set()
        for address, state in states.items():
            operation = self._code.operations[address]
            if operation.kind is not OperationKind.CALL and address not in results:
                continue
            step = _step(operation, state, signature)
            count = None if step is None else state.one(step.signature.count_pointer or "")
            if step is not None and (address in results or count in results):
                steps[address] = step
                counts.add(count)
        passed = steps.keys() | self._deferred({each.to for each in steps.values()})
        is_complete = self._code.is_whole and all(
            self._is_accounted(address, passed, counts) for address in states
        )
        return list(steps.values()), is_complete

    def _results(self) -> "set[int | Stack]":
        """Return the sources of the function's result.

        These are the calls whose results it returns, the jumps that leave it, and the stack slots
        whose contents it returns.
        """
        found: set[int | Stack] = set()
        for address, state in self._flow.states.items():
            operation = self._code.operations[address]
            if operation.kind is OperationKind.RETURN:
                values = list(map(_whole, state.registers.get("rax", ())))
                found |= {each.address for each in values if isinstance(each, Result)}
                found |= {Stack(each.offset) for each in values if isinstance(each, Local)}
            elif self._code.leaves(operation):
                found.add(address)
        return found

    def _deferred(self, fields: set[int | MemoryField]) -> set[int]:
        """Return the calls that get one of these functions in a structure, and call it later.

        In this way OpenSSL starts a job (``ssl_start_async_job``, SSL_MODE_ASYNC).
        """
        return {
            address
            for address, state in self._flow.states.items()
            if self._code.operations[address].kind is OperationKind.CALL
            and any(isinstance(state.one(each), Stack) for each in ARGUMENTS)
            and any(not values.isdisjoint(fields) for _, values in state.slots.values())
        }

    def _is_accounted(self, address: int, passed: set[int], counts: set[Value | None]) -> bool:
        """Say whether all successes that end at ``address`` come from calls in ``passed``."""
        operation = self._code.operations[address]
        if operation.kind is not OperationKind.RETURN:
            return not self._code.leaves(operation) or address in passed
        results = self._flow.states[address].registers.get("rax")
        return results is not None and all(
            _comes_from(_whole(each), passed, counts) for each in results
        )


def body_of(code: bytes, address: int) -> FunctionBody:
    """Return the body of a function, from a cache: containers have many copies of a library."""
    is_cached = len(code) <= _MOST_CACHED_BYTES
    return _cached_body(code, address) if is_cached else FunctionBody(code, address)


@lru_cache(_MOST_CACHED)
def _cached_body(code: bytes, address: int) -> FunctionBody:
    return FunctionBody(code, address)


def _step(operation: Operation, state: State, signature: Signature) -> Step | None:
    """Return the step of a call or jump; None: it does not pass the function's own call on."""
    to = operation.leads_to or _field(operation, state, signature)
    values = {each: state.one(each) for each in ARGUMENTS}
    places = {
        name: next((each for each in ARGUMENTS if _is_own(values[each], own, name)), None)
        for name, own in _values(signature).items()
    }
    if signature.count_pointer is None:
        pointers = [each for each in ARGUMENTS if isinstance(values[each], Stack)]
        places["count_pointer"] = pointers[0] if len(pointers) == 1 else None
    target, buffer, count = places["object"], places["buffer"], places["count_pointer"]
    if to is None or target is None or buffer is None or count is None:
        return None
    constants = {name: each.value for name, each in values.items() if isinstance(each, Number)}
    return Step(to, Signature(target, buffer, count), places.get("kind"), constants)


def _is_own(value: Value | None, own: Value, name: str) -> bool:
    """Say whether a value is the function's own; of a kind, its lowest byte is enough."""
    return value == own or (name == "kind" and value == Low(own))


def _field(operation: Operation, state: State, signature: Signature) -> MemoryField | None:
    """Return the field that has a call's target, in a table that the object points to."""
    for value in state.value(operation.source) or ():
        if (
            isinstance(value, MemoryField)
            and isinstance(value.base, MemoryField)
            and value.base.base == Argument(signature.object)
        ):
            return value
    return None


def _values(signature: Signature) -> dict[str, Value]:
    """Return the values that a probe at the way in needs, by name."""
    kind = None if signature.kind is None else signature.kind[0]
    named = {**signature._asdict(), "kind": kind}
    return {name: Argument(each) for name, each in named.items() if each is not None}


def _whole(value: Value) -> Value:
    return value.value if isinstance(value, Low) else value


def _comes_from(result: Value, passed: set[int], counts: set[Value | None]) -> bool:
    if isinstance(result, Number | Failure):
        return is_failure(result)
    if isinstance(result, Local):
        return Stack(result.offset) in counts
    return isinstance(result, Result) and result.address in passed
