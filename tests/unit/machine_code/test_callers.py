"""What functions are called with and call: made-up ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.machine_code.callers import (
    Call,
    arguments,
    called_slots,
    callees,
    direct_calls,
    passed_arguments,
)
from sslsniff.machine_code.instructions import ARGUMENTS
from tests.unit.machine_code.encodings import (
    AT,
    CALL,
    JMP_FAR,
    MOV_RBX_RDI,
    MOV_RDI_RAX,
    NOP,
    RET,
    SUB_RSP,
    TEST_RDI,
    XOR_EDX,
)


def test_arguments_that_are_handed_on() -> None:
    everything = frozenset(ARGUMENTS)
    assert passed_arguments(SUB_RSP + CALL + RET, AT) == {AT + 4 + 5 + 0x1000: everything}
    assert passed_arguments(XOR_EDX + JMP_FAR, AT) == {AT + 2 + 5 + 0x1000: everything - {"rdx"}}
    # The second call is after the first, which may have changed them all.
    assert passed_arguments(CALL + CALL + RET, AT) == {
        AT + 5 + 0x1000: everything,
        AT + 10 + 0x1000: frozenset(),
    }
    # In one of two ways rdx is changed.
    code = TEST_RDI + b"\x74\x02" + XOR_EDX + CALL + RET
    assert passed_arguments(code, AT) == {AT + 12 + 0x1000: everything - {"rdx"}}


def test_arguments_that_a_function_reads() -> None:
    assert arguments(MOV_RBX_RDI + RET, AT) == {"rdi"}
    assert arguments(MOV_RDI_RAX + MOV_RBX_RDI + RET, AT) == frozenset()
    assert arguments(XOR_EDX + RET, AT) == frozenset()
    assert arguments(CALL + MOV_RBX_RDI + RET, AT) == frozenset()


def test_calls_through_pointers() -> None:
    call, jump = b"\xff\x15\x10\x00\x00\x00", b"\xff\x25\xf0\xff\xff\xff"
    assert called_slots(call + jump, AT) == {AT + 6 + 0x10, AT + 12 - 0x10}
    assert called_slots(CALL + RET, AT) == set()
    assert callees(CALL + call + RET, AT) == {AT + 5 + 0x1000}


TARGET = AT + 0x1000


def code_with(inner: bytes) -> tuple[int, bytes]:
    """Return a function that calls ``TARGET``, and has ``inner`` after that."""
    return AT - 5, CALL + inner


@pytest.mark.parametrize(
    ("inner", "count"),
    [
        (RET, 1),
        (RET + b"\xe8" + (0xFFA).to_bytes(4, "little") + RET, 2),
        # Only in the middle of another instruction: mov imm64.
        (b"\x48\xb8\x00\x00\x00" + b"\xe8" + (0xFF6).to_bytes(4, "little") + RET, 1),
        # jumps that lead there
        (b"\xe9" + (0xFFB).to_bytes(4, "little"), None),
        (b"\x0f\x84" + (0xFFA).to_bytes(4, "little") + RET, None),
        (b"\xe8" + (0xFFB).to_bytes(4, "little"), None),  # nothing after it
        (RET + b"\x06", None),  # not all of it is code
    ],
)
def test_all_direct_calls_of_a_function(inner: bytes, count: int | None) -> None:
    start, code = code_with(inner)
    found = direct_calls(TARGET, [(start, code)], lambda _: (start, code))
    assert (None if found is None else len(found)) == count
    if found:
        assert found[0] == Call(start, start, AT, inner[: 1 if inner[:1] == RET else 10])


@pytest.mark.parametrize("jump", [b"\xeb", b"\x74"])
@pytest.mark.parametrize("gap", [0, 100, -100])
def test_a_short_jump_to_a_function_is_seen(jump: bytes, gap: int) -> None:
    code = NOP * 200 + jump + (gap & 0xFF).to_bytes(1, "little") + NOP * 200
    parts = [(AT, code)]
    assert direct_calls(AT + 202 + gap, parts, lambda _: parts[0]) is None
    assert direct_calls(AT + 203 + gap, parts, lambda _: parts[0]) == []


def test_a_call_from_no_function_is_no_certainty() -> None:
    assert direct_calls(TARGET, [code_with(RET)], lambda _: None) is None


@pytest.mark.tools
@given(code=st.binary(max_size=64))
def test_arbitrary_bytes_raise_nothing(code: bytes) -> None:
    called_slots(code, AT)
    assert arguments(code, AT) <= set(ARGUMENTS)
    assert all(kept <= set(ARGUMENTS) for kept in passed_arguments(code, AT).values())
