"""Debug info by gcc and clang in all forms tells the same of a program."""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.fetch import FetchLimits
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.places.debug_info_gaps import gaps_of
from sslsniff.functions.places.plans import PlanOptions
from sslsniff.functions.places.point_plans import plan_line
from sslsniff.functions.places.trace_plan import plan_functions
from tests.unit.functions.probed_run import ProbedRun
from tests.unit.functions.traced_lines import traced_lines
from tests.workload.functions.clang import compile_by_clang

pytestmark = pytest.mark.tools

SOURCE = """\
enum color { RED, GREEN = 5 };
struct inner { char name[8]; enum color color; };
struct point { int x; unsigned char y; struct inner inner; struct point *next; };
static int table[] = {7, 8, 9};
static inline int inlined(const int *from, int at) { return from[at]; }
__attribute__((noinline)) int changed(int count, const struct point *p)
{
    int sum = p->x;
    while (count--) { __asm__ volatile("" : "+r"(sum)); sum += inlined(table, count); }
    return sum;
}
int main(int count, char **words)
{
    struct point last = {3, 200, {"last", GREEN}, 0}, p = {count, 1, {"first", RED}, &last};
    return changed(3, &p) + (words == 0);
}
"""
ASSIGNS = """\
static volatile int total = 9;
__attribute__((noinline)) int changed(int a, int b, int c, int d)
{
    a--; b = 5 * c; c = 12;
    while (a--) { total += d; b += 1; }
    return total;
}
int main(void) { return changed(total - 5, total - 4, total - 3, total - 2) == 0; }
"""
STATIC = """\
__attribute__((noinline)) int added(int by)
{
    static int sum = 40;
    sum += by;
    return sum;
}
int main(void) { return added(2) + added(3) == 0; }
"""
TYPES = "-fdebug-types-section"
SPLIT = "-gsplit-dwarf"
GCC = {
    "types of 4": ["-gdwarf-4", TYPES],
    "types of 5": ["-gdwarf-5", TYPES],
    "split types of 4": ["-gdwarf-4", TYPES, SPLIT],
    "split types of 5": ["-gdwarf-5", TYPES, SPLIT],
    "64 bits": ["-g", "-gdwarf64"],
    "views in lists": ["-g", "-O1", "-gvariable-location-views=incompat5"],
    "zstd": ["-g", "-Wa,--compress-debug-sections=zstd", "-Wl,--compress-debug-sections=zstd"],
}
CLANG = {
    "5": ["-gdwarf-5"],
    "4": ["-gdwarf-4"],
    "zstd": ["-gdwarf-5", "-gz=zstd"],
    "types of 4": ["-gdwarf-4", TYPES],
    "types of 5": ["-gdwarf-5", TYPES],
    "split 4": ["-gdwarf-4", SPLIT],
    "split 5": ["-gdwarf-5", SPLIT],
    "split types of 5": ["-gdwarf-5", SPLIT, TYPES],
}
LAST = '&{x=3, y=200, inner={name="last", color=GREEN}, next=null}'
CALL = f'changed(count=3, p=&{{x=1, y=1, inner={{name="first", color=RED}}, next={LAST}}}) = 25'


def by_gcc(folder: Path, *flags: str, source: str = SOURCE) -> Path:
    (folder / "program.c").write_text(source)
    subprocess.run(["gcc", *flags, "program.c", "-o", "program"], cwd=folder, check=True)
    return folder / "program"


def by_clang(folder: Path, *flags: str, source: str = SOURCE) -> Path:
    (folder / "program.c").write_text(source)
    compile_by_clang(folder / "program.c", folder / "program", *flags)
    return folder / "program"


def calls(program: Path, name: str = "changed") -> list[str]:
    """Return the calls of a function of a program, which has no other notes on its debug info."""
    with Elf(str(program)) as elf:
        options = PlanOptions(results=True, limits=FetchLimits(depth=5))
        plan = plan_functions(elf, [name], options, open_debug_info(elf))
    assert plan.notes == ()
    return traced_lines(ProbedRun([program], plan.places).hits)


@pytest.mark.parametrize("form", GCC)
def test_gcc(tmp_path: Path, form: str) -> None:
    assert calls(by_gcc(tmp_path, *GCC[form])) == [CALL]


@pytest.mark.parametrize("form", CLANG)
def test_clang(tmp_path: Path, form: str) -> None:
    assert calls(by_clang(tmp_path, "-O0", *CLANG[form])) == [CALL]


@pytest.mark.parametrize("version", ["4", "5"])
def test_what_a_function_made_of_an_argument_is_not_shown(tmp_path: Path, version: str) -> None:
    """Only gcc says at the entry what it was before the first statement."""
    flags = "-O2", f"-gdwarf-{version}"
    assert calls(by_gcc(tmp_path, *flags, source=ASSIGNS)) == ["changed(a=4, b=5, c=6, d=7) = 30"]
    missing = "<optimised out>"
    assert calls(by_clang(tmp_path, *flags, source=ASSIGNS)) == [
        f"changed(a={missing}, b={missing}, c={missing}, d=7) = 30"
    ]


@pytest.mark.parametrize("flags", [("-gdwarf-5",), ("-gdwarf-5", SPLIT), ("-gdwarf-4", SPLIT)])
@pytest.mark.parametrize("compiled_by", [by_gcc, by_clang])
def test_a_static_variable_is_found_by_the_index_of_its_address(
    tmp_path: Path, compiled_by: Callable[..., Path], flags: Sequence[str]
) -> None:
    program = compiled_by(tmp_path, "-O0", *flags, source=STATIC)
    with Elf(str(program)) as elf:
        plan = plan_line(elf, "program.c", 4, PlanOptions(), open_debug_info(elf))
    values = [hit.values for hit in ProbedRun([program], plan.places).hits]
    assert values == [{"by": by, "sum": total} for by, total in ((2, 40), (3, 42))]


def test_a_package_has_types(tmp_path: Path) -> None:
    program = by_gcc(tmp_path, "-O0", "-gdwarf-4", SPLIT, TYPES)
    subprocess.run(["dwp", "-e", "program"], cwd=tmp_path, check=True)
    [split] = tmp_path.glob("*.dwo")
    split.unlink()
    assert calls(program) == [CALL]


@pytest.mark.heavy
@pytest.mark.parametrize("flags", [("-gdwarf-4",), ("-gdwarf-5",), ("-gdwarf-4", TYPES)])
def test_dwz_moves_what_units_share(tmp_path: Path, flags: Sequence[str]) -> None:
    program = by_gcc(tmp_path, *flags)
    subprocess.run(["dwz", program], check=True)
    assert calls(program) == [CALL]


@pytest.mark.heavy
@pytest.mark.parametrize("flags", [(), ("--dwarf-5",)])
def test_dwz_moves_what_programs_share(tmp_path: Path, flags: Sequence[str]) -> None:
    """Into a file that .gnu_debugaltlink names, or .debug_sup of DWARF 5."""
    program = by_gcc(tmp_path, "-gdwarf-5", "-include", "stdio.h", "-include", "stdlib.h")
    copies = [shutil.copy(program, tmp_path / name) for name in ("one", "two")]
    command = ["dwz", *flags, "-m", "common", "program", *map(str, copies)]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert calls(program) == [CALL]
    (tmp_path / "common").unlink()
    with Elf(str(program)) as elf:
        [gap] = gaps_of(elf, open_debug_info(elf))
    assert gap == f"{program}: a part of its debug info is in common, which cannot be found or read"


def test_a_split_file_that_is_missing_is_a_gap(tmp_path: Path) -> None:
    program = by_gcc(tmp_path, "-g", SPLIT)
    [split] = tmp_path.glob("*.dwo")
    split.unlink()
    with Elf(str(program)) as elf:
        info = open_debug_info(elf)
        assert [f" {split.name}," in each for each in gaps_of(elf, info)] == [True]
        plan = plan_functions(elf, ["changed"], PlanOptions(), info)
    assert any(split.name in each for each in plan.notes)
