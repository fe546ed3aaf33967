"""Reading /proc, of real processes."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.kernel import procfs
from sslsniff.kernel.procfs import MappedFile
from tests.workload.mounts import apart

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
    assert procfs.reported_file_path(process.pid, gone) is None
    assert procfs.reported_file_path(process.pid, file) == file.path
    assert procfs.reported_file_path(process.pid, file._replace(inode=file.inode + 1)) is None
    assert procfs.children(process.pid) == procfs.threads(process.pid) == []
    assert procfs.state(process.pid) is None


def test_mapped_files(sleeper: subprocess.Popen[str]) -> None:
    files = procfs.mapped_files(sleeper.pid)
    paths = [each.path for each in files]
    assert str(Path(shutil.which("sleep") or "").resolve()) in paths
    assert len({(each.device, each.inode) for each in files}) == len(files)
    for each in files:
        assert procfs.file_path(sleeper.pid, each) == each.path
        assert procfs.reported_file_path(sleeper.pid, each._replace(addresses="0-1")) == each.path


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


@pytest.mark.tools
@needs_root
def test_a_deleted_program_at_a_low_address(tmp_path: Path) -> None:
    """One of a fixed address: maps writes it with zeros before it."""
    source, program = tmp_path / "program.c", tmp_path / "program"
    source.write_text("#include <unistd.h>\nint main(void) { return sleep(60); }\n")
    subprocess.run(["gcc", "-no-pie", "-o", program, source], check=True)
    with running(program) as process:
        file = until_mapped(process.pid, program)
        assert file.addresses.startswith("00")
        program.unlink()
        path = procfs.file_path(process.pid, file)
        assert path is not None
        assert Path(path).stat().st_ino == file.inode


@needs_root
def test_files_of_a_container_are_reached_through_its_root(tmp_path: Path) -> None:
    """A process with another root in a mount namespace of its own, as container runtimes make."""
    root = tmp_path / "root"
    program = Path(shutil.which("sleep") or "").resolve()
    libraries = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    for needed in [str(program), *(word for word in libraries.split() if word.startswith("/"))]:
        copy = root / needed.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(needed, copy)
    command = apart("unshare", f"--root={root}", program, "60")
    with running(*command) as process:
        while (facts := procfs.process(process.pid)) is None or facts.comm != "sleep":
            assert process.poll() is None
        file = library_of(process.pid)
        path = procfs.file_path(process.pid, file)
        assert path is not None
        within = file.path.rpartition(str(root))[2]  # where this is a chroot, its path is before it
        assert Path(path).samefile(root / within.lstrip("/"))
        # News have the path that the process itself sees.
        seen = file._replace(path=f"/{within.lstrip('/')}")
        assert (
            procfs.reported_file_path(process.pid, seen) == f"/proc/{process.pid}/root{seen.path}"
        )


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


def as_seen_with(rights: str, pid: int, path: str) -> Path | None:
    """Return what ``file_path`` does, for what a process maps, in a process with few rights."""
    code = (
        "import sys; from sslsniff.kernel import procfs; pid = int(sys.argv[1]); "
        "[file] = [x for x in procfs.mapped_files(pid) if x.path == sys.argv[2]]; "
        "print(procfs.file_path(pid, file))"
    )
    few = ("setpriv", f"--bounding-set=-all,{rights}", "--inh-caps=-all")
    command = [*few, sys.executable, "-c", code, str(pid), path]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    return None if shown == "None" else Path(shown)


LOOKS = "+sys_ptrace,+dac_read_search"
RIGHTS = pytest.mark.parametrize("rights", [LOOKS, f"{LOOKS},+checkpoint_restore"])

EQUAL_NUMBERS = """
mount -t tmpfs tmpfs {folder} && cp {program} {folder}/program && exec {folder}/program 60
"""


@needs_root
@RIGHTS
def test_the_device_counts_too(rights: str, tmp_path: Path) -> None:
    """Two file systems give the same inode number to a file of the same name."""
    program = Path(shutil.which("sleep") or "").resolve()
    script = EQUAL_NUMBERS.format(folder=tmp_path, program=program)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", tmp_path], check=True)
    try:
        other = tmp_path / "program"
        other.write_text("another")
        with running(*apart("sh", "-c", script)) as process:
            file = until_mapped(process.pid, other)
            assert file.inode == other.stat().st_ino
            path = as_seen_with(rights, process.pid, file.path)
            assert path is not None
            assert path.read_bytes() == program.read_bytes()
    finally:
        subprocess.run(["umount", tmp_path], check=True)


OVERLAY = """
cd {folder} && mkdir lower upper work merged && cp {program} lower/program &&
mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged &&
exec {folder}/merged/program 60
"""


@needs_root
@RIGHTS
@pytest.mark.parametrize("hidden", [False, True])
def test_files_of_a_container_on_overlayfs(hidden: bool, rights: str, tmp_path: Path) -> None:
    """There the numbers that stat gives are others than those of the file that is mapped."""
    program = Path(shutil.which("sleep") or "").resolve()
    script = OVERLAY.format(folder=tmp_path, program=program)
    with running(*apart("sh", "-c", script)) as process:
        merged = tmp_path / "merged" / "program"
        file = until_mapped(process.pid, merged)
        if hidden:
            merged.write_text("another, in the host's folder of that name")
        path = as_seen_with(rights, process.pid, file.path)
        assert path is not None
        assert path.read_bytes() == program.read_bytes()


def until_mapped(pid: int, program: Path) -> MappedFile:
    """Wait until a process has become a program; return it as it is mapped."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for each in procfs.mapped_files(pid):
            # In a chroot the kernel names mounts of others from the root outside of it.
            if each.path.endswith(str(program)):
                return each
    raise AssertionError(f"process {pid} did not start {program}")


@needs_root
def test_a_deleted_file_needs_a_right(tmp_path: Path) -> None:
    program = tmp_path / "program"
    shutil.copy(shutil.which("sleep") or "", program)
    with running(program, "60") as process:
        until_mapped(process.pid, program)
        program.unlink()
        path = f"{program} (deleted)"
        assert as_seen_with(LOOKS, process.pid, path) is None
        found = as_seen_with(f"{LOOKS},+checkpoint_restore", process.pid, path)
        assert found is not None
        assert str(found).startswith(f"/proc/{process.pid}/map_files/")


def test_descendants() -> None:
    """Of any depth, also those that a thread started."""
    code = (
        "import os, sys, threading, time\n"
        "def start():\n"
        "    if os.fork() == 0:\n"
        "        os.fork()\n"
        "        time.sleep(60)\n"
        "thread = threading.Thread(target=start); thread.start(); thread.join()\n"
        "time.sleep(60)\n"
    )
    with running(sys.executable, "-c", code) as process:
        deadline = time.monotonic() + PATIENCE_S
        while len(found := procfs.descendants([process.pid])) < 3:
            assert time.monotonic() < deadline
        first, child, grandchild = found
        assert first == process.pid
        assert procfs.children(child) == [grandchild]
        for pid in (grandchild, child):
            os.kill(pid, signal.SIGKILL)
