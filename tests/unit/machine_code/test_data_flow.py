"""What registers and the stack hold at each instruction of made-up functions."""

import pytest

from sslsniff.libraries.go import plan as go_tls
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.instructions import SYSTEM_V, CallingConvention
from sslsniff.machine_code.known_values import (
    Argument,
    Failure,
    Inside,
    Local,
    Low,
    MemoryField,
    Number,
    Result,
    Stack,
    State,
    Value,
)
from sslsniff.machine_code.operations import OperationKind
from sslsniff.machine_code.result_origins import Origin, result_origins
from tests.unit.machine_code.encodings import (
    ADD_RSP,
    AT,
    CALL,
    ENDBR64,
    JMP_SELF,
    MOV_RBX_RDI,
    NOP,
    POP_RBP,
    PUSH_RBP,
    RET,
    SUB_RSP,
    TEST_RDI,
    XOR_EAX,
)

TEST_EAX, MOV_EAX_EBX, MOV_EBX_EAX, MOV_EAX_1 = (
    *(b"\x85\xc0", b"\x89\xd8", b"\x89\xc3", b"\xb8\x01\x00\x00\x00"),
)
STORE_RDI, LOAD_RAX = b"\x48\x89\x7c\x24\x08", b"\x48\x8b\x44\x24\x08"
STORE_BYTE = b"\xc6\x44\x24\x09\x00"  # movb $0, 9(%rsp)
STORE_INDEXED = b"\x48\x89\x0c\x04"  # mov %rcx, (%rsp, %rax)
LEA_RSI_STACK, LEA_RSI_HIGHER = b"\x48\x8d\x34\x24", b"\x48\x8d\x74\x24\x10"
MOV_RBP_RSP, LEA_RSP_RBP, LEAVE = b"\x48\x89\xe5", b"\x48\x8d\x65\x00", b"\xc9"
LOAD_FIELD, LOAD_FIELD_OF_FIELD = b"\x48\x8b\x47\x18", b"\x48\x8b\x40\x50"
LEA_RAX_RDI_0X18, ADD_RAX_8, ADD_EAX_8 = b"\x48\x8d\x47\x18", b"\x48\x83\xc0\x08", b"\x83\xc0\x08"
AND_EAX_2, MOV_ECX_EAX, MOV_EAX_ECX = b"\x83\xe0\x02", b"\x89\xc1", b"\x89\xc8"
CMOVS_EAX_EDX, XOR_EDX, OR_EAX_1 = b"\x0f\x48\xc2", b"\x31\xd2", b"\x83\xc8\xff"
MOVUPS_STACK = b"\x0f\x11\x44\x24\x08"  # movups %xmm0, 8(%rsp)
LEA_RSI_INDEXED, STORE_BEHIND_RSI = b"\x48\x8d\x34\x0c", b"\x48\x89\x06"
MOVZX_EAX_AL = b"\x0f\xb6\xc0"
CMP_EAX_5 = b"\x83\xf8\x05"


def at_return(code: bytes) -> State:
    """Return what is known at the one return."""
    flow = Flow(Code(code, AT))
    [state] = [
        state
        for address, state in flow.states.items()
        if flow.code.operations[address].kind is OperationKind.RETURN
    ]
    return state


RDI = Argument("rdi")
FIELD_AFTER_ADDING = MemoryField(MemoryField(RDI, 0x18), 0x58)


@pytest.mark.parametrize(
    ("code", "values"),
    [
        (RET, None),
        (b"\x48\x89\xf8" + RET, {RDI}),  # mov %rdi, %rax
        (b"\x89\xf8" + RET, {Low(RDI)}),  # mov %edi, %eax
        (b"\x88\xd8" + RET, None),  # mov %bl, %al
        (MOV_EAX_1 + RET, {Number(1)}),
        (XOR_EAX + RET, {Number(0)}),
        (OR_EAX_1 + RET, {Number(-1)}),
        (CALL + RET, {Result(AT)}),
        (CALL + MOV_EBX_EAX + CALL + MOV_EAX_EBX + RET, {Low(Result(AT))}),
        (LOAD_FIELD + LOAD_FIELD_OF_FIELD + RET, {MemoryField(MemoryField(RDI, 0x18), 0x50)}),
        # Where a field is, and what is there: not in a loop, where each round adds.
        (LEA_RAX_RDI_0X18 + RET, {Inside(RDI, 0x18)}),
        (LEA_RAX_RDI_0X18 + LOAD_FIELD_OF_FIELD + RET, {MemoryField(RDI, 0x68)}),
        (LOAD_FIELD + ADD_RAX_8 + RET, {Inside(MemoryField(RDI, 0x18), 8)}),
        (LOAD_FIELD + ADD_RAX_8 + LOAD_FIELD_OF_FIELD + RET, {FIELD_AFTER_ADDING}),
        (LOAD_FIELD + ADD_RAX_8 + ADD_RAX_8 + RET, None),
        (LOAD_FIELD + ADD_EAX_8 + RET, None),
        # A function may store at an address that it was told, and above, but not below.
        (STORE_RDI + LOAD_RAX + RET, {RDI}),
        (STORE_RDI + STORE_BYTE + LOAD_RAX + RET, {Local(8)}),
        (STORE_RDI + STORE_INDEXED + LOAD_RAX + RET, {Local(8)}),
        (SUB_RSP + STORE_RDI + LEA_RSI_HIGHER + CALL + LOAD_RAX + ADD_RSP + RET, {RDI}),
        (SUB_RSP + STORE_RDI + LEA_RSI_STACK + CALL + LOAD_RAX + ADD_RSP + RET, {Local(-16)}),
        (STORE_RDI + MOVUPS_STACK + LOAD_RAX + RET, {Local(8)}),
        (STORE_RDI + LEA_RSI_INDEXED + STORE_BEHIND_RSI + LOAD_RAX + RET, {Local(8)}),
        (STORE_RDI + b"\x48\x01\xe6" + STORE_BEHIND_RSI + LOAD_RAX + RET, {Local(8)}),
        (STORE_RDI + STORE_BEHIND_RSI + LOAD_RAX + RET, {RDI}),
        # One of several.
        (CALL + XOR_EDX + TEST_EAX + CMOVS_EAX_EDX + RET, {Low(Result(AT)), Number(0)}),
        (MOV_EAX_1 + TEST_RDI + b"\x74\x02" + XOR_EAX + RET, {Number(0), Number(1)}),
        # What a jump tells of the register that was compared, and of its copies.
        (CALL + TEST_EAX + b"\x78\x02" + JMP_SELF + RET, {Failure()}),
        (CALL + TEST_EAX + b"\x7f\x01" + RET + JMP_SELF, {Failure()}),
        (CALL + CMP_EAX_5 + b"\x75\x01" + RET + JMP_SELF, {Number(5)}),
        (CALL + CMP_EAX_5 + b"\x7e\x01" + RET + JMP_SELF, {Result(AT)}),
        (CALL + AND_EAX_2 + MOV_ECX_EAX + b"\x75\x03" + MOV_EAX_ECX + RET + JMP_SELF, {Number(0)}),
        (CALL + b"\x48" + TEST_EAX + b"\x78\x02" + JMP_SELF + RET, {Result(AT)}),  # of 8 bytes
        (OR_EAX_1 + MOVZX_EAX_AL + RET, None),
        (CALL + MOVZX_EAX_AL + RET, None),
        (CALL + TEST_EAX + b"\x89\xd0" + b"\x75\x01" + RET + JMP_SELF, None),  # mov %edx, %eax
    ],
)
def test_what_is_returned(code: bytes, values: set[Value] | None) -> None:
    found = at_return(code).registers.get("rax")
    assert found == (None if values is None else frozenset(values))


@pytest.mark.parametrize(
    ("code", "depth"),
    [
        (b"", 0),
        (PUSH_RBP, 8),
        (ENDBR64 + PUSH_RBP + SUB_RSP, 32),
        (PUSH_RBP + SUB_RSP + ADD_RSP + POP_RBP, 0),
        (PUSH_RBP + MOV_RBP_RSP + SUB_RSP + CALL + LEA_RSP_RBP, 8),
        (PUSH_RBP + MOV_RBP_RSP + SUB_RSP + LEAVE, 0),
        (b"\x48\x83\xe4\xf0", None),  # and $-16, %rsp
        (PUSH_RBP + MOV_RBP_RSP + b"\x48\x29\xc4" + LEAVE, 0),  # sub %rax, %rsp
        # Two ways with a different one.
        (TEST_RDI + b"\x74\x01" + PUSH_RBP, None),
    ],
)
def test_how_far_the_stack_pointer_is(code: bytes, depth: int | None) -> None:
    assert at_return(code + RET).depth == depth


def test_a_call_changes_registers_of_arguments() -> None:
    state = at_return(MOV_RBX_RDI + CALL + RET)
    assert (state.one("rdi"), state.one("rbx")) == (None, RDI)
    assert at_return(b"\x48\x8d\x44\x24\xf0" + RET).one("rax") == Stack(-16)


def test_half_an_address_is_none() -> None:
    assert at_return(b"\x8d\x44\x24\xf0" + RET).one("rax") is None  # lea -16(%rsp), %eax


def test_ways_that_are_avoided() -> None:
    flow = Flow(Code(TEST_RDI + b"\x74\x01" + NOP + MOV_EAX_1 + RET, AT))
    following = AT + len(TEST_RDI + b"\x74\x01" + NOP)
    assert following in flow.states_without({AT + len(TEST_RDI + b"\x74\x01")})
    assert following not in flow.states_without({AT + len(TEST_RDI)})


@pytest.mark.parametrize(
    ("code", "origins"),
    [
        (RET, {"rax"}),
        (MOV_EAX_EBX + RET, {"rbx"}),
        (MOV_EAX_1 + RET, {Number(1)}),
        (CMOVS_EAX_EDX + RET, {"rax", "rdx"}),
        (LOAD_RAX + RET, {8}),
        (STORE_RDI + LOAD_RAX + RET, {"rdi"}),
        (PUSH_RBP + b"\x58" + RET, {"rbp"}),
        (CALL + RET, {None}),
        (b"\x0f\xb6\xc0" + RET, {None}),  # movzbl %al, %eax
        (CALL + MOV_EAX_EBX + RET, {"rbx"}),
        (SUB_RSP + LEA_RSI_STACK + CALL + LOAD_RAX + ADD_RSP + RET, {None}),
        (SUB_RSP + CALL + LOAD_RAX + ADD_RSP + RET, {-16}),
        (STORE_BYTE + LOAD_RAX + RET, {None}),
        (TEST_RDI + b"\x74\x05" + MOV_EAX_1 + RET, {"rax", Number(1)}),
        (b"\xeb\xfe", set()),
        (b"\xff\xe0", {None}),  # jmp *%rax
    ],
)
def test_what_will_be_returned(code: bytes, origins: set[Origin]) -> None:
    assert result_origins(Flow(Code(code, AT)))[AT] == origins


SUB_PROTECTOR, SUB_OTHER, LOAD_PROTECTOR = (
    b"\x64\x48" + operation + b"\x04\x25" + offset + bytes(3)
    for operation, offset in ((b"\x2b", b"\x28"), (b"\x2b", b"\x30"), (b"\x8b", b"\x28"))
)


@pytest.mark.parametrize(
    ("code", "is_fatal"),
    [
        # A check of the stack protector, and a call of no return that another block follows.
        (NOP + SUB_PROTECTOR + b"\x75\x01" + RET + CALL + NOP + RET, True),
        (LOAD_PROTECTOR + b"\x48\x3b\x04\x24" + b"\x75\x01" + RET + CALL + RET, True),
        (NOP + SUB_PROTECTOR + b"\x74\x05" + CALL + RET, True),
        (NOP + SUB_OTHER + b"\x75\x01" + RET + CALL + NOP + RET, False),
        (TEST_RDI + b"\x75\x01" + RET + CALL + NOP + RET, False),
        (TEST_RDI + b"\x75\x01" + RET + CALL, True),
    ],
)
def test_calls_of_no_return(code: bytes, is_fatal: bool) -> None:
    function = Code(code, AT)
    [call] = [each for each in function.operations.values() if each.kind is OperationKind.CALL]
    assert function.is_fatal(call) is is_fatal


GO = go_tls.REGISTERS
STORE_RAX, LEA_RDI = b"\x48\x89\x44\x24\x08", b"\x48\x8d\x7c\x24\xf0"  # to 8(%rsp); -16(%rsp)
STORE_RSI, CMP_RSP = b"\x48\x89\x74\x24\x08", b"\x49\x3b\x66\x10"  # cmp 16(%r14), %rsp


@pytest.mark.parametrize(("convention", "is_kept"), [(GO, True), (SYSTEM_V, False)])
def test_a_local_variable_does_not_lead_to_arguments_in_go(
    convention: CallingConvention, is_kept: bool
) -> None:
    """Its address is passed to a function: in C, that may write above it, too."""
    store = STORE_RAX if convention is GO else STORE_RSI
    argument = Argument("rax" if convention is GO else "rsi")
    code = store + LEA_RDI + CALL
    flow = Flow(Code(code + RET, AT), convention)
    state = flow.states[AT + len(code)]
    assert (state.slots.get(8) == (8, frozenset({argument}))) == is_kept


def test_the_address_of_an_argument_exposes_all() -> None:
    code = STORE_RAX + b"\x48\x8d\x7c\x24\x10" + CALL  # lea 16(%rsp), %rdi
    state = Flow(Code(code + RET, AT), GO).states[AT + len(code)]
    assert state.slots == {}
    assert state.is_exposed(-8)


def test_calls_of_go_keep_no_register() -> None:
    state = Flow(Code(CALL + RET, AT), GO).states[AT + len(CALL)]
    assert state.registers.keys() == {"rax", "rsp"}
    assert isinstance(state.one("rax"), Result)


def test_arguments_on_the_stack() -> None:
    state = Flow(Code(b"\x48\x8b\x44\x24\x10" + RET, AT), go_tls.STACK).states[AT + 5]
    assert state.one("rax") == Argument(16)


def test_a_comparison_exposes_nothing() -> None:
    """It changes flags only: no address of the stack goes anywhere."""
    state = Flow(Code(CMP_RSP + RET, AT), GO).states[AT + len(CMP_RSP)]
    assert state.escaped is None


def test_a_function_that_does_not_return_ends_the_way() -> None:
    target = AT + len(CALL) + int.from_bytes(CALL[1:], "little", signed=True)
    assert AT + len(CALL) in Flow(Code(CALL + RET, AT)).states
    assert AT + len(CALL) not in Flow(Code(CALL + RET, AT, {target})).states
