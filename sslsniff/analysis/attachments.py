"""Finds which probes a file gets by the plans, or why it gets none.

Only who makes plans imports this: it needs the disassembler and all rules, 10 MB.
"""

from sslsniff.analysis.recognition import first_texts, plan_version, recognise
from sslsniff.analysis.stripped_fitting import fit_without_symbols
from sslsniff.elf import debug_files
from sslsniff.elf.elf_file import Elf
from sslsniff.libraries.openssl.library import FAMILY_TEXT
from sslsniff.libraries.supported import FAMILY, LIBRARIES, NAMES, PLANS, SEARCHES
from sslsniff.machine_code.stripped.stripped_code import cold_parts
from sslsniff.matching import fitting
from sslsniff.matching.library import WITH_SYMBOLS, Found
from sslsniff.matching.probe_set import (
    TRAMPOLINE_REMEDY,
    Attachment,
    KeyLog,
    ProbedLibrary,
    Refusal,
    ReturnStyle,
    ReturnStyleError,
    UnfitError,
    Unprobed,
)
from sslsniff.matching.rows import Plan

_MACHINE = "x86-64"
_FAMILY = frozenset(each.id for each in FAMILY)


def make_attachment(
    elf: Elf, style: ReturnStyle, *, may_search_long: bool = True, key_log: bool = False
) -> Attachment | Refusal:
    """Find a file's TLS libraries and the places of probes; raises ``ElfError`` if damaged.

    ``key_log``: find where their secrets can be seen, too.
    Raises ``LongSearchError`` if that would take long, and ``may_search_long`` is False.
    """
    if elf.machine != _MACHINE:
        return _foreign(elf, _plans(elf))
    texts = first_texts(elf)
    parts, left_out, unprobed = Found([], [], [])
    for search in SEARCHES.values():
        if search.text is None or search.text in texts:
            found = search.fit(elf, style)
            parts += found.parts
            left_out += found.left_out
            unprobed += found.unprobed
    plans = _plans(elf)
    if not plans and (debug_file := debug_files.find(elf)) is not None:
        elf.add_symbols(debug_file.symbols, debug_file.path)
        plans = _plans(elf)
    for plan in plans:
        try:
            library, unfit_optional = _fit(plan, elf, style)
        except ReturnStyleError as unfit:
            other = _trampoline(plan, elf) or unfit.remedy
            unprobed.append(_unfit(elf, plan, str(unfit))._replace(remedy=other))
        except UnfitError as unfit:
            row = _unfit(elf, plan, f"no place for its probes: {unfit}")
            unprobed.append(row._replace(remedy=_trampoline(plan, elf)))
        else:
            parts.append(library._replace(version=plan_version(elf, plan)))
            left_out += unfit_optional
    searched: set[str] = set()
    if FAMILY_TEXT in texts and not any(each.library in _FAMILY for each in plans):
        found_parts, doubts, refused = fit_without_symbols(
            elf, style, may_search_long=may_search_long
        )
        parts += found_parts
        left_out += doubts
        unprobed += refused
        searched = {each.library for each in found_parts} | {each.library for each in refused}
    is_named = elf.section_address(".symtab") is not None or elf.debug_file is not None
    remedy = "" if is_named else WITH_SYMBOLS
    rows = (
        *(each._replace(remedy=each.remedy or remedy) for each in unprobed),
        *recognise(elf, texts, searched | {each.library for each in plans}),
    )
    if not parts:
        return _refusal(rows, elf.debug_file)
    if key_log:
        wanted = {each.library for each in parts}
        logs = {each.id: each.find_key_log(elf) for each in LIBRARIES if each.id in wanted}
        # Several releases of a library in a file: all their places are found at once.
        parts = [each._replace(key_log=logs.pop(each.library, KeyLog(()))) for each in parts]
    return Attachment(elf.path, elf.build_id, tuple(parts), tuple(left_out), elf.debug_file, rows)


def _fit(plan: Plan, elf: Elf, style: ReturnStyle) -> tuple[ProbedLibrary, list[str]]:
    """Return a plan's probes as ``fitting.fit`` does.

    What does not fit may have parts elsewhere: to find these takes a search of all code.
    """
    try:
        return fitting.fit(plan, elf, style)
    except ReturnStyleError:
        raise
    except UnfitError:
        rows = [row for group in plan.required for each in group for row in each]
        names = {each.function for each in rows if isinstance(each.function, str)}
        found = [each for name in sorted(names) if (each := elf.function(name)) and each.size]
        parts = cold_parts(elf, found)
        if not parts:
            raise
        return fitting.fit(plan, elf, style, parts)


def _foreign(elf: Elf, plans: list[Plan]) -> Refusal:
    reason = f"it is for {elf.machine}"
    remedy = f"only {_MACHINE} programs can be watched"
    if not plans:
        return Refusal(reason, remedy=remedy)
    return _refusal(tuple(_unfit(elf, each, reason)._replace(remedy=remedy) for each in plans))


def _refusal(rows: tuple[Unprobed, ...], debug_file: str | None = None) -> Refusal:
    if not rows:
        reason = "there is no TLS library in it that sslsniff knows"
        return Refusal(reason, debug_file=debug_file)
    reason = "; ".join(f"{each}: {each.reason}" for each in rows)
    return Refusal(reason, True, rows[0].remedy, rows, debug_file)


def _unfit(elf: Elf, plan: Plan, reason: str) -> Unprobed:
    version = plan_version(elf, plan)
    return Unprobed(plan.library, NAMES[plan.library], version, reason)


def _trampoline(plan: Plan, elf: Elf) -> str:
    """Return the remedy of a library that fits the kernel's return probes; "" if it does not."""
    try:
        fitting.fit(plan, elf, ReturnStyle.TRAMPOLINE)
    except UnfitError:
        return ""
    return TRAMPOLINE_REMEDY


def _plans(elf: Elf) -> list[Plan]:
    found: dict[tuple[str, ...], Plan] = {}
    for each in PLANS:
        if each.symbols not in found and _is_in(each, elf):
            found[each.symbols] = each
    return list(found.values())


def _is_in(plan: Plan, elf: Elf) -> bool:
    if not all(elf.function(each) for each in plan.symbols):
        return False
    if not plan.marks or any(elf.function(each) for each in plan.marks):
        return True
    return plan.mark_text is not None and plan.mark_text in elf.section_region(".rodata")
