"""One file and the plans -> what to attach to it, or why nothing."""

from typing import NamedTuple

from sslsniff import debug_files, fitting
from sslsniff.elf import Elf
from sslsniff.parts import Part, Probe, ReturnStyle, UnfitError
from sslsniff.plans import PLANS, Plan
from sslsniff.rustls_fitting import fit_rustls

_MACHINE = "x86-64"
_WITH_SYMBOLS = "build it with symbols, or install its debug file"


class Attachment(NamedTuple):
    """What to attach to a file. ``left_out`` says which lesser probes do not fit, and why.

    ``debug_file`` is the one that names the functions, where the file does not itself.
    """

    path: str
    build_id: str | None
    parts: tuple[Part, ...]
    left_out: tuple[str, ...] = ()
    debug_file: str | None = None

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The probes of all parts."""
        return tuple(probe for part in self.parts for probe in part.probes)


class Refusal(NamedTuple):
    """Why nothing is attached to a file, and what to do about it, if anything.

    Where not ``is_tls``, nothing was to be expected.
    """

    reason: str
    is_tls: bool = False
    remedy: str = ""


def make_attachment(elf: Elf, style: ReturnStyle) -> Attachment | Refusal:
    """Find a file's TLS libraries and where probes belong; raises ``ElfError`` if damaged."""
    if elf.machine != _MACHINE:
        remedy = f"only {_MACHINE} programs can be watched"
        return Refusal(f"it is for {elf.machine}", _plan(elf) is not None, remedy)
    parts, left_out = fit_rustls(elf)
    plan = _plan(elf)
    if plan is None and (found := debug_files.find(elf)) is not None:
        elf.add_symbols(found.symbols, found.path)
        plan = _plan(elf)
    if plan is not None:
        try:
            part, lesser = fitting.fit(plan, elf, style)
        except UnfitError as unfit:
            left_out.append(f"no place for its probes: {unfit}")
        else:
            parts.append(part)
            left_out += lesser
    if parts:
        return Attachment(elf.path, elf.build_id, tuple(parts), tuple(left_out), elf.debug_file)
    if left_out:
        is_named = elf.section_address(".symtab") is not None or elf.debug_file is not None
        remedy = "" if is_named else _WITH_SYMBOLS
        return Refusal("; ".join(left_out), is_tls=True, remedy=remedy)
    return Refusal("there is no TLS library in it that sslsniff knows")


def _plan(elf: Elf) -> Plan | None:
    return next((each for each in PLANS if _is_in(each, elf)), None)


def _is_in(plan: Plan, elf: Elf) -> bool:
    return all(elf.function(each) for each in plan.symbols) and (
        not plan.marks or any(elf.function(each) for each in plan.marks)
    )
