"""Names the TLS libraries of programs that a preloaded library cannot see, and why."""

import os
import queue
import stat
import threading
from collections.abc import Callable
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile

from sslsniff.kernel import privileges
from sslsniff.live import survey
from sslsniff.model import NotProbed
from sslsniff.probing.planning.planning import Planning
from sslsniff.probing.probe_set import Attachment, ReturnStyle

_FOREIGN = "the program is for another processor"


class UnseenPrograms:
    """Looks at programs, each once, in a thread: a large one takes seconds.

    ``found``: what of them cannot be seen. ``note``: called with a line for each. ``remedy``: what
    shows it, by the rights that this process has when it makes this object.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self.remedy = _remedy()
        self.found: list[NotProbed] = []
        self._note = note
        self._known: set[str] = set()
        self._wanted = queue.SimpleQueue[str | None]()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def look_at(self, path: str, *, now: bool = False) -> None:
        """Look at a program that was not looked at before: ``now``, or soon."""
        if path in self._known:
            return
        self._known.add(path)
        if now:
            self._tell(path)
            return
        if self._thread.ident is None:
            self._thread.start()
        self._wanted.put(path)

    def finish(self, timeout_s: float) -> None:
        """Wait until all are looked at, ``timeout_s`` at most."""
        if self._thread.ident is not None:
            self._wanted.put(None)
            self._thread.join(timeout_s)

    def _look(self) -> None:
        while (path := self._wanted.get()) is not None:
            self._tell(path)

    def _tell(self, path: str) -> None:
        for each in unseen_libraries(path, self.remedy):
            self.found.append(each)
            self._note(str(each))


def _remedy() -> str:
    if not privileges.missing():
        return "leave out --engine preload"
    return "run sslsniff with sudo" if os.geteuid() else "see sslsniff doctor"


def unseen_libraries(path: str, remedy: str) -> list[NotProbed]:
    """Return the TLS libraries in a program's own file, whose calls do not pass another file.

    If the program can load no library at all, that is one. Empty for what is no ELF program.
    ``remedy``: what shows them, if the program is for this processor.
    """
    try:
        reason = _why_not_loaded(Path(path))
    except (OSError, ELFError):
        return []
    to_do = remedy if reason != _FOREIGN else "only x86-64 programs can be watched"
    inside = reason or "it is linked into the program"
    with Planning(ReturnStyle.INSTRUCTIONS) as planning:
        plan = survey.plan_all([path], planning)[path]
    found = [
        NotProbed(each.library, str(each), None, inside, to_do, path, 1, 1, None)
        for each in (plan.parts if isinstance(plan, Attachment) else ())
    ]
    if reason is not None and not found:
        found = [NotProbed("unknown", "any TLS", None, reason, to_do, path, 1, 1, None)]
    return found


def _why_not_loaded(path: Path) -> str | None:
    """Return why the dynamic linker does not preload into a program; None: it does."""
    if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        return "the program is setuid: nothing can be preloaded into it"
    with path.open("rb") as file:
        elf = ELFFile(file)
        if elf.get_machine_arch() != _own_architecture():
            return _FOREIGN
        loads = _has_interpreter(elf) or _is_dynamic_linker(elf)
    return None if loads else "the program loads no libraries"


def _has_interpreter(elf: ELFFile) -> bool:
    return any(each["p_type"] == "PT_INTERP" for each in elf.iter_segments())


def _is_dynamic_linker(elf: ELFFile) -> bool:
    """Say whether a file without an interpreter is one: a static program has nothing for others."""
    dynamic = (each for each in elf.iter_segments() if isinstance(each, DynamicSegment))
    symbols = (symbol for each in dynamic for symbol in each.iter_symbols())
    return any(symbol["st_shndx"] != "SHN_UNDEF" for symbol in symbols)


def _own_architecture() -> str:
    return {"x86_64": "x64", "aarch64": "AArch64"}.get(os.uname().machine, os.uname().machine)
