"""Finds the files whose functions are traced."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from sslsniff.capture.scope import is_library, no_process
from sslsniff.capture.survey import named_files, program_file
from sslsniff.core.errors import TargetError
from sslsniff.kernel import procfs


def traced_files(program: str | None, pids: Sequence[int], library: str | None) -> list[str]:
    """Return the paths of the programs, or of the library in them, each once.

    ``program``: the name of a command, which is about to start; else ``pids`` are running.
    ``library``: a path, or a name such as ``libssl.so.3``. Raises ``TargetError`` if there is none.
    """
    if library is not None:
        return [_mapped_library(library, pids) or named_files(library)[0]]
    if program is not None:
        return [program_file(program)]
    return list(dict.fromkeys(_programs(pids)))


def _programs(pids: Sequence[int]) -> Iterator[str]:
    """Yield the paths by which the programs can be opened."""
    for pid in pids:
        process = procfs.process(pid)
        if process is None:
            raise no_process(pid)
        link = f"/proc/{pid}/exe"  # leads to files that were deleted, or that are in containers
        yield process.exe if process.exe and _is_same(process.exe, link) else link


def _is_same(path: str, link: str) -> bool:
    try:
        return Path(path).samefile(link)
    except OSError:
        return False


def _mapped_library(name: str, pids: Sequence[int]) -> str | None:
    """Return the path of a library that one of the processes has loaded; None: none has it."""
    if "/" in name:
        return None
    for pid in pids:
        for file in procfs.mapped_files(pid):
            if is_library(Path(file.path).name, name):
                return procfs.file_path(pid, file)
    if pids:
        shown = ", ".join(map(str, pids))
        raise TargetError(f"process {shown} has not loaded {name}", "see /proc/PID/maps")
    return None
