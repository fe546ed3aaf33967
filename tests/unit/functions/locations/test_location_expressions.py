"""What DWARF's expressions mean, run on registers and memory; whatever the bytes are."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sslsniff.fetching.locations import RBP, RSP, ValueLocation
from sslsniff.fetching.traced_values import Missing, Value
from sslsniff.functions.dwarf.function_model import (
    AddressRange,
    Language,
    LocatedRange,
    Variable,
)
from sslsniff.functions.dwarf.type_model import Integer, Type, UnknownType
from sslsniff.functions.locations.expression_run import CanonicalFrame, ExpressionContext
from sslsniff.functions.locations.location_expressions import (
    expression_location,
    variable_location,
)
from sslsniff.functions.values.fetching import FetchContext, WantedValue, compile_fetch
from tests.unit.functions.stopped_program import run_fetch

LONG = Integer(name="long", size=8, is_signed=True)
INT = Integer(name="int", size=4, is_signed=True)
WIDE = Integer(name="__int128", size=16, is_signed=False)

PLACE = 0x1010
BIAS = 0x5000
# struct pt_regs: rbp, rax, rdi, rip, rsp
REGISTERS = {4: 0x8000, 10: 40, 14: -2 & (1 << 64) - 1, 16: PLACE + BIAS, 19: 0x7FF0}
MEMORY = {
    0x7FF0: b"\xff" * 8,
    0x8010: (77).to_bytes(8, "little"),
    0x8018: (0x8010).to_bytes(8, "little"),
    BIAS + 0x2000: (99).to_bytes(8, "little"),
}
CONTEXT = ExpressionContext(
    PLACE,
    frame_base=b"\x9c",  # DW_OP_call_frame_cfa
    canonical_frame=CanonicalFrame(RBP, 16),
    is_entry=True,
    address_at=lambda index: 0x2000 if index == 3 else None,
)


def read(address: int, size: int) -> bytes | None:
    for start, data in MEMORY.items():
        if start <= address and address + size <= start + len(data):
            return data[address - start :][:size]
    return None


def value(location: ValueLocation | Missing, described: Type = LONG) -> Value:
    fetch = compile_fetch([WantedValue("x", described, location)], FetchContext(Language.C))
    found = run_fetch(fetch, [REGISTERS.get(index, 0) for index in range(21)], read)
    assert found is not None
    return found["x"]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("50", 40),  # reg0
        ("9000", 40),  # regx 0
        ("55", -2),
        ("7610", 77),  # breg6 16: in memory
        ("921610", Missing.NOT_READABLE),  # bregx 22: an address in a vector register
        ("920610", 77),
        ("9100", 77),  # fbreg 0
        ("9108", 0x8010),
        ("9c", 77),
        ("910806", 77),  # fbreg 8; deref
        ("76109404 9f".replace(" ", ""), 77),  # breg6 16; deref_size 4; stack_value
        ("76189401 9f".replace(" ", ""), 0x10),
        ("0300200000 00000000".replace(" ", ""), 99),  # addr
        ("a103", 99),  # addrx
        ("a1039f", BIAS + 0x2000),
        ("a2039f", 0x2000),  # constx
        ("a1049f", Missing.OPTIMISED_OUT),
        ("359f", 5),  # lit5
        ("09ff9f", -1),  # const1s
        ("08ff9f", 255),  # const1u
        ("0effffffffffffffff9f", -1),
        ("11809f7f9f", -12416),  # consts
        ("70001c9f", Missing.OPTIMISED_OUT),  # minus of one operand
        ("7000331c9f", 37),  # breg0 0; lit3; minus
        ("33 7000 16 1c 9f".replace(" ", ""), 37),  # swap
        ("7000331e9f", 120),
        ("7000331b9f", 13),
        ("7500321b9f", -1),  # div is signed
        ("700012229f", 80),  # dup
        ("3132 33 17 1c 1c 9f".replace(" ", ""), 4),  # rot makes it 3 1 2: 3 - (1 - 2)
        ("313214 22 22 9f".replace(" ", ""), 4),  # over
        ("3132 1501 22 22 9f".replace(" ", ""), 4),  # pick 1
        ("3132139f", 1),  # drop
        ("70001f9f", -40),
        ("7000209f", -41),
        ("70002302 9f".replace(" ", ""), 42),  # plus_uconst
        ("7000 33 24 9f".replace(" ", ""), 320),
        ("7500 31 25 9f".replace(" ", ""), (1 << 63) - 1),
        ("7500 31 26 9f".replace(" ", ""), -1),
        ("7500 30 2a 9f".replace(" ", ""), 0),  # ge is signed
        ("7500 30 2d 9f".replace(" ", ""), 1),  # lt
        ("7000 30 2b 9f".replace(" ", ""), 1),  # gt
        ("7000 30 29 9f".replace(" ", ""), 0),
        ("7000 30 27 9f".replace(" ", ""), 40),
        ("9e080807060504030201", 0x0102030405060708),  # implicit_value
        ("a301559f", -2),  # entry_value of reg5
        ("a30270009f", 40),
        ("61", Missing.NOT_READABLE),  # reg17 is xmm0
        ("a0000000000000", Missing.OPTIMISED_OUT),  # implicit_pointer
        ("", Missing.OPTIMISED_OUT),
        ("96", Missing.OPTIMISED_OUT),
        ("28", Missing.OPTIMISED_OUT),  # bra
        ("e0", Missing.OPTIMISED_OUT),  # form_tls_address of GNU
        ("5050", Missing.OPTIMISED_OUT),
        ("0c01", Missing.OPTIMISED_OUT),  # an operand that is cut off
    ],
)
def test_expressions(expression: str, expected: Value) -> None:
    assert value(expression_location(bytes.fromhex(expression), CONTEXT)) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("5093085593 08".replace(" ", ""), 40 | (1 << 64) - 2 << 64),
        ("509304 7610 9304 359f 9308".replace(" ", ""), 40 | 77 << 32 | 5 << 64),
        ("5093089308", Missing.OPTIMISED_OUT),  # the second half is nowhere
        ("5093086193 08".replace(" ", ""), Missing.NOT_READABLE),
        (
            "509308559d 2000 559d 2000".replace(" ", ""),
            40 | (1 << 32) - 2 << 64 | (1 << 32) - 2 << 96,
        ),
        ("509308559d2003", Missing.OPTIMISED_OUT),  # bits from the middle of a register
        ("509308", Missing.OPTIMISED_OUT),
    ],
)
def test_pieces(expression: str, expected: Value) -> None:
    assert value(expression_location(bytes.fromhex(expression), CONTEXT), WIDE) == expected


def test_registers_of_the_entry_are_unknown_later() -> None:
    context = CONTEXT._replace(is_entry=False)
    found = expression_location(bytes.fromhex("a301559f"), context)
    assert found is Missing.OPTIMISED_OUT


def test_a_frame_without_its_address_is_optimised_out() -> None:
    context = ExpressionContext(PLACE, frame_base=b"\x9c")
    assert expression_location(b"\x91\x00", context) is Missing.OPTIMISED_OUT
    context = ExpressionContext(PLACE, frame_base=b"\x57", canonical_frame=CanonicalFrame(RSP, 8))
    assert value(expression_location(b"\x91\x00", context)) == -1


@pytest.mark.parametrize("expression", ["9100", "9c", "a3016e9f", "8e00"])
def test_a_register_that_no_probe_sees_is_not_readable(expression: str) -> None:
    """DWARF's register 30, as a frame's base or address, at the entry, or plus a number."""
    context = ExpressionContext(
        PLACE, frame_base=b"\x6e", canonical_frame=CanonicalFrame(30, 8), is_entry=True
    )
    found = expression_location(bytes.fromhex(expression), context)
    assert found is Missing.NOT_READABLE


def test_expressions_that_grow_are_too_much() -> None:
    assert (
        expression_location(b"\x70\x00" + b"\x12\x22" * 30 + b"\x9f", CONTEXT) is Missing.TOO_MUCH
    )
    deep = b"\x70\x00" * 9 + b"\x22" * 8
    assert isinstance(expression_location(deep, CONTEXT), Missing)


def test_a_variable_is_where_it_is_at_the_place() -> None:
    here = LocatedRange(AddressRange(PLACE, PLACE + 1), b"\x50")
    variable = Variable("x", LONG, (here,), constant=b"\x07")
    assert value(variable_location(variable, CONTEXT)) == 40
    later = CONTEXT._replace(place=PLACE + 1)
    assert value(variable_location(variable, later), INT) == 7
    assert variable_location(Variable("x", LONG), CONTEXT) is Missing.OPTIMISED_OUT


OPERATIONS = st.sampled_from([*range(3, 0x30), 0x50, 0x55, 0x70, 0x91, *range(0x93, 0xA9)])


@pytest.mark.tools
@settings(max_examples=400, deadline=None)
@given(
    expression=st.one_of(st.binary(max_size=64), st.lists(OPERATIONS, max_size=40).map(bytes)),
    frame=st.binary(max_size=6),
    data=st.binary(min_size=8, max_size=8),
    size=st.integers(0, 600),
)
def test_no_expression_raises(expression: bytes, frame: bytes, data: bytes, size: int) -> None:
    context = CONTEXT._replace(frame_base=frame, canonical_frame=frame)
    for described in (
        Integer(name="x", size=size, is_signed=True),
        UnknownType(name="x", size=size),
    ):
        location = expression_location(expression, context)
        fetch = compile_fetch([WantedValue("x", described, location)], FetchContext(Language.C))
        run_fetch(fetch, [0x8000] * 21, lambda address, size: (data * (size // 8 + 1))[:size])
