"""Arguments of real programs are as their sources have them, whatever their type is."""

import json
import os
import re
import subprocess
from pathlib import Path
from random import Random

import pytest

from sslsniff.core.escaping import escape
from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.trace_places import Place
from sslsniff.functions.dwarf.debug_info import open_debug_info
from sslsniff.functions.outputs.value_json import json_value
from sslsniff.functions.outputs.value_text import arguments_text
from sslsniff.functions.places.plans import PlanOptions
from sslsniff.functions.places.trace_plan import plan_functions
from tests.unit.functions.probed_run import ProbedRun

pytestmark = pytest.mark.tools

SOURCES = Path("tests/workload/functions/values").resolve()
BUILDS = {
    "c": ["gcc", "-g"],
    "cpp": ["g++", "-g", "-std=c++17"],
    "rs": ["rustc", "-g", "--edition=2021"],
    "go": ["go", "build"],
}


PATTERNS = {"c": "^c_", "cpp": "^cpp_", "rs": "^values::", "go": "^main"}


def planned(folder: Path, language: str, pattern: str, *options: str) -> tuple[Path, list[Place]]:
    """Return a program and the places of its functions."""
    program = folder / "program"
    source = str(SOURCES / f"values.{language}")
    command = [*BUILDS[language], *options, "-o", str(program), source]
    environment = os.environ | {"GOFLAGS": "-mod=mod", "GOCACHE": str(Path(".cache/go").resolve())}
    subprocess.run(command, check=True, env=environment)
    with Elf(str(program)) as elf:
        plan = plan_functions(elf, [pattern], PlanOptions(results=False), open_debug_info(elf))
    return program, [*plan.places]


def traced(tmp_path: Path, language: str, pattern: str, *options: str) -> list[str]:
    """Return the calls of functions of a program; addresses are ``0x?``."""
    program, places = planned(tmp_path, language, pattern, *options)
    lines = [
        f"{re.split('::|[.]', place.function)[-1]}({arguments_text(values)})"
        for place, values, _, _ in ProbedRun([program], places).hits
    ]
    return [re.sub(r"0x[0-9a-f]{5,}", "0x?", each) for each in lines]


LONG = "x" * 256
POINT = "{x=-2, y=5, z=17, s=-3, whole=16909060, bytes=[4, 3, 2, 1]}"
POINTS = ", ".join(
    f"{{x={each}, y={each}, z={each}, s={each}, whole={each}, bytes=[{each}, 0, 0, 0]}}"
    for each in (1, 2)
)
C = [
    "c_integers(a=-1, b=255, c=-2, d=65535, e=-3, f=4294967295, g=-4, h=18446744073709551615)",
    "c_scalars(a='c', b=true, c=GREEN, d=7, e=1, f=-8, g=1, h=-5)",
    f'c_texts(a="hält\\n", b=null, c=0x10, d=0x?, e=&"word", f="{LONG}"...)',
    "c_pointers(a=0x1234, b=&42, c=&{value=1, next=0x?, name=null}, d=null, e=0x?, f=&&42, "
    "g=&0.5, h=&-0.25)",
    f'c_structures(a={POINT}, b={{text="text", numbers=[1, 2, -3], points=[{POINTS}]}}, '
    f"c=&{POINT})",
]

TEXT = '"a text that is longer than sixteen bytes"'
CPP_POINT = '{base=1, x=1.1, flag=true, color=Green, name="point"}'
CPP = [
    f'cpp_texts(a="short", b={TEXT}, c="view", d=&{TEXT}, e="{LONG}"... 344 more)',
    f'cpp_vectors(a=[1, 2, 3], b=["one", {TEXT}], c=[{CPP_POINT}], d=[1, 2, 3], '
    f"e=[{'7, ' * 16}... 84 more])",
    'cpp_optionals(a=7, b=null, c="some")',
    f"cpp_pointers(a=&{CPP_POINT}, b=&5, c=null, d={CPP_POINT}, e=null)",
    "cpp_collections(a={len=1}, b={len=2}, c={len=0}, d={len=3})",
    'cpp_others(a={first=1, second="pair"}, b=(1, \'x\', true), c=Green, d=3, e=3, f=("only"), '
    "g='ä')",
]

RUST_POINT = "{x=-1, y=2}"
SQUARE = 'Named {name="square", sides=4}'
RUST = [
    f"numbers(a=-1, b={1 << 100}, c='ä', d=true, arg5=(), f=-5)",
    'texts(a="hält\\n", b="own", c="ref", d="box", e="cow", f="/p")',
    f'owned_texts(a="/path", b="os", c="owned", d="arc", e="{LONG}"... 344 more)',
    f'lists(a=[1, 2], b=[-1], c=["a", "b"], d=[7, 8, 9], e=[{"5, " * 16}... 84 more], '
    f"f=[{RUST_POINT}])",
    f'pointers(a={RUST_POINT}, b={RUST_POINT}, c="s", d={RUST_POINT}, e=5, f=&6)',
    'options(a=Some(3), b=None, c=Some("some"), d=None, e=Some(false))',
    'results(a=Ok("ok"), b=Err(7), c=Err(9), d=Some(None))',
    f"enums(a=Empty, b=Circle(0.5), c={SQUARE}, d=Some({SQUARE}))",
    f"structures(a=(1, true), b=Some({RUST_POINT}), c=(9), d={{secs=1, nanos=5}}, e=6, f=0x?)",
    "collections(a={len=1}, b={len=2}, c={len=1}, d={len=3})",
    'cells(a=4, b="kept", c=Blue)',
]

GO_POINT = '{X=1, Y=2, name="pt"}'
GO = [
    f'texts(a="hält", b="{LONG}"... 344 more, c=[98, 121])',
    f'slices(a=[1, -2], b=["x", "yy"], c=[{GO_POINT}], d=[{"0, " * 16}... 84 more])',
    f"pointers(a=&{GO_POINT}, b=null, c=&5, d=&&{GO_POINT}, e=0x?, f={{len=1}}, g={{len=2}}, "
    "h=null)",
    f'structures(a={GO_POINT}, b=["q", "r"], c=true, d=120, e=3, f={{}})',
    'interfaces(a=int(5), b=string("text"), c=null, d=*main.point(0x?))',
    "more(a=float64(1.5), b=null, c=main.color(7), d=main.point(0x?))",
    'failures(a=*errors.errorString("boom"), b=*fmt.wrapError("wrapped: EOF"), c=null, '
    "d=main.failure(0x?))",
    "kinds(a=0x?, b=&0x?, c={len=1}, d={len=1}, e={len=1}, "
    f"f={{point=&{GO_POINT}, at=[[1, 2], [3, -4]]}}, g=null, h=[null])",
    "numbers(a=&{real=0.0, imag=0.5}, b=[{real=1.0, imag=0.0}, {real=0.0, imag=2.0}], "
    "c=complex128({real=3.0, imag=-4.0}), d=<in a vector register>, e=<in a vector register>, "
    "f=<in a vector register>)",
    'string](a="a", b=["b"])',
    "int](a=5, b=[6])",
]


def test_c(tmp_path: Path) -> None:
    assert traced(tmp_path, "c", "^c_") == C


def test_cpp(tmp_path: Path) -> None:
    assert traced(tmp_path, "cpp", "^cpp_") == CPP


@pytest.mark.heavy
@pytest.mark.parametrize("level", [0, 1, 3])
def test_rust(tmp_path: Path, level: int) -> None:
    lines = traced(tmp_path, "rs", "^values::[a-z_]+$", f"-Copt-level={level}")
    assert [each for each in lines if not each.endswith("()")] == RUST


@pytest.mark.heavy
@pytest.mark.parametrize("mode", ["exe", "pie"])
def test_go(tmp_path: Path, mode: str) -> None:
    lines = traced(tmp_path, "go", r"^main\.[a-z]+(\[.*)?$", f"-buildmode={mode}")
    # Go 1.18 to 1.20 number the shapes of type arguments: main.label[go.shape.string_0].
    shown = [each.replace("_0](", "](") for each in lines if not each.endswith("()")]
    assert shown == GO


@pytest.mark.heavy
@pytest.mark.parametrize("language", BUILDS)
def test_whatever_is_in_memory_has_a_form(tmp_path: Path, language: str) -> None:
    """Values that are not initialised yet, or freed, have any bytes."""
    _, places = planned(tmp_path, language, PATTERNS[language])
    for seed in range(60):
        random = Random(seed)
        for place in places:
            data = random.randbytes(place.fetch.data_bytes)
            data = bytes(each if random.randrange(4) >= seed % 4 else 0 for each in data)
            values = place.fetch.values(data, random.getrandbits(64) & random.getrandbits(64))
            assert escape(arguments_text(values)) == arguments_text(values), seed
            json.dumps({name: json_value(value) for name, value in values.items()}, allow_nan=False)
