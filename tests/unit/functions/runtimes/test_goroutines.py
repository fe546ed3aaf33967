"""Where goroutines have their ids, judged by the debug information of real Go programs."""

import pytest
from elftools.elf.elffile import ELFFile

from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.fetching.locations import R14
from sslsniff.fetching.task_location import TaskLocation
from sslsniff.functions.runtimes.goroutines import goroutine_location
from tests.workload.go.fixtures import BEFORE, FEW, NEWEST, OLDEST, Fixture

EXPECTED = {
    BEFORE: TaskLocation(None, (-8, 152)),
    OLDEST: TaskLocation(R14, (152,)),
    NEWEST: TaskLocation(R14, (152,)),
}


@pytest.mark.heavy
@pytest.mark.parametrize("fixture", FEW, ids="-".join)
def test_goroutine_location(fixture: Fixture) -> None:
    with Elf(str(fixture.path)) as elf:
        assert goroutine_location(elf) == EXPECTED[fixture.release]


@pytest.mark.heavy
def test_debug_information_has_the_same_offset() -> None:
    fixture = Fixture("plain", NEWEST, "plain")
    with fixture.path.open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info()
        (goroutine,) = (
            each
            for unit in dwarf.iter_CUs()
            if unit.get_top_DIE().attributes["DW_AT_name"].value == b"runtime"
            for each in unit.get_top_DIE().iter_children()
            if each.tag == "DW_TAG_structure_type"
            and each.attributes["DW_AT_name"].value == b"runtime.g"
        )
        (offset,) = (
            each.attributes["DW_AT_data_member_location"].value
            for each in goroutine.iter_children()
            if each.attributes["DW_AT_name"].value == b"goid"
        )
    assert EXPECTED[NEWEST].offsets == (offset,)


def test_programs_in_other_languages() -> None:
    with Elf("/proc/self/exe") as elf:
        assert goroutine_location(elf) is None


@pytest.mark.parametrize(
    ("location", "steps"),
    [
        (
            TaskLocation(R14, (152,)),
            (
                FetchStep(StepKind.REGISTER, 1),
                FetchStep(StepKind.READ, 152, item=8),
                FetchStep(StepKind.TASK),
            ),
        ),
        (
            TaskLocation(None, (-8, 152)),
            (
                FetchStep(StepKind.THREAD_POINTER),
                FetchStep(StepKind.READ, -8, item=8),
                FetchStep(StepKind.READ, 152, item=8),
                FetchStep(StepKind.TASK),
            ),
        ),
    ],
)
def test_steps(location: TaskLocation, steps: tuple[FetchStep, ...]) -> None:
    assert location.steps == steps
