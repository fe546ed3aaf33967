"""What is found in real Go programs: judged by their symbols and debug information."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import capstone
import pytest
from elftools.elf.elffile import ELFFile

from sslsniff.analysis.attachments import make_attachment
from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.go import plan as go_tls
from sslsniff.libraries.go.function_table import GoFunctions
from sslsniff.libraries.go.go_fitting import fit_go
from sslsniff.libraries.go.memory import Memory
from sslsniff.libraries.go.types import pointer_hash, struct_fields
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.probe_set import Attachment, ProbedLibrary, Refusal, ReturnStyle
from tests.workload.go.fixtures import BEFORE, FEW, NEWEST, Fixture

WITHOUT_TLS = ("plain", "calls", "panics", "stacks", "threads")
WITH_TLS = [each for each in FEW if each.program not in WITHOUT_TLS]
WITH_SYMBOLS = [each for each in WITH_TLS if each[1:] == (NEWEST, "plain")]
TYPE_MARK = "*net.Conn"
DAMAGED_COPIES = 150


@contextmanager
def memory(fixture: Fixture) -> Iterator[Memory]:
    with Elf(str(fixture.path)) as elf:
        yield Memory(elf)


def section(file: ELFFile, name: str) -> Any:
    found = file.get_section_by_name(name)
    assert found is not None
    return found


def instructions(fixture: Fixture) -> set[int]:
    """Return the offsets of all instructions."""
    decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    decoder.skipdata = True
    with fixture.path.open("rb") as file:
        text = section(ELFFile(file), ".text")
        code, start = text.data(), text["sh_offset"]
    return {at for at, *_ in decoder.disasm_lite(code, start)}


def part(path: Path) -> ProbedLibrary:
    with Elf(str(path)) as elf:
        found = make_attachment(elf, ReturnStyle.INSTRUCTIONS)
    assert isinstance(found, Attachment), found
    [library] = found.parts
    return library


@pytest.mark.heavy
@pytest.mark.parametrize("fixture", WITH_SYMBOLS, ids="-".join)
def test_functions_are_those_of_the_symbol_table(fixture: Fixture) -> None:
    with memory(fixture) as known, fixture.path.open("rb") as file:
        functions = GoFunctions(known)
        symbols = [
            each
            for each in section(ELFFile(file), ".symtab").iter_symbols()
            if each.name.startswith(("crypto/tls.", "net.(*")) and each["st_size"]
        ]
        assert len(symbols) > 500
        for symbol in random.Random(1).sample(symbols, 100):
            if symbol["st_info"]["type"] != "STT_FUNC" or ".abi0" in symbol.name:
                continue
            found = functions.function(symbol.name)
            assert found is not None, symbol.name
            assert found.address == symbol["st_value"]
            assert 0 <= found.size - symbol["st_size"] < 64  # filled up to the next one
            assert functions.name_at(found.address) == symbol.name
            assert functions.name_at(found.address + 1) is None
        assert functions.function("crypto/tls.(*Conn).Rea") is None
        assert functions.function("no such function") is None


@pytest.mark.heavy
@pytest.mark.parametrize("fixture", WITH_SYMBOLS, ids="-".join)
def test_fields_are_those_of_the_debug_information(fixture: Fixture) -> None:
    with memory(fixture) as known:
        fields = struct_fields(known, "conn", *go_tls.FIELDS)
    expected = {}
    with fixture.path.open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info()
        for unit in dwarf.iter_CUs():
            for die in unit.get_top_DIE().iter_children():
                name = die.attributes.get("DW_AT_name")
                is_struct = die.tag == "DW_TAG_structure_type"
                if is_struct and name is not None and name.value == b"crypto/tls.Conn":
                    for member in die.iter_children():
                        offset = member.attributes["DW_AT_data_member_location"].value
                        expected[member.attributes["DW_AT_name"].value.decode()] = offset
            if expected:
                break
    found = {name: field.offset for name, field in fields.items() if name != "_"}
    assert found == {name: offset for name, offset in expected.items() if name != "_"}


@pytest.mark.heavy
@pytest.mark.parametrize("fixture", WITH_TLS, ids="-".join)
def test_one_cheap_probe_sees_all_of_a_call(fixture: Fixture) -> None:
    found = part(fixture.path)
    assert {each.cost for each in found.probes} == {Cost.EMULATED}
    programs = [each.program for each in found.probes]
    assert programs.count("go_read") == programs.count("go_write") == 1
    assert all(not each.is_return for each in found.probes)
    with Elf(str(fixture.path)) as elf:
        functions = GoFunctions(Memory(elf))
        decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        starts: set[int] = set()
        for row in go_tls.ROWS:
            function = functions.function(row.function)
            if function is not None:
                code = elf.code(function)
                starts |= {elf.offset(at) for at, *_ in decoder.disasm_lite(code, function.address)}
        assert {each.offset for each in found.probes} <= starts


@pytest.mark.heavy
@pytest.mark.parametrize("fixture", WITH_TLS, ids="-".join)
def test_what_a_connection_says_is_found(fixture: Fixture) -> None:
    found = part(fixture.path)
    assert found.library == "go"
    shown = fixture.release if fixture.release > "1.18" else None  # said since then
    assert found.version == (shown if fixture.release != BEFORE else None)
    assert isinstance(found.layout, ObjectLayout)
    unknown = {name for name, value in found.layout._asdict().items() if value is None}
    assert unknown.isdisjoint({"client", "version", "alpn", "sni", "handshakes", "socket_type"})


@pytest.mark.heavy
def test_a_type_that_is_not_there_has_no_hash() -> None:
    [fixture, *_] = WITH_SYMBOLS
    with memory(fixture) as known:
        fields = struct_fields(known, "conn", *go_tls.FIELDS)
        assert pointer_hash(known, "*net.NoConn", {fields["conn"].type: TYPE_MARK}) is None
        assert pointer_hash(known, "*net.TCPConn", {fields["config"].type: TYPE_MARK}) is None
        assert not struct_fields(known, "conn", "noField")


@pytest.mark.heavy
def test_a_program_without_tls() -> None:
    [plain] = [each for each in FEW if each.program == "plain"]
    with Elf(str(plain.path)) as elf:
        assert isinstance(make_attachment(elf, ReturnStyle.INSTRUCTIONS), Refusal)
        assert fit_go(elf, ReturnStyle.INSTRUCTIONS) == ([], [], [])


@pytest.mark.heavy
@pytest.mark.parametrize("style", [ReturnStyle.TRAMPOLINE, ReturnStyle.PLAIN_INSTRUCTIONS])
def test_kernels_without_cookies(style: ReturnStyle) -> None:
    """Programs there cannot know where values are: so there are no probes, and a reason."""
    with Elf(str(FEW[0].path)) as elf:
        found = make_attachment(elf, style)
    assert isinstance(found, Refusal)
    [row] = found.unprobed
    assert (row.library, row.name) == ("go", "Go (crypto/tls)")
    assert row.reason == "its probes need Linux 5.15 and --returns instructions"


@pytest.mark.heavy
def test_damaged_copies(tmp_path: Path) -> None:
    """The tables are damaged, not the code: each probe that is found is on an instruction."""
    whole = FEW[0].path.read_bytes()
    starts = instructions(FEW[0])
    with FEW[0].path.open("rb") as file:
        sections = [section(ELFFile(file), name) for name in (".gopclntab", ".rodata")]
        ranges = [(each["sh_offset"], each["sh_size"]) for each in sections]
        ranges.append((sections[0]["sh_offset"], 64))
    chance = random.Random(2)
    copy = tmp_path / "copy"
    for _ in range(DAMAGED_COPIES):
        damaged = bytearray(whole)
        start, size = chance.choice(ranges)
        for _ in range(chance.choice((1, 16, 4096))):
            damaged[start + chance.randrange(size)] = chance.randrange(256)
        copy.write_bytes(damaged)
        try:
            with Elf(str(copy)) as elf:
                found = make_attachment(elf, ReturnStyle.INSTRUCTIONS)
        except ElfError:
            continue
        for library in getattr(found, "parts", ()):
            for probe in library.probes:
                assert probe.offset in starts
