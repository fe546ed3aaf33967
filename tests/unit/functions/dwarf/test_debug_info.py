"""Functions, variables and lines of programs that gcc made, by all forms of debug info."""

import subprocess
from pathlib import Path

import pytest

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.functions.dwarf.debug_info import DebugInfo, open_debug_info
from sslsniff.functions.dwarf.function_model import DescribedFunction, Language, SourceLine
from sslsniff.functions.dwarf.type_model import Pointer, Structure

pytestmark = pytest.mark.tools

SOURCE = """\
#include <stdio.h>
struct point { int x, y; unsigned flag : 3; union { long l; double d; } u; struct point *next; };
typedef struct point point_t;
enum color { RED, GREEN = 5, BLUE = -1 };
static inline int smaller(int a, int b) {
    printf("%d %d\\n", a, b);
    return a < b ? a : b;
}
__attribute__((noinline)) int traceme(point_t *p, const char *name, enum color c, double d) {
    int local = p->x;
    for (int i = 0; i < 3; i++) {
        int ret = smaller(local, i);
        local += ret;
    }
    printf("%s %d %f\\n", name, c, d);
    return local;
}
int main(int count, char **words) {
    point_t p = {count, 2};
    return traceme(&p, words[0], GREEN, 1.5);
}
"""
FORMS = {
    "dwarf-5": ("-gdwarf-5",),
    "dwarf-4": ("-gdwarf-4",),
    "split-5": ("-gdwarf-5", "-gsplit-dwarf"),
    "split-4": ("-gdwarf-4", "-gsplit-dwarf"),
    "compressed": ("-g", "-gz"),
    "compressed-gnu": ("-g", "-gz=zlib-gnu"),
}


@pytest.fixture(scope="module", params=FORMS)
def form(request: pytest.FixtureRequest) -> tuple[str, ...]:
    return FORMS[request.param]


def built(folder: Path, *options: str) -> Path:
    (folder / "program.c").write_text(SOURCE)
    path = folder / "program"
    subprocess.run(["gcc", *options, "program.c", "-o", path], cwd=folder, check=True)
    return path


def described(path: Path, elf: Elf) -> DebugInfo:
    found = open_debug_info(elf)
    assert found is not None
    assert found.is_whole
    return found


def function(info: DebugInfo, name: str) -> DescribedFunction:
    [found] = info.functions(lambda each: each == name)
    return found


def test_a_function_has_its_signature_and_place(tmp_path: Path, form: tuple[str, ...]) -> None:
    path = built(tmp_path, "-O0", *form)
    with Elf(str(path)) as elf:
        found = function(described(path, elf), "traceme")
        symbol = elf.function("traceme")
    assert symbol is not None
    assert found.language == Language.C
    assert found.declared == SourceLine(str(tmp_path / "program.c"), 9)
    assert found.signature == "(p: point_t *, name: const char *, c: color, d: double) -> int"
    [copy] = found.copies
    assert copy.entries == (symbol.address,)
    assert copy.ranges == ((symbol.address, symbol.address + symbol.size),)
    assert all(each.has_one_location for each in copy.parameters)


def test_an_inlined_copy_has_its_caller(tmp_path: Path, form: tuple[str, ...]) -> None:
    path = built(tmp_path, "-O2", *form)
    with Elf(str(path)) as elf:
        found = function(described(path, elf), "smaller")
    [copy] = found.copies
    assert copy.into == "traceme"
    assert copy.called_from == SourceLine(str(tmp_path / "program.c"), 12)
    assert len(copy.entries) == len(copy.result_addresses) == 1
    assert copy.result_variable is not None
    assert copy.result_variable.name == "ret"


def test_the_lines_of_a_function_lead_to_its_code_and_back(
    tmp_path: Path, form: tuple[str, ...]
) -> None:
    path = built(tmp_path, "-O0", *form)
    with Elf(str(path)) as elf:
        info = described(path, elf)
        [copy] = function(info, "traceme").copies
        for line in (10, 11, 12, 13, 15, 16):
            for address in info.addresses_of("program.c", line):
                assert copy.ranges[0].start < address < copy.ranges[0].end
                assert info.line_of(address) == SourceLine(str(tmp_path / "program.c"), line)
        assert len(info.addresses_of(str(tmp_path / "program.c"), 11)) == 2  # start, and next round
        assert info.addresses_of("program.c", 1) == []
        assert info.addresses_of("gram.c", 10) == []
        assert info.line_of(1) is None


def test_an_inlined_line_has_all_its_places(tmp_path: Path, form: tuple[str, ...]) -> None:
    path = built(tmp_path, "-O2", *form)
    with Elf(str(path)) as elf:
        info = described(path, elf)
        [inlined] = function(info, "smaller").copies
        [outer] = function(info, "traceme").copies
        places = info.addresses_of("program.c", 6)
        assert any(outer.ranges[0].start < each < outer.ranges[0].end for each in places)
        visible = info.variables_at(inlined.entries[0])
    assert visible is not None
    assert visible.function == "smaller"
    assert {each.name for each in visible.variables} == {"a", "b"}


def test_the_prologue_ends_where_gdb_would_stop(tmp_path: Path, form: tuple[str, ...]) -> None:
    path = built(tmp_path, "-O0", *form)
    with Elf(str(path)) as elf:
        info = described(path, elf)
        [copy] = function(info, "traceme").copies
        [start, *_] = info.addresses_of("program.c", 10)
        assert info.prologue_end(copy.entries[0]) == start > copy.entries[0]


def test_the_variables_at_a_line_are_those_of_its_scopes(
    tmp_path: Path, form: tuple[str, ...]
) -> None:
    path = built(tmp_path, "-O0", *form)
    with Elf(str(path)) as elf:
        info = described(path, elf)
        for line, names in ((13, "p name c d local i ret"), (15, "p name c d local")):
            visible = info.variables_at(info.addresses_of("program.c", line)[0])
            assert visible is not None
            assert visible.function == "traceme"
            assert [each.name for each in visible.variables] == names.split()
            assert visible.frame_base
        assert info.variables_at(1) is None


def test_names_without_parameters_say_so(tmp_path: Path) -> None:
    path = built(tmp_path, "-O2", "-g1")
    with Elf(str(path)) as elf:
        found = function(described(path, elf), "traceme")
    assert not found.has_parameters
    assert found.parameters == found.copies[0].parameters == ()


def test_without_debug_info_there_is_none(tmp_path: Path) -> None:
    with Elf(str(built(tmp_path))) as elf:
        assert open_debug_info(elf) is None


def separated(program: Path) -> Path:
    """Move the debug info of a program to a file of its own, and return that."""
    debug = program.with_suffix(".debug")
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    link = f"--add-gnu-debuglink={debug}"
    subprocess.run(["objcopy", "--strip-debug", link, program], check=True)
    return debug


def test_a_debug_file_is_as_good(tmp_path: Path, form: tuple[str, ...]) -> None:
    path = built(tmp_path, "-O2", *form)
    with Elf(str(path)) as elf:
        before = described(path, elf).functions(lambda _: True)
        signatures = [each.signature for each in before]
        copies = [[copy.entries for copy in each.copies] for each in before]
    debug = separated(path)
    with Elf(str(path)) as elf:
        info = described(path, elf)
        assert info.path == str(debug)
        after = info.functions(lambda _: True)
        assert [each.signature for each in after] == signatures
        assert [[copy.entries for copy in each.copies] for each in after] == copies


def test_the_debug_file_of_another_build_is_refused(tmp_path: Path) -> None:
    path = built(tmp_path, "-O2", "-g")
    separated(path)
    other = tmp_path / "other"
    other.mkdir()
    debug = separated(built(other, "-O1", "-g"))
    (tmp_path / debug.name).write_bytes(debug.read_bytes())
    with Elf(str(path)) as elf, pytest.raises(ElfError, match="another build") as raised:
        open_debug_info(elf)
    assert str(tmp_path / debug.name) in str(raised.value)


def test_removed_code_is_not_there(tmp_path: Path) -> None:
    source = SOURCE.replace("int main", "int unused(int a) { return smaller(a, 1); }\nint main")
    (tmp_path / "program.c").write_text(source)
    options = ("-O2", "-g", "-ffunction-sections", "-Wl,--gc-sections")
    subprocess.run(["gcc", *options, "program.c", "-o", "program"], cwd=tmp_path, check=True)
    with Elf(str(tmp_path / "program")) as elf:
        info = described(tmp_path, elf)
        assert info.functions(lambda name: name == "unused") == []
        [copy] = function(info, "smaller").copies
        assert copy.into == "traceme"
        assert [each.into for each in info.inlined_calls(lambda *_: True)] == ["traceme"]


def test_a_package_has_all_split_units(tmp_path: Path) -> None:
    path = built(tmp_path, "-O2", "-gdwarf-4", "-gsplit-dwarf")
    subprocess.run(["dwp", "-e", "program"], cwd=tmp_path, check=True)
    [split] = tmp_path.glob("*.dwo")
    split.unlink()
    assert (tmp_path / "program.dwp").exists()
    with Elf(str(path)) as elf:
        info = described(path, elf)
        assert info.missing_files == []
        assert function(info, "smaller").copies[0].into == "traceme"


def test_a_split_file_that_is_missing_is_named(tmp_path: Path) -> None:
    path = built(tmp_path, "-O2", "-g", "-gsplit-dwarf")
    [split] = tmp_path.glob("*.dwo")
    split.unlink()
    with Elf(str(path)) as elf:
        info = described(path, elf)
        assert info.functions(lambda _: True) == []
        assert [Path(each).name for each in info.missing_files] == [split.name]


def test_static_functions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    header = "static inline int shared(int a) { return a * 3 + 1; }\n"
    (tmp_path / "shared.h").write_text(header)
    one = '#include "shared.h"\nstatic __attribute__((noinline)) int init(int a)'
    (tmp_path / "one.c").write_text(
        f"{one} {{ return shared(a); }} int f(int a) {{ return init(a); }}"
    )
    other = '#include "shared.h"\n\nstatic __attribute__((noinline)) long init(char *s, int a)'
    (tmp_path / "other.c").write_text(
        f"{other} {{ return s[a]; }} int f(int); int main(int c, char **v)"
        "{ return shared(c) + f(c) + init(*v, c); }"
    )
    command = ["gcc", "-O1", "-g", "one.c", "other.c", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with Elf(str(tmp_path / "program")) as elf:
        info = described(tmp_path, elf)
        found = info.functions(lambda name: name == "init")
        assert {each.signature for each in found} == {
            "(a: int) -> int",
            "(s: char *, a: int) -> long int",
        }
        assert len(function(info, "shared").copies) == 2


def test_a_part_that_gcc_moved_is_no_call(tmp_path: Path) -> None:
    (tmp_path / "program.c").write_text("""
    #include <stdio.h>
    #include <stdlib.h>
    static int slow(int *p, int n) {
        if (!p) return 0;
        for (int i = 0; i < n; i++) { printf("%d %d", p[i], i); if (p[i] > 100) abort(); }
        puts("a"); puts("b"); puts("c");
        return n;
    }
    int a(int *p, int n) { return slow(p, n) + 1; }
    int b(int *p, int n) { return slow(p, n * 2) + 2; }
    int c(int *p, int n) { return slow(p, n * 3) + 3; }
    int main(int count, char **words) { return a(&count, 1) + b(0, count) + c(&count, 2); }
    """)
    command = ["gcc", "-O2", "-g", "program.c", "-o", "program"]
    subprocess.run(command, cwd=tmp_path, check=True)
    with Elf(str(tmp_path / "program")) as elf:
        moved = elf.function("slow.part.0")
        assert moved is not None
        found = function(described(tmp_path, elf), "slow")
    assert moved.address not in {entry for each in found.copies for entry in each.entries}
    assert {each.into for each in found.copies} == {"a", "b", "c"}


@pytest.mark.heavy
def test_types_are_found_in_a_file_that_programs_share(tmp_path: Path) -> None:
    """As in Debian's packages of debug info: dwz moves there what several programs have."""
    programs = []
    for name in ("one", "two", "three"):
        folder = tmp_path / name
        folder.mkdir()
        programs.append(built(folder, "-O0", "-gdwarf-5", "-include", "stdio.h"))
    command = ["dwz", "-m", str(tmp_path / "shared"), *map(str, programs)]
    subprocess.run(command, check=True, cwd=tmp_path)
    sections = subprocess.run(
        ["readelf", "-SW", programs[0]], capture_output=True, text=True, check=True
    ).stdout
    assert ".gnu_debugaltlink" in sections
    with Elf(str(programs[0])) as elf:
        found = function(described(programs[0], elf), "traceme")
        assert found.signature == "(p: point_t *, name: const char *, c: color, d: double) -> int"
        pointed = found.parameters[0].type
        assert isinstance(pointed, Pointer)
        target = pointed.target()
        assert isinstance(target, Structure)
        assert [each.name for each in target.members] == ["x", "y", "flag", "u", "next"]
