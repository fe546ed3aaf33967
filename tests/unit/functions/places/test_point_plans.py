"""Static probes, lines and addresses of real programs."""

import struct
import subprocess
from pathlib import Path

import pytest

from sslsniff.core.errors import TargetError
from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.trace_places import PlaceKind
from sslsniff.fetching.traced_values import FollowedPointer, Missing, RawRegister, Text
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.places.plans import PlanOptions
from sslsniff.functions.places.point_plans import plan_address, plan_line, plan_static_probes
from sslsniff.machine_code.instructions import disassemble
from tests.unit.functions.probed_run import ProbedRun
from tests.workload.compiler import ZIG

pytestmark = pytest.mark.tools

FUNCTIONS = Path("tests/workload/functions")
OPTIONS = PlanOptions()
FORMS = {
    "arg1": -0x55443305,
    "arg2": 0xAABBCCFB,
    "arg3": -0x3305,
    "arg4": 0xFB,
    "arg5": 0x11223344AABBCCFB,
    "arg6": 0x88,
    "arg7": -5,
    "arg8": 5,
    "arg9": 10,
    "arg10": -11,
    "arg11": 12,
    "arg12": 13,
    "arg13": 77,
    "arg14": -78,
    "arg16": Missing.NOT_READABLE,
    "arg17": -9,
    "arg18": Missing.UNKNOWN_TYPE,
}


def built(tmp_path: Path, name: str, *options: str) -> Path:
    program = tmp_path / "program"
    subprocess.run(["gcc", *options, FUNCTIONS / name, "-o", program], check=True)
    return program


@pytest.mark.parametrize("options", [("-O0",), ("-O2", "-no-pie")])
def test_operands_of_all_forms(tmp_path: Path, options: tuple[str, ...]) -> None:
    program = built(tmp_path, "static_probes.c", *options)
    with Elf(str(program)) as elf:
        plan = plan_static_probes(elf, ["test:forms"], OPTIONS)
    assert plan.cost == "1 probe: about 1 us a hit each"
    [hit] = ProbedRun([program], plan.places).hits
    assert (hit.place.kind, hit.place.function) == (PlaceKind.STATIC, "test:forms")
    text = hit.values.pop("arg15")
    assert isinstance(text, FollowedPointer)
    assert text.value == Text("SELECT 1")
    assert hit.values == FORMS


def test_a_semaphore_is_a_place_in_the_file(tmp_path: Path) -> None:
    program = built(tmp_path, "static_probes.c")
    with Elf(str(program)) as elf:
        [place] = plan_static_probes(elf, ["guarded"], OPTIONS).places
    assert place.semaphore
    data = bytearray(program.read_bytes())
    assert data[place.semaphore : place.semaphore + 2] == b"\0\0"
    struct.pack_into("<H", data, place.semaphore, 1)
    program.write_bytes(data)
    [hit] = ProbedRun([program], [place]).hits
    assert hit.values == {"arg1": 5}


@pytest.mark.parametrize("is_separate", [True, False])
def test_semaphores_that_the_kernel_misplaces(tmp_path: Path, is_separate: bool) -> None:
    """As lld links, the page of the file with the semaphore is in two writable segments."""
    made, library = tmp_path / "probes.o", tmp_path / "probes.so"
    subprocess.run(
        ["gcc", "-c", "-fPIC", "-fvisibility=hidden", FUNCTIONS / "static_probes.c", "-o", made],
        check=True,
    )
    flags = ("-z", "separate-loadable-segments") if is_separate else ()
    linker = (*ZIG, "ld.lld", "-shared")
    subprocess.run([*linker, *flags, made, "-o", library], check=True)
    with Elf(str(library)) as elf:
        notes = plan_static_probes(elf, ["test:"], OPTIONS).notes
    if is_separate:
        assert notes == ()
    else:
        [note] = notes
        assert note.startswith("test:guarded: not seen in processes that start from now on")


def test_what_has_no_static_probe(tmp_path: Path) -> None:
    program = built(tmp_path, "static_probes.c")
    with Elf(str(program)) as elf, pytest.raises(TargetError, match="did you mean test:forms"):
        plan_static_probes(elf, ["test:form_$"], OPTIONS)
    program = built(tmp_path, "traceme.c")
    with Elf(str(program)) as elf, pytest.raises(TargetError, match="has no static probes"):
        plan_static_probes(elf, ["test:forms"], OPTIONS)


def test_a_line_has_its_locals(tmp_path: Path) -> None:
    program = built(tmp_path, "conventions.c", "-g", "-O0")
    source = (FUNCTIONS / "conventions.c").read_text().splitlines()
    line = next(at for at, each in enumerate(source, 1) if "while (count--)" in each)
    with Elf(str(program)) as elf:
        plan = plan_line(elf, "conventions.c", line, OPTIONS, open_debug_info(elf))
    hits = ProbedRun([program], plan.places).hits
    assert {each.place.function for each in hits} == {"many_times"}
    assert {(each.place.kind, each.place.line) for each in hits} == {(PlaceKind.LINE, line)}
    assert hits[0].values == {"count": 3, "total": 0}
    assert len({each.stack for each in hits}) == 1


def test_a_line_without_code(tmp_path: Path) -> None:
    program = built(tmp_path, "conventions.c", "-g")
    source = (FUNCTIONS / "conventions.c").read_text().splitlines()
    inside = next(at for at, each in enumerate(source, 1) if "while (count--)" in each)
    with Elf(str(program)) as elf:
        debug = open_debug_info(elf)
        assert debug is not None
        lines = debug.lines_with_code("conventions.c")
        assert all(debug.addresses_of("conventions.c", each) for each in lines)
        every = range(1, len(source) + 1)
        assert lines == [at for at in every if debug.addresses_of("conventions.c", at)]
        assert inside in lines
        gap = next(at for at in range(inside, lines[-1]) if at not in lines)
        before, after = max(filter(gap.__gt__, lines)), min(filter(gap.__lt__, lines))
        for line, near in (
            (1, f"{lines[0]}"),
            (gap, f"{before} or {after}"),
            (len(source) + 9, f"{lines[-1]}"),
        ):
            with pytest.raises(TargetError, match=rf"conventions\.c:{line}: use line {near}, the"):
                plan_line(elf, "conventions.c", line, OPTIONS, debug)


def test_a_line_of_a_file_that_is_not_known(tmp_path: Path) -> None:
    program = built(tmp_path, "conventions.c", "-g")
    with Elf(str(program)) as elf:
        for file, hint in (
            ("convention.c", r"did you mean conventions\.c\?"),
            ("function/conventions.c", r"did you mean functions/conventions\.c\?"),
            ("x", "name a source file with code"),
        ):
            with pytest.raises(TargetError, match=f"is from a file {file}: {hint}"):
                plan_line(elf, file, 1, OPTIONS, open_debug_info(elf))


def test_a_line_without_debug_info(tmp_path: Path) -> None:
    program = built(tmp_path, "conventions.c")
    with Elf(str(program)) as elf, pytest.raises(TargetError, match="no debug info"):
        plan_line(elf, "conventions.c", 1, OPTIONS, None)


def test_an_address_has_the_registers(tmp_path: Path) -> None:
    program = built(tmp_path, "conventions.c", "-O2")
    with Elf(str(program)) as elf:
        function = elf.function("many_times")
        assert function
        plan = plan_address(elf, function.address, OPTIONS, None)
    [hit] = ProbedRun([program], plan.places).hits
    assert hit.place.function == "many_times+0x0"
    assert hit.values["rdi"] == RawRegister("rdi", 3)


@pytest.mark.parametrize("is_stripped", [False, True])
def test_an_address_within_an_instruction_is_refused(tmp_path: Path, is_stripped: bool) -> None:
    program = built(tmp_path, "conventions.c", "-O2")
    with Elf(str(program)) as elf:
        function = elf.function("many_times")
        assert function
    if is_stripped:
        subprocess.run(["strip", program], check=True)
    with Elf(str(program)) as elf:
        first, second, *_ = disassemble(elf.code(function), function.address)
        assert second.size > 1
        for instruction in (first, second):
            [place] = plan_address(elf, instruction.address, OPTIONS, None).places
            assert place.address == instruction.address
        within = second.address + 1
        with pytest.raises(TargetError, match=rf"begins at {within:#x}.*: use {second.address:#x}"):
            plan_address(elf, within, OPTIONS, None)
        [place] = plan_address(elf, within, PlanOptions(force=True), None).places
        assert place.address == within


def test_an_address_without_code_is_refused(tmp_path: Path) -> None:
    program = built(tmp_path, "conventions.c")
    with Elf(str(program)) as elf:
        start, size = elf.code_parts[0]
        for address in (1 << 40, start + size):
            with pytest.raises(TargetError, match=f"has no code at {address:#x}: sslsniff symbols"):
                plan_address(elf, address, PlanOptions(force=True), None)


def test_an_address_between_functions_is_refused(tmp_path: Path) -> None:
    program = built(tmp_path, "conventions.c", "-O2")
    with Elf(str(program)) as elf:
        start, size = elf.code_parts[-1]
        with pytest.raises(TargetError, match=r"has no function at .*: use --force"):
            plan_address(elf, start + size - 1, OPTIONS, None)
