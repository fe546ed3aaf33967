"""Names the TLS libraries of a command that a preloaded library cannot see, and why."""

import os
import shutil
import stat
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.dynamic import DynamicSegment
from elftools.elf.elffile import ELFFile

from sslsniff.live import survey
from sslsniff.model import NotProbed
from sslsniff.probing.planning.planning import Planning
from sslsniff.probing.probe_set import Attachment, ReturnStyle

_REMEDY = "run sslsniff with sudo"


def unseen_libraries(command: str) -> list[NotProbed]:
    """Return the TLS libraries in a command's own file, whose calls do not pass another file.

    If the program can load no library at all, that is one. Empty for what is no ELF program.
    """
    path = shutil.which(command)
    if path is None:
        return []
    try:
        reason = _why_not_loaded(Path(path))
    except (OSError, ELFError):
        return []
    inside = reason or "it is linked into the program"
    with Planning(ReturnStyle.INSTRUCTIONS) as planning:
        plan = survey.plan_all([path], planning)[path]
    found = [
        NotProbed(each.library, str(each), None, inside, _REMEDY, path, 1, 1, None)
        for each in (plan.parts if isinstance(plan, Attachment) else ())
    ]
    if reason is not None and not found:
        found = [NotProbed("unknown", "any TLS", None, reason, _REMEDY, path, 1, 1, None)]
    return found


def _why_not_loaded(path: Path) -> str | None:
    """Return why the dynamic linker does not preload into a program; None: it does."""
    if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
        return "the program is setuid: nothing can be preloaded into it"
    with path.open("rb") as file:
        elf = ELFFile(file)
        if elf.get_machine_arch() != _own_architecture():
            return "the program is for another processor"
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
