"""A worker cannot open files: it has imported what the libraries' folders import late."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from sslsniff import libraries

PATHS = sorted(Path(libraries.__path__[0]).glob("*/library.py"))
OF_CAPTURES = ("_failure", "_rows")
"""Functions that only a capture calls: a worker explains no error, and fills no table."""


def imported_late(path: Path) -> set[str]:
    """Return the modules that the functions of a module import which workers call."""
    functions = [
        each
        for each in ast.parse(path.read_text()).body
        if isinstance(each, ast.FunctionDef) and each.name not in OF_CAPTURES
    ]
    nodes = [node for function in functions for node in ast.walk(function)]
    return {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """Return the modules that are imported where a worker begins."""
    script = (
        "import sys; from sslsniff.analysis import worker; worker.import_all(); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True
    )
    return {*done.stdout.split()}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.parent.name)
def test_what_is_imported_late_is_there(path: Path, imported: set[str]) -> None:
    assert imported_late(path) <= imported


def test_some_modules_are_imported_late() -> None:
    late = set().union(*map(imported_late, PATHS))
    assert "sslsniff.libraries.go.go_fitting" in late
    assert len(late) > 3
