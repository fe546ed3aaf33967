"""Which files are looked at, for real processes, libraries and commands."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.errors import TargetError
from sslsniff.kernel import procfs
from sslsniff.live import targets
from sslsniff.live.targets import Scope
from sslsniff.probing import plan_cache
from sslsniff.probing.attachments import Attachment, Refusal
from tests.planned import plan_file


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_cache, "folder", lambda: tmp_path / "cache")


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    for name, reason in [("text", "is not an ELF file"), ("missing", "cannot read")]:
        found = plan_file(str(tmp_path / name))
        assert isinstance(found, Refusal)
        assert reason in found.reason
        assert not found.is_tls


@contextlib.contextmanager
def tls_process(*libraries_to_load: Path) -> Iterator[int]:
    code = (
        "import ctypes, sys, time; loaded = [ctypes.CDLL(each) for each in sys.argv[1:]]; "
        "print(1, flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, *map(str, libraries_to_load)]
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
