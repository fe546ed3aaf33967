"""Plans are data: that they name what exists."""

import re
from pathlib import Path

import pytest

from sslsniff.libraries.rustls.plaintext_methods import Version
from sslsniff.libraries.rustls.plan import LAYOUTS, METHODS, MethodPrograms, nearest
from sslsniff.libraries.rustls.rustls_fitting import make_library
from sslsniff.libraries.supported import PLANS
from sslsniff.machine_code.instructions import ARGUMENTS
from sslsniff.matching.rows import At, CallingBack, Continued, Listed, Plan, Raising, Row

BPF = Path(__file__).parents[3] / "bpf"
PROGRAMS = {
    name
    for source in BPF.glob("*.bpf.h")
    for name in re.findall(r'^SEC\("uprobe"\)\nint (\w+)\(', source.read_text(), re.MULTILINE)
}


def rows(plan: Plan) -> list[Row]:
    required = [row for group in plan.required for alternative in group for row in alternative]
    return [*required, *plan.optional]


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.library)
def test_a_plan_names_what_exists(plan: Plan) -> None:
    assert plan.symbols
    assert plan.file_names
    for row in rows(plan):
        assert row.enter or row.leave
        assert {row.enter, row.leave} - {None} <= PROGRAMS
        assert set(row.registers) <= set(ARGUMENTS)
        if isinstance(row.function, Listed):
            assert row.function.number in range(row.function.table.size)
            assert row.function.number not in row.function.table.empty
        if row.at is At.SIGNED:
            assert row.signature
        if isinstance(row.function, Continued | CallingBack):
            assert set(row.registers) <= set(row.function.registers) <= set(ARGUMENTS)
        found_otherwise = str | Listed | Continued | Raising | CallingBack
        passings = () if isinstance(row.function, found_otherwise) else row.function
        for passing in passings:
            assert set(passing.registers) <= set(ARGUMENTS)
        if passings:
            assert set(row.registers) <= {
                each for passing in passings for each in passing.registers
            }


@pytest.mark.parametrize("programs", METHODS.values(), ids=lambda programs: programs.enter)
def test_the_methods_of_rustls_have_programs(programs: MethodPrograms) -> None:
    assert {programs.enter, programs.leave} - {None} <= PROGRAMS
    assert set(programs.registers) <= set(ARGUMENTS)


@pytest.mark.parametrize(
    ("version", "used"),
    [
        ((0, 20), (0, 20)),
        ((0, 23), (0, 23)),
        ((0, 25), (0, 24)),
        ((1, 0), (0, 24)),
        ((0, 19), (0, 20)),
    ],
)
def test_an_unknown_rustls_is_read_as_the_nearest(version: Version, used: Version) -> None:
    assert nearest(version) == used
    part = make_library(version, None, [])
    assert part.layout == LAYOUTS[used]
    assert (part.read_as is None) == (version == used)


def test_a_plan_is_found_before_a_more_general_one() -> None:
    names = [plan.library for plan in PLANS]
    assert names == list(dict.fromkeys(names))
    for index, plan in enumerate(PLANS):
        for later in PLANS[index + 1 :]:
            more_general = set(plan.symbols) <= set(later.symbols) and not plan.marks
            assert not more_general, f"{plan.library} hides {later.library}"
