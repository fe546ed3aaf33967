"""What is remembered of files, and what is not believed of it."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sslsniff.analysis import result_cache
from sslsniff.analysis.checked_fields import INVALID
from sslsniff.analysis.file_analyzer import FileAnalyzer
from sslsniff.capture import survey
from sslsniff.libraries.rustls.rustls_fitting import make_library
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.matching.probe_set import Attachment, Probe, Refusal, ReturnStyle
from tests import libraries
from tests.planned import plan_file
from tests.unit.linear import Spent

INSTRUCTIONS = ReturnStyle.INSTRUCTIONS


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "folder", lambda: tmp_path / "cache")


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.json"))


@pytest.mark.slow
def test_a_second_look_needs_no_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(libraries.library("3.0").path)
    first = plan_file(path)
    [entry] = entries(tmp_path / "cache")
    assert entry.stat().st_mode & 0o777 == 0o600
    monkeypatch.setattr(FileAnalyzer, "_queue", lambda *_: pytest.fail("it is not remembered"))
    assert plan_file(path) == first


@pytest.mark.parametrize(
    "name",
    [
        "matching/probe_set.py",
        "libraries/openssl/plan.py",
        "elf/symbols.py",
        "machine_code/returns.py",
        "kernel/probe_safety/optimised_nops.py",
    ],
)
def test_what_another_code_found_is_not_believed(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "sources"
    for source in (name, "machine_code/probe_sites.py"):
        copy = sources / source
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(result_cache._PACKAGE / source, copy)
    monkeypatch.setattr(result_cache, "_PACKAGE", sources)
    code = result_cache._code.__wrapped__
    before = code()
    assert code() == before
    with (sources / name).open("a") as file:
        file.write("# changed\n")
    assert code() != before


@pytest.mark.slow
def test_the_key_covers_all_code_that_plans() -> None:
    """Each module that a worker imports, except for what confines it and reports its errors."""
    program = (
        "import sys\n"
        "from sslsniff.analysis import worker\n"
        "worker.import_all()\n"
        "print(*(each.__file__ for name, each in sys.modules.items() if name[:8] == 'sslsniff'))"
    )
    command = [sys.executable, "-c", program]
    imported = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    package = result_cache._PACKAGE
    folders = (package / "core", package / "kernel")
    others = {
        package / "__init__.py",
        *(each for folder in folders for each in folder.rglob("*.py")),
    }
    needed = set(map(Path, imported)) - others | {package / "kernel/probe_safety/optimised_nops.py"}
    assert len(needed) > 30
    assert needed <= set(result_cache.sources(package))


@pytest.mark.heavy
def test_a_changed_file_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "libssl.so"
    shutil.copy(libraries.library("3.0").path, path)
    first = plan_file(str(path))
    shutil.copy(libraries.library("3.5").path, path)
    second = plan_file(str(path))
    assert isinstance(first, Attachment)
    assert isinstance(second, Attachment)
    assert first.probes != second.probes
    assert len(entries(tmp_path / "cache")) == 2


@pytest.mark.heavy
def test_another_file_with_the_same_build_id_is_not_believed(tmp_path: Path) -> None:
    """Else a file made for it could put probes into the middle of instructions of a library."""
    real, made = libraries.library("3.0").path, tmp_path / "made"
    first = plan_file(str(real))
    assert isinstance(first, Attachment)
    data = bytearray(real.read_bytes())
    offset = next(each.offset for each in first.probes if each.program == "openssl_clear_enter")
    data[offset : offset + 3] = b"\x48\x89\xc0"  # mov, in place of the first instructions
    made.write_bytes(data)
    second = plan_file(str(made))
    assert isinstance(second, Attachment)
    assert second.build_id == first.build_id
    assert second.probes != first.probes


@pytest.mark.slow
def test_entries_that_others_can_write_are_not_believed(tmp_path: Path) -> None:
    path = libraries.library("3.0").path
    status = path.stat()
    cache = tmp_path / "cache"
    plan_file(str(path))
    [entry] = entries(cache)

    def load() -> object:
        return result_cache.load(str(path), status, INSTRUCTIONS)

    assert load()
    entry.chmod(0o620)
    assert load() is None
    entry.chmod(0o600)
    cache.chmod(0o777)
    assert load() is None
    cache.chmod(0o700)
    entry.rename(cache / "aside")
    entry.symlink_to(cache / "aside")
    assert load() is None


@pytest.mark.heavy
@pytest.mark.parametrize(
    "change",
    [
        {"parts": []},
        {"parts": 3},
        {"left_out": [1]},
        {"build_id": 7},
        {"debug_file": 7},
        {"unprobed": 3},
        {"unprobed": [["gnutls", "GnuTLS", None, "no"]]},
        {"unprobed": [["gnutls", "GnuTLS", 3, "no", ""]]},
        {"refusal": 3},
    ],
)
def test_entries_of_a_wrong_form_are_not_believed(
    tmp_path: Path, change: dict[str, object]
) -> None:
    path = str(libraries.library("3.0").path)
    first = plan_file(path)
    [entry] = entries(tmp_path / "cache")
    entry.write_text(json.dumps(json.loads(entry.read_text()) | change))
    assert result_cache.load(path, Path(path).stat(), INSTRUCTIONS) is None
    assert plan_file(path) == first


@pytest.mark.heavy
@pytest.mark.parametrize(
    "change",
    [
        {"library": "another"},
        {"probes": []},
        {"probes": [["openssl_free_enter", -1, False, "emulated"]]},
        {"probes": [["openssl_free_enter", 1 << 40, False, "emulated"]]},
        {"probes": [["openssl_free_enter", 1.5, False, "emulated"]]},
        {"probes": [["openssl_free_enter", True, False, "emulated"]]},
        {"probes": [["openssl_free_enter", 16, 0, "emulated"]]},
        {"probes": [["openssl_free_enter", 16, False, "free"]]},
        {"probes": [["process_exit", 16, False, "emulated"]]},
        {"probes": [[None, 16, False, "emulated"]]},
        {"probes": [["openssl_free_enter", 16]]},
        {"probes": 3},
        {"layout": [1, 2]},
        {"layout": ["1"] * 10},
        {"layout": [-1] * 10},
    ],
)
def test_parts_of_a_wrong_form_are_not_believed(tmp_path: Path, change: dict[str, object]) -> None:
    path = str(libraries.library("3.0").path)
    first = plan_file(path)
    [file] = entries(tmp_path / "cache")
    entry = json.loads(file.read_text())
    entry["parts"][0] |= change
    file.write_text(json.dumps(entry))
    assert result_cache.load(path, Path(path).stat(), INSTRUCTIONS) is None
    assert plan_file(path) == first


@pytest.mark.heavy
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(data=st.binary(max_size=200))
def test_arbitrary_entries_are_not_believed(tmp_path: Path, data: bytes) -> None:
    path = str(libraries.library("3.0").path)
    if not (tmp_path / "cache").exists():
        plan_file(path)
    [entry] = entries(tmp_path / "cache")
    entry.write_bytes(data)
    assert result_cache.load(path, Path(path).stat(), INSTRUCTIONS) is None


@pytest.mark.slow
def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    assert isinstance(plan_file(str(libraries.library("3.0").path)), Attachment)


def test_the_cache_does_not_grow_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_cache, "_MOST_ENTRIES", 8)
    (tmp_path / "file").write_text("x")
    for index in range(40):
        os.utime(tmp_path / "file", ns=(index, index))
        status = (tmp_path / "file").stat()
        result_cache.store(Refusal("no", True, "a remedy"), status, INSTRUCTIONS)
    assert len(entries(tmp_path / "cache")) <= 8
    assert result_cache.load("file", status, INSTRUCTIONS) == Refusal("no", True, "a remedy")


@pytest.mark.heavy
def test_libraries_that_are_not_probed_are_remembered(tmp_path: Path) -> None:
    path = str(libraries.java())
    found = plan_file(path)
    assert found.unprobed
    assert result_cache.load(path, Path(path).stat(), INSTRUCTIONS) == found
    assert plan_file(path) == found


@pytest.mark.tools
def test_a_file_without_tls_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are most of those that a process maps: none should need a worker at the next start."""
    path = tmp_path / "program"
    command = ["gcc", "-x", "c", "-", "-o", str(path)]
    subprocess.run(command, input=b"int main(void) { return 0; }", check=True)
    found = plan_file(str(path))
    assert found == Refusal("there is no TLS library in it that sslsniff knows")
    monkeypatch.setattr(FileAnalyzer, "_queue", lambda *_: pytest.fail("it is not remembered"))
    assert plan_file(str(path)) == found


@pytest.mark.heavy
def test_a_warm_look_is_fast() -> None:
    path = str(libraries.library("3.0").path)
    plan_file(path)
    taken = []
    with FileAnalyzer() as analyzer:  # whose fork takes longer in a process as large as this one
        for _ in range(5):
            spent = Spent()
            survey.analyse_all([path], analyzer)
            taken.append(spent.units())
    assert min(taken) < 20_000


@pytest.mark.parametrize("tls_version", [0x0303, None])
def test_parts_of_rustls_are_remembered(tmp_path: Path, tls_version: int | None) -> None:
    file = tmp_path / "service"
    file.write_bytes(bytes(64))
    probe = Probe("rustls_encrypt_enter", 16, False, Cost.EMULATED)
    parts = [make_library(version, tls_version, [probe]) for version in ((0, 22), (0, 99))]
    found = Attachment(str(file), None, tuple(parts), ("a reason",))
    result_cache.store(found, file.stat(), INSTRUCTIONS)
    assert result_cache.load(str(file), file.stat(), INSTRUCTIONS) == found
    [entry] = entries(tmp_path / "cache")
    for change in ({"version": "new"}, {"tls_version": "1.3"}, {"library": "openssl"}):
        told = json.loads(entry.read_text())
        told["parts"][0] |= change
        entry.write_text(json.dumps(told))
        assert result_cache.load(str(file), file.stat(), INSTRUCTIONS) is None
        result_cache.store(found, file.stat(), INSTRUCTIONS)


@pytest.mark.heavy
def test_where_secrets_are_seen_is_remembered_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan without them does not say where; one with them is an entry of its own."""
    path = str(libraries.library("1.1.1").path)
    plain, whole = plan_file(path), plan_file(path, key_log=True)
    assert isinstance(plain, Attachment)
    assert isinstance(whole, Attachment)
    assert plain.parts[0].key_log is None
    assert whole.parts[0].key_log is not None
    assert whole.offsets == (*plain.offsets, whole.parts[0].key_log.places[0].offset)
    assert len(entries(tmp_path / "cache")) == 2
    monkeypatch.setattr(FileAnalyzer, "_queue", lambda *_: pytest.fail("it is not remembered"))
    assert plan_file(path, key_log=True) == whole


RSI = ["rsi", [], 0]
PLACE = [0, RSI, None, RSI, RSI, RSI]


@pytest.mark.heavy
@pytest.mark.parametrize(
    "log",
    [
        *([[[place, *PLACE[1:]]], ""] for place in (-1, 1 << 40, "0", None)),
        *([[[0, chain, *PLACE[2:]]], ""] for chain in (None, ["rip", [], 0], ["rsi", [0] * 5, 0])),
        *([[[0, chain, *PLACE[2:]]], ""] for chain in (["rsi", ["0"], 0], ["rsi", [], 1 << 40])),
        [[PLACE[:-1]], ""],
        [[PLACE], 7],
        [[PLACE]],
        7,
        "a reason",
    ],
)
def test_places_of_secrets_of_a_wrong_form_are_not_believed(log: object) -> None:
    path = str(libraries.library("3.0").path)
    plan = plan_file(path, key_log=True)
    stored = json.loads(json.dumps(result_cache.entry(plan)))
    assert result_cache.parse(stored, path, Path(path).stat().st_size) == plan
    stored["parts"][0]["key_log"] = log
    with pytest.raises(INVALID):
        result_cache.parse(stored, path, Path(path).stat().st_size)
