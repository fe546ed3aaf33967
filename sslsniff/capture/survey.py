"""Finds the files that processes map in /proc, and the TLS libraries among them."""

import errno
import os
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, Self

from sslsniff.analysis.file_analyzer import FileAnalyzer
from sslsniff.capture.scope import Scope, is_library
from sslsniff.core.errors import ElfError, TargetError
from sslsniff.elf.elf_file import open_file
from sslsniff.kernel import privileges, procfs
from sslsniff.libraries.supported import PLANS
from sslsniff.matching.probe_set import Attachment, Refusal

_WAIT_S = 1.0
_FOLLOWS = ("CAP_CHECKPOINT_RESTORE",)
_AS_ROOT = "run sslsniff as root, or with CAP_CHECKPOINT_RESTORE (Linux 5.9)"
_GONE = Refusal("the process is gone")


class Unreachable(NamedTuple):
    """A file that process ``pid`` has mapped and that sslsniff cannot open by any path.

    It is deleted, or in another mount namespace. ``error``: the ``errno`` of /proc/PID/map_files.
    """

    pid: int
    path: str
    error: int

    @classmethod
    def of(cls, pid: int, file: procfs.MappedFile) -> Self:
        """Return the file with the reason why it cannot be opened."""
        return cls(pid, file.path, procfs.mapping_error(pid, file))

    def __str__(self) -> str:
        fact = f"{self.path} of process {self.pid} cannot be opened"
        if self.error in (errno.EPERM, errno.EACCES):
            return f"{fact}: {privileges.remedy(_FOLLOWS, _AS_ROOT)}"
        reason = f" ({os.strerror(self.error)})" if self.error else ""
        return f"{fact}{reason}: it is not watched"


def analyse_all(paths: Iterable[str], analyzer: FileAnalyzer) -> dict[str, Attachment | Refusal]:
    """Return the probes of the file at each path, or why it gets none."""
    results: dict[str, Attachment | Refusal] = {}

    def collect_finished() -> None:
        analyzer.wait(_WAIT_S)
        for each in analyzer.results():
            results[each.path] = each.result
            each.close()

    for path in paths:
        try:
            analyzer.add(path, open_file(path))
        except ElfError as error:
            results[path] = Refusal(error.fact, remedy=error.remedy)
        while analyzer.is_full:
            collect_finished()
    while analyzer.is_busy:
        collect_finished()
    return results


def candidate_files(
    scope: Scope, unreachable: list[Unreachable] | None = None, *, of_one_kind: bool = False
) -> Iterator[str]:
    """Yield the files that a capture of ``scope`` may have to probe, each once.

    ``of_one_kind``: of installed libraries only those of the first plan that has any. Mapped files
    that cannot be opened are appended to ``unreachable``. Raises ``TargetError`` if a process,
    program or library of the scope does not exist.
    """
    if scope.libraries:
        files = [each for name in scope.libraries for each in named_files(name)]
    elif scope.programs:
        files = [*map(program_file, scope.programs), *_known_libraries(of_one_kind)]
    else:
        files = list(_mapped_files(scope, unreachable))
        # Also installed libraries: a process that starts later may use them. That counts most if
        # the processes use none now, such as a shell: what they start may end soon.
        known = list(_known_libraries(of_one_kind))
        if not scope.pids or not _has_common_name(files, known):
            files += known
    seen: set[tuple[int, int]] = set()
    for path in files:
        try:
            status = Path(path).stat()
        except OSError:
            continue
        if (status.st_dev, status.st_ino) not in seen:
            seen.add((status.st_dev, status.st_ino))
            yield path


def named_files(name: str) -> list[str]:
    """Return the files of a library, by name or path; raises ``TargetError`` if there is none."""
    if "/" in name:
        if not Path(name).exists():
            raise TargetError(f"there is no file {name}", "give the path of a library or program")
        if not Path(name).is_file():  # to open a FIFO could wait for ever
            raise TargetError(f"{name} is not a file", "give the path of a library or program")
        return [name]
    found = [path for each, path in procfs.libraries() if is_library(each, name)]
    found += [path for path in _mapped_files(Scope()) if is_library(Path(path).name, name)]
    if not found:
        raise TargetError(
            f"no library {name} is installed or in use",
            "give its path (sslsniff list shows those in use)",
        )
    return found


def _known_libraries(of_one_kind: bool) -> list[str]:
    """Return the installed libraries that there are plans for: a new process may use them."""
    installed = list(procfs.libraries())
    found: dict[str, None] = {}
    for plan in PLANS:
        found |= {path: None for name, path in installed if name.startswith(plan.file_names)}
        if found and of_one_kind:
            break
    return list(found)


def _has_common_name(files: Iterable[str], libraries: Iterable[str]) -> bool:
    """Say whether one of ``files`` has the name of one of ``libraries``."""
    return not {Path(file).name for file in files}.isdisjoint(
        Path(library).resolve().name for library in libraries
    )


def program_file(name: str) -> str:
    """Return the absolute path of what a command's name executes: for a script, its interpreter."""
    import shutil  # takes 9 ms, and only `-- COMMAND` needs it

    path = shutil.which(name)
    if path is None and Path(name).is_file():
        if "/" not in name and shutil.which(f"./{name}"):
            raise TargetError(f"{name} is not in PATH", f"name it as ./{name}")
        if not _has_program(Path(name)):
            raise TargetError(f"{name} is no program", "name an executable file or a script")
        raise TargetError(f"{name} is a program that may not be run", "allow it with chmod +x")
    if path is None and Path(name).is_dir():
        raise TargetError(f"{name} is a folder", "name a program")
    if path is None:
        raise TargetError(f"there is no program {name}", "check its name and PATH")
    path = str(Path(path).absolute())
    try:
        with Path(path).open("rb") as file:
            line = file.readline(256)
    except OSError:
        return path
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return shutil.which(words[0]) or path if words else path


def _has_program(path: Path) -> bool:
    """Say whether a file begins as a program does, or a script; as one if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(4).startswith((b"\x7fELF", b"#!"))
    except OSError:
        return True


def _mapped_files(scope: Scope, unreachable: list[Unreachable] | None = None) -> Iterator[str]:
    seen: set[tuple[str, int, int]] = set()
    for process in scope.processes():
        for file in procfs.mapped_files(process.pid):
            if file[:3] in seen:
                continue
            path = procfs.file_path(process.pid, file)
            if path is not None:
                seen.add(file[:3])
                yield path
            elif unreachable is not None and procfs.exists(process.pid):
                unreachable.append(Unreachable.of(process.pid, file))


class Usage(NamedTuple):
    """A process and the TLS libraries that it uses.

    ``files``: the path of each library -> its probes, or why it gets none.
    ``hidden``: the files of this process cannot be listed without more rights.
    """

    process: procfs.RunningProcess
    files: dict[str, Attachment | Refusal]
    hidden: bool = False


def find_usages(pids: Collection[int] = ()) -> Iterator[Usage]:
    """Yield the processes that use TLS libraries, or whose files cannot be listed.

    Of ``pids`` each is yielded, even one that uses no TLS library; empty: all processes are
    searched. Raises ``TargetError`` if one of ``pids`` does not exist.
    """
    paths: dict[tuple[str, int, int], str | None] = {}
    mapped: list[tuple[procfs.RunningProcess, list[procfs.MappedFile]]] = []
    for process in Scope(pids=tuple(pids), follows_children=False).processes():
        files = procfs.mapped_files(process.pid)
        mapped.append((process, files))
        for file in files:
            if file[:3] not in paths:
                paths[file[:3]] = procfs.file_path(process.pid, file)
    with FileAnalyzer() as analyzer:
        results = analyse_all((path for path in paths.values() if path is not None), analyzer)
    for process, files in mapped:
        found = {}
        for file in files:
            plan = results.get(paths[file[:3]] or "", _GONE)
            if isinstance(plan, Attachment) or plan.is_tls:
                found[file.path] = plan
        hidden = not found and procfs.is_hidden(process.pid)
        if found or hidden or pids:
            yield Usage(process, found, hidden)
