"""Calls that end in uncommon ways do not break the indent: tail calls, longjmp, recursion."""

import re
from pathlib import Path

import pytest

from tests.live.functions.tracing import build, show, trace

pytestmark = pytest.mark.live

PATTERN = "^(deeper|tail_called|tail_caller|after|inner|middle|outer|jumper|mixed)$"
EXPECTED = """\
-> deeper(n=2)
  -> deeper(n=1)
    -> deeper(n=0)
    <- deeper = 1
  <- deeper = 2
<- deeper = 3
{tail_call}
-> after(n=5)
<- after = 5
-> outer(n=6)
  -> middle(n=7)
    inner(n=8)
  <- middle  (return not seen)
  -> after(n=9)
  <- after = 9
<- outer = 6
-> jumper(n=1)
<- jumper  (return not seen)
-> jumper(n=2)
<- jumper  (return not seen)
-> jumper(n=3)
<- jumper
-> mixed(n=11)
<- mixed{hidden_end}
-> after(n=10)
<- after = 10
"""
LINE = re.compile(r"(?: *\d+\.\d{6}| {11})  flows\[\d+\] *")
BEGIN_COLUMNS = 29
DURATION = re.compile(r"  \d+(\.\d+)? (ns|us|ms|s)$")


NESTED = """\
-> tail_caller(n=3)
  -> tail_called(n=4)
  <- tail_called = 5
<- tail_caller = 5"""
REPLACED = """\
tail_caller(n=3)
-> tail_called(n=4)
<- tail_called = 5"""
"""``tail_caller`` has no return instruction, so where it ends is not known."""


@pytest.mark.parametrize(
    ("level", "tail_call", "hidden_end"),
    [("-O0", NESTED, " = 12"), ("-O2", REPLACED, "  (return not seen)")],
    ids=["-O0", "-O2"],
)
def test_the_indent_is_exact(level: str, tail_call: str, hidden_end: str, tmp_path: Path) -> None:
    program = build("flows.c", tmp_path, level)
    out = tmp_path / "out"
    traced = show(program, PATTERN, "--results", "-o", out)
    assert (traced.returncode, traced.stdout) == (0, "41\n")
    *lines, summary = out.read_text().splitlines()
    assert all(LINE.fullmatch(line[:BEGIN_COLUMNS]) for line in lines)
    shown = "".join(f"{DURATION.sub('', line[BEGIN_COLUMNS:])}\n" for line in lines)
    assert shown == EXPECTED.format(tail_call=tail_call, hidden_end=hidden_end)
    assert re.fullmatch(r"15 calls in .*, 0 lost", summary)


@pytest.mark.heavy
@pytest.mark.parametrize("level", ["0", "2"])
def test_a_panic_that_unwinds_ends_what_it_leaves(level: str, tmp_path: Path) -> None:
    program = build("panicking.rs", tmp_path, "-C", f"opt-level={level}")
    traced = trace(program, "^panicking::(leaf|middle|guarded|after)$", "--results")
    assert (traced.code, traced.stdout) == (0, "32\n"), traced.stderr
    found = [
        (each["function"].removeprefix("panicking::"), each["depth"], each.get("result"))
        for each in traced.calls()
    ]
    caught = [("leaf", 2, None), ("middle", 1, None), ("guarded", 0, -1)]
    assert found == [
        *(*caught, ("after", 0, 0)),
        *(("leaf", 2, 3), ("middle", 1, 13), ("guarded", 0, 13), ("after", 0, 1)),
        *(*caught, ("after", 0, 2)),
        *(("leaf", 2, 5), ("middle", 1, 15), ("guarded", 0, 15), ("after", 0, 3)),
    ]
    assert sum(each.get("returned", True) for each in traced.calls()) == 12


OUTER = """\
-> outer(n={n})
  -> empty(n={n})
  <- empty
  -> in_assembler(arg1=%rdi:{n:#x})
  <- in_assembler = %rax:0x?
  -> in_assembler(arg1=%rdi:{n:#x})
  <- in_assembler = %rax:0x?
  -> after(n={n})
  <- after = {after}
  -> empty(n={after})
  <- empty
<- outer = {result}
"""


def test_a_function_whose_first_instruction_is_its_return(tmp_path: Path) -> None:
    """Its calls begin and end at one address, at their depth, and what follows is not inside."""
    program = build("empty_calls.c", tmp_path, "-O2", "-fcf-protection=none")
    ended = show(program, "^(empty|in_assembler|after|outer)$", "--results")
    lines = [line for line in ended.stderr.splitlines() if "empty_calls[" in line]
    starts = [re.sub(r"^ *(\d+\.\d{6})?  \S+ +", "", line) for line in lines]
    least = min(len(line) - len(start) for line, start in zip(lines, starts, strict=True))
    shown = [DURATION.sub("", line[least:]) for line in lines]
    shown = [re.sub(r", arg2=.*\)$", ")", each) for each in shown]
    shown = [re.sub(r"%rax:0x\w+", "%rax:0x?", each) for each in shown]
    outer = "".join(OUTER.format(n=n, after=n + 1, result=2 * n + 2) for n in (2, 3))
    assert "\n".join([*shown, ""]) == "-> empty(n=1)\n<- empty\n" + outer
    assert "return not seen" not in ended.stderr


def test_tallies_have_calls_that_begin_and_end_at_once(tmp_path: Path) -> None:
    program = build("empty_calls.c", tmp_path, "-O2", "-fcf-protection=none")
    (histogram,) = trace("--histogram", program, "^empty$").objects
    assert (histogram["calls"], histogram["buckets"]) == (
        5,
        [{"from_ns": 0, "to_ns": 2, "calls": 5}],
    )
