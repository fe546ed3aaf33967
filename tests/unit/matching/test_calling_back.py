"""A function is found by what it calls back, or not at all."""

from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.matching.calling_back import find_calling_back
from sslsniff.matching.rows import CallingBack
from tests.workload.processes import run

_REGISTERS = ("rdi", "rsi")
_SOURCE = """
struct layer { char before[0x200]; int (*set)(int); void *argument; int (*other)(int); };
__attribute__((noipa)) static struct layer *find(struct layer **handle) { return *handle; }
__attribute__((visibility("default")))
int set(struct layer **handle, int (*set)(int), void *argument) {
    struct layer *layer = find(handle);
    if (!layer)
        return -1;
    layer->set = set;
    layer->argument = argument;
    return 0;
}
__attribute__((visibility("default"))) void copy(struct layer *to, struct layer *from) {
    to->set = from->set;
    to->argument = from->argument;
}
int called(struct layer *layer, int number);
int other(struct layer *layer, int number);
__attribute__((noipa)) int other(struct layer *layer, int number) {
    return layer->other ? layer->other(number) + 1 : 0;
}
__attribute__((noipa)) int called(struct layer *layer, int number) {
    return layer->set ? layer->set(number) + 1 : 0;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calling")
    (folder / "layer.c").write_text(_SOURCE)
    run("gcc", "-O2", "-shared", "-fPIC", "-o", folder / "layer.so", folder / "layer.c")
    return folder / "layer.so"


@pytest.mark.tools
def test_the_function_that_calls_what_was_set(library: Path) -> None:
    with Elf(str(library)) as elf:
        found = find_calling_back(elf, CallingBack("called", "set", _REGISTERS))
        assert found == elf.function("called")


@pytest.mark.tools
@pytest.mark.parametrize(
    "wanted",
    [
        CallingBack("no setter", "absent", _REGISTERS),
        CallingBack("one that reads more", "set", (*_REGISTERS, "rcx")),
        CallingBack("one that stores its own arguments in its own object", "copy", _REGISTERS),
    ],
    ids=lambda wanted: wanted.name,
)
def test_nothing_is_found(library: Path, wanted: CallingBack) -> None:
    with Elf(str(library)) as elf:
        assert find_calling_back(elf, wanted) is None
