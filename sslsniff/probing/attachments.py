"""Finds which probes a file gets by the plans, or why it gets none.

Only who makes plans imports this: it needs the disassembler and all rules, 10 MB.
"""

from sslsniff.elf import debug_files
from sslsniff.elf.elf_file import Elf
from sslsniff.probing import fitting
from sslsniff.probing.go_fitting import fit_go
from sslsniff.probing.plans import PLANS, Plan
from sslsniff.probing.plans.names import NAMES
from sslsniff.probing.plans.unprobed import WITH_SYMBOLS
from sslsniff.probing.probe_set import (
    Attachment,
    Refusal,
    ReturnStyle,
    ReturnStyleError,
    UnfitError,
    Unprobed,
)
from sslsniff.probing.recognition import first_texts, plan_version, recognise
from sslsniff.probing.rustls.versions import MENTION
from sslsniff.probing.rustls_fitting import fit_rustls

_MACHINE = "x86-64"


def make_attachment(elf: Elf, style: ReturnStyle) -> Attachment | Refusal:
    """Find a file's TLS libraries and the places of probes; raises ``ElfError`` if damaged."""
    if elf.machine != _MACHINE:
        return _foreign(elf, _plans(elf))
    texts = first_texts(elf)
    parts, left_out, unprobed = fit_rustls(elf) if MENTION in texts else ([], [], [])
    plans = _plans(elf)
    if not plans and (found := debug_files.find(elf)) is not None:
        elf.add_symbols(found.symbols, found.path)
        plans = _plans(elf)
    for plan in plans:
        try:
            library, unfit_optional = fitting.fit(plan, elf, style)
        except ReturnStyleError as unfit:
            other = _trampoline(plan, elf) or unfit.remedy
            unprobed.append(_unfit(elf, plan, str(unfit))._replace(remedy=other))
        except UnfitError as unfit:
            row = _unfit(elf, plan, f"no place for its probes: {unfit}")
            unprobed.append(row._replace(remedy=_trampoline(plan, elf)))
        else:
            parts.append(library._replace(version=plan_version(elf, plan)))
            left_out += unfit_optional
    go_parts, go_unprobed = fit_go(elf, style)
    parts += go_parts
    is_named = elf.section_address(".symtab") is not None or elf.debug_file is not None
    remedy = "" if is_named else WITH_SYMBOLS
    rows = (
        *(each._replace(remedy=each.remedy or remedy) for each in unprobed),
        *go_unprobed,
        *recognise(elf, texts, {each.library for each in plans}),
    )
    if not parts:
        return _refusal(rows, elf.debug_file)
    return Attachment(elf.path, elf.build_id, tuple(parts), tuple(left_out), elf.debug_file, rows)


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
    return "capture it with --returns trampoline, unless it switches coroutines inside of calls"


def _plans(elf: Elf) -> list[Plan]:
    found: dict[tuple[str, ...], Plan] = {}
    for each in PLANS:
        if each.symbols not in found and _is_in(each, elf):
            found[each.symbols] = each
    return list(found.values())


def _is_in(plan: Plan, elf: Elf) -> bool:
    return all(elf.function(each) for each in plan.symbols) and (
        not plan.marks or any(elf.function(each) for each in plan.marks)
    )
