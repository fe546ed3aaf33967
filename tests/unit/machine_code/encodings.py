"""Instructions of x86-64 as bytes."""

AT = 0x1000
ENDBR64 = b"\xf3\x0f\x1e\xfa"
PUSH_RBP, PUSH_R12, NOP, RET = b"\x55", b"\x41\x54", b"\x90", b"\xc3"
NOP5 = b"\x0f\x1f\x44\x00\x00"
SUB_RSP, MOV_RBX_RDI, MOV_RDI_RAX = b"\x48\x83\xec\x18", b"\x48\x89\xfb", b"\x48\x89\xc7"
XOR_EDX, XOR_CL = b"\x31\xd2", b"\x30\xc9"
TEST_RDI, JE_RET, JMP_SELF = b"\x48\x85\xff", b"\x74\x00", b"\xeb\xfe"
CALL, JMP_FAR, JMP_RAX = b"\xe8\x00\x10\x00\x00", b"\xe9\x00\x10\x00\x00", b"\xff\xe0"
ADD_RSP, POP_RBP, POP_R12, XOR_EAX = b"\x48\x83\xc4\x18", b"\x5d", b"\x41\x5c", b"\x31\xc0"
