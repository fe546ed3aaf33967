"""The folders of the sources stay small, and import one another in one direction only."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "sslsniff"
BESIDE_TESTS = ("bench", "bpf", "decoders", "docs", "pcaps", "sslsniff")
WORKLOAD = "tests.workload"
FOLDERS = sorted(each for each in PACKAGE.iterdir() if (each / "__init__.py").exists())
MOST_FOLDERS, MOST_MODULES_AT_THE_TOP, MOST_MODULES, MOST_LINES = 13, 8, 15, 400


def modules(folder: Path) -> list[Path]:
    """Return the modules of a folder, without its ``__init__``."""
    return [each for each in sorted(folder.glob("*.py")) if each.name != "__init__.py"]


def packages() -> Iterator[Path]:
    """Yield the package and all folders in it."""
    for folder in (PACKAGE, *FOLDERS):
        yield folder
        if folder != PACKAGE:
            yield from (each.parent for each in sorted(folder.glob("*/**/__init__.py")))


def test_there_are_few_folders() -> None:
    folders = [each for each in PACKAGE.iterdir() if any(each.glob("*.py"))]  # others are left over
    assert len(folders) <= MOST_FOLDERS
    assert len(modules(PACKAGE)) <= MOST_MODULES_AT_THE_TOP


@pytest.mark.parametrize("folder", [*packages()], ids=lambda each: str(each.relative_to(ROOT)))
def test_a_folder_is_small(folder: Path) -> None:
    found = modules(folder)
    assert len(found) <= MOST_MODULES
    assert [each.name for each in found if len(each.read_text().splitlines()) > MOST_LINES] == []


@pytest.mark.parametrize("folder", [*packages()], ids=lambda each: str(each.relative_to(ROOT)))
def test_a_folder_says_what_it_is_for(folder: Path) -> None:
    assert ast.get_docstring(ast.parse((folder / "__init__.py").read_text()))


def test_no_two_modules_or_classes_share_a_name() -> None:
    """Whether they are private or not: a name should lead a reader to one place."""
    places: dict[str, set[str]] = {}
    for path in (*PACKAGE.rglob("*.py"), *(ROOT / "decoders").rglob("*.py")):
        if path.stem.startswith("__") or path.is_relative_to(PACKAGE / "decoders"):
            continue
        places.setdefault(path.stem, set()).add(str(path))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lstrip("_"), set()).add(str(path))
    shared = {name: sorted(paths) for name, paths in places.items() if len(paths) > 1}
    assert shared == {}


def imported(folder: Path) -> set[str]:
    """Return the folders of the package that the modules of one import, at any depth."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sslsniff."):
                found.add(str(node.module).split(".")[1])
            elif isinstance(node, ast.ImportFrom) and node.module == "sslsniff":
                found |= {each.name for each in node.names}
    return found & {each.name for each in FOLDERS} - {folder.name}


def test_no_two_folders_import_each_other() -> None:
    """Nor any more of them in a circle."""
    imports = {folder.name: imported(folder) for folder in FOLDERS}
    while ready := [name for name, needed in imports.items() if not needed]:
        for name in ready:
            del imports[name]
        imports = {name: needed - {*ready} for name, needed in imports.items()}
    assert imports == {}


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


@pytest.mark.parametrize("folder", [*BESIDE_TESTS, "tests/workload"])
def test_nothing_outside_imports_a_test(folder: str) -> None:
    """Only what makes traffic is shared, and that imports no test either."""
    assert (ROOT / folder).is_dir()
    imports = modules_of_tests(ROOT / folder)
    assert {name for name in imports if not name.startswith(f"{WORKLOAD}.")} == set()


def test_what_is_shared_has_no_tests() -> None:
    assert [*(ROOT / "tests" / "workload").rglob("test_*")] == []
