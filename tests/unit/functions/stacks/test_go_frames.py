"""Frames of Go functions by its own table, against what runtime.Callers says in the program."""

import subprocess

import pytest

from sslsniff.elf.call_frames import RegisterOffset, RuleKind
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.go.function_table import GoFunctions
from sslsniff.libraries.go.go_frames import GoFrames
from sslsniff.libraries.go.memory import Memory
from tests.workload.go.fixtures import Fixture, fixtures

pytestmark = pytest.mark.heavy

of_each_way = pytest.mark.parametrize("program", fixtures("stacks"), ids="-".join)


def printed(program: Fixture) -> list[tuple[int, str, int]]:
    """Return address, function and line of each frame, as the program prints them."""
    run = subprocess.run([program.path], capture_output=True, text=True, check=True)
    rows = [line.split() for line in run.stdout.splitlines()]
    return [(int(address), function, int(line)) for address, function, line in rows]


@of_each_way
def test_functions_and_lines_are_those_of_the_program(program: Fixture) -> None:
    frames = printed(program)
    assert len(frames) > 8
    with Elf(str(program.path)) as elf:
        found = GoFrames(Memory(elf))
        for address, function, line in frames:
            assert (function, line) in [
                (each.function, each.line) for each in found.places(address)
            ]


@of_each_way
def test_an_inlined_function_is_in_its_caller(program: Fixture) -> None:
    with Elf(str(program.path)) as elf:
        found = GoFrames(Memory(elf))
        start, size = GoFunctions(Memory(elf)).function("main.recurse.func1") or (0, 0)
        chains = {
            tuple((each.function, each.is_inlined) for each in found.places(at))
            for at in range(start, start + size)
        }
    outer = ("main.recurse.func1", False)
    # Nothing is between the functions.
    assert chains == {(), (outer,), (("main.inlined", True), outer)}


@of_each_way
def test_the_outermost_function_has_no_caller(program: Fixture) -> None:
    with Elf(str(program.path)) as elf:
        functions, found = GoFunctions(Memory(elf)), GoFrames(Memory(elf))
        for name, kind in (("runtime.goexit", RuleKind.UNDEFINED), ("main.main", RuleKind.OFFSET)):
            function = functions.function(name)
            assert function is not None
            frame = found.call_frame(function.address)
            assert frame is not None
            assert frame.rules[frame.return_register].kind is kind
            assert frame.address == RegisterOffset(7, 8 * (kind is RuleKind.OFFSET))
        assert found.call_frame(1) is None
        assert found.places(1) == ()
