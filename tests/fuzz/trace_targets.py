"""Fuzzing targets for what a trace compiles: nothing raises but what the caller expects."""

from collections.abc import Callable

import atheris

with atheris.instrument_imports(include=["sslsniff.probing.functions"]):
    from sslsniff.functions.conditions.condition import is_met
    from sslsniff.functions.conditions.condition_check import check_condition
    from sslsniff.functions.conditions.condition_parser import parse_condition
    from sslsniff.functions.conditions.condition_steps import condition_steps
    from sslsniff.functions.locations.expression_run import CanonicalFrame, ExpressionContext
    from sslsniff.functions.locations.location_expressions import expression_location
    from sslsniff.functions.places.static_arguments import static_arguments
    from sslsniff.functions.values.fetching import FetchContext, WantedValue, compile_fetch

from sslsniff.core.errors import FilterError
from sslsniff.fetching.fetch import Fetch
from sslsniff.fetching.fetch_steps import MOST_DATA_BYTES, encode
from sslsniff.fetching.locations import RBP, RDI, RSI, in_memory, in_register
from sslsniff.fetching.traced_values import (
    FollowedPointer,
    Missing,
    NamedNumber,
    StructureValue,
    Text,
    Value,
)
from sslsniff.functions.dwarf.function_model import Language
from sslsniff.functions.dwarf.type_model import (
    Boolean,
    Enumeration,
    Floating,
    Integer,
    Member,
    Pointer,
    Structure,
)
from tests.unit.functions.stopped_program import run_fetch

_PLACE = 0x1010
_REGISTERS = [
    0x4000 + index for index in range(22)
]  # struct pt_regs, and the base of the segment fs

_BYTE = Integer(name="unsigned char", size=1, is_signed=False)
_INT = Integer(name="int", size=4, is_signed=True)
_LONG = Integer(name="unsigned long", size=8, is_signed=False)
_REQUEST = Structure(
    name="request", size=24, members=(Member("len", 0, _INT), Member("next", 16, _LONG))
)
_TYPES = (None, _BYTE, _INT, _LONG, Floating(name="double", size=8), _REQUEST)
_COLOR = Enumeration(name="color", size=4, names={0: "Red", 1: "Green"}, is_signed=False)

_WANTED = [
    WantedValue("i", _INT, (in_register(RDI),)),
    WantedValue("u", _LONG, (in_register(RSI),)),
    WantedValue("ok", Boolean(name="bool", size=1), (in_memory(RBP, -8),)),
    WantedValue("color", _COLOR, (in_memory(RBP, -16),)),
    WantedValue("req", Pointer(name="", size=8, target=lambda: _REQUEST), (in_register(RSI),)),
    WantedValue("gone", _INT, Missing.OPTIMISED_OUT),
]
_VALUES: dict[str, Value] = {
    "i": 4,
    "u": 1 << 63,
    "ok": True,
    "color": NamedNumber("Red", 0),
    "req": FollowedPointer(1 << 63, StructureValue("request", (("len", 1), ("next", 2)))),
    "text": Text("index", 3),
    "gone": Missing.OPTIMISED_OUT,
}


def _locations(data: bytes) -> None:
    """Bits that say what the function is like, the type's index, the frame's size, expressions."""
    if len(data) < 3:
        return
    bits, type_index, frame_bytes = data[:3]
    frame, expression = data[3 : 3 + frame_bytes], data[3 + frame_bytes :]
    context = ExpressionContext(
        _PLACE,
        frame_base=frame if bits & 1 else b"\x9c" if bits & 2 else None,
        canonical_frame=frame if bits & 4 else CanonicalFrame(RBP, 16),
        is_entry=bool(bits & 8),
        address_at=(lambda index: 0x2000 if index < 4 else None) if bits & 16 else None,
    )
    location = expression_location(expression, context)
    _check(
        compile_fetch(
            [WantedValue("x", _TYPES[type_index % len(_TYPES)], location)] * (1 + (bits >> 6)),
            FetchContext(list(Language)[bits % len(Language)], place=_PLACE),
        )
    )


def _operands(data: bytes) -> None:
    """The arguments of a static probe, in assembler."""
    text = data.decode("utf-8", "surrogateescape")
    wanted = list(static_arguments(text, _PLACE, {"counter": 0x4010}.get))
    _check(compile_fetch(wanted, FetchContext(Language.C, place=_PLACE)))


def _check(fetch: Fetch) -> None:
    """A fetch fits the kernel's limits, runs there, and its values can be read from any bytes."""
    encode(fetch.steps)
    assert fetch.data_bytes <= MOST_DATA_BYTES
    for read in _READS:
        run_fetch(fetch, _REGISTERS, read)


# What user memory has: nothing that can be read, zeros, ones.
_READS: tuple[Callable[[int, int], bytes | None], ...] = (
    lambda address, size: None,
    lambda address, size: bytes(size),
    lambda address, size: b"\xff" * size,
)


def _conditions(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        condition = parse_condition(text)
    except FilterError as error:
        str(error)
        return
    is_met(condition.node, _VALUES)
    found = condition_steps(condition, _WANTED)
    _check(Fetch(found.steps, 0, {}))
    check_condition(condition, [_WANTED])


TARGETS = {"locations": _locations, "operands": _operands, "conditions": _conditions}
