"""Which nops a kernel may replace by a call, and that no probe is placed on one unproved."""

import struct
import subprocess
from pathlib import Path

import pytest

from sslsniff.core.errors import KernelError
from sslsniff.elf.elf_file import Elf
from sslsniff.kernel import perf_event
from sslsniff.kernel.loaders import uprobe_multi
from sslsniff.kernel.loaders.bcc_loader import BccLoader
from sslsniff.kernel.loaders.libbpf import LibbpfLoader
from sslsniff.kernel.loaders.loader import Loader
from sslsniff.kernel.probe_safety import nop_trial, place_check
from sslsniff.kernel.probe_safety.optimised_nops import optimised_nop
from sslsniff.machine_code.instructions import disassemble, instruction_lines
from sslsniff.machine_code.nop_places import after_nops

NOP5, NOP6 = bytes.fromhex("0f1f440000"), bytes.fromhex("660f1f440000")
REST = bytes.fromhex("4889f8c3")


@pytest.mark.parametrize(
    "text",
    [
        "0f1f440000",  # nopl 0(%rax,%rax,1)
        "0f1f440008",  # as clang's patchable functions have it
        "660f1f4000",
        "3e0f1f4000",
        "6666666690",
        "660f1f440000",
        "0f1f8000000000",
        "0f1f840000000000",
        "660f1f840000000000",
        "662e0f1f840000000000",
        "66662e0f1f840000000000",
        "66666666662e0f1f840000000000",
        "e900000000",  # jmp to the next instruction
        "666666eb00",
        "488d742600",  # lea 0(%rsi),%rsi
        "488db600000000",
        "66664889ff",  # mov %rdi,%rdi
    ],
)
def test_nops_with_room_for_a_call(text: str) -> None:
    nop = bytes.fromhex(text)
    assert [each.size for each in disassemble(nop, 0)] == [len(nop)]
    assert optimised_nop(nop + REST) == nop
    assert optimised_nop(nop[:-1]) == b""


@pytest.mark.parametrize(
    "text",
    [
        "90",
        "6690",
        "0f1f00",
        "0f1f4000",  # 4 bytes
        "f30f1efa",  # endbr64
        "e901000000",
        "0f84000000000000",  # je to the next instruction is no nop for the kernel
        "488d742601",
        "488d7e0000",
        "0f1f4c0000",  # another register: no nop
        "4889fe",
        "660f1f",
        "66" * 16,
        "",
    ],
)
def test_all_else(text: str) -> None:
    assert optimised_nop(bytes.fromhex(text)) == b""


def test_the_program_of_the_trial_is_what_its_comments_say() -> None:
    """The comments of its bytes, as assembler, without names and labels."""
    source = Path(nop_trial.__file__).read_text("utf-8").splitlines()
    written = [each.split('"  # ')[1] for each in source if '"  # ' in each]
    code = nop_trial.BEFORE_NOP + NOP5 + nop_trial.AFTER_NOP
    lines = [line for line in instruction_lines(code, 0) if line[2] != "nop"]
    assert sum(each[1] for each in lines) == len(code) - len(NOP5)
    assert len(lines) == len(written)
    for (_, _, mnemonic, _), comment in zip(lines, written, strict=True):
        assert mnemonic in comment.split()[:3]


@pytest.mark.parametrize("nop", [NOP5, NOP6])
def test_the_program_ends_well_without_a_probe(nop: bytes, tmp_path: Path) -> None:
    path = tmp_path / "program"
    path.write_bytes(nop_trial.program(nop))
    path.chmod(0o755)
    assert subprocess.run([path], check=False).returncode == 0


@pytest.mark.tools
def test_a_nop_that_no_kernel_replaces_passes() -> None:
    """So a failure is the kernel's, not the program's."""
    assert nop_trial.is_kept_intact(NOP6)


@pytest.mark.tools
def test_kernels_without_multi_links_are_tried_too(monkeypatch: pytest.MonkeyPatch) -> None:
    known = nop_trial.is_kept_intact(NOP5)
    monkeypatch.setattr(uprobe_multi, "is_supported", lambda: False)
    assert nop_trial.is_kept_intact.__wrapped__(NOP6)
    assert nop_trial.is_kept_intact.__wrapped__(NOP5) is known


def test_what_cannot_be_tried_is_unsafe(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError

    monkeypatch.setattr(uprobe_multi, "is_supported", lambda: False)
    monkeypatch.setattr(perf_event, "open_uprobe", refuse)
    assert not nop_trial.is_kept_intact.__wrapped__(NOP6)


@pytest.mark.parametrize("kind", [LibbpfLoader, BccLoader])
def test_each_loader_refuses_before_all_else(
    kind: type[Loader], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place_check, "is_kept_intact", lambda _: False)
    path = tmp_path / "file"
    path.write_bytes(b"\x90" * 16 + NOP5 + REST)
    with pytest.raises(KernelError, match="cannot probe 0x10: this kernel replaces the nop"):
        object.__new__(kind).attach_uprobes(
            "c_return", str(path), [0, 16], is_return=False, cookies=[0, 0]
        )


def test_a_file_that_cannot_be_read_is_not_probed(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match="cannot read the code that is to be probed"):
        place_check.check_places(str(tmp_path / "missing"), [0])


@pytest.mark.tools
def test_the_next_instruction_stands_for_a_nop(tmp_path: Path) -> None:
    """Unless a jump leads there: from the function, from afar, or perhaps from a table."""
    source = """
        .macro function name
        .globl \\name
        .type \\name, @function
        \\name:
        .endm
        .macro nop5
        .byte 0x0f, 0x1f, 0x44, 0, 0
        .endm
        function plain
            mov %rdi, %rax
            nop5
            nop5
            ret
        .size plain, . - plain
        function looped
            mov %rdi, %rax
            nop5
        1:  dec %rax
            jne 1b
            ret
        .size looped, . - looped
        function from_afar
            mov %rdi, %rax
            nop5
        2:  ret
        .size from_afar, . - from_afar
        .skip 300
        function far
            jmp 2b
        .size far, . - far
        function unknown
            mov %rdi, %rax
            nop5
            jmp *%rax
        .size unknown, . - unknown
        function last
            mov %rdi, %rax
            nop5
        .size last, . - last
    """
    object_file, library = tmp_path / "code.o", tmp_path / "code.so"
    assemble: list[str | Path] = ["gcc", "-x", "assembler", "-c", "-o", object_file, "-"]
    subprocess.run(assemble, input=source, text=True, check=True)
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", library, object_file], check=True)
    with Elf(str(library)) as elf:
        starts = {each.name: each.function.address for each in elf.functions()}
        moved = {name: after_nops(elf, start + 3) - start - 3 for name, start in starts.items()}
        assert moved.pop("far") == 0
        assert moved == {"plain": 10, "looped": 0, "from_afar": 0, "unknown": 0, "last": 0}
        assert after_nops(elf, starts["plain"]) == starts["plain"]


def test_the_elf_header_has_its_sizes() -> None:
    made = nop_trial.program(NOP5)
    assert struct.unpack_from("<H", made, 52) == (64,)
