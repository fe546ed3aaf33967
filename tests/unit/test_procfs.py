"""Reading /proc, of real processes."""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff import procfs
from sslsniff.procfs import MappedFile

PATIENCE_S = 10
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces here")


@contextlib.contextmanager
def running(*command: str | Path) -> Iterator[subprocess.Popen[str]]:
    """Run a command that prints a line when it is ready, or sleeps."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def library_of(pid: int) -> MappedFile:
    """Wait until a process has loaded its C library; return it."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for each in procfs.mapped_files(pid):
            if "libc.so.6" in each.path:
                return each
    raise AssertionError(f"process {pid} did not start")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[str]]:
    with running("sleep", "60") as process:
        library_of(process.pid)
        yield process


def test_facts_of_a_process(sleeper: subprocess.Popen[str]) -> None:
    facts = procfs.process(sleeper.pid)
    assert facts is not None
    assert facts.comm == "sleep"
    assert facts.uid == os.geteuid()
    assert facts.exe == str(Path(shutil.which("sleep") or "").resolve())
    assert not facts.has_seccomp
    assert facts.start_ticks > 0
    assert sleeper.pid in procfs.pids()
    assert procfs.exists(sleeper.pid)


def test_a_name_may_contain_what_separates_fields(tmp_path: Path) -> None:
    program = tmp_path / "a) S (1 b"
    shutil.copy(shutil.which("sleep") or "", program)
    with running(program, "60") as process:
        library_of(process.pid)
        facts = procfs.process(process.pid)
    assert facts is not None
    assert facts.comm == program.name


def test_a_filter_of_system_calls_is_seen() -> None:
    # PR_SET_NO_NEW_PRIVS, then PR_SET_SECCOMP with a filter that allows everything.
    code = (
        "import ctypes as c, time; l = c.CDLL(None); "
        "f = c.create_string_buffer(bytes.fromhex('060000000000ff7f')); "
        "p = (c.c_uint64 * 2)(1, c.addressof(f)); "
        "assert l.prctl(38, 1, 0, 0, 0) == 0 and l.prctl(22, 2, c.byref(p)) == 0; "
        "print(1, flush=True); time.sleep(60)"
    )
    with running(sys.executable, "-c", code) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        facts = procfs.process(process.pid)
    assert facts is not None
    assert facts.has_seccomp


def test_a_process_that_is_gone_is_no_error() -> None:
    with running("sleep", "60") as process:
        file = library_of(process.pid)
        process.kill()
        while procfs.exists(process.pid):  # a zombie counts as gone
            pass
        assert procfs.mapped_files(process.pid) == []
    assert procfs.process(process.pid) is None
    assert procfs.mapped_files(process.pid) == []
    gone = MappedFile("/nowhere", file.device, file.inode, file.addresses)
    assert procfs.file_path(process.pid, gone) is None
    assert procfs.host_path(process.pid, "/lib/x") == "/lib/x"


def test_mapped_files(sleeper: subprocess.Popen[str]) -> None:
    files = procfs.mapped_files(sleeper.pid)
    paths = [each.path for each in files]
    assert str(Path(shutil.which("sleep") or "").resolve()) in paths
    assert len({(each.device, each.inode) for each in files}) == len(files)
    for each in files:
        assert procfs.file_path(sleeper.pid, each) == each.path
    assert procfs.host_path(sleeper.pid, paths[0]) == paths[0]


@needs_root
@pytest.mark.parametrize("replaced", [False, True])
def test_a_deleted_or_replaced_file_is_still_reached(tmp_path: Path, replaced: bool) -> None:
    program = tmp_path / "program"
    shutil.copy(shutil.which("sleep") or "", program)
    inode = program.stat().st_ino
    with running(program, "60") as process:
        library_of(process.pid)
        keeper = program.rename(tmp_path / "kept") if replaced else None
        if replaced:
            program.write_text("another")
        else:
            program.unlink()
        file = next(each for each in procfs.mapped_files(process.pid) if each.inode == inode)
        path = procfs.file_path(process.pid, file)
        assert path is not None
        assert Path(path).stat().st_ino == inode
        assert path == (
            str(keeper) if keeper else f"/proc/{process.pid}/map_files/{file.addresses}"
        )


@needs_root
def test_files_of_a_container_are_reached_through_its_root(tmp_path: Path) -> None:
    """A process with another root in a mount namespace of its own, as container runtimes make."""
    root = tmp_path / "root"
    program = Path(shutil.which("sleep") or "").resolve()
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for path in [str(program), *(word for word in libraries.split() if word.startswith("/"))]:
        copy = root / path.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, copy)
    command = ["unshare", "--mount", f"--root={root}", program, "60"]
    with running(*command) as process:
        while (facts := procfs.process(process.pid)) is None or facts.comm != "sleep":
            assert process.poll() is None, "unshare failed: is / a mount point here?"
        file = library_of(process.pid)
        path = procfs.file_path(process.pid, file)
        assert path is not None
        assert Path(path).samefile(root / file.path.removeprefix(str(root)).lstrip("/"))
        seen = f"/{Path(path).name}"
        within = procfs.host_path(process.pid, seen)
        assert within == f"/proc/{process.pid}/root{seen}"
        assert procfs.host_path(process.pid, within) == within  # never doubled


def test_libraries_of_the_dynamic_linker() -> None:
    shown = subprocess.run(
        [shutil.which("ldconfig", path="/sbin:/usr/sbin") or "ldconfig", "-p"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    listed = {
        (line.split()[0], line.split()[-1])
        for line in shown.splitlines()
        if "(libc6,x86-64" in line
    }
    assert listed
    assert set(procfs.libraries()) == listed
