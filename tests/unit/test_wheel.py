"""A wheel has all that an installed sslsniff needs, with nothing built beforehand."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from sslsniff import __version__
from sslsniff.cli.options import manual
from tests.workload.compiler import BUILD_PYTHON

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).parents[2]
BUILT = (
    "bpf/sslsniff.bpf.o",
    "files/libpacking.so",
    "kernel/memory/librings.so",
    "functions/dwarf/libscanner.so",
    "preload/libpreload.so",
    "kernel/memory/libskipping.so",
    "machine_code/stripped/libdistances.so",
)
NOT_SOURCES = shutil.ignore_patterns("__pycache__", "*.bpf.o", "*.so")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """A wheel built from a copy of the sources alone."""
    copy = tmp_path_factory.mktemp("wheel") / "sources"
    for name in ("bpf", "decoders", "docs", "preload", "sslsniff"):
        shutil.copytree(ROOT / name, copy / name, symlinks=True, ignore=NOT_SOURCES)
    for name in ("pyproject.toml", "README.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    command = [str(BUILD_PYTHON), "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    subprocess.run(command, cwd=copy, check=True, capture_output=True)
    [path] = (copy / "dist").iterdir()
    return zipfile.ZipFile(path)


def test_it_has_every_module_and_source(wheel: zipfile.ZipFile) -> None:
    sources = {
        f"{prefix}{path.relative_to(ROOT)}"
        for prefix, folder in (("", "sslsniff"), ("sslsniff/", "decoders"), ("sslsniff/", "bpf"))
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".c", ".h", ".typed", ".html", ".css", ".js", ".txt"}
    }
    assert sources > {"sslsniff/cli/main.py", "sslsniff/py.typed", "sslsniff/bpf/event.h"}
    assert sorted(sources - {*wheel.namelist()}) == []


@pytest.mark.parametrize("name", BUILT)
def test_it_has_what_was_compiled(wheel: zipfile.ZipFile, name: str) -> None:
    assert wheel.read(f"sslsniff/{name}").startswith(b"\x7fELF")


def test_it_has_the_manual_and_completions(wheel: zipfile.ZipFile) -> None:
    data = f"sslsniff-{__version__}.data/data"
    found = {name: wheel.read(f"{data}/{name}").decode() for name in manual.files()}
    assert found == manual.files()


@pytest.mark.parametrize(
    ("name", "page"),
    [("output.md", "docs/output.md"), ("rustls.md", "sslsniff/libraries/rustls/README.md")],
)
def test_it_has_the_pages(wheel: zipfile.ZipFile, name: str, page: str) -> None:
    data = f"sslsniff-{__version__}.data/data"
    assert wheel.read(f"{data}/share/doc/sslsniff/{name}") == (ROOT / page).read_bytes()


def test_it_has_the_command(wheel: zipfile.ZipFile) -> None:
    entries = wheel.read(f"sslsniff-{__version__}.dist-info/entry_points.txt").decode()
    assert "sslsniff = sslsniff.cli.main:main" in entries
