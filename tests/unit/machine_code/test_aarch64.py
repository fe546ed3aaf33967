"""Where probes belong in aarch64 code: the kernel's rules, made-up functions, real libraries."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sslsniff.analysis.attachments import make_attachment
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code import aarch64, probe_sites
from sslsniff.machine_code.probe_sites import Cost, Site
from sslsniff.matching.probe_set import Refusal, ReturnStyle, Unprobed
from tests import libraries
from tests.unit.machine_code.encodings_aarch64 import (
    ADR_X3,
    ADRP_X3,
    AT,
    AUTIASP,
    BC_EQ,
    BL,
    BLR_X16,
    BR_X16,
    BTI_C,
    CPYFP,
    DMB,
    LDR_LITERAL,
    LDR_Q_LITERAL,
    LDR_X4_X0,
    LDXR,
    MOV_W3_0,
    MOV_X0_X19,
    MOV_X19_X0,
    MOV_X29_SP,
    MRS,
    NOP,
    PACIA1716,
    PACIASP,
    RET,
    RETAA,
    STP_FRAME,
    SUB_SP,
    SVC,
    XPACLRI,
    YIELD,
    b,
    b_eq,
    cbz_x0,
    tbnz_w2,
)

MACHINE = probe_sites.MACHINES["aarch64"]
ARGUMENTS = ("x0", "x1", "x2", "x3")
SIMULATED = (ADR_X3, ADRP_X3, b(2), b_eq(2), cbz_x0(2), tbnz_w2(-2), BL, BLR_X16, BR_X16, RET)
STEPPED = (
    *(NOP, BTI_C, PACIASP, PACIA1716, XPACLRI, MRS),
    *(STP_FRAME, SUB_SP, MOV_X29_SP, MOV_W3_0, LDR_X4_X0),
)
REFUSED = (AUTIASP, YIELD, RETAA, SVC, DMB, BC_EQ, LDR_LITERAL, LDR_Q_LITERAL, LDXR, CPYFP)


@pytest.mark.parametrize(
    ("encoded", "emulated"),
    [
        *((each, True) for each in SIMULATED),
        *((each, False) for each in STEPPED),
        *((each, None) for each in REFUSED),
    ],
)
def test_what_the_kernel_simulates(encoded: bytes, emulated: bool | None) -> None:
    assert aarch64.is_emulated(encoded) is emulated


@pytest.mark.parametrize(
    ("code", "with_return", "expected"),
    [
        (cbz_x0(2) + STP_FRAME + RET, True, (0, Cost.EMULATED)),
        (BTI_C + cbz_x0(2) + PACIASP + RET, True, (4, Cost.EMULATED)),
        (MOV_X19_X0 + RET, True, (4, Cost.EMULATED)),
        (STP_FRAME + ADRP_X3 + RET, True, (0, Cost.STEPPED)),
        (STP_FRAME + ADRP_X3 + RET, False, (4, Cost.EMULATED)),
        # What is signed is no address to return to.
        (PACIASP + ADRP_X3 + RET, True, (0, Cost.STEPPED)),
        (PACIASP + ADRP_X3 + RET, False, (4, Cost.EMULATED)),
        (MOV_W3_0 + ADRP_X3 + RET, False, (0, Cost.STEPPED)),
        (MOV_X0_X19 + ADRP_X3 + RET, False, (0, Cost.STEPPED)),
        # A jump back to the adrp, and one after it.
        (NOP + ADRP_X3 + b_eq(-1) + RET, False, (0, Cost.STEPPED)),
        (NOP + ADRP_X3 + NOP + b_eq(-1) + RET, False, (4, Cost.EMULATED)),
        # Between an exclusive load and its store; after a literal that may be anything.
        (NOP + LDXR + ADRP_X3 + RET, False, (0, Cost.STEPPED)),
        (NOP * 20 + ADRP_X3 + RET, False, (0, Cost.STEPPED)),
        (NOP + SVC + RET, False, (0, Cost.STEPPED)),
        (LDXR + RET, True, None),
        (LDR_LITERAL + RET, True, None),
        (NOP + b(-1), True, None),
        (b"", True, None),
        (b"\0\0\0\0", True, None),
    ],
)
def test_the_first_simulated_place_where_nothing_changed_is_taken(
    code: bytes, with_return: bool, expected: tuple[int, Cost] | None
) -> None:
    found = probe_sites.best_site(code, AT, ARGUMENTS, with_return=with_return, machine=MACHINE)
    assert found == (expected and Site(AT + expected[0], expected[1]))


@pytest.mark.tools
@given(code=st.binary(max_size=64), with_return=st.booleans())
def test_arbitrary_bytes_raise_nothing(code: bytes, with_return: bool) -> None:
    found = probe_sites.best_site(code, AT, ARGUMENTS, with_return=with_return, machine=MACHINE)
    assert found is None or (0 <= found.address - AT < len(code) and found.address % 4 == 0)


@pytest.mark.tools
@given(word=st.integers(0, 2**32 - 1))
@example(word=0x05732800)  # tbl, which looks up a table
def test_jumps_lead_where_capstone_says(word: int) -> None:
    encoded = word.to_bytes(4, "little")
    told = {
        int(each.operands[-1].imm) & 2**64 - 1
        for each in aarch64.disassemble(encoded, AT)
        if each.mnemonic.startswith(("b.", "bc.", "cb", "tbz", "tbnz")) or each.mnemonic == "b"
    }
    assert {each & 2**64 - 1 for each in aarch64.jump_targets(encoded, AT)} == told


E4, E8, E12, E16, E20, E24, E28 = ((each, Cost.EMULATED) for each in range(4, 32, 4))
E0, S0 = (0, Cost.EMULATED), (0, Cost.STEPPED)
# Read from the disassembled functions of Debian's builds. The first two are those that SSL_read_ex
# and SSL_write_ex (since 3.3: SSL_write_ex2) call.
TABLE = {
    "1.1.1": {"read": E4, "write": E4, "SSL_read": E4, "SSL_new": E12, "SSL_free": E0,
              "SSL_clear": E16, "SSL_ctrl": E24},
    "3.0": {"read": E4, "write": E4, "SSL_read": E4, "SSL_new": E12, "SSL_free": E0,
            "SSL_clear": E12, "SSL_ctrl": E28, "SSL_sendfile": E20},
    "3.5": {"read": E8, "write": E8, "SSL_read": E8, "SSL_new": E12, "SSL_free": E4,
            "SSL_clear": E8, "SSL_ctrl": E8, "SSL_sendfile": E8},
    "3.6": {"read": E12, "write": E8, "SSL_read": E8, "SSL_new": E12, "SSL_free": E4,
            "SSL_clear": E8, "SSL_ctrl": E8, "SSL_sendfile": E24},
    "4.0": {"read": E12, "write": E8, "SSL_read": E12, "SSL_new": E12, "SSL_free": E4,
            "SSL_clear": E8, "SSL_ctrl": E8, "SSL_sendfile": E24},
    "boringssl": {"SSL_read": E24, "SSL_write": E28, "SSL_new": E28, "SSL_free": E4,
                  "SSL_clear": E8},
}  # fmt: skip
# A return probe is before the frame is made, of which most functions make one at once.
WITH_RETURN = {
    ("1.1.1", "SSL_free"): E0, ("3.0", "SSL_free"): E0, ("3.5", "SSL_free"): E4,
    ("3.6", "SSL_free"): E4, ("4.0", "SSL_free"): E4, ("boringssl", "SSL_free"): E4,
    ("3.5", "SSL_clear"): E8, ("3.6", "SSL_clear"): E8, ("4.0", "SSL_clear"): E8,
    ("boringssl", "SSL_clear"): E8, ("3.5", "SSL_ctrl"): E8, ("3.6", "SSL_ctrl"): E8,
    ("4.0", "SSL_ctrl"): E8,
}  # fmt: skip
NEEDED = {
    "read": ("x0", "x1", "x3"),
    "write": ("x0", "x1", "x3", "x4"),
    "SSL_read": ("x0", "x1"),
    "SSL_write": ("x0", "x1"),
    "SSL_new": (),
    "SSL_free": ("x0",),
    "SSL_clear": ("x0",),
    "SSL_ctrl": ("x0", "x1", "x3"),
    "SSL_sendfile": ("x0",),
}
CASES = [
    (series, name, with_return)
    for series, row in TABLE.items()
    for name in row
    for with_return in (False, True)
]


def find(elf: Elf, name: str) -> Function:
    if name not in ("read", "write"):
        function = elf.function(name)
        assert function is not None
        return function
    names = (f"SSL_{name}_ex2", f"SSL_{name}_ex")
    caller = next(found for each in names if (found := elf.function(each)))
    called = [
        each.operands[0].imm
        for each in aarch64.disassemble(elf.code(caller), caller.address)
        if each.mnemonic == "bl"
    ]
    inner = elf.function_at(called[0])
    assert inner is not None
    return inner


@pytest.mark.heavy
@pytest.mark.parametrize(("series", "name", "with_return"), CASES)
def test_real_functions(series: str, name: str, with_return: bool) -> None:
    with Elf(str(libraries.library(series, "arm64").path)) as elf:
        assert elf.machine == "aarch64"
        function = find(elf, name)
        code = elf.code(function)
    site = probe_sites.best_site(
        code, function.address, NEEDED[name], with_return=with_return, machine=MACHINE
    )
    assert site is not None
    expected = WITH_RETURN.get((series, name), S0) if with_return else TABLE[series][name]
    assert (site.address - function.address, site.cost) == expected


@pytest.mark.heavy
def test_its_libraries_are_known_but_not_probed() -> None:
    with Elf(str(libraries.library("3.0", "arm64").path)) as elf:
        found = make_attachment(elf, ReturnStyle.TRAMPOLINE)
    remedy = "only x86-64 programs can be watched"
    row = Unprobed("openssl", "OpenSSL", "3.0", "it is for aarch64", remedy)
    assert found == Refusal("OpenSSL 3.0: it is for aarch64", True, remedy, (row,))
