"""The calls by which a function passes its own call on (x86-64).

Such a call gets the same object, buffer and place of the count, and the function makes its result
its own.
"""

from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

from sslsniff.machine_code.conventions import Signature
from sslsniff.machine_code.data_flow import Flow
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
from sslsniff.machine_code.operations import Code, Operation, OperationKind
from sslsniff.machine_code.probe_pairs import Needs, Pair, find_pair, is_failure

_MOST_KEPT = 64
_MOST_KEPT_BYTES = 1 << 16


class Step(NamedTuple):
    """A call that hands a function's own call on: to an address, or to a field of its object.

    ``kind`` is the register that has the function's own, ``constants`` the arguments that are
    numbers.
    """

    to: int | MemoryField
    signature: Signature
    kind: str | None
    constants: Mapping[str, int]


class FunctionBody:
    """A function's code, and what was found out about it."""

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
        """Keep only what was found out: the flow of data takes much memory."""
        self.__dict__.pop("_flow", None)

    def pair(self, signature: Signature) -> Pair | None:
        """Return the cheap places in it, if there are any."""
        if signature not in self._pairs:
            self._pairs[signature] = find_pair(
                self._flow, Needs(_values(signature), Argument(signature.object))
            )
        return self._pairs[signature]

    def steps(self, signature: Signature) -> tuple[list[Step], bool]:
        """Return how it hands calls on, and whether all successes come from there."""
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
        handed = steps.keys() | self._deferred({each.to for each in steps.values()})
        is_complete = self._code.is_whole and all(
            self._is_accounted(address, handed, counts) for address in states
        )
        return list(steps.values()), is_complete

    def _results(self) -> "set[int | Stack]":
        """Return the calls whose results it makes its own, and the jumps by which it is left.

        And where on its stack that is which it returns.
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
        """Return the calls that get one of these functions in a structure, to call it.

        OpenSSL starts a job so (``ssl_start_async_job``, SSL_MODE_ASYNC).
        """
        return {
            address
            for address, state in self._flow.states.items()
            if self._code.operations[address].kind is OperationKind.CALL
            and any(isinstance(state.one(each), Stack) for each in ARGUMENTS)
            and any(not values.isdisjoint(fields) for _, values in state.slots.values())
        }

    def _is_accounted(self, address: int, handed: set[int], counts: set[Value | None]) -> bool:
        """Say whether a success that ends here comes from calls that were handed on."""
        operation = self._code.operations[address]
        if operation.kind is not OperationKind.RETURN:
            return not self._code.leaves(operation) or address in handed
        results = self._flow.states[address].registers.get("rax")
        return results is not None and all(
            _comes_from(_whole(each), handed, counts) for each in results
        )


def body_of(code: bytes, address: int) -> FunctionBody:
    """Return the body of a function, the same for the same code: containers have many copies."""
    return (
        _kept_body(code, address) if len(code) <= _MOST_KEPT_BYTES else FunctionBody(code, address)
    )


@lru_cache(_MOST_KEPT)
def _kept_body(code: bytes, address: int) -> FunctionBody:
    return FunctionBody(code, address)


def _step(operation: Operation, state: State, signature: Signature) -> Step | None:
    """Return what a call or jump hands on; None where it is not the function's own call."""
    to = operation.leads_to or _field(operation, state, signature)
    values = {each: state.one(each) for each in ARGUMENTS}
    places = {
        name: next((each for each in ARGUMENTS if _is_own(values[each], own, name)), None)
        for name, own in _values(signature).items()
    }
    if signature.count_pointer is None:
        given = [each for each in ARGUMENTS if isinstance(values[each], Stack)]
        places["count_pointer"] = given[0] if len(given) == 1 else None
    target, buffer, count = places["object"], places["buffer"], places["count_pointer"]
    if to is None or target is None or buffer is None or count is None:
        return None
    constants = {name: each.value for name, each in values.items() if isinstance(each, Number)}
    return Step(to, Signature(target, buffer, count), places.get("kind"), constants)


def _is_own(value: Value | None, own: Value, name: str) -> bool:
    """Say whether a value is the function's own one; a kind is a number of a byte."""
    return value == own or (name == "kind" and value == Low(own))


def _field(operation: Operation, state: State, signature: Signature) -> MemoryField | None:
    """Return the field of a table that the object points to, if a call goes through one."""
    for value in state.value(operation.source) or ():
        if (
            isinstance(value, MemoryField)
            and isinstance(value.base, MemoryField)
            and value.base.base == Argument(signature.object)
        ):
            return value
    return None


def _values(signature: Signature) -> dict[str, Value]:
    """Return what a probe on the way in needs, by name."""
    kind = None if signature.kind is None else signature.kind[0]
    named = {**signature._asdict(), "kind": kind}
    return {name: Argument(each) for name, each in named.items() if each is not None}


def _whole(value: Value) -> Value:
    return value.value if isinstance(value, Low) else value


def _comes_from(result: Value, handed: set[int], counts: set[Value | None]) -> bool:
    if isinstance(result, Number | Failure):
        return is_failure(result)
    if isinstance(result, Local):
        return Stack(result.offset) in counts
    return isinstance(result, Result) and result.address in handed
