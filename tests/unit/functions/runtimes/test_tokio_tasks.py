"""Where tokio's tasks have their ids: a program says itself where that is."""

import subprocess
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.fetch import Fetch
from sslsniff.fetching.fetch_steps import MOST_STEPS, FetchStep, StepKind
from sslsniff.fetching.task_location import TaskLocation
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.runtimes.tokio_tasks import has_tokio, tokio_task_location
from sslsniff.machine_code.probe_sites import Cost
from tests.workload.processes import PROGRAMS

SOURCE = PROGRAMS / "functions/task_ids.rs"


def built(folder: Path, *options: str, name: str = "tokio") -> Path:
    program = folder / name
    command = ["rustc", "--edition", "2021", "--crate-name", name, *options]
    subprocess.run([*command, str(SOURCE), "-o", str(program)], check=True)
    return program


@pytest.mark.heavy
@pytest.mark.parametrize(
    "options", [("-g",), ("-g", "-O"), ("-g", "-C", "symbol-mangling-version=v0")], ids=" ".join
)
def test_the_id_is_where_the_program_says(options: tuple[str, ...], tmp_path: Path) -> None:
    program = built(tmp_path, *options)
    said = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    with Elf(str(program)) as elf:
        debug = open_debug_info(elf)
        assert has_tokio(elf, debug)
        assert tokio_task_location(elf, debug) == TaskLocation(None, (int(said),))


@pytest.mark.heavy
@pytest.mark.parametrize("options", [(), ("-g", "-C", "strip=debuginfo")], ids=" ".join)
def test_without_debug_info(options: tuple[str, ...], tmp_path: Path) -> None:
    with Elf(str(built(tmp_path, *options))) as elf:
        debug = open_debug_info(elf)
        assert has_tokio(elf, debug)
        assert tokio_task_location(elf, debug) is None


@pytest.mark.heavy
def test_without_symbols(tmp_path: Path) -> None:
    """The debug info says that it is tokio, and the offset is not known."""
    program = built(tmp_path, "-g")
    strip = ["objcopy", "--strip-all", "--keep-section=.debug_*", str(program)]
    subprocess.run(strip, check=True)
    with Elf(str(program)) as elf:
        debug = open_debug_info(elf)
        assert has_tokio(elf, debug)
        assert tokio_task_location(elf, debug) is None


@pytest.mark.heavy
def test_another_program(tmp_path: Path) -> None:
    with Elf(str(built(tmp_path, "-g", name="other"))) as elf:
        debug = open_debug_info(elf)
        assert not has_tokio(elf, debug)
        assert tokio_task_location(elf, debug) is None


@pytest.mark.parametrize(("count", "has_room"), [(MOST_STEPS - 3, True), (MOST_STEPS - 2, False)])
def test_steps_are_added_if_there_is_room(count: int, has_room: bool) -> None:
    steps = (FetchStep(StepKind.POP),) * count
    place = Place(PlaceKind.ENTRY, "f", "/program", 0, 0, Cost.EMULATED, Fetch(steps))
    added = TaskLocation(None, (-8,)).added_to(place)
    assert (added is not place) == has_room
    assert added.fetch.steps[:count] == steps
    assert (added.fetch.steps[-1].kind is StepKind.TASK) == has_room
