"""What debug info does not tell, in lines for people."""

from collections.abc import Iterator

from sslsniff.elf.elf_file import Elf
from sslsniff.functions.dwarf.debug_info import DebugInfo
from sslsniff.functions.places.plan_limits import shown_names


def gaps_of(elf: Elf, debug: DebugInfo | None) -> Iterator[str]:
    """Yield what is missing of a program's debug info; None: it has none."""
    if debug is None:
        return
    if debug.missing_files:
        names = shown_names(debug.missing_files)
        yield f"{elf.path}: a part of its debug info is in {names}, which cannot be found or read"
    elif not debug.is_whole:
        yield f"{debug.path}: a part of the debug info is damaged: functions may be missing"
    if debug.unread_functions:
        names = shown_names(sorted(debug.unread_functions))
        yield f"{names}: the debug info for it is damaged or of an unknown form"
