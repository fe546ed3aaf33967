import pytest

from sslsniff.core.errors import FilterError
from sslsniff.fetching.fetch import Fetch
from sslsniff.fetching.locations import RDI, RDX, RSI, RSP, in_memory, in_register
from sslsniff.fetching.traced_values import (
    FollowedPointer,
    Items,
    Missing,
    NamedNumber,
    StructureValue,
    Text,
    Value,
)
from sslsniff.functions.conditions.condition import is_met
from sslsniff.functions.conditions.condition_check import check_condition
from sslsniff.functions.conditions.condition_parser import parse_condition
from sslsniff.functions.conditions.condition_steps import condition_steps
from sslsniff.functions.dwarf.type_model import (
    Boolean,
    Character,
    Enumeration,
    Floating,
    Integer,
    Member,
    Pointer,
    Structure,
    Type,
)
from sslsniff.functions.values.fetching import WantedValue
from tests.unit.functions.stopped_program import run_fetch

VALUES: dict[str, Value] = {
    "i": 4,
    "f": 1.5,
    "ok": True,
    "char": "c",
    "text": Text("index"),
    "cut": Text("index", 3),
    "color": NamedNumber("Red", 2),
    "req": FollowedPointer(0x1000, StructureValue("req", (("len", 10), ("path", Text("/a"))))),
    "some": StructureValue("Some", (("0", 3),), is_variant=True),
    "none": StructureValue("None", is_variant=True),
    "null": None,
    "list": Items((1, 2), 5),
    "number": FollowedPointer(0x2000, 7),
    "gone": Missing.OPTIMISED_OUT,
    "~r0": -1,
    "code": 65,
}


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("i > 3", True),
        ("i>=5", False),
        ("i == 0x4 && ok", True),
        ("!(i == 4)", False),
        ("not i == 4 or ok == true", True),
        ("i < 0 || char == 'c' and f > 1.25", True),
        ('text == "index"', True),
        ('text == "in\\x64ex"', True),
        ("char != '\\n'", True),
        ("char > 'b' && char <= 'c' && char > 98", True),
        ("code == 'A' && code < 'B'", True),
        ('text != "index"', False),
        ("*text == 'i' && *text > 'h'", True),
        ('cut == "index"', False),
        ("text.len == 5", True),
        ("cut.len == 8", True),
        ("list.len == 7", True),
        ("color == Red", True),
        ("color == 2", True),
        ("req.len == 10", True),
        ('req->path == "/a"', True),
        ("req == null", False),
        ("req != nil", True),
        ("null == null", True),
        ("some.Some == 3", True),
        ("some == None", False),
        ("none == None", True),
        ("*number == 7", True),
        ("number == 0x2000", True),
        ("~r0 == -1", True),
        ("gone == 1", None),
        ("!(gone == 1)", None),
        ("gone == 1 || i == 4", True),
        ("gone == 1 && i == 5", False),
        ("other == 1", None),
        ("text == 3", None),
    ],
)
def test_values_meet_conditions(condition: str, expected: bool | None) -> None:
    assert is_met(parse_condition(condition).node, VALUES) is expected


@pytest.mark.parametrize(
    ("condition", "position"),
    [
        ("", 0),
        ("i >", 3),
        ("i = 3", 2),
        ("(i > 3", 6),
        ("i > 3 i", 6),
        ("i > 3 &&", 8),
        ("3 > i", 0),
        ("i == 0x_", 6),
        ("i == " + "9" * 5000, 5),
        ('text == "a\\q"', 10),
        ('text == "\\x4"', 9),
    ],
)
def test_a_fault_has_its_position(condition: str, position: int) -> None:
    with pytest.raises(FilterError) as caught:
        parse_condition(condition)
    assert caught.value.position == position


INT = Integer(name="int", size=4, is_signed=True)
UNSIGNED = Integer(name="unsigned", size=4, is_signed=False)
LONG = Integer(name="u64", size=8, is_signed=False)
BOOL = Boolean(name="bool", size=1)
PAIR = Structure(name="pair", size=8, members=(Member("low", 0, INT), Member("high", 4, UNSIGNED)))


def pointer(target: Type) -> Pointer:
    return Pointer(name="", size=8, target=lambda: target)


WANTED = [
    WantedValue("i", INT, (in_register(RDI),)),
    WantedValue("long", LONG, (in_register(RSI),)),
    WantedValue("ok", BOOL, (in_register(RDX, 1),)),
    WantedValue("pair", PAIR, (in_register(RSI),)),
    WantedValue("p", pointer(PAIR), (in_register(RSP),)),
    WantedValue("bad", pointer(PAIR), (in_register(RDX),)),
    WantedValue("stack", INT, (in_memory(RSP, 4),)),
    WantedValue("gone", INT, Missing.OPTIMISED_OUT),
]
# struct pt_regs: rdx, rsi, rdi, rsp
REGISTERS = {12: 0xFFFFFF01, 13: 0xFFFFFFFE_FFFFFFFD, 14: 0xAAAA_FFFFFFFB, 19: 0x7000}
MEMORY = {0x7000: (7).to_bytes(4, "little") + (-8 & 0xFFFFFFFF).to_bytes(4, "little")}


def read(address: int, size: int) -> bytes | None:
    data = MEMORY[0x7000][address - 0x7000 :][:size] if address >= 0x7000 else b""
    return data if len(data) == size else None


@pytest.mark.parametrize(
    ("condition", "is_kept", "is_decided"),
    [
        ("i == -5", True, True),
        ("i == 'c'", False, True),
        ("i < 'c'", True, True),
        ("i < -5", False, True),
        ("i <= -5 && i > -6", True, True),
        ("long > 0xfffffffe00000000", True, True),
        ("long < -1", True, False),  # a number below all that it can have
        ("ok", True, True),
        ("ok == false", False, True),
        ("pair.low == -3", True, True),
        ("pair.high == 0xfffffffe", True, True),
        ("pair.high > 0", True, True),
        ("p.low == 7", True, True),
        ("p->high == 0", False, True),
        ("bad.low == 0", False, True),  # it cannot be read
        ("stack == -8", True, True),
        ("i == 1 || ok", True, True),
        ("i == 1 || p.low == 8", True, False),  # a read that fails must not decide
        ("!(i == -5)", False, True),
        ("gone == 1 && i == 1", False, True),
        ("!(" + "long && (" * 8 + "ok" + ")" * 9, True, False),  # 9 values on the kernel's stack
        ('gone == "text"', True, False),
    ],
)
def test_the_kernel_decides(condition: str, is_kept: bool, is_decided: bool) -> None:
    steps, is_whole = condition_steps(parse_condition(condition), WANTED)
    registers = [REGISTERS.get(index, 0) for index in range(21)]
    assert (run_fetch(Fetch(steps), registers, read) is not None) == is_kept
    assert bool(steps) == is_decided
    assert is_whole == (is_decided and "gone" not in condition)


COLOR = Enumeration(name="color", size=4, is_signed=False, names={0: "RED", 3: "GREEN"})
CHARACTER = Character(name="char", size=1)
DOUBLE = Floating(name="double", size=8)
TYPED = [
    WantedValue(name, each, Missing.OPTIMISED_OUT)
    for name, each in {
        "i": INT,
        "c": CHARACTER,
        "color": COLOR,
        "text": pointer(CHARACTER),
        "number": pointer(INT),
        "d": DOUBLE,
        "pair": PAIR,
        "unknown": None,
    }.items()
]


@pytest.mark.parametrize(
    "condition",
    [
        "i == 'c' && c > 'a' && i == true && i == null",
        "color == GREEN && color > 2",
        "text == \"abc\" && text.len > 2 && *text == 'a' && text != null",
        "*number == 3 && number != null",
        "d > 1 && d != 1.5",
        "unknown.any.thing == 'x' && *unknown > \"a\" || unknown",
    ],
)
def test_types_that_can_be_compared(condition: str) -> None:
    assert check_condition(parse_condition(condition), [TYPED]) is None


@pytest.mark.parametrize(
    ("condition", "position", "fact", "remedy"),
    [
        ('i > "text"', 0, "i, of type int, is no text", "compare it with a number"),
        ('i == 3 || d == "x"', 10, "d, of type double, is no text", "compare it with a number"),
        ("i.low > 3", 2, "i, of type int, has no members", "leave .low out"),
        ("number.low > 3", 7, "number, of type int, has no members", "leave .low out"),
        ("text.size > 3", 5, "text, of type char, has no members", "leave .size out"),
        ("!(*i == 3)", 3, "i, of type int, is no pointer", "leave the * out"),
        ("pair.low == red", 5, "low, of type int, is no text", "compare it with a number"),
        ("color == green", 0, "green: no such value of color", "use RED, GREEN"),
        ("color == GREE", 0, "GREE: no such value of color", "use GREEN"),
        (
            "color > RED",
            0,
            "color, of type color, has no order by text",
            "use == or !=, or compare it with a number",
        ),
    ],
)
def test_types_that_cannot_be_compared(
    condition: str, position: int, fact: str, remedy: str
) -> None:
    error = check_condition(parse_condition(condition), [TYPED])
    assert error
    assert (error.position, error.fact, error.remedy) == (position, fact, remedy)


def test_a_wrong_name_has_the_nearest_ones() -> None:
    error = check_condition(parse_condition("i > 3 && p.lwo == 1"), [WANTED])
    assert error
    assert (error.position, error.fact) == (11, "lwo: no such member of pair")
    assert "low" in error.remedy
    error = check_condition(parse_condition("lon > 3"), [WANTED, WANTED])
    assert error
    assert "long" in error.remedy
    assert check_condition(parse_condition("i > 3"), [[], WANTED]) is None
