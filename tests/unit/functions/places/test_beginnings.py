"""The beginnings of functions: made-up ones, and those of a compiler."""

from sslsniff.functions.places.beginnings import BeginningStep, function_beginning

AT = 0x1000
PUSH_RBP, MOV_RBP_RSP, SUB_32 = b"\x55", b"\x48\x89\xe5", b"\x48\x83\xec\x20"
PROLOGUE = PUSH_RBP + MOV_RBP_RSP + SUB_32
STORE_EDI = b"\x89\x7d\xec"  # mov [rbp-0x14], edi
STORE_ELSEWHERE = b"\xc7\x00\x01\x00\x00\x00"  # mov dword [rax], 1
CALL, RET = b"\xe8\x00\x00\x00\x00", b"\xc3"
SLOT = -28


def last(code: bytes) -> BeginningStep:
    return function_beginning(code, AT)[-1]


def test_the_frame_is_followed() -> None:
    steps = function_beginning(PROLOGUE + STORE_EDI + CALL + RET, AT)
    assert [each.address - AT for each in steps] == [0, 1, 4, 8, 11]
    assert [each.is_emulated for each in steps] == [True, False, False, False, True]
    assert [each.pointers["rsp"] for each in steps] == [0, -8, -8, -40, -40]
    assert steps[-1].pointers["rbp"] == -8
    assert [each.has_written(SLOT, 4) for each in steps] == [False] * 4 + [True]
    assert not steps[-1].has_written(SLOT - 4, 8)
    assert steps[-1].copy_of("rdi", 8) == "rdi"
    assert steps[-1].copy_of("rbp", 8) is None


def test_copies_of_registers_are_followed() -> None:
    # mov rbx, rdi; mov r12d, esi; xor edi, edi; xor esi, esi
    step = last(b"\x48\x89\xfb\x41\x89\xf4\x31\xff\x31\xf6" + CALL)
    assert step.copy_of("rdi", 8) == "rbx"
    assert step.copy_of("rsi", 4) == "r12"
    assert step.copy_of("rsi", 8) is None


def test_an_argument_that_was_changed_is_not_there() -> None:
    assert not last(PROLOGUE + STORE_EDI + STORE_EDI + CALL).has_written(SLOT, 4)


def test_nothing_counts_after_a_write_elsewhere() -> None:
    steps = function_beginning(PROLOGUE + STORE_ELSEWHERE + CALL + RET, AT)
    assert steps[-1].address == AT + len(PROLOGUE)


def test_an_aligned_stack_is_found_by_another_register() -> None:
    and_rsp = b"\x48\x83\xe4\xe0"
    step = last(PUSH_RBP + MOV_RBP_RSP + and_rsp + CALL)
    assert step.pointers == {"rbp": -8}


def test_a_loop_to_the_entry_is_no_beginning() -> None:
    assert function_beginning(b"\x90\xeb\xfd", AT) == []


def test_a_loop_ends_the_beginning() -> None:
    steps = function_beginning(PUSH_RBP + b"\x90\xeb\xfd", AT)
    assert [each.address - AT for each in steps] == [0]


CHECK = b"\x49\x3b\x66\x10"  # cmp rsp, [r14+0x10]
JBE_10 = b"\x76\x06"


def test_the_beginning_of_go_is_after_the_stack_check() -> None:
    # cmp; jbe; push rbp; pop rbp; nops; ret; call morestack; jmp entry
    code = CHECK + JBE_10 + PUSH_RBP + b"\x5d\x90\x90\x90" + RET + CALL + b"\xeb\xed"
    steps = function_beginning(code, AT)
    assert steps[0].address == AT + len(CHECK + JBE_10)
    assert steps[0].pointers == {"rsp": 0}


def test_a_go_function_that_jumps_to_its_entry_itself_is_no_beginning() -> None:
    code = CHECK + JBE_10 + b"\x90\x90\x90\x90\xeb\xf4" + CALL + b"\xeb\xed"
    assert function_beginning(code, AT) == []
