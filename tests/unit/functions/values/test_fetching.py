import subprocess
from pathlib import Path

import pytest

from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.fetch import FetchLimits
from sslsniff.fetching.locations import RCX, RDI, RDX, RSI, in_memory, in_register
from sslsniff.fetching.traced_values import (
    FollowedPointer,
    Missing,
    RawRegister,
    StructureValue,
    Text,
    Value,
)
from sslsniff.functions.dwarf.function_model import Language
from sslsniff.functions.dwarf.type_model import (
    Character,
    Integer,
    Member,
    Pointer,
    Structure,
    Type,
)
from sslsniff.functions.values.fetching import FetchContext, WantedValue, compile_fetch
from tests.unit.functions.stopped_program import StoppedProgram

pytestmark = pytest.mark.tools

INT = Integer(name="int", size=4, is_signed=True)
LONG = Integer(name="unsigned long", size=8, is_signed=False)
BYTE = Integer(name="u8", size=1, is_signed=False)
CHAR = Character(name="char", size=1)


def pointer(target: Type | None, name: str = "") -> Pointer:
    return Pointer(name=name, size=8, target=lambda: target)


TEXT = pointer(CHAR)
REQUEST = Structure(
    name="request",
    size=24,
    members=(Member("number", 0, INT), Member("path", 8, TEXT), Member("next", 16, TEXT)),
)
STR = Structure(
    name="&str",
    size=16,
    members=(Member("data_ptr", 0, pointer(BYTE)), Member("length", 8, LONG)),
)

PROGRAM = r"""
struct request { int number; const char *path; char *next; };
__attribute__((noinline)) int handle(struct request *request, int negative, char *text, char *bad) {
    __asm__ volatile("" ::: "memory");
    return request->number + negative + (text == bad);
}
int main(void) {
    struct request request = {7, "/index", 0};
    return handle(&request, -3, "h\xc3\xa4lt", (char *)0x1000);
}
"""


def values(
    tmp_path: Path, wanted: list[WantedValue], context: FetchContext
) -> dict[str, Value] | None:
    path = tmp_path / "program"
    command = ["gcc", "-O1", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=PROGRAM.encode(), check=True)
    with Elf(str(path)) as elf:
        function = elf.function("handle")
    assert function
    with StoppedProgram(path, function.address) as program:
        return program.values(compile_fetch(wanted, context))


def test_registers_and_what_they_lead_to(tmp_path: Path) -> None:
    wanted = [
        WantedValue("request", pointer(REQUEST), (in_register(RDI),)),
        WantedValue("direct", REQUEST, (in_memory(RDI),)),
        WantedValue("negative", INT, (in_register(RSI),)),
        WantedValue("text", TEXT, (in_register(RDX),)),
        WantedValue("bad", TEXT, (in_register(RCX),)),
        WantedValue("bad_request", REQUEST, (in_memory(RCX),)),
        WantedValue("raw", None, (in_register(RSI),)),
        WantedValue("gone", INT, Missing.OPTIMISED_OUT),
        WantedValue("vector", INT, (in_register(17),)),
        WantedValue("unknown", None, (in_memory(RDI),)),
    ]
    found = values(tmp_path, wanted, FetchContext(Language.C))
    assert found
    fields = (("number", 7), ("path", Text("/index")), ("next", None))
    request = StructureValue("request", fields)
    followed = found.pop("request")
    assert isinstance(followed, FollowedPointer)
    assert followed.value == found.pop("direct") == request
    raw = found.pop("raw")
    assert isinstance(raw, RawRegister)
    assert (raw.name, raw.number & 0xFFFFFFFF) == ("rsi", 0xFFFFFFFD)
    bad = found.pop("bad")
    assert getattr(bad, "number", None) == 0x1000
    assert found == {
        "negative": -3,
        "text": Text("hält"),
        "bad_request": Missing.UNREADABLE,
        "gone": Missing.OPTIMISED_OUT,
        "vector": Missing.NOT_READABLE,
        "unknown": Missing.UNKNOWN_TYPE,
    }


def test_text_of_two_registers_is_cut_between_characters(tmp_path: Path) -> None:
    pieces = (in_register(RDX, 8), in_register(RDI, 8))
    context = FetchContext(Language.RUST, FetchLimits(text_bytes=2))
    found = values(tmp_path, [WantedValue("text", STR, pieces)], context)
    assert found
    text = found["text"]
    assert isinstance(text, Text)
    assert text.text == "h"  # half of the second character is not shown
    assert text.more > 2
