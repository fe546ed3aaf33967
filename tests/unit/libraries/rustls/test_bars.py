"""What a search takes in a large program: all that a process takes that does nothing else."""

import resource
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from sslsniff.analysis import result_cache
from sslsniff.analysis.file_analyzer import FileAnalyzer
from sslsniff.capture import survey
from sslsniff.matching.probe_set import Attachment
from tests.unit.libraries.rustls.shape import Shape
from tests.unit.linear import Spent, unit_s
from tests.unit.rust_files import source_path

pytestmark = pytest.mark.heavy

FUNCTIONS = 300_000
POINTERS = 500_000
LEAST_BYTES = 100_000_000
FUNCTION_BYTES = 256
NAME = (
    "_ZN80_$LT$a..module..of..some..crate..that..is..linked..in..Type$u20$as$u20$core..fmt..Debug"
)

SEARCH = """
import sys
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.rustls.plaintext_methods import find_rustls
with Elf(sys.argv[1]) as elf:
    print(*sorted({each.proof.value for each in find_rustls(elf).found}))
[line] = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
print(int(line.split()[1]) * 1024)
"""
MOST_BYTES = 50_000_000  # Python and the disassembler take 28 MB


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a program with a cipher, and what makes searching long: code, symbols, pointers."""
    path = tmp_path_factory.mktemp("large") / "program"
    source = path.with_suffix(".s")
    with source.open("w") as file:
        file.write("\n".join(Shape().parts([source_path("0.23.45")])))
        file.write("\n.text\n")
        for number in range(FUNCTIONS):
            name = f'"{NAME}$GT$3fmt17h{number:016x}E"'
            file.write(
                f".type {name},@function\n{name}: .cfi_startproc\n"
                f".fill {FUNCTION_BYTES}, 1, 0x90\n.cfi_endproc\n.size {name}, {FUNCTION_BYTES}\n"
            )
        file.write(f'.section .data.rel.ro, "aw"\n.rept {POINTERS}\n.quad inner\n.endr\n')
        file.write('.section .note.GNU-stack,"",@progbits\n')
    subprocess.run(["gcc", "-shared", source, "-o", path], check=True)
    assert path.stat().st_size > LEAST_BYTES
    return path


class Taken(NamedTuple):
    """The processor time of the shortest of three searches, and the most memory of one."""

    seconds: float
    memory_bytes: int

    @property
    def units(self) -> float:
        """The time in units of work, as ``Spent`` has it."""
        return self.seconds / unit_s()


def search(path: Path, proof: str) -> Taken:
    """Search a program; the functions are known by this proof."""
    seconds, memory_bytes = [], 0
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "-c", SEARCH, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        found, most = done.stdout.splitlines()
        assert found == proof
        memory_bytes = max(memory_bytes, int(most))
    taken = Taken(min(seconds), memory_bytes)
    print(f"{path.stat().st_size >> 20} MiB: {taken}")
    return taken


def test_symbols_are_searched_in_half_a_second(large: Path) -> None:
    taken = search(large, "symbol")
    assert taken.units < 500_000
    assert taken.memory_bytes < MOST_BYTES


def test_a_stripped_program_is_searched_in_two_seconds(large: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-s", large, "-o", stripped], check=True)
    taken = search(stripped, "shape")
    assert taken.units < 2_000_000
    assert taken.memory_bytes < MOST_BYTES


@pytest.mark.parametrize("is_stripped", [False, True])
def test_a_second_look_is_no_search(
    is_stripped: bool, large: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_cache, "folder", lambda: tmp_path / "cache")
    path = tmp_path / "program"
    subprocess.run(["strip", "-s" if is_stripped else "-g", large, "-o", path], check=True)
    taken = []
    with FileAnalyzer() as analyzer:  # whose fork takes longer in a process as large as this one
        for _ in range(4):
            spent = Spent()
            plans = survey.analyse_all([str(path)], analyzer)
            taken.append(spent.units())
            assert isinstance(plans[str(path)], Attachment)
    first, then = taken[0], min(taken[1:])
    print(f"{path.stat().st_size >> 20} MiB: {first:.0f}, then {then:.0f} units of work")
    assert then < 20_000
