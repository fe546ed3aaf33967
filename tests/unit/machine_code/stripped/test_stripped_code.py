"""Who refers to a text in programs without symbols, by different compiler options."""

import shutil
import subprocess
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.elf.mapped_file import FileMemory
from sslsniff.machine_code.known_values import Argument, MemoryField, Number
from sslsniff.machine_code.stripped.references import TRANSFERS, ReferenceForm, find_references
from sslsniff.machine_code.stripped.stripped_code import StrippedCode

SOURCE = r"""
#define RAISE(reason, line) raise_error(16, 0, reason, "some/where/file.cc", line)

struct object { void *method; int state; long count; };

__attribute__((noinline, noclone)) void raise_error(int library, int unused, int reason,
                                                    const char *file, unsigned line)
{
    __asm__ volatile("" :: "r"(library), "r"(unused), "r"(reason), "r"(file), "r"(line));
}

__attribute__((noinline, noclone)) int first(struct object *object)
{
    if (!object->method) { RAISE(66, 10); return -1; }
    if (object->state == 3) { RAISE(226, 20); return -1; }
    if (object->state == 5) { RAISE(215, 30); return -1; }
    return object->state;
}

__attribute__((noinline, noclone)) int second(struct object *object, char *buffer, long size)
{
    int (*method)(struct object *, char *, long) = *(void **)((char *)object->method + 16);

    if (size < 0) { RAISE(111, 40); return -1; }
    object->count = 7;
    return method(object, buffer, size) + first(object);
}

int main(int count, char **arguments)
{
    struct object *object = (void *)arguments[0];

    return first(object) + second(object, arguments[1], count) + first(object)
        + second(object, 0, 1) + first(object + 1) + second(object + 1, 0, 2);
}
"""
FUNCTIONS = ("first", "second", "raise_error")
EXPECTED = {("first", 66, 10), ("first", 226, 20), ("first", 215, 30), ("second", 111, 40)}

OPTIONS = {
    "movable": ("-fPIE", "-pie"),
    "fixed place": ("-fno-pie", "-no-pie"),
    "no unwind table": ("-fPIE", "-pie", "-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
    "fixed place, no unwind table": (
        *("-fno-pie", "-no-pie"),
        *("-fno-asynchronous-unwind-tables", "-fno-unwind-tables"),
    ),
}


@pytest.fixture(params=[f"{each}, {level}" for each in OPTIONS for level in ("-O2", "-Os")])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, int]]:
    """A program without symbols, and the addresses of its functions."""
    options, _, level = request.param.rpartition(", ")
    (tmp_path / "program.c").write_text(SOURCE)
    whole = tmp_path / "whole"
    command = ["gcc", level, *OPTIONS[options], "-o", str(whole), str(tmp_path / "program.c")]
    subprocess.run(command, check=True)
    with Elf(str(whole)) as elf:
        places = {each: elf.function(each) for each in FUNCTIONS}
    stripped = tmp_path / "stripped"
    shutil.copy(whole, stripped)
    subprocess.run(["strip", str(stripped)], check=True)
    return stripped, {name: place.address for name, place in places.items() if place}


@pytest.mark.tools
def test_constants_of_each_path_belong_together(program: tuple[Path, dict[str, int]]) -> None:
    path, places = program
    with Elf(str(path)) as elf:
        code = StrippedCode(elf)
        texts = code.texts_ending_with(b"where/file.cc")
        assert [code.text(start) for start, _ in texts] == ["some/where/file.cc"]
        owners = code.owners_of(each.address for each in code.references_to(texts))
        raised = {
            (owner, values["rdx"], values["r8"])
            for owner in owners
            for call in code.walk(owner).calls
            if call.target == places["raise_error"]
            and {*(values := dict(call.arguments))} >= {"r8"}
        }
        assert raised == {
            (places[name], Number(reason), Number(line)) for name, reason, line in EXPECTED
        }


BY_POINTERS = (
    SOURCE.replace("int main(", "static int unused_main(")
    + r"""
static const struct { int (*one)(struct object *); int (*other)(struct object *, char *, long); }
    table = {first, second};

int main(int count, char **arguments)
{
    __typeof__(&table) methods = &table;

    __asm__ volatile("" : "+r"(methods));
    return methods->one((void *)arguments[0]) + methods->other((void *)arguments[0], 0, count);
}
"""
)
TAKEN_IN_CODE = (
    SOURCE.replace("int main(", "static int unused_main(")
    + r"""
int main(int count, char **arguments)
{
    int (*one)(struct object *) = first;
    int (*other)(struct object *, char *, long) = second;

    __asm__ volatile("" : "+r"(one), "+r"(other));
    return one((void *)arguments[0]) + other((void *)arguments[0], 0, count);
}
"""
)


@pytest.mark.tools
@pytest.mark.parametrize("level", ["-O2", "-Os"])
@pytest.mark.parametrize(
    ("source", "options"),
    [
        (BY_POINTERS, "no unwind table"),
        (BY_POINTERS, "movable"),
        (TAKEN_IN_CODE, "no unwind table"),
        (TAKEN_IN_CODE, "fixed place, no unwind table"),
    ],
    ids=["data", "data, unwind table", "code", "code, fixed place"],
)
def test_functions_that_only_pointers_lead_to_are_found(
    source: str, options: str, level: str, tmp_path: Path
) -> None:
    (tmp_path / "program.c").write_text(source)
    whole, stripped = tmp_path / "whole", tmp_path / "stripped"
    command = ["gcc", level, *OPTIONS[options], "-o", str(whole), str(tmp_path / "program.c")]
    subprocess.run(command, check=True)
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    with Elf(str(whole)) as elf:
        places = {each: elf.function(each) for each in FUNCTIONS}
    with Elf(str(stripped)) as elf:
        code = StrippedCode(elf)
        texts = code.texts_ending_with(b"where/file.cc")
        owners = code.owners_of(each.address for each in code.references_to(texts))
        for name in ("first", "second"):
            function = places[name]
            assert function is not None
            assert function.address in owners
            assert code.is_called(function.address)
            found = code.function(function.address)
            assert found is not None
            assert found.size <= function.size + 16


FAR = r"""
__asm__(".section .text.startup,\"ax\"\n.skip 0x20000, 0x90\n.text");
"""
"""What GNU's linker puts between code that is seldom executed and the rest."""


@pytest.mark.tools
@pytest.mark.parametrize("frames", [True, False], ids=["unwind table", "no unwind table"])
def test_parts_that_are_far_away_belong_to_their_functions(frames: bool, tmp_path: Path) -> None:
    source = SOURCE.replace("noclone)) void", "noclone, cold)) void") + FAR
    (tmp_path / "program.c").write_text(source)
    program = tmp_path / "program"
    options = () if frames else ("-fno-asynchronous-unwind-tables", "-fno-unwind-tables")
    command = ["gcc", "-O2", *options, "-o", str(program), str(tmp_path / "program.c")]
    subprocess.run(command, check=True)
    with Elf(str(program)) as elf:
        places = {name: elf.function(name) for name in FUNCTIONS}
        code = StrippedCode(elf)
        texts = code.texts_ending_with(b"where/file.cc")
        owners = code.owners_of(each.address for each in code.references_to(texts))
        first, second, raising = (places[name] for name in FUNCTIONS)
        assert first is not None
        assert second is not None
        assert raising is not None
        assert {*owners} == {first.address, second.address}
        raised = {
            (owner, values["rdx"], values["r8"])
            for owner in owners
            for call in code.walk(owner).calls
            if call.target == raising.address and {*(values := dict(call.arguments))} >= {"r8"}
        }
        assert raised == {
            (found.address, Number(reason), Number(line))
            for name, reason, line in EXPECTED
            if (found := places[name])
        }
        parts = [each for owner in owners for each in code.walk(owner).cold_parts()]
        assert any(abs(each.address - first.address) > 0x10000 for each in parts)
        function = code.function(first.address)
        assert function is not None
        assert function.size <= first.size + 16


@pytest.mark.tools
def test_the_walk_of_a_function_knows_its_calls_and_stores(
    program: tuple[Path, dict[str, int]],
) -> None:
    path, places = program
    with Elf(str(path)) as elf:
        code = StrippedCode(elf)
        code.references_to(code.texts_ending_with(b"where/file.cc"))
        walk = code.walk(places["second"])
        assert walk.problem is None
        method = MemoryField(MemoryField(Argument("rdi"), 0), 16)
        handed = [dict(each.arguments) for each in walk.calls if each.through == method]
        assert handed
        assert all(each["rsi"] == Argument("rsi") for each in handed)
        assert (Argument("rdi"), 16, 8) in {(e.base, e.offset, e.size) for e in walk.stores}
        assert {*code.callers(places["first"])} >= {places["second"]}
        assert code.is_called(places["first"])


@pytest.mark.tools
def test_where_a_function_ends_is_known_without_an_unwind_table(
    program: tuple[Path, dict[str, int]],
) -> None:
    path, places = program
    with Elf(str(path)) as elf:
        code = StrippedCode(elf)
        code.references_to(code.texts_ending_with(b"where/file.cc"))
        for name in ("first", "second"):
            function = code.function(places[name])
            assert function is not None
            assert function.address == places[name]
            last = elf.code(function)[-5:]
            assert last.endswith(b"\xc3") or last[0] in (0xE9, 0xE8) or last[-2] == 0xEB
            assert not any(
                function.address < other < function.address + function.size
                for other in places.values()
            )


AT, TARGET = 0x400000, 0x1234567


def distance(place: int) -> bytes:
    """Return the distance from a place in code at ``AT`` to ``TARGET``."""
    return (TARGET - (AT + place + 4)).to_bytes(4, "little", signed=True)


@pytest.mark.parametrize("before", [0, 1, 5, 14, 15, 16, 17, 63])
@pytest.mark.parametrize("after", [0, 1, 11, 12, 13, 30])
def test_a_reference_is_found_wherever_it_is(before: int, after: int) -> None:
    encodings = {
        ReferenceForm.CALL: b"\xe8",
        ReferenceForm.JUMP: b"\xe9",
        ReferenceForm.BRANCH: b"\x0f\x85",
        ReferenceForm.LOAD_ADDRESS: b"\x48\x8d\x0d",
        ReferenceForm.NUMBER: b"\xbe",
    }
    for form, encoded in encodings.items():
        end = before + len(encoded)
        number = TARGET.to_bytes(4, "little") if form is ReferenceForm.NUMBER else distance(end)
        code = b"\x90" * before + encoded + number + b"\x90" * after
        for others in ([], [(0, 16), (TARGET - 64, TARGET)], [(TARGET + 1, 1 << 40)]):
            found = find_references([FileMemory(AT, code)], [(TARGET, TARGET + 1), *others], form)
            assert (AT + before, TARGET, form) in found
            assert not find_references([FileMemory(AT, code)], others, form)
        for other in encodings.keys() - {form}:
            assert not find_references([FileMemory(AT, code)], [(TARGET, TARGET + 1)], other)


def test_more_references_than_usual_are_all_found() -> None:
    code = b"".join(b"\xe8" + distance(5 * at + 1) for at in range(5000))
    found = find_references([FileMemory(AT, code)], [(TARGET, TARGET + 1)], TRANSFERS)
    assert [each.address for each in found] == [AT + 5 * at for at in range(5000)]


def test_code_without_a_whole_distance_has_none() -> None:
    for size in range(5):
        assert not find_references([FileMemory(0, b"\xe8" * size)], [(0, 1 << 31)], TRANSFERS)


@pytest.mark.tools
def test_all_calls_and_jumps_are_as_a_disassembler_has_them(
    program: tuple[Path, dict[str, int]],
) -> None:
    path, places = program
    shown = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", str(path)],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    with Elf(str(path)) as elf:
        for place in places.values():
            found = {
                each.address
                for each in find_references(elf.executable(), [(place, place + 1)], TRANSFERS)
            }
            wanted = {
                int(line.split(":")[0], 16)
                for line in shown.splitlines()
                if line.startswith(" ")
                and f" {place:x} " in line + " "
                and line.split()[1].startswith(("call", "j"))
            }
            assert wanted <= found


ENDING = r"""
void stop(void);
__attribute__((noinline, noclone)) void stop(void) { for (;;) __asm__ volatile("pause"); }
__asm__(
    ".text\n.p2align 4\n.globl asked\nasked: lea text(%rip), %rax\ntest %edi, %edi\njne 1f\n"
    "xor %eax, %eax\nret\n1: call stop\n"
    ".p2align 4\nlonely: mov $77, %eax\nret\n"
    ".p2align 4\n.globl other\nother: test %edi, %edi\njne 1f\nret\n1: call stop\n"
    ".p2align 4\n.globl called\ncalled: mov $1, %eax\nret\n"
    ".p2align 4\nloop: mov $9, %ecx\ncall called\n.p2align 4\n2: dec %ecx\njne 2b\nret\n"
    ".p2align 4\nlast: test %edi, %edi\njne 1f\nret\n1: call give_up\n"
    ".p2align 4\n.globl copying\ncopying: mov 8(%rdi), %rax\nmov %edx, %ecx\nmov %rsi, %rdi\n"
    "mov 16(%rax), %rsi\nrep movsb\nret\n"
    ".p2align 4\nalone: ret\n.p2align 4\ngive_up: jmp give_up\n"
    ".section .rodata\ntext: .asciz \"some/where/file.cc\"\n.text\n");
int asked(int), other(int), called(int);
int main(int count, char **arguments)
{
    return asked(count) + asked(2) + asked(3) + other(count) + called(count) + called(2);
}
"""


@pytest.mark.tools
def test_what_follows_a_call_that_never_returns_is_not_the_function_s(tmp_path: Path) -> None:
    """Nothing calls ``lonely``. But before ``called`` there is a call of ``stop``, too.

    Nothing calls or jumps to ``alone``, which is aligned; a jump leads to where ``loop`` is.
    """
    (tmp_path / "program.c").write_text(ENDING)
    whole, stripped = tmp_path / "whole", tmp_path / "stripped"
    options = ("-O2", "-fno-asynchronous-unwind-tables", "-Wl,--no-eh-frame-hdr")
    subprocess.run(["gcc", *options, "-o", whole, tmp_path / "program.c"], check=True)
    subprocess.run(["strip", "-o", stripped, whole], check=True)
    symbols = subprocess.run(["nm", whole], check=True, capture_output=True, text=True).stdout
    rows = (line.split() for line in symbols.splitlines())
    places = {row[2]: int(row[0], 16) for row in rows if len(row) == 3}
    with Elf(str(stripped)) as elf:
        code = StrippedCode(elf)
        code.references_to(code.texts_ending_with(b"where/file.cc"))
        assert code.starts.never_returns(places["stop"])
        assert code.starts.never_returns(places["give_up"])
        assert not code.starts.never_returns(places["called"])
        walk = code.walk(places["asked"])
        assert {value for _, value in walk.returns} == {Number(0)}
        function = code.function(places["asked"])
        [copy] = code.walk(places["copying"]).copies
    assert copy.argument("rdi") == Argument("rsi")
    assert copy.argument("rsi") == MemoryField(MemoryField(Argument("rdi"), 8), 16)
    assert function is not None
    assert function.address + function.size <= places["lonely"]
