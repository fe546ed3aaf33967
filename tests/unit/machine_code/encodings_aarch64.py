"""Instructions of aarch64 as bytes."""


def _word(value: int) -> bytes:
    return value.to_bytes(4, "little")


AT = 0x1000
NOP, BTI_C, YIELD, MRS = map(_word, (0xD503201F, 0xD503245F, 0xD503203F, 0xD53BD044))
PACIASP, AUTIASP, XPACLRI, PACIA1716 = map(_word, (0xD503233F, 0xD50323BF, 0xD50320FF, 0xD503211F))
STP_FRAME, SUB_SP = map(_word, (0xA9BE7BFD, 0xD10083FF))
MOV_X29_SP, MOV_X19_X0, MOV_X0_X19, MOV_W3_0 = map(
    _word, (0x910003FD, 0xAA0003F3, 0xAA1303E0, 0x52800003)
)
LDR_X4_X0, LDR_LITERAL, LDR_Q_LITERAL, LDXR, CPYFP = map(
    _word, (0xF9400004, 0x58000044, 0x9C000040, 0xC85F7C04, 0x19010440)
)
ADR_X3, ADRP_X3, BL, BLR_X16, BR_X16 = map(
    _word, (0x10000003, 0x90000003, 0x94000400, 0xD63F0200, 0xD61F0200)
)
RET, RETAA, SVC, DMB, BC_EQ = map(
    _word, (0xD65F03C0, 0xD65F0BFF, 0xD4000001, 0xD5033BBF, 0x54000050)
)


def b(words: int) -> bytes:
    """Return a jump so many words on."""
    return _word(0x14000000 | words & 0x3FFFFFF)


def b_eq(words: int) -> bytes:
    """Return a jump on equal."""
    return _word(0x54000000 | (words & 0x7FFFF) << 5)


def cbz_x0(words: int) -> bytes:
    """Return a jump on x0 being 0."""
    return _word(0xB4000000 | (words & 0x7FFFF) << 5)


def tbnz_w2(words: int) -> bytes:
    """Return a jump on the highest bit of w2."""
    return _word(0x37F80002 | (words & 0x3FFF) << 5)
