"""A small program with debug info, and the scanner in C as the fuzzer watches it.

Both are compiled by the compiler that comes with ``ziglang``, so that fuzzing needs no other.
"""

import subprocess
from pathlib import Path

from tests.workload.compiler import ZIG

_ROOT = Path(__file__).parents[2]
_BUILT = _ROOT / ".cache/fuzz/built"
_TARGET = ("-target", "x86_64-linux-gnu.2.28", "-shared", "-fPIC")
_SOURCES = ("sslsniff/functions/dwarf/scanner.c", "sslsniff/functions/dwarf/lines.c")
# Undefined behaviour ends the process, and libFuzzer sees which branches an input takes.
_WATCHED = (
    *("-O1", "-g", "-Ibpf", "-fsanitize=undefined", "-fsanitize-trap=undefined"),
    "-fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp",
)
_PROGRAM = (
    *("-O2", "-g", "-nostdlib", "-nostdinc", "-fno-exceptions", "-fno-rtti"),
    *("-fno-sanitize=undefined", "-fno-stack-protector"),
)
VERSIONS = (4, 5)
"""Of DWARF."""
SOURCE_NAME = "described_program.cpp"

_SOURCE = """\
void operator delete(void *, unsigned long) noexcept {}
namespace shop {
struct shape { virtual int area(int by) const { return by; } virtual ~shape() {} };
template <typename T> struct box : shape { T value; T get(T other) { return value + other; } };
}
static inline int smaller(int a, int b) { return a < b ? a : b; }
extern "C" int start(int count, char **words) {
    shop::box<long> one;
    int sum = 0;
    for (int i = 0; i < count; i++) { int ret = smaller(i, words[i][0]); sum += one.get(ret); }
    return sum + one.area(count);
}
"""


def compile_program(version: int) -> bytes:
    """Return the program, described in a ``version`` of DWARF."""
    source, output = _BUILT / SOURCE_NAME, _BUILT / f"program-{version}.so"
    _BUILT.mkdir(parents=True, exist_ok=True)
    source.write_text(_SOURCE)
    _compile("c++", *_PROGRAM, f"-gdwarf-{version}", str(source), "-o", str(output))
    return output.read_bytes()


def compile_scanner() -> Path:
    """Return the path of the scanner's library; it needs what libFuzzer exports."""
    output = _BUILT / "libscanner.so"
    _BUILT.mkdir(parents=True, exist_ok=True)
    _compile("cc", *_WATCHED, *_SOURCES, "-o", str(output))
    return output


def _compile(compiler: str, *arguments: str) -> None:
    command = [*ZIG, compiler, *_TARGET, *arguments]
    subprocess.run(command, check=True, cwd=_ROOT)
