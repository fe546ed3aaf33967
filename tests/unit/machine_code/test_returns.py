"""Where functions return: made-up ones."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.machine_code import instructions, returns
from tests.unit.machine_code.encodings import AT, JMP_RAX, JMP_SELF, NOP, RET, TEST_RDI, XOR_EDX


@pytest.mark.parametrize(
    ("code", "offsets"),
    [
        (RET, [0]),
        (TEST_RDI + b"\x74\x01" + RET + XOR_EDX + RET, [5, 8]),
        (b"\xf3\xc3", [0]),
        (JMP_SELF, None),  # it never returns
        (TEST_RDI + b"\x74\x7f" + RET, None),  # out of the function
        (TEST_RDI + JMP_RAX + RET, None),
        (TEST_RDI + b"\x74\x02" + RET + XOR_EDX + RET, None),  # into an instruction
        (RET + b"\x06", None),  # not all of it is code
    ],
)
def test_return_instructions(code: bytes, offsets: list[int] | None) -> None:
    found = returns.return_sites(code, AT, lambda *_: None)
    assert found == (None if offsets is None else [AT + each for each in offsets])


LEA_TABLE = b"\x48\x8d\x05\xf9\x0f\x00\x00"  # lea 0x1000 after the function, rax
SWITCH = LEA_TABLE + b"\x48\x63\x0c\x88" + b"\x48\x01\xc1" + b"\xff\xe1"
SWITCH_TABLE = AT + 0x1000


@pytest.mark.parametrize(
    ("code", "case", "offsets"),
    [
        (SWITCH + RET, len(SWITCH), [16]),
        (SWITCH + RET, 0, None),  # a call of itself
        (SWITCH + RET, 1, None),  # into an instruction
        (SWITCH + RET, 0x100, None),  # a table of functions
        (LEA_TABLE + SWITCH[7:].replace(b"\x0c\x88", b"\x0c\xc8") + RET, 16, None),  # of 8 bytes
        (NOP * 7 + SWITCH[7:] + RET, 16, None),  # what table?
    ],
)
def test_a_switch_does_not_lead_out(code: bytes, case: int, offsets: list[int] | None) -> None:
    def read(address: int, size: int) -> bytes | None:
        assert (address, size) == (SWITCH_TABLE, 4)
        return (AT + case - SWITCH_TABLE).to_bytes(4, "little", signed=True)

    found = returns.return_sites(code, AT, read)
    assert found == (None if offsets is None else [AT + each for each in offsets])


@pytest.mark.tools
@given(code=st.binary(max_size=64))
def test_arbitrary_bytes_raise_nothing(code: bytes) -> None:
    starts = {each.address for each in instructions.disassemble(code, AT)}
    found = returns.return_sites(code, AT, lambda _, size: code[:size].ljust(size))
    assert set(found or ()) <= starts
