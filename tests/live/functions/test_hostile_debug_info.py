"""Debug info that takes too much: one line names the file, and what can be traced is traced."""

import re
import subprocess
from pathlib import Path

import pytest

from tests import hostile_files
from tests.live.functions.tracing import build, trace
from tests.workload.processes import PATIENCE_S

pytestmark = pytest.mark.live

TOO_MUCH = "takes more than 2 GB of memory: see readelf or objdump"
PROGRAM = """
void call_back(void (*called)(int));
__attribute__((noinline)) void probed(int number) { __asm__ volatile(""); }
int main(void) { call_back(probed); call_back(probed); return 3; }
"""
LIBRARY = """
void call_back(void (*called)(int)) { called(1); called(2); }
"""


def test_a_hostile_program_is_refused_in_one_line(tmp_path: Path) -> None:
    built = build("traceme.c", tmp_path)
    hostile = hostile_files.with_long_section(built, ".debug_info", tmp_path / "hostile")
    traced = trace(hostile, "larger")
    assert (traced.code, traced.stdout, traced.objects) == (1, "", [])
    assert traced.stderr == f"sslsniff: {hostile} {TOO_MUCH}"


def test_a_hostile_library_on_a_stack_is_named_once(tmp_path: Path) -> None:
    """Its first address has a call frame, which is read before names; then stacks end at it."""
    (tmp_path / "library.c").write_text(LIBRARY)
    (tmp_path / "program.c").write_text(PROGRAM)
    library = ("gcc", "-g", "-O0", "-shared", "-fPIC", "library.c", "-o", "honest.so")
    subprocess.run(library, cwd=tmp_path, check=True, timeout=PATIENCE_S)
    hostile = tmp_path / "libhostile.so"
    hostile_files.with_long_section(tmp_path / "honest.so", ".debug_info", hostile)
    linked = ("-L.", "-lhostile", f"-Wl,-rpath,{tmp_path}")
    program = ("gcc", "-g", "-O1", "program.c", "-o", "program", *linked)
    subprocess.run(program, cwd=tmp_path, check=True, timeout=PATIENCE_S)
    traced = trace("--stack", tmp_path / "program", "^probed$")
    assert traced.code == 3
    calls = traced.calls()
    assert [each["args"] for each in calls] == [{"number": 1}, {"number": 2}] * 2
    for each in calls:
        inner, lacking, outer, *_ = each["stack"]
        assert inner["function"] == "probed"
        assert (lacking["function"], lacking["module"]) == (None, "libhostile.so")
        ends = (None, "unknown") if each["args"] == {"number": 2} else ("main", None)
        assert (outer.get("function"), outer.get("missing")) == ends
    lines = re.findall("^.*lack functions.*$", traced.stderr, re.MULTILINE)
    assert lines == [f"sslsniff: stacks lack functions: {hostile} {TOO_MUCH}"]
