"""What is packed for BPF programs: unpacked again as bpf/convention.bpf.h does it."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.capture.maps import LAYOUT_BITS
from sslsniff.machine_code import conventions
from sslsniff.machine_code.conventions import Signature, pack_depth, pack_enter, pack_leave

HEADERS = Path(__file__).parents[3] / "bpf"
NAMES = st.sampled_from(conventions._REGISTERS)
DEPTHS = st.integers(0, 4095).map(lambda words: 8 * words)


def unpacked(packed: int, *bits: int) -> list[int]:
    numbers = []
    for each in bits:
        numbers.append(packed & ((1 << each) - 1))
        packed >>= each
    assert packed == 0
    return numbers


def test_registers_are_those_of_the_kernel() -> None:
    """In the order of struct pt_regs, by which the programs find them."""
    text = (HEADERS / "kernel.h").read_text()
    order = re.search(r"struct pt_regs \{\s+u64 ([^;]+);", text)
    assert order
    names = [each if each[1:].isdigit() else f"r{each}" for each in order[1].split(", ")]
    assert names == list(conventions._REGISTERS)


def test_bits_are_enough() -> None:
    assert conventions.BITS + LAYOUT_BITS == 64
    assert f"#define LAYOUT_BITS {LAYOUT_BITS}\n" in (HEADERS / "convention.bpf.h").read_text()


@pytest.mark.tools
@given(
    depth=DEPTHS,
    signature=st.builds(
        Signature,
        NAMES,
        NAMES,
        st.none() | NAMES,
        st.none() | st.tuples(NAMES, st.integers(0, 255)),
    ),
    writes=st.booleans(),
)
def test_ways_in(depth: int, signature: Signature, writes: bool) -> None:
    packed = pack_enter(depth, signature, writes=writes)
    assert packed < 1 << conventions.BITS
    place = conventions._REGISTERS.index
    count, kind = signature.count_pointer, signature.kind
    assert unpacked(packed, 12, 4, 4, 5, 5, 8, 1) == [
        depth // 8,
        place(signature.object),
        place(signature.buffer),
        0 if count is None else 16 + place(count),
        0 if kind is None else 16 + place(kind[0]),
        0 if kind is None else kind[1],
        writes,
    ]


@pytest.mark.tools
@given(
    depth=DEPTHS,
    condition=st.none() | st.integers(0, 15),
    result=st.none() | NAMES | st.integers(1, 4095).map(lambda ints: -4 * ints),
)
def test_ways_out(depth: int, condition: int | None, result: str | int | None) -> None:
    packed = pack_leave(depth, condition, result)
    assert packed < 1 << conventions.BITS
    match result:
        case None:
            place = [3, 0, 0]
        case "rax":
            place = [0, 0, 0]
        case str():
            place = [1, conventions._REGISTERS.index(result), 0]
        case int():
            place = [2, 0, -result // 4]
    assert unpacked(packed, 12, 5, 2, 4, 12) == [
        depth // 8,
        0 if condition is None else 16 + condition,
        *place,
    ]


def test_what_the_calling_convention_says_is_0() -> None:
    assert pack_leave(0, None, "rax") == pack_depth(0) == 0


def test_half_words_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple"):
        pack_depth(12)
    with pytest.raises(ValueError, match="multiple"):
        pack_leave(0, None, -6)


@pytest.mark.parametrize("depth", [-8, 8 << 12])
def test_what_does_not_fit_is_refused(depth: int) -> None:
    with pytest.raises(ValueError, match="fit"):
        pack_depth(depth)
    with pytest.raises(ValueError, match="fit"):
        pack_leave(0, None, -4 << 12)
    with pytest.raises(ValueError, match="fit"):
        pack_enter(0, Signature("rdi", "rsi", None, ("rcx", 256)), writes=False)
