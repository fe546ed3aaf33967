"""A function, and the programs for its entry and its returns -> its probes."""

from collections.abc import Iterator
from typing import Protocol

from sslsniff.elf import Elf
from sslsniff.parts import Probe, ReturnStyle, UnfitError
from sslsniff.returns import return_sites
from sslsniff.sites import Cost, best_site
from sslsniff.symbols import Function


class Programs(Protocol):
    """What a plan has of a function."""

    @property
    def enter(self) -> str | None:
        """The BPF program for its entry."""

    @property
    def leave(self) -> str | None:
        """The BPF program for its returns."""

    @property
    def registers(self) -> tuple[str, ...]:
        """The registers that ``enter`` reads."""


def entry_probes(
    elf: Elf, name: str, function: Function, programs: Programs, style: ReturnStyle
) -> Iterator[Probe]:
    """Yield the probes in a function's first instructions, and those that see it return.

    Raises ``UnfitError``, which calls the function ``name``.
    """
    code = elf.code(function)
    enter, leave = programs.enter, programs.leave
    site = best_site(code, function.address, programs.registers, with_return=leave is not None)
    if site is None:
        raise UnfitError(f"{name} has no place for a probe")
    offset = elf.offset(site.address)
    if enter is not None:
        yield Probe(enter, offset, False, site.cost)
    if leave is None:
        return
    if style is ReturnStyle.TRAMPOLINE:
        yield Probe(leave, offset, True, site.cost)
        return
    returns = return_sites(code, function.address, elf.data)
    if returns is None:
        raise UnfitError(f"{name} has ways out other than its return instructions")
    for address in returns:
        yield Probe(leave, elf.offset(address), False, Cost.STEPPED)
