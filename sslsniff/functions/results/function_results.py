"""The results of a function with where they are when it returns."""

from collections.abc import Sequence

from sslsniff.fetching.locations import (
    RAX,
    RSP,
    ComputedNumber,
    ValueInMemory,
    ValueLocation,
    in_memory,
    in_register,
    register_of,
)
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.dwarf.function_model import (
    DescribedFunction,
    FunctionCopy,
    Language,
    Variable,
)
from sslsniff.functions.dwarf.type_model import Floating, Type, UnknownType
from sslsniff.functions.locations.expression_run import CanonicalFrame, ExpressionContext
from sslsniff.functions.locations.location_expressions import expression_location
from sslsniff.functions.results.c_results import c_result
from sslsniff.functions.results.go_results import described_offset, go_results
from sslsniff.functions.results.rust_results import rust_result
from sslsniff.functions.values.fetching import WantedValue

RESULT = "result"
_RUST_MANGLINGS = ("_R", "_ZN")
_WORD_BYTES = 8
_IN_FRAME = b"\x91"  # DW_OP_fbreg
_FIRST, _SECOND = "rdi", "rsi"


def wanted_results(
    function: DescribedFunction,
    copy: FunctionCopy,
    *,
    go_in_registers: bool = True,
    has_all_parameters: bool | None = None,
) -> list[WantedValue]:
    """Return the results of a function's own code at its return instructions.

    One is called ``result``; several, of Go, as they are declared or ``r0``, ``r1`` ...
    Without debug info about results it is the register in which most are.
    ``go_in_registers``: Go's release passes them so, from 1.17 on. ``has_all_parameters``: of Go,
    whether debug info has all arguments and results, so that others' places follow from them.
    """
    if not function.has_parameters and function.result is None:
        return [WantedValue(RESULT, None, (in_register(RAX),))]
    if function.language is Language.GO:
        return _go_results(
            function, go_in_registers=go_in_registers, has_all=has_all_parameters is not False
        )
    type = function.result
    if type is None:
        return []
    if copy.has_own_convention:
        return [WantedValue(RESULT, type, Missing.OPTIMISED_OUT)]
    if function.language is Language.RUST:
        symbol = function.symbol
        may_be_c = symbol is None or not symbol.startswith(_RUST_MANGLINGS)
        location = rust_result(type, may_be_c=may_be_c)
    else:
        location = c_result(type)
    if _is_contradicted(location, copy):
        return [WantedValue(RESULT, type, Missing.OPTIMISED_OUT)]
    return [WantedValue(RESULT, type, location)]


def returns_address(
    function: DescribedFunction, copy: FunctionCopy, wanted: Sequence[WantedValue]
) -> bool | None:
    """Say whether rax has the address of a result in memory when the function returns.

    False: the compiler may have left that out. None: the result is not in memory.
    """
    if function.language is Language.GO or len(wanted) != 1:
        return None
    location = wanted[0].location
    if isinstance(location, Missing) or not isinstance(location[0].source, ValueInMemory):
        return None
    is_unoptimised = any(
        each.has_one_location and each.locations[0].expression[:1] == _IN_FRAME
        for each in copy.parameters
    )
    return is_unoptimised or function.producer.startswith("GNU")


def _go_results(
    function: DescribedFunction, *, go_in_registers: bool, has_all: bool
) -> list[WantedValue]:
    results = [each for each in function.parameters if each.is_result]
    if not results:
        return []
    types = [_type_of(each) for each in results]
    arguments = [_type_of(each) for each in function.parameters if not each.is_result]
    locations: list[ValueLocation | Missing] = [
        *go_results(arguments, types, in_registers=go_in_registers)
    ]
    if not has_all:
        located = zip(results, locations, strict=True)
        locations = [_as_described(each, location) for each, location in located]
    names = [RESULT] if len(results) == 1 else _names(results)
    return [
        WantedValue(name, variable.type, location)
        for name, variable, location in zip(names, results, locations, strict=True)
    ]


def _as_described(result: Variable, location: ValueLocation | Missing) -> ValueLocation | Missing:
    """Return where debug info itself says that a result is, if that is on the stack."""
    is_on_stack = not isinstance(location, Missing) and any(
        isinstance(each.source, ValueInMemory) for each in location
    )
    if not is_on_stack:
        return location
    offset = described_offset(result)
    if offset is None:
        return Missing.OPTIMISED_OUT
    return (in_memory(RSP, _WORD_BYTES + offset, _type_of(result).size),)


def _type_of(variable: Variable) -> Type:
    return variable.type or UnknownType(name="", size=_WORD_BYTES)


def _names(results: Sequence[Variable]) -> list[str]:
    """Return the names of several results; those without are ``~r0`` and so on in Go's terms."""
    names = []
    for index, each in enumerate(results):
        is_named = each.name and not each.name.startswith(("~", "_"))
        names.append(each.name if is_named and each.name not in names else f"r{index}")
    return names


def _is_contradicted(location: ValueLocation, copy: FunctionCopy) -> bool:
    """Say whether the first argument is in a register in which it cannot be with such a result.

    A result in memory takes the first register of arguments, for its address.
    """
    first = next((each for each in copy.parameters if each.type and each.type.size), None)
    if first is None or isinstance(first.type, Floating):
        return False
    expression = first.expression_at(copy.entries[0], is_call=True)
    if expression is None:
        return False
    context = ExpressionContext(copy.entries[0], None, CanonicalFrame(RSP, _WORD_BYTES))
    found = expression_location(expression, context)
    if isinstance(found, Missing) or not isinstance(found[0].source, ComputedNumber):
        return False
    is_in_memory = any(isinstance(each.source, ValueInMemory) for each in location)
    return register_of(found[0]) == (_FIRST if is_in_memory else _SECOND)
