"""What functions are called with and call: made-up ones."""

from hypothesis import given
from hypothesis import strategies as st

from sslsniff.calls import arguments, called_slots, callees, handed_on
from sslsniff.instructions import ARGUMENTS
from tests.unit.encodings import (
    AT,
    CALL,
    JMP_FAR,
    MOV_RBX_RDI,
    MOV_RDI_RAX,
    RET,
    SUB_RSP,
    TEST_RDI,
    XOR_EDX,
)


def test_arguments_that_are_handed_on() -> None:
    everything = frozenset(ARGUMENTS)
    assert handed_on(SUB_RSP + CALL + RET, AT) == {AT + 4 + 5 + 0x1000: everything}
    assert handed_on(XOR_EDX + JMP_FAR, AT) == {AT + 2 + 5 + 0x1000: everything - {"rdx"}}
    # The second call is behind the first, which may have changed them all.
    assert handed_on(CALL + CALL + RET, AT) == {
        AT + 5 + 0x1000: everything,
        AT + 10 + 0x1000: frozenset(),
    }
    # In one of two ways rdx is changed.
    code = TEST_RDI + b"\x74\x02" + XOR_EDX + CALL + RET
    assert handed_on(code, AT) == {AT + 12 + 0x1000: everything - {"rdx"}}


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


@given(code=st.binary(max_size=64))
def test_arbitrary_bytes_raise_nothing(code: bytes) -> None:
    called_slots(code, AT)
    assert arguments(code, AT) <= set(ARGUMENTS)
    assert all(kept <= set(ARGUMENTS) for kept in handed_on(code, AT).values())
