"""Functions of C++, with and without debug info."""

import subprocess
from pathlib import Path

from tests.live.functions.tracing import build, trace


def test_with_debug_info(tmp_path: Path) -> None:
    traced = trace(build("shapes.cpp", tmp_path, "-O2"), "shapes::")
    area, count = traced.calls()
    assert area["function"] == "shapes::Point<int>::area"
    assert (area["args"]["width"], area["result"]) == (5, 35)
    assert area["args"]["this"] == {"x": 3, "y": 4}
    assert (count["function"], count["result"]) == ("shapes::count", 9)
    assert count["args"] == {"numbers": [1, 2, 3], "name": "circle"}


def test_without_debug_info(tmp_path: Path) -> None:
    """Names are from symbols, without parameters; arguments are registers."""
    program = build("shapes.cpp", tmp_path, "-O2")
    subprocess.run(["strip", "--strip-debug", program], check=True)
    traced = trace(program, "^shapes::count$")
    [count] = traced.calls()
    assert count["function"] == "shapes::count"
    assert count["args"]["arg1"]["register"] == "rdi"
    assert "no debug info for it" in traced.stderr
