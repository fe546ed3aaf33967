"""Which files to probe, and where in them: processes and plans -> attachments."""

import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sslsniff import debug_files, plan_cache, procfs
from sslsniff.attachments import Attachment, Refusal, make_attachment
from sslsniff.elf import Elf
from sslsniff.errors import ElfError, TargetError
from sslsniff.kernel import release
from sslsniff.parts import ReturnStyle
from sslsniff.plans import PLANS


@dataclass(frozen=True, slots=True)
class Scope:
    """What to watch: all that is given must fit; empty means any.

    ``libraries`` are names or paths; ``programs`` are files to probe beside those that
    processes map already, such as a command that is about to start.
    """

    pids: tuple[int, ...] = ()
    uids: tuple[int, ...] = ()
    comms: tuple[str, ...] = ()
    libraries: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()


def plan_file(
    path: str, handle: str | None = None, style: ReturnStyle | None = None
) -> Attachment | Refusal:
    """Return what to attach to the file at ``path``, or why nothing.

    ``handle`` is another path to open it by, where by its own another file may be found by now;
    ``style`` is how returns are seen, None: as is safe on this kernel.
    """
    style = style or _safe_style()
    try:
        with Elf(path, handle) as elf:
            known = plan_cache.load(path, elf.status, style)
            if known is not None and not _is_outdated(known, elf):
                return known
            found = make_attachment(elf, style)
            # Of other files nothing is kept: they are many, and found out as fast as remembered.
            if isinstance(found, Attachment) or found.is_tls or elf.debug_file:
                plan_cache.store(found, elf.status, style)
            return found
    except ElfError as error:
        return Refusal(error.fact, remedy=error.remedy)


def _safe_style() -> ReturnStyle:
    safe = release.has_safe_return_probes()
    return ReturnStyle.TRAMPOLINE if safe else ReturnStyle.INSTRUCTIONS


def _is_outdated(known: Attachment | Refusal, elf: Elf) -> bool:
    """Say whether symbols have come that were missing: with a debug file."""
    return isinstance(known, Refusal) and bool(known.remedy) and debug_files.find(elf) is not None


def candidates(scope: Scope) -> Iterator[str]:
    """Yield the files that may be worth a probe for ``scope``, each once.

    Raises ``TargetError`` where a process, program or library that it names does not exist.
    """
    if scope.libraries:
        files = [each for name in scope.libraries for each in _named_files(name)]
    elif scope.programs:
        files = [*map(_program, scope.programs), *_known_libraries()]
    else:
        files = list(_mapped_files(scope))
        # Those of processes to come, too. Where the processes use none by now (a shell), all that
        # there will be to see is what they open or start, and the first of that may be over soon.
        known = list(_known_libraries())
        if not scope.pids or not _share_one(files, known):
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


def is_named(path: str, names: Collection[str]) -> bool:
    """Say whether ``path`` is one of these libraries: ``ssl``, ``libssl.so``, or a path."""
    return any(path == name if "/" in name else _fits(Path(path).name, name) for name in names)


def _fits(file_name: str, name: str) -> bool:
    stem = name if name.startswith("lib") or ".so" in name else f"lib{name}"
    return re.match(rf"{re.escape(stem)}($|\.|-\d)", file_name) is not None


def _named_files(name: str) -> list[str]:
    """Return the files that a library's name means; raises ``TargetError`` where there is none."""
    if "/" in name:
        if not Path(name).exists():
            raise TargetError(f"there is no file {name}", "give the path of a library or program")
        if not Path(name).is_file():  # nothing to wait for, as the reader of a pipe does
            raise TargetError(f"{name} is not a file", "give the path of a library or program")
        return [name]
    found = [path for each, path in procfs.libraries() if _fits(each, name)]
    found += [path for path in _mapped_files(Scope()) if _fits(Path(path).name, name)]
    if not found:
        raise TargetError(
            f"no library {name} is installed or in use",
            "give its path (sslsniff list shows those in use)",
        )
    return found


def _known_libraries() -> Iterator[str]:
    """Yield the installed libraries that there are plans for: what a new process may use."""
    beginnings = tuple({each for plan in PLANS for each in plan.file_names})
    for name, path in procfs.libraries():
        if name.startswith(beginnings):
            yield path


def _share_one(files: Iterable[str], libraries: Iterable[str]) -> bool:
    """Say whether any of ``files`` has the name of one of ``libraries``."""
    return not {Path(file).name for file in files}.isdisjoint(
        Path(library).resolve().name for library in libraries
    )


def _program(name: str) -> str:
    """Return the file that is executed for a command's name: for a script, its interpreter."""
    import shutil  # 9 ms, and only a command of the user needs it

    path = shutil.which(name)
    if path is None and Path(name).is_file():
        raise TargetError(f"{name} is not an executable program", "allow it with chmod +x")
    if path is None:
        raise TargetError(f"there is no program {name}", "check its name and PATH")
    try:
        with Path(path).open("rb") as file:
            line = file.readline(256)
    except OSError:
        return path
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return shutil.which(words[0]) or path if words else path


def _mapped_files(scope: Scope) -> Iterator[str]:
    seen: set[tuple[int, int]] = set()
    for process in _processes(scope):
        for file in procfs.mapped_files(process.pid):
            if (file.device, file.inode) not in seen:
                seen.add((file.device, file.inode))
                path = procfs.file_path(process.pid, file)
                if path is not None:
                    yield path


def _processes(scope: Scope) -> Iterator[procfs.Process]:
    for pid in scope.pids or procfs.pids():
        process = procfs.process(pid)
        if process is None:
            if scope.pids:
                raise no_process(pid)
            continue
        if scope.uids and process.uid not in scope.uids:
            continue
        if scope.comms and not _has_name(process, scope.comms):
            continue
        yield process


def no_process(pid: int) -> TargetError:
    """Return the error for a process that was asked for and is not there."""
    return TargetError(f"there is no process {pid}", "see ps or pgrep for its number")


def _has_name(process: procfs.Process, names: Iterable[str]) -> bool:
    """Say what ``is_watched`` in bpf/process.bpf.h does: by the process's name or its program's."""
    program = os.fsencode(Path(process.exe or "").name)
    own = {process.comm.encode(errors="surrogateescape"), program[:15]}
    return not own.isdisjoint(os.fsencode(name)[:15] for name in names)


class Usage(NamedTuple):
    """A process and the TLS libraries that it uses: path -> what can be attached.

    ``hidden`` says that these may not be seen.
    """

    process: procfs.Process
    files: dict[str, Attachment | Refusal]
    hidden: bool = False


def survey(pids: Collection[int] = ()) -> Iterator[Usage]:
    """Look at processes (all, or ``pids``) for TLS libraries; yield those that use one or hide it.

    A process that was asked for is told of even where it uses none. Raises ``TargetError`` where
    one of ``pids`` does not exist.
    """
    known: dict[tuple[int, int], tuple[str, Attachment | Refusal]] = {}
    for process in _processes(Scope(pids=tuple(pids))):
        files = {}
        for file in procfs.mapped_files(process.pid):
            key = (file.device, file.inode)
            if key not in known and (path := procfs.file_path(process.pid, file)) is not None:
                known[key] = (path, plan_file(path))
            path, plan = known.get(key, ("", Refusal("the process is gone")))
            if isinstance(plan, Attachment) or plan.is_tls:
                files[file.path] = plan
        hidden = not files and procfs.is_hidden(process.pid)
        if files or hidden or pids:
            yield Usage(process, files, hidden)
