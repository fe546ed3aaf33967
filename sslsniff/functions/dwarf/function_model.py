"""Functions as debug info describes them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from sslsniff.functions.dwarf.type_model import Type


class Language(Enum):
    """What a unit of debug info was written in (DWARF 5, section 7.12)."""

    C = "C"
    CPP = "C++"
    RUST = "Rust"
    GO = "Go"
    OTHER = "another language"


class SourceLine(NamedTuple):
    """A line of a source file; ``file``: its path as it was compiled."""

    file: str
    line: int


class SourcePlace(NamedTuple):
    """A function with the line that is run, or from which the function before it was inlined.

    ``is_inlined``: into the function of the next place.
    """

    function: str
    source: SourceLine | None
    is_inlined: bool


class AddressRange(NamedTuple):
    """Addresses as linked, from ``start`` to before ``end``."""

    start: int
    end: int


class LocatedRange(NamedTuple):
    """Where a variable is while the code is in ``range``, by an expression; None: everywhere."""

    range: AddressRange | None
    expression: bytes


@dataclass(frozen=True)
class Variable:
    """A parameter or local variable.

    ``locations``: empty if it was optimised out.
    ``constant``: its bytes if it always has the same value.
    ``line``: of its declaration.
    ``is_result``: it is one of Go's results, which are parameters there.
    ``address_at``: returns an address of the program by its index, which expressions may have.
    """

    name: str
    type: Type | None
    locations: tuple[LocatedRange, ...] = ()
    constant: bytes | None = None
    line: int | None = None
    is_result: bool = False
    address_at: Callable[[int], int | None] | None = field(default=None, repr=False, compare=False)

    def expression_at(self, address: int, *, is_call: bool = False) -> bytes | None:
        """Return the expression for where the variable is at ``address``; None: it is not there.

        ``is_call``: a call begins there. What gcc says of the time before the first statement is
        in an empty range, ahead of what the variable is after it.
        """
        for each in self.locations:
            if each.range is None or each.range.start <= address < each.range.end:
                return each.expression
            if is_call and each.range.start == address:
                return each.expression
        return None

    @property
    def has_one_location(self) -> bool:
        """Whether it is at one place all the time, as in unoptimised code after the prologue."""
        return len(self.locations) == 1 and self.locations[0].range is None


@dataclass(frozen=True)
class FunctionCopy:
    """The code of a function: its own, or where it was inlined.

    ``ranges``: of its code, the one with the entry first; removed code is not there.
    ``entries``: addresses that each call passes once: the function's own entry; for an inlined copy
    one for each call that the compiler made of it (an unrolled loop has several).
    ``into``: the function that it was inlined into; None: it was not.
    ``called_from``: the line of the call that was inlined.
    ``parameters``: empty also if the debug info has none (see ``Function.has_parameters``).
    ``frame_base``: expression for the frame of the function whose code it is in.
    ``result_variable``: of an inlined copy, the caller's variable that gets the result.
    ``has_own_convention``: the optimiser removed arguments or the result (DW_CC_nocall).
    ``result_addresses``: where that variable has the result: one for each of ``entries``, or none.
    """

    ranges: tuple[AddressRange, ...]
    entries: tuple[int, ...]
    into: str | None = None
    called_from: SourceLine | None = None
    parameters: tuple[Variable, ...] = ()
    frame_base: bytes | None = None
    result_variable: Variable | None = None
    result_addresses: tuple[int, ...] = ()
    has_own_convention: bool = False


@dataclass(frozen=True)
class DescribedFunction:
    """A function with all its copies.

    ``name``: demangled, with namespaces; ``symbol``: as linked, None: unknown.
    ``result``: its type; None: it has none.
    ``has_parameters``: the debug info describes parameters at all (``debug = 1`` of Rust does not).
    ``producer``: the compiler and its version.
    """

    name: str
    symbol: str | None
    language: Language
    declared: SourceLine | None
    parameters: tuple[Variable, ...]
    result: Type | None
    copies: tuple[FunctionCopy, ...]
    has_parameters: bool = True
    producer: str = ""

    @cached_property
    def signature(self) -> str:
        """The parameters with their types, and the result: ``(i: i32, len: usize) -> i32``."""
        return signature_of(self.parameters, self.result)


def signature_of(parameters: Iterable[Variable], result: Type | None) -> str:
    """Return how parameters and a result are shown; Go's results are among the parameters."""
    shown = [
        (each.is_result, f"{each.name}: {each.type.name if each.type else '?'}")
        for each in parameters
    ]
    arguments = ", ".join(text for is_result, text in shown if not is_result)
    results = [text for is_result, text in shown if is_result]
    if result is not None:
        return f"({arguments}) -> {result.name}"
    return f"({arguments})" + (f" -> ({', '.join(results)})" if results else "")
