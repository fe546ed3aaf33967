"""Compiles what is wanted at a place, values by type and location, to a program that fetches it."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from sslsniff.fetching.fetch import Fetch, FetchLimits, ValueDecoder
from sslsniff.fetching.fetch_steps import FetchStep
from sslsniff.fetching.locations import ValueLocation, register_of
from sslsniff.fetching.traced_values import Missing, RawRegister
from sslsniff.functions.dwarf.function_model import Language
from sslsniff.functions.dwarf.type_model import Type, UnknownType
from sslsniff.functions.values.c_values import C_FORMATS
from sslsniff.functions.values.cpp.cpp_values import CPP_FORMATS
from sslsniff.functions.values.fetch_program import WORD_BYTES, FetchProgram, RuntimeTypeNames
from sslsniff.functions.values.go_locations import with_padding
from sslsniff.functions.values.go_values import GO_FORMATS
from sslsniff.functions.values.raw_values import RawValue, always, from_number
from sslsniff.functions.values.rust_values import RUST_FORMATS
from sslsniff.functions.values.text_values import number_or_text

_FORMATS = {
    Language.CPP: CPP_FORMATS,
    Language.GO: GO_FORMATS,
    Language.RUST: RUST_FORMATS,
}


class ValueRole(Enum):
    """What a fetched value is to its place; no two values of a role have the same name."""

    VALUE = "value"
    """An argument, a variable, or the result at a return."""
    RESULT = "result"
    """A result of a call that returns where it begins."""
    RETURN_ADDRESS = "return address"
    TEXT = "text"
    """What the number of the same name leads to, where that is text."""


class WantedValue(NamedTuple):
    """A value to fetch: ``location`` may say why it has none; ``type`` None: unknown."""

    name: str
    type: Type | None
    location: ValueLocation | Missing
    role: ValueRole = ValueRole.VALUE


class FetchContext(NamedTuple):
    """What the values of a place have in common: ``language`` of its code.

    ``first_steps``: run before those that fetch values, such as those that set the hit's task.
    ``place``: the linked address of the probe. ``go_types``: of a Go program; with both, an
    interface is shown with the name of the type in it.
    """

    language: Language
    limits: FetchLimits = FetchLimits()
    first_steps: tuple[FetchStep, ...] = ()
    place: int = 0
    go_types: RuntimeTypeNames | None = None


class FetchSource(NamedTuple):
    """What ``compile_fetch`` makes a fetch of."""

    wanted: tuple[WantedValue, ...]
    context: FetchContext


def compile_fetch(wanted: Sequence[WantedValue], context: FetchContext) -> Fetch:
    """Return the steps that fetch the wanted values, and what reads them.

    What goes beyond the kernel's limits is shown as ``Missing.TOO_MUCH``. First comes what each
    value has itself, then what these lead to, so that no argument takes the room of another.
    """
    source = FetchSource(tuple(wanted), context)
    formats = _FORMATS.get(context.language, C_FORMATS)
    program = FetchProgram(formats, context.place, context.go_types)
    program.steps += context.first_steps
    if context.language is Language.GO:
        wanted = [each._replace(location=with_padding(each.location, each.type)) for each in wanted]
    raws = [_fetch(program, each) for each in wanted]
    decoders: dict[ValueRole, dict[str, ValueDecoder]] = {role: {} for role in ValueRole}
    for each, raw in zip(wanted, raws, strict=True):
        decoders[each.role][each.name] = _decoder(program, each, raw, context.limits)
    program.finish()
    values = decoders[ValueRole.VALUE]
    for name, text in decoders[ValueRole.TEXT].items():
        values[name] = number_or_text(values[name], text)
    return Fetch(
        tuple(program.steps),
        program.data_bytes,
        values,
        next(iter(decoders[ValueRole.RETURN_ADDRESS].values()), None),
        decoders[ValueRole.RESULT],
        source,
    )


def _fetch(program: FetchProgram, wanted: WantedValue) -> RawValue | None:
    location, described = wanted.location, wanted.type
    if described is not None and not described.size and not isinstance(described, UnknownType):
        location = ()  # a value without bytes, such as `()` of Rust, is everywhere
    if isinstance(location, Missing):
        return None
    return program.fetch_location(location, described.size if described else WORD_BYTES)


def _decoder(
    program: FetchProgram, wanted: WantedValue, raw: RawValue | None, limits: FetchLimits
) -> ValueDecoder:
    if raw is None:
        return always(wanted.location if isinstance(wanted.location, Missing) else None)
    if wanted.type is not None:
        return program.value(wanted.type, raw, limits)
    location = wanted.location
    register = register_of(location[0]) if isinstance(location, tuple) and location else None
    if register is None:
        return always(Missing.UNKNOWN_TYPE)
    return from_number(raw, lambda number: RawRegister(register, number))
