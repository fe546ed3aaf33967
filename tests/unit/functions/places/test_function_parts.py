"""A part of a function that the compiler moved elsewhere is no call of its own."""

import json
import re
import subprocess
from pathlib import Path

import pytest

from sslsniff.cli.symbol_list import print_symbols
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.function_parts import jumped_from, part_of
from sslsniff.elf.readable_names import readable_name
from sslsniff.fetching.trace_places import PlaceKind
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.outputs.value_text import arguments_text
from sslsniff.functions.places.plans import PlanOptions, TracePlan
from sslsniff.functions.places.trace_plan import plan_functions
from tests.unit.functions.probed_run import ProbedRun

SOURCE = Path("tests/workload/functions/cold_parts.cpp")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("parts") / "program"
    subprocess.run(["g++", "-g", "-O2", SOURCE, "-o", to], check=True)
    with Elf(str(to)) as elf:
        parts = {readable_name(part_of(name) or "") for name, _ in elf.functions() if part_of(name)}
    assert {"check", "thrower", "partial"} <= parts, "gcc moved nothing"
    return to


@pytest.fixture(scope="module")
def stripped(program: Path) -> Path:
    to = program.with_name("stripped")
    subprocess.run(["strip", "--strip-debug", program, "-o", to], check=True)
    return to


def planned(program: Path, pattern: str, *, results: bool = True) -> TracePlan:
    with Elf(str(program)) as elf:
        return plan_functions(elf, [pattern], PlanOptions(results), open_debug_info(elf))


def entered(plan: TracePlan) -> list[str]:
    return sorted(each.function for each in plan.places if each.kind is PlaceKind.ENTRY)


@pytest.mark.parametrize(
    ("symbol", "jumped", "whole"),
    [
        ("check.cold", "check", "check"),
        ("_Z5checki.cold.12", "_Z5checki", "_Z5checki"),
        ("check.constprop.0.cold", "check.constprop.0", "check.constprop.0"),
        ("check.isra.0.part.3", None, "check"),
        ("check.part.0", None, "check"),
        ("check.part.0.cold", "check.part.0", "check"),
        ("check.__part.1", "check", "check"),
        ("check.cold.lto_priv.0", "check", "check"),
        ("check.constprop.0", None, None),
        ("check.isra.0", None, None),
        ("check.lto_priv.0", None, None),
        ("check_cold", None, None),
        ("main.part.func1", None, None),
        (".cold", None, None),
    ],
)
def test_names_of_parts(symbol: str, jumped: str | None, whole: str | None) -> None:
    assert jumped_from(symbol) == jumped
    assert part_of(symbol) == whole


@pytest.mark.tools
def test_only_whole_functions_are_entered(program: Path, stripped: Path) -> None:
    for each in (program, stripped):
        assert entered(planned(each, "chec|throw")) == ["check", "thrower"]
    assert entered(planned(program, "parti")) == []
    assert {each.into for each in planned(program, "parti").places} == {"first", "second"}


@pytest.mark.tools
def test_calls_are_as_the_program_has_them(program: Path) -> None:
    plan = planned(program, "chec|throw")
    run = ProbedRun([program], plan.places)
    called = [
        f"{each.place.function}({arguments_text(each.values)})"
        for each in run.hits
        if each.place.kind is PlaceKind.ENTRY
    ]
    assert called == [each.split(" = ")[0] for each in run.output.splitlines()]


@pytest.mark.tools
def test_a_return_in_a_part_is_seen_without_debug_info(program: Path, stripped: Path) -> None:
    """So the jump to the part is no jump to another function."""
    for each in (program, stripped):
        plan = planned(each, "^check$")
        assert not any("jump to another" in note for note in plan.notes)
        returns = [place for place in plan.places if place.kind is PlaceKind.RETURN]
        assert len(returns) == sum(
            line.split()[-1] == "ret" or "ret " in line for line in listing(each, "check")
        )


def listing(program: Path, function: str) -> list[str]:
    """Return the instructions of a function and of its cold part."""
    dumped = subprocess.run(["objdump", "-d", program], capture_output=True, text=True, check=True)
    blocks = re.findall(rf"^\w+ <{function}(?:\.cold)?>:\n((?:.+\n)+)", dumped.stdout, re.MULTILINE)
    return [line for block in blocks for line in block.splitlines() if "\t" in line]


@pytest.mark.tools
def test_the_list_has_each_function_once_with_its_signature(
    program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pattern = re.compile("^(check|thrower)")
    assert print_symbols(str(program), pattern, pytest.fail, as_json=True, signatures=True) == 0
    found = [json.loads(each) for each in capsys.readouterr().out.splitlines()]
    assert {each["name"]: each["signature"] for each in found} == {
        "check": "(i: int, value: int *) -> int",
        "thrower": "(i: int) -> int",
    }
    assert len(found) == 2
