"""Each folder of the sources answers a question, and no modules import each other."""

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "sslsniff"
BESIDE_TESTS = ("bench", "bpf", "decoders", "docs", "pcaps", "sslsniff")
WORKLOAD = "tests.workload"
FOLDERS = [PACKAGE, *sorted(each.parent for each in PACKAGE.glob("*/**/__init__.py"))]
AIM_LINES = 400
NO_MODULES = {"elf.offered", "elf.opener", "elf.wanted", "kernel.perf_event_paranoid"}
"""Names of attributes and of a setting of the kernel, which begin as rooms do."""


class LongModuleWarning(UserWarning):
    """A module is longer than it should be."""


def sources() -> Iterator[tuple[str, Path]]:
    """Yield the modules of the package by their names, without the decoders."""
    for path in PACKAGE.rglob("*.py"):
        if not path.is_relative_to(PACKAGE / "decoders"):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            yield name.removesuffix(".__init__"), path


MODULES = dict(sources())


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda each: str(each.relative_to(ROOT)))
def test_a_folder_says_what_it_is_for(folder: Path) -> None:
    """And nothing else: what stands there, each start that needs a module of it pays for."""
    body = ast.parse((folder / "__init__.py").read_text()).body
    assert ast.get_docstring(ast.Module(body, []))
    assert folder == PACKAGE or len(body) == 1


def test_named_modules_exist() -> None:
    """Those that stand in docstrings and comments as ``room.module``, and paths of files."""
    rooms = {each.parent.name for each in PACKAGE.glob("*/__init__.py")} - {"decoders"}
    names = {name.removeprefix("sslsniff.") for name in MODULES}
    gone = []
    for path in (*PACKAGE.rglob("*.py"), *ROOT.glob("bpf/*.[ch]"), *ROOT.glob("preload/*.[ch]")):
        text = path.read_text()
        for name in re.findall(r"``((?:[a-z_0-9]+\.)+[A-Za-z_0-9]+)``", text):
            begins = name.split(".")[:2]
            if begins[0] in rooms and ".".join(begins) not in names and name not in NO_MODULES:
                gone.append(f"{path}: {name}")
        files = re.findall(r"\bsslsniff/[a-z_/0-9]+\.(?:py|[ch])\b", text)
        gone += [f"{path}: {each}" for each in files if not (ROOT / each).exists()]
    assert gone == []


def imported(path: Path) -> set[str]:
    """Return the modules of the package that the module at ``path`` imports, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{each.name}" for each in node.names]
            found |= {name if name in MODULES else str(node.module) for name in names}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return found & MODULES.keys()


@pytest.mark.slow
def test_no_modules_import_each_other() -> None:
    """Nor any more of them in a circle, also where one is imported only when it is needed."""
    imports = {name: imported(path) - {name} for name, path in MODULES.items()}
    imports["sslsniff"].discard("sslsniff.library")  # for types, and when that is used
    while ready := [name for name, needed in imports.items() if not needed]:
        for name in ready:
            del imports[name]
        imports = {name: needed - {*ready} for name, needed in imports.items()}
    while unused := imports.keys() - {each for needed in imports.values() for each in needed}:
        imports = {name: needed for name, needed in imports.items() if name not in unused}
    assert imports == {}


def test_long_modules_are_named() -> None:
    """A module past the aim may have two reasons to change: ask, and split it if so."""
    long = {name: len(path.read_text().splitlines()) for name, path in MODULES.items()}
    for name, lines in sorted(long.items()):
        if lines > AIM_LINES:
            warnings.warn(f"{name} has {lines} lines", LongModuleWarning, stacklevel=1)


def modules_of_tests(folder: Path) -> set[str]:
    """Return the modules of ``tests`` that the modules in a folder, at any depth, import."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom):
                found |= {f"{node.module}.{each.name}" for each in node.names}
    return {name for name in found if name.split(".")[0] == "tests"}


@pytest.mark.slow
@pytest.mark.parametrize("folder", [*BESIDE_TESTS, "tests/workload"])
def test_nothing_outside_imports_a_test(folder: str) -> None:
    """Only what makes traffic is shared, and that imports no test either."""
    assert (ROOT / folder).is_dir()
    imports = modules_of_tests(ROOT / folder)
    assert {name for name in imports if not name.startswith(f"{WORKLOAD}.")} == set()


def test_what_is_shared_has_no_tests() -> None:
    assert [*(ROOT / "tests" / "workload").rglob("test_*")] == []
