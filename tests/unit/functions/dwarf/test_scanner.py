"""The scanner in C on damaged debug info: it never reads or writes outside of its memory."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.heavy

PROGRAM = """\
import random, sys
from sslsniff.elf.call_frames import cfa_at
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.elf.elf_file import Elf
from sslsniff.core.errors import ElfError

path, copy, seed = sys.argv[1:]
whole = open(path, "rb").read()
names = "info types abbrev line str str_offsets loclists rnglists loc ranges line_str addr".split()
with Elf(path) as elf:
    found = [".eh_frame", *(f".debug_{name}" for name in names)]
    sections = [section for name in found for section in elf._sections_named(name)]
    parts = [(each.part.offset, each.part.size) for each in sections]
random = random.Random(seed)
read = refused = 0
for _ in range(100):
    data = bytearray(whole)
    for _ in range(random.randint(1, 6)):
        offset, size = random.choice(parts)
        at = offset + random.randrange(size)
        data[at] = random.choice((0, 0xFF, 0x80, data[at] ^ 1 << random.randrange(8)))
    if random.random() < 0.1:
        del data[random.randrange(len(data)) :]
    open(copy, "wb").write(data)
    try:
        with Elf(copy) as elf:
            info = open_debug_info(elf)
            for each in info.functions(lambda _: True) if info else ():
                entry = each.copies[0].entries[0]
                info.line_of(entry), info.prologue_end(entry), info.variables_at(entry)
                each.signature, cfa_at(elf, entry)
            if info:
                [*info.inlined_calls(lambda *_: True)], [*info.signatures(lambda *_: True)]
                info.addresses_of("program.c", 12)
        read += 1
    except ElfError:
        refused += 1
print(read, refused)
"""
SOURCE = """\
namespace shop {
struct shape { virtual int area(int by) const { return by; } virtual ~shape() {} };
template <typename T> struct box : shape { T value; T get(T other) { return value + other; } };
}
static inline int smaller(int a, int b) { return a < b ? a : b; }
int main(int count, char **words) {
    shop::box<long> one;
    int sum = 0;
    for (int i = 0; i < count; i++) { int ret = smaller(i, words[i][0]); sum += one.get(ret); }
    return sum + one.area(count);
}
"""


@pytest.mark.parametrize(
    "options", [("-gdwarf-5", "-O2"), ("-gdwarf-4", "-O1", "-fdebug-types-section")], ids=str
)
def test_damage_ends_in_less_or_in_an_error(options: tuple[str, ...], tmp_path: Path) -> None:
    """In a process of its own: what it must not do would end the process."""
    path = tmp_path / "program"
    command = ["g++", *options, "-x", "c++", "-", "-o", str(path)]
    subprocess.run(command, input=SOURCE.encode(), check=True)
    arguments = [str(path), str(tmp_path / "damaged"), str(options)]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")
    read, refused = map(int, done.stdout.split())
    assert read > 10
    assert refused > 1
