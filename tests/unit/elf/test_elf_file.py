"""Our reader of ELF files against pyelftools, gcc and damage."""

import contextlib
import os
import re
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest
from elftools.dwarf.callframe import FDE
from elftools.elf.elffile import ELFFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.callers import stub_slot
from tests import libraries

NAMES = [*libraries.OPENSSL, "boringssl", "wolfssl-5.5"]
CLASS_AT, MACHINE_AT, SECTIONS_AT = 4, 18, 40


@pytest.fixture(params=NAMES)
def library(request: pytest.FixtureRequest) -> Path:
    return libraries.library(request.param).path


@pytest.fixture(scope="module")
def whole() -> bytes:
    return libraries.library("3.0").path.read_bytes()


def compiled(folder: Path, source: str, *options: str) -> Path:
    output = folder / "compiled"
    subprocess.run(
        ["gcc", "-x", "c", "-", "-o", output, *options], input=source.encode(), check=True
    )
    return output


def section(file: ELFFile, name: str) -> Any:
    """Return a section, which has what its kind has."""
    found = file.get_section_by_name(name)
    assert found is not None
    return found


@pytest.mark.tools
def test_all_functions_are_where_pyelftools_finds_them(library: Path) -> None:
    with library.open("rb") as file, Elf(str(library)) as elf:
        symbols = list(section(ELFFile(file), ".dynsym").iter_symbols())
        functions = [
            each
            for each in symbols
            if each["st_info"]["type"] == "STT_FUNC" and each["st_shndx"] != "SHN_UNDEF"
        ]
        assert len(functions) > 300
        for each in functions:
            assert elf.function(each.name) == Function(each["st_value"], each["st_size"])
        called = [each for each in symbols if each["st_shndx"] == "SHN_UNDEF" and each.name]
        assert called
        for each in called:
            assert elf.function(each.name) is None


@pytest.mark.tools
def test_code_and_build_id_are_what_pyelftools_reads(library: Path) -> None:
    with library.open("rb") as file, Elf(str(library)) as elf:
        theirs = ELFFile(file)
        note = next(section(theirs, ".note.gnu.build-id").iter_notes())
        assert elf.build_id == note["n_desc"]
        function = elf.function("SSL_read") or elf.function("wolfSSL_read")
        assert function is not None
        text = section(theirs, ".text")
        at = function.address - text["sh_addr"]
        assert elf.code(function) == text.data()[at : at + function.size]
        assert elf.offset(function.address) == text["sh_offset"] + at


@pytest.mark.heavy
def test_functions_without_symbols_have_their_unwind_length(library: Path) -> None:
    with library.open("rb") as file, Elf(str(library)) as elf:
        frames = [
            each.header
            for each in ELFFile(file).get_dwarf_info().EH_CFI_entries()
            if isinstance(each, FDE)
        ]
        assert len(frames) > 300
        for each in frames[::7]:
            start = each["initial_location"]
            assert elf.function_at(start) == Function(start, each["address_range"])
            assert elf.function_at(start + 1) is None


@pytest.mark.heavy
def test_stubs_lead_where_objdump_says(library: Path) -> None:
    shown = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", library], capture_output=True, text=True, check=True
    ).stdout
    calls = set(re.findall(r"call +([0-9a-f]+) <(\w+)@plt>", shown))
    assert len(calls) > 50
    with Elf(str(library)) as elf:
        for address, name in calls:
            at = int(address, 16)
            slot = stub_slot(elf.code(Function(at, 16)), at)
            assert slot is not None
            assert elf.name_in(slot) == name
            assert elf.name_in(slot + 1) is None


@pytest.mark.tools
def test_a_name_that_ends_a_longer_one_is_found(tmp_path: Path) -> None:
    source = "int my_SSL_read(void) { return 1; } int SSL_read(void) { return 2; }"
    with Elf(str(compiled(tmp_path, source, "-shared", "-fPIC", "-s"))) as elf:
        longer, shorter = elf.function("my_SSL_read"), elf.function("SSL_read")
        assert longer
        assert shorter
        assert longer != shorter
        assert elf.function("L_read") is None
        assert elf.function("SSL_rea") is None


@pytest.mark.tools
@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_what_a_library_exports_is_found_by_any_table(style: str, tmp_path: Path) -> None:
    source = "int other(void); static int own(void) { return 1; } int data;" + "".join(
        f"int f{number}(void) {{ return other() + own(); }}" for number in range(200)
    )
    link = f"-Wl,--hash-style={style}"
    with Elf(str(compiled(tmp_path, source, "-shared", "-fPIC", "-s", link))) as elf:
        assert all(elf.exports(f"f{number}") for number in range(200))
        assert not any(map(elf.exports, ["other", "own", "data", "f200", "f", ""]))


@pytest.mark.heavy
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_damage_to_the_table_of_hashes_raises_nothing_else(
    data: st.DataObject, whole: bytes, tmp_path: Path
) -> None:
    with Elf(str(_written(tmp_path, whole))) as elf:
        [section] = elf._sections_named(".gnu.hash")
    table = section.part
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        at = table.offset + data.draw(st.integers(0, 64) | st.integers(0, table.size - 4))
        damaged[at : at + 4] = data.draw(st.binary(min_size=4, max_size=4))
    with Elf(str(_written(tmp_path, bytes(damaged)))) as elf:
        for name in ("SSL_read", "SSL_CTX_new", "nothing"):
            with contextlib.suppress(ElfError):
                elf.exports(name)


def _written(folder: Path, data: bytes) -> Path:
    path = folder / "damaged"
    path.write_bytes(data)
    return path


@pytest.mark.tools
def test_symbols_of_a_program_that_exports_none_are_found(tmp_path: Path) -> None:
    source = "int SSL_read(int a) { return a; } int main(void) { return SSL_read(0); }"
    path = compiled(tmp_path, source)
    with Elf(str(path)) as elf:
        assert elf.function("SSL_read")
    subprocess.run(["strip", path], check=True)
    with Elf(str(path)) as elf:
        assert elf.function("SSL_read") is None


@pytest.mark.tools
def test_data_is_no_function(tmp_path: Path) -> None:
    with Elf(str(compiled(tmp_path, "int SSL_read = 3;", "-shared", "-fPIC"))) as elf:
        assert elf.function("SSL_read") is None


@pytest.mark.tools
def test_a_symbol_without_length_has_that_of_its_frame(tmp_path: Path) -> None:
    assembly = (
        'asm(".globl SSL_read\\n.type SSL_read,@function\\nSSL_read:\\n.cfi_startproc\\n'
        'mov %edi,%eax\\nret\\n.cfi_endproc\\n");'
    )
    with Elf(str(compiled(tmp_path, assembly, "-shared", "-fPIC"))) as elf:
        function = elf.function("SSL_read")
        assert function is not None
        assert function.size == 3
        assert elf.code(function) == b"\x89\xf8\xc3"


@pytest.mark.tools
def test_a_file_without_section_headers_has_no_symbols(tmp_path: Path, whole: bytes) -> None:
    path = tmp_path / "bare"
    path.write_bytes(whole[:SECTIONS_AT] + bytes(8) + whole[SECTIONS_AT + 8 :])
    with Elf(str(path)) as elf:
        assert elf.function("SSL_read") is None
        assert elf.build_id


def open_written(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with Elf(str(path)) as elf:
        elf.function("SSL_read")


@pytest.mark.tools
@pytest.mark.parametrize(
    ("place", "value", "fact"),
    [
        (CLASS_AT, b"\x01", "is for 32-bit code"),
        (CLASS_AT + 1, b"\x02", "is for another machine"),
        (MACHINE_AT, struct.pack("<H", 243), "is for RISC-V"),
        (MACHINE_AT, struct.pack("<H", 3), "is for 32-bit x86"),
        (MACHINE_AT, struct.pack("<H", 9999), "is for another machine (9999)"),
        (0, b"#!/b", "is not an ELF file"),
    ],
)
def test_files_of_another_kind_are_refused(
    tmp_path: Path, whole: bytes, place: int, value: bytes, fact: str
) -> None:
    with pytest.raises(ElfError) as caught:
        open_written(tmp_path / "odd", whole[:place] + value + whole[place + len(value) :])
    assert fact in caught.value.fact
    assert "x86-64" in caught.value.remedy


@pytest.mark.parametrize("data", [b"", b"x", b"hello\n" * 100, b"\x7fEL"])
def test_what_is_no_elf_file_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(ElfError, match="is not an ELF file: name an x86-64 program"):
        open_written(tmp_path / "text", data)


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    for name, fact in [
        ("missing", r"cannot read \S+ \(No such file or directory\)"),
        ("fifo", "is not a file"),
        (".", "is not a file"),
    ]:
        with pytest.raises(ElfError, match=f"{fact}: name an x86-64 program"):
            Elf(str(tmp_path / name))


@pytest.mark.heavy
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(data=st.data())
def test_a_file_cut_off_anywhere_is_refused(
    tmp_path: Path, whole: bytes, data: st.DataObject
) -> None:
    size = data.draw(st.integers(4, len(whole) - 1) | st.integers(4, 4096))
    with pytest.raises(ElfError, match="is cut off or damaged: install it again"):
        open_written(tmp_path / "cut", whole[:size])


@pytest.mark.heavy
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(place=st.integers(0, 4096), value=st.binary(min_size=1, max_size=16))
def test_damage_to_the_headers_raises_nothing_else(
    tmp_path: Path, whole: bytes, place: int, value: bytes
) -> None:
    damaged = whole[:place] + value + whole[place + len(value) :]
    with contextlib.suppress(ElfError):
        open_written(tmp_path / "damaged", damaged)
