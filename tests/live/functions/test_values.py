"""Arguments and results of all kinds, as the kernel reads them and as the program prints them."""

import re
from pathlib import Path

import pytest

from tests.live.functions.tracing import build, show

_ENTERED = re.compile(r" -> (?P<call>(?P<name>[\w:.]+)\(.*\))$", re.M)
_RETURNED = re.compile(r" <- (?P<name>[\w:.]+)(?P<result>(?: = .*?)?)  [\d.]+ \w+$", re.M)
_FLOATING = (
    "half|whole_of|mixed_of|floats_of|r_f32|r_f64|r_floats?|r_option_f64|r_tuple_float|r_mixed"
)
C = rf"^(?!main$|_|(?:{_FLOATING})$)"
RUST = rf"^results::(?!(?:{_FLOATING})$)r_\w+$"


def printed(output: str) -> list[str]:
    """Return the lines of calls without floating-point numbers, which a probe cannot read."""
    return [each for each in output.splitlines() if not re.match(rf"(?:{_FLOATING})\(", each)]


@pytest.mark.parametrize(
    ("source", "flags", "pattern"),
    [
        ("conventions.c", ("-O0",), C),
        ("conventions.c", ("-O2",), C),
        pytest.param("results.rs", ("-Copt-level=0",), RUST, marks=pytest.mark.heavy),
        pytest.param("results.rs", ("-Copt-level=3",), RUST, marks=pytest.mark.heavy),
    ],
)
def test_every_argument_and_result_is_as_the_program_has_it(
    tmp_path: Path, source: str, flags: tuple[str, ...], pattern: str
) -> None:
    program = build(source, tmp_path, *flags)
    shown = show("--results", program, pattern)
    calls = [each["call"].rpartition("::")[2] for each in _ENTERED.finditer(shown.stderr)]
    results = [each["result"] for each in _RETURNED.finditer(shown.stderr)]
    lines = [f"{call}{result}" for call, result in zip(calls, results, strict=True)]
    assert lines == printed(shown.stdout), shown.stderr
