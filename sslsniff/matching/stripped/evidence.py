"""Evidence that a function without a symbol is, say, ``SSL_read``."""

from collections.abc import Callable
from typing import NamedTuple

from sslsniff.elf.symbols import Function
from sslsniff.machine_code.known_values import (
    Argument,
    Failure,
    Local,
    Low,
    MemoryField,
    Number,
    Result,
    Value,
)
from sslsniff.machine_code.stripped.stripped_code import StrippedCode
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.stripped.error_calls import ErrorCalls, RaisedError, number_of

OBJECT, BUFFER, SIZE = Argument("rdi"), Argument("rsi"), Argument("rdx")
"""The arguments of ``SSL_read`` and ``SSL_write``."""

NOT_CALLED = "nothing calls it or has its address"
_MINUS_ONE = 0xFFFFFFFF

LineReason = tuple[int, int]
"""A line, and the reason of the error that is raised there."""


class SslFunction(NamedTuple):
    """A function, or why it was not found.

    ``function``: its place and length; None: no function has all that is needed.
    ``lines``: the lines in it on which it raises errors, with the reasons.
    ``proofs``: what speaks for it, a line each. ``against``: what speaks against it.
    ``cold_parts``: its parts that are elsewhere.
    """

    name: str
    function: Function | None
    lines: tuple[LineReason, ...] = ()
    proofs: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    cold_parts: tuple[Function, ...] = ()

    @property
    def is_proved(self) -> bool:
        """Whether nothing speaks against it: only then it gets probes."""
        return self.function is not None and bool(self.proofs) and not self.against


class FoundSsl(NamedTuple):
    """What was found of the library in a file.

    ``library``: "boringssl", "aws-lc" or "openssl".
    ``errors``: the errors of its source file; None: they were not found.
    ``functions``: its functions, proved or not.
    ``refusal``: the step that failed, and why; None: none did.
    ``layout``: the fields of its objects, as far as these functions prove them.
    """

    library: str
    errors: ErrorCalls | None
    functions: tuple[SslFunction, ...]
    refusal: str | None
    layout: ObjectLayout = ObjectLayout()


class LineOwners:
    """Maps each source function to the functions whose error calls carry its line numbers."""

    def __init__(
        self, code: StrippedCode, errors: tuple[RaisedError, ...], names: dict[int, str]
    ) -> None:
        self.code = code
        self.errors = errors
        self.first_line = min(names)
        self._owners: dict[str, dict[int, set[LineReason]]] = {}
        for each in errors:
            if each.line in names:
                owners = self._owners.setdefault(names[each.line], {})
                owners.setdefault(each.owner, set()).add((each.line, each.reason))

    def of(self, name: str) -> set[int]:
        """Return the functions with lines of the source's function ``name``."""
        return {*self._owners.get(name, ())}

    def with_reasons(self, name: str, reasons: set[int]) -> list[int]:
        """Return those that raise all of ``reasons`` on lines of ``name``, by address."""
        owners = self._owners.get(name, {})
        return sorted(each for each, lines in owners.items() if reasons <= {r for _, r in lines})

    def lines(self, name: str, owner: int) -> tuple[LineReason, ...]:
        """Return the lines of the source's function ``name`` that are in the one at ``owner``."""
        return tuple(sorted(self._owners.get(name, {}).get(owner, ())))

    def other_names(self, owner: int, *known: str) -> list[str]:
        """Return the names of all functions with lines in the one at ``owner``, except these."""
        return sorted(
            name for name, owners in self._owners.items() if owner in owners and name not in known
        )

    def ssl_function(
        self, name: str, address: int, proofs: list[str], against: list[str]
    ) -> SslFunction:
        """Return a finding; what speaks against any function is added."""
        function = self.code.function(address)
        against = list(against)
        if function is None:
            against.append("where it ends is not proved")
        walk = self.code.walk(address)
        if walk.problem is not None:
            against.append(f"not all of its paths can be followed: {walk.problem}")
        shown = function or Function(address, 0)
        cold_parts = tuple(walk.cold_parts())
        lines = self.lines(name, address)
        return SslFunction(name, shown, lines, tuple(proofs), tuple(against), cold_parts)


def refused(name: str, reason: str) -> SslFunction:
    """Return a finding without a place."""
    return SslFunction(name, None, against=(reason,))


def hex_list(addresses: set[int] | list[int]) -> str:
    """Return addresses for a message."""
    return ", ".join(f"{each:#x}" for each in sorted(addresses)) or "none"


def is_one_of(value: Value | None, own: Value) -> bool:
    """Say whether a value is ``own``, or its low bits: sizes and results are ints."""
    return value == own or value == Low(own)


def is_callee_result(value: Value | None) -> bool:
    """Say whether a value is what a callee returned or stored, or 0, or -1."""
    inner = value.value if isinstance(value, Low) else value
    return isinstance(inner, Result | Failure | Local) or number_of(inner) in (0, _MINUS_ONE)


def odd_results(code: StrippedCode, address: int, is_good: Callable[[Value | None], bool]) -> str:
    """Return which other values a function may return than good ones; "": none."""
    walk = code.walk(address)
    odd = sorted({shown(value) for _, value in walk.returns if not is_good(value)})
    if odd:
        return f"it may return {', '.join(odd)}"
    if not walk.returns and not walk.tails():
        return "no path to a return was found"
    if any(each.target is None and each.through is None for each in walk.tails()):
        return "it ends with a jump to an unknown place"
    return ""


def shown(value: Value | None) -> str:
    """Return a value for a message: ``[[rdi+0x30]+0x10]``."""
    if isinstance(value, Argument):
        return str(value.place)
    if isinstance(value, Number):
        return f"{value.value:#x}"
    if isinstance(value, Low):
        return shown(value.value)
    if isinstance(value, MemoryField):
        return f"[{shown(value.base)}+{value.offset:#x}]"
    if isinstance(value, Result):
        return f"the result of {value.address:#x}"
    return "an unknown value" if value is None else type(value).__name__.lower()
