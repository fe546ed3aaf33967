"""Arguments and results of Go functions, as the program itself prints them."""

import os
import subprocess
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.traced_values import RawRegister
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.places.plans import PlanOptions
from sslsniff.functions.places.trace_plan import plan_functions
from tests.unit.functions.probed_run import ProbedRun
from tests.unit.functions.traced_lines import traced_lines
from tests.workload.go.fixtures import ALL, BEFORE, CACHE, NEWEST, OLDEST, RELEASES, go

pytestmark = pytest.mark.slow

SOURCES = Path("tests/workload/functions")
UNOPTIMISED = "-gcflags=all=-N -l"


def built(tmp_path: Path, release: str, *options: str, source: str = "go_conventions") -> Path:
    program = tmp_path / "program"
    environment = os.environ | {
        **{"GO111MODULE": "off", "GOENV": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"},
        **{"CGO_ENABLED": "0", "GOCACHE": str(CACHE / f"build-{release}")},
    }
    command = [
        str(go(release)),
        "build",
        *options,
        "-o",
        str(program),
        str(SOURCES / source / "main.go"),
    ]
    subprocess.run(command, env=environment, check=True)
    return program


NAMED = r"^main\.(two|three|one|blank|escaping|cold)$"


@pytest.mark.heavy
@pytest.mark.parametrize("release", RELEASES if ALL else (BEFORE, NEWEST))
@pytest.mark.parametrize("options", [(), (UNOPTIMISED,)])
def test_a_named_result_counts_once(tmp_path: Path, release: str, options: tuple[str, ...]) -> None:
    """Debug info lists one twice where a deferred function may change it."""
    program = built(tmp_path, release, *options, source="named_results")
    with Elf(str(program)) as elf:
        debug = open_debug_info(elf)
        assert debug is not None
        plan = plan_functions(elf, [NAMED], PlanOptions(results=True), debug)
        signatures = {each.name: each.signature for each in debug.signatures(is_two_or_three)}
    run = ProbedRun([program], plan.places)
    expected = run.output.splitlines()
    if release == OLDEST:  # whose debug info does not say where results are
        expected = [each.partition(" = ")[0] for each in expected]
    assert traced_lines(run.hits) == expected
    assert signatures == {
        "main.two": "(i: int) -> (n: int, err: error)",
        "main.three": "(i: int) -> (a: int, s: string, err: error)",
    }


def is_two_or_three(name: str, _: str | None) -> bool:
    return name in ("main.two", "main.three")


@pytest.mark.heavy
def test_a_closure_may_be_named_like_a_part_of_a_c_function(tmp_path: Path) -> None:
    program = built(tmp_path, NEWEST, source="named_results")
    with Elf(str(program)) as elf:
        pattern = r"^main\.part\.func1$"
        plan = plan_functions(elf, [pattern], PlanOptions(results=True), open_debug_info(elf))
    assert plan.functions == 1


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("release", "options"),
    [
        *((release, ()) for release in (RELEASES if ALL else (BEFORE, OLDEST, NEWEST))),
        *((release, (UNOPTIMISED,)) for release in (BEFORE, NEWEST)),
    ],
)
def test_every_argument_and_result_is_as_the_program_has_it(
    tmp_path: Path, release: str, options: tuple[str, ...]
) -> None:
    program = built(tmp_path, release, *options)
    with Elf(str(program)) as elf:
        plan = plan_functions(
            elf,
            [r"^main\.(?!main|init)"],
            PlanOptions(results=True),
            open_debug_info(elf),
        )
    run = ProbedRun([program], plan.places)
    goroutines = {each.place.function: each.task for each in run.hits}
    assert goroutines["main.traceme"] == 1
    assert (goroutines["main.deep"] or 0) > 1
    assert {each.place.line for each in run.hits if each.place.function == "main.traceme"} == {16}
    expected = run.output.splitlines()
    if release == OLDEST:  # whose debug info has no results
        expected = [each.partition(" = ")[0] for each in expected]
    assert traced_lines(run.hits) == expected


@pytest.mark.heavy
@pytest.mark.parametrize("release", [BEFORE, NEWEST])
def test_a_stripped_program_has_names_and_registers(tmp_path: Path, release: str) -> None:
    program = built(tmp_path, release, "-ldflags=-s -w")
    with Elf(str(program)) as elf:
        plan = plan_functions(elf, ["main.traceme"], PlanOptions(), open_debug_info(elf))
    assert plan.notes[0].endswith("build without -ldflags=-w or -s")
    assert ("raw registers" in plan.notes[0]) is (release == NEWEST)
    entered, returned = ProbedRun([program], plan.places).hits
    assert entered.task == returned.task == 1
    assert entered.place.line == 16
    assert Path(entered.place.file or "").name == "main.go"
    if release == BEFORE:  # arguments are on the stack
        assert entered.values == returned.values == {}
    else:
        assert entered.values["arg1"] == RawRegister("rax", 1)
        assert entered.values["arg2"] == RawRegister("rbx", 2)
        assert returned.values["result"] == RawRegister("rax", 3)


UNNAMED = {
    BEFORE: [
        "blank(x=3) = r0=<optimised out>, err=<optimised out>",
        "unused(x=<optimised out>, y=<optimised out>) = <optimised out>",
        "arrays(x=[3, 4], y=5) = <optimised out>",
    ],
    OLDEST: ["blank(x=3)", 'unused(x=2, y="abc")', "arrays(x=[3, 4], y=5)"],
    NEWEST: [
        'blank(arg1=1, arg2="b", x=3) = r0=4, err=null',
        'unused(arg1=1, x=2, y="abc") = 3',
        "arrays(arg1=[1, 2], x=[3, 4], y=5) = [5, 4]",
    ],
}


@pytest.mark.heavy
@pytest.mark.parametrize("release", UNNAMED)
def test_arguments_without_a_name_do_not_move_the_others(tmp_path: Path, release: str) -> None:
    """Debug info of old releases does not have them: then not all places are known."""
    program = built(tmp_path, release, source="unnamed")
    with Elf(str(program)) as elf:
        wanted = [r"^main\.(?!main|init)"]
        plan = plan_functions(elf, wanted, PlanOptions(results=True), open_debug_info(elf))
    assert traced_lines(ProbedRun([program], plan.places).hits) == UNNAMED[release]


@pytest.mark.heavy
@pytest.mark.parametrize("release", RELEASES[RELEASES.index("1.18.10") :] if ALL else [NEWEST])
def test_generic_functions(tmp_path: Path, release: str) -> None:
    """Their first argument is one of the compiler's, which old releases do not describe."""
    program = built(tmp_path, release, "-gcflags=-lang=go1.18", source="generics")
    with Elf(str(program)) as elf:
        wanted = [r"^main\..*(first|swap|set)"]
        plan = plan_functions(elf, wanted, PlanOptions(results=True), open_debug_info(elf))
    run = ProbedRun([program], plan.places)
    found = [line[line.index("(") :] for line in traced_lines(run.hits)]
    assert found == run.output.splitlines()
