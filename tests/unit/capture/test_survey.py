"""Which files are looked at, for real processes, libraries and commands."""

import contextlib
import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.analysis import result_cache
from sslsniff.capture import survey
from sslsniff.capture.scope import Scope
from sslsniff.core.errors import TargetError
from sslsniff.kernel import procfs
from sslsniff.matching.probe_set import Attachment, Refusal
from tests.planned import plan_file


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(result_cache, "folder", lambda: tmp_path / "cache")


@pytest.mark.slow
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


@pytest.mark.heavy
def test_processes_with_a_library_are_found(tmp_path: Path) -> None:
    copy = tmp_path / "libssl.so.3"
    shutil.copy("/usr/lib/x86_64-linux-gnu/libssl.so.3", copy)
    installed = {path for _, path in procfs.libraries()}
    with tls_process(copy) as pid, tls_process() as other:
        assert str(copy) in survey.candidate_files(Scope(pids=(pid,)))
        assert str(copy) not in survey.candidate_files(Scope(pids=(other,)))
        assert str(copy) in survey.candidate_files(Scope())
        assert str(copy) in survey.candidate_files(Scope(libraries=("libssl.so",)))
        comm = procfs.process(pid)
        assert comm
        assert str(copy) in survey.candidate_files(Scope(comms=(comm.comm,)))
        assert str(copy) in survey.candidate_files(Scope(uids=(os.geteuid(),)))
        for nobody in (Scope(comms=("nobody",)), Scope(uids=(4_000_000,))):
            assert set(survey.candidate_files(nobody)) <= installed
        [usage] = [each for each in survey.find_usages() if each.process.pid == pid]
        assert isinstance(usage.files[str(copy)], Attachment)
        [alone] = survey.find_usages([other])
        assert alone.files == {}
        [asked] = survey.find_usages([pid])
        assert asked.files == usage.files


@pytest.mark.tools
def test_installed_libraries_of_one_kind() -> None:
    """Without attach cookies a second kind would hide the details of the first."""
    command = Scope(programs=("true",))
    every = {Path(each).name for each in survey.candidate_files(command)}
    of_one = {Path(each).name for each in survey.candidate_files(command, of_one_kind=True)}
    assert {"libssl.so.3", "libssl3.so", "libgnutls.so.30"} <= every
    assert {"libssl.so.3"} < of_one < every
    assert not {each for each in of_one if each.startswith(("libssl3", "libgnutls"))}


def test_what_does_not_exist_is_said() -> None:
    gone = 4_194_304  # above any pid_max
    with pytest.raises(TargetError, match=f"there is no process {gone}: see ps"):
        list(survey.candidate_files(Scope(pids=(gone,))))
    with pytest.raises(TargetError, match="no library nonsense is installed or in use: give its"):
        list(survey.candidate_files(Scope(libraries=("nonsense",))))
    with pytest.raises(TargetError, match="there is no file /nonsense: give the path"):
        list(survey.candidate_files(Scope(libraries=("/nonsense",))))
    with pytest.raises(TargetError, match="there is no program nonsense: check its name"):
        list(survey.candidate_files(Scope(programs=("nonsense",))))


def test_a_command_is_looked_at_before_it_runs(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/usr/bin/env -S A=1 sh -e\n")
    script.chmod(0o755)
    shell = shutil.which("sh")
    for program in (str(script), "sh"):
        found = list(survey.candidate_files(Scope(programs=(program,))))
        assert found[0] == shell
        assert any("libssl.so" in each for each in found[1:])


def test_a_file_that_cannot_be_opened_has_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy is only for who lacks a right; root is not told to be root."""
    [file, *_] = procfs.mapped_files(os.getpid())
    moved = file._replace(path="/memfd:vmem (deleted)", inode=0, addresses="1000-2000")
    found = survey.Unreachable.of(os.getpid(), moved)
    fact = f"/memfd:vmem (deleted) of process {os.getpid()} cannot be opened"
    assert str(found) == f"{fact} (No such file or directory): it is not watched"
    for user, remedy in ((0, "root has not all rights here"), (1000, "run sslsniff as root, or")):
        monkeypatch.setattr(os, "geteuid", lambda user=user: user)
        assert str(found._replace(error=errno.EPERM)).startswith(f"{fact}: {remedy}")
    assert survey.Unreachable.of(os.getpid(), file).error in (0, errno.EPERM)
