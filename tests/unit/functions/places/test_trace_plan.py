"""What a plan says: costs, what is missing, what is refused."""

import subprocess
from pathlib import Path

import pytest

from sslsniff.core.errors import TargetError
from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.fetching.traced_values import RawRegister
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.places.critical_functions import critical_part
from sslsniff.functions.places.plans import PlanOptions, TracePlan, cost_line
from sslsniff.functions.places.trace_plan import plan_functions
from sslsniff.machine_code.probe_sites import Cost
from tests.unit.functions.probed_run import ProbedRun

SOURCE = """
#include <stdio.h>
#define KEPT __attribute__((noinline, noipa))
KEPT int handle(int a, const char *b) { printf("%d %s", a, b); return a + 1; }
KEPT int handle_more(int a) { return handle(a, "text") + 1; }
KEPT int last(int a) { return handle(a, "last"); }
int main(void) { return handle_more(3) + last(4); }
"""


def built(tmp_path: Path, *options: str, source: str = SOURCE) -> Path:
    program = tmp_path / "program"
    command = ["gcc", "-x", "c", *options, "-", "-o", str(program)]
    subprocess.run(command, input=source.encode(), check=True)
    return program


def planned(program: Path, *patterns: str, options: PlanOptions | None = None) -> TracePlan:
    with Elf(str(program)) as elf:
        return plan_functions(elf, patterns, options or PlanOptions(), open_debug_info(elf))


def names(plan: TracePlan) -> set[str]:
    return {each.function for each in plan.places}


@pytest.mark.tools
def test_a_whole_name_matches_only_that(tmp_path: Path) -> None:
    program = built(tmp_path, "-g")
    assert names(planned(program, "handle")) == {"handle"}
    assert names(planned(program, "handl")) == {"handle", "handle_more"}
    assert names(planned(program, "handle", "^main")) == {"handle", "main"}


@pytest.mark.tools
def test_nearest_names_are_said(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="matches handel: did you mean handle"):
        planned(built(tmp_path, "-g"), "handel")


@pytest.mark.tools
def test_without_symbols_and_debug_info(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="neither symbols nor debug info: build it with symbols"):
        planned(built(tmp_path, "-s"), "handle")


@pytest.mark.tools
def test_without_debug_info_there_are_registers(tmp_path: Path) -> None:
    program = built(tmp_path, "-O2")
    plan = planned(program, "handle_more")
    assert "arguments are raw registers; build with debug = 2 (Rust) or -g" in plan.notes[0]
    entered, returned = ProbedRun([program], plan.places).hits
    assert entered.values["arg1"] == RawRegister("rdi", 3)
    assert returned.values["result"] == RawRegister("rax", 5)


@pytest.mark.tools
def test_another_machine_is_refused(tmp_path: Path) -> None:
    program = built(tmp_path)
    data = bytearray(program.read_bytes())
    data[18:20] = (183).to_bytes(2, "little")  # e_machine: EM_AARCH64
    program.write_bytes(data)
    with pytest.raises(TargetError, match="is for aarch64: functions can be traced on x86-64 only"):
        planned(program, "main")


@pytest.mark.tools
def test_tail_calls_are_said(tmp_path: Path) -> None:
    plan = planned(built(tmp_path, "-g", "-O2"), "last")
    assert [each.kind for each in plan.places] == [PlaceKind.ENTRY]
    assert "may end by a jump to another function" in plan.notes[-1]


@pytest.mark.tools
def test_results_are_read_of_few_functions_or_as_asked(tmp_path: Path) -> None:
    source = "".join(f"int f{n}(int a) {{ return a + {n}; }}" for n in range(21))
    program = built(tmp_path, "-g", source=f"{source} int main(void) {{ return 0; }}")
    kinds = {each.kind for each in planned(program, "^f").places}
    assert kinds == {PlaceKind.ENTRY}
    assert len(planned(program, "^f", options=PlanOptions(results=True)).places) == 42
    assert len(planned(program, r"^f\d$").places) == 20
    assert len(planned(program, r"^f\d$", options=PlanOptions(results=False)).places) == 10


@pytest.mark.heavy
def test_too_many_places_are_refused(tmp_path: Path) -> None:
    source = "".join(f"int f{n}(int a) {{ return a + {n}; }}" for n in range(2001))
    program = built(tmp_path, source=f"{source} int main(void) {{ return 0; }}")
    with pytest.raises(TargetError, match="matches 2,001 functions; 2,000 probes at most: choose"):
        planned(program, r"^f\d")
    assert len(planned(program, r"^f\d", options=PlanOptions(force=True)).places) == 2001


@pytest.mark.tools
def test_critical_functions_are_not_probed(tmp_path: Path) -> None:
    program = built(tmp_path, "-g")
    plan = planned(program, "^_start$", "main")
    assert names(plan) == {"main"}
    assert "_start is not probed: part of the start of the program" in plan.notes[0]
    assert names(planned(program, "^_start$", options=PlanOptions(force=True))) == {"_start"}


@pytest.mark.parametrize(
    ("name", "is_critical"),
    [
        ("__rustc::rust_panic", True),
        ("__rustc::rust_begin_unwind", True),
        ("__rustc::__rust_alloc", False),
        ("std::sys::personality::gcc::rust_eh_personality", True),
        ("<std::panicking::panic_handler::StaticStrPayload as core::fmt::Display>::fmt", True),
        ("<orders::Order as core::fmt::Display>::fmt", False),
        ("runtime.mcall", True),
        ("runtime.morestack_noctxt.abi0", True),
        ("runtime.schedule", True),
        ("runtime.sigtramp", True),
        ("internal/runtime/maps.(*Map).Get", True),
        ("runtime.gopanic", False),
        ("runtime.GC", False),
        ("main.main", False),
        ("myruntime.schedule", False),
        ("std::panicking::begin_panic_handler::{{closure}}", True),
        ("rust_begin_unwind", True),
        ("_Unwind_RaiseException", True),
        ("orders::panicking::handle", False),
        ("__restore_rt", True),
        ("puts@plt", True),
        ("_start", True),
        ("start", False),
    ],
)
def test_which_functions_are_critical(name: str, is_critical: bool) -> None:
    assert (critical_part(name) is not None) == is_critical


def test_the_line_of_costs() -> None:
    def place(cost: Cost) -> Place:
        return Place(PlaceKind.ENTRY, "f", "/program", 0, 0, cost)

    places = [place(Cost.EMULATED)] * 28 + [place(Cost.STEPPED)] * 3
    line = "12 functions, 31 probes, 3 single-stepped: about 4 us a hit each"
    assert cost_line(12, places) == line
    assert cost_line(1, places[:1]) == "1 function, 1 probe: about 1 us a hit each"
