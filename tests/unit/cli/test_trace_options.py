"""The command line of ``sslsniff trace``: what it takes, and what it says of what is wrong."""

import re
from pathlib import Path

import pytest

from sslsniff.cli.options.trace_options import (
    ADDRESSES,
    CHILDREN,
    FILE,
    LIB,
    LINES,
    PATTERNS,
    PID,
    RATE,
    RESULTS,
    SLOWER,
    TRACE,
    USDT,
)
from sslsniff.settings.asked import Asked


def parsed(line: str) -> Asked:
    return TRACE.parse(line.split())


def patterns(asked: Asked) -> list[str]:
    return [*asked[PATTERNS]]


def test_a_program_with_arguments() -> None:
    asked = parsed("./orders orders::.* -- --port 8443")
    assert (asked[FILE], asked.command) == ("./orders", ("--port", "8443"))
    assert patterns(asked) == ["orders::.*"]
    assert (asked[RESULTS], asked[PID], asked[RATE]) == (None, (), 0)


def test_a_running_process() -> None:
    asked = parsed("--pid 1234 Stream<.*>::poll_read other")
    assert (asked[FILE], asked[PID]) == (None, (1234,))
    assert patterns(asked) == ["Stream<.*>::poll_read", "other"]


def test_a_line() -> None:
    asked = parsed("./app --line main.c:36 --line C:/a.c:1")
    assert (asked[FILE], asked[LINES]) == ("./app", (("main.c", 36), ("C:/a.c", 1)))
    assert patterns(asked) == []


def test_static_probes() -> None:
    asked = parsed("--pid 1234 --usdt mysql:query__.*")
    assert (asked[FILE], asked[USDT]) == (None, (re.compile("mysql:query__.*"),))


def test_a_library() -> None:
    asked = parsed("./app --lib libc.so.6 ^malloc$ --no-children")
    assert (asked[FILE], asked[LIB], patterns(asked)) == ("./app", "libc.so.6", ["^malloc$"])
    assert not asked[CHILDREN]


def test_options_between_words() -> None:
    asked = parsed("--results ./app --slower 10ms f --address 0x1139 g -- -x")
    assert (asked[FILE], patterns(asked)) == ("./app", ["f", "g"])
    assert (asked[RESULTS], asked[SLOWER], asked[ADDRESSES]) == (True, 10_000_000, (0x1139,))
    assert asked.command == ("-x",)


def test_a_program_without_arguments() -> None:
    assert parsed("./app f --").command == ()


@pytest.mark.parametrize(
    ("text", "span_ns"),
    [("100ns", 100), ("5us", 5_000), ("10ms", 10_000_000), ("1.5s", 1_500_000_000), ("0s", 0)],
)
def test_durations(text: str, span_ns: int) -> None:
    assert parsed(f"./app f --slower {text}")[SLOWER] == span_ns


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("", "what to trace is missing: a program FILE to start, or --pid PID"),
        ("./app", "what to trace is missing: a PATTERN of functions ('.*' for all), --line,"),
        ("--pid 7", "what to trace is missing: a PATTERN of functions"),
        ("--pid 7 f -- x", "--pid traces a running process: leave it out, or -- with what follows"),
        ("./app (", "argument PATTERN: '(' is no regular expression"),
        ("--pid 7 (", "argument PATTERN: '(' is no regular expression"),
        ("./app --line 36", "argument --line: '36' is not a line of a source file such as main.c:"),
        ("./app --line main.c:0", "argument --line: "),
        ("./app --line main.c:", "argument --line: "),
        ("./app --address 12", "argument --address: '12' is not an address such as 0x1139"),
        ("./app f --slower 10", "argument --slower: '10' is not a duration such as 500us"),
        ("./app f --slower -1ms", "argument --slower: "),
        ("./app f --max-depth 0", "argument --max-depth: '0' is not a number of 1 or more"),
        ("./app f --count --histogram", "--histogram also counts: leave --count out"),
        ("./app f --no-results --under f", "--under needs returns: leave --no-results out"),
        ("./app f --no-results --slower 1s", "--slower needs returns: leave --no-results out"),
        ("./app f --no-results --max-depth 1", "--max-depth needs returns: leave --no-results"),
        ("./app f --no-results --histogram", "--histogram needs returns: leave --no-results out"),
        ("./app f --no-results --returns trampoline", "--returns chooses how results are read"),
        ("./app f --count --under f", "--under needs each call, --count only numbers: leave one"),
        ("./app f --count --stack", "--stack needs each call, --count only numbers"),
        ("./app f --histogram --folded x", "--folded needs each call, --histogram only"),
        (
            "./app f --histogram --chrome-trace x",
            "--chrome-trace needs each call, --histogram only",
        ),
        (
            "./app f --print",
            "--print goes with --chrome-trace or --folded: calls are shown already",
        ),
        ("./app f --slow 1s", "unknown argument --slow: did you mean --slower?"),
    ],
)
def test_wrong_lines(line: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(line)
    assert ended.value.code == 2
    shown = capsys.readouterr().err.removeprefix("sslsniff trace: ")
    assert shown.startswith(message)


def test_the_page_has_the_options_of_the_parser() -> None:
    page = (Path(__file__).parents[3] / "docs/trace.md").read_text("utf-8")
    options = {name for name in TRACE.parser()._option_string_actions if name.startswith("--")}
    named = set(re.findall(r"--[a-z][a-z-]+", page))
    assert sorted(options - {"--help"} - named) == []
    assert sorted(named - options - OF_OTHERS) == []


OF_OTHERS = {"--signatures", "--port", "--calls", "--redact"}
"""Options of other commands and programs that the page names."""
