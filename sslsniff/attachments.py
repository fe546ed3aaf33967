"""One file and the plans -> the probes that belong in it, or why there are none.

A plan that does not fit is refused with the reason, never bent: a probe in a wrong place would
damage the program that it watches.
"""

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from sslsniff import debug_files
from sslsniff.elf import Elf, Function
from sslsniff.errors import ElfError
from sslsniff.layout import SslLayout, read_layout
from sslsniff.plans import PLANS, Alternative, Passing, Plan, Row
from sslsniff.sites import Cost, arguments, best_site, callees, handed_on, return_sites, stub_slot

_STUB_BYTES = 16


class ReturnStyle(Enum):
    """How returns are seen: by return probes, or by probes on the return instructions."""

    TRAMPOLINE = "trampoline"
    INSTRUCTIONS = "instructions"


class Probe(NamedTuple):
    """A BPF program and the file offset where it is attached; ``is_return``: as a return probe."""

    program: str
    offset: int
    is_return: bool
    cost: Cost


class Attachment(NamedTuple):
    """What to attach to a file. ``left_out`` says which lesser probes do not fit, and why.

    ``debug_file`` is the one that names the functions, where the file does not itself.
    """

    path: str
    build_id: str | None
    library: str
    probes: tuple[Probe, ...]
    layout: SslLayout | None
    left_out: tuple[str, ...] = ()
    debug_file: str | None = None

    def places(self) -> dict[tuple[str, bool], list[int]]:
        """Return the programs, each with whether it is for returns -> its file offsets."""
        places: dict[tuple[str, bool], list[int]] = {}
        for probe in self.probes:
            places.setdefault((probe.program, probe.is_return), []).append(probe.offset)
        return places


class Refusal(NamedTuple):
    """Why nothing is attached to a file, and what to do about it, if anything.

    Where not ``is_tls``, nothing was to be expected.
    """

    reason: str
    is_tls: bool = False
    remedy: str = ""


class _Unfit(Exception):
    """A row does not fit a file; says why."""


class _Absent(_Unfit):
    """The file has no such function."""


def make_attachment(elf: Elf, style: ReturnStyle) -> Attachment | Refusal:
    """Find the plan for a file and where its probes belong; raises ``ElfError`` if damaged."""
    plan = _plan(elf)
    if plan is None and (found := debug_files.find(elf)) is not None:
        elf.add_symbols(found.symbols, found.path)
        plan = _plan(elf)
    if plan is None:
        return Refusal("there is no TLS library in it that sslsniff knows")
    return _Fitting(elf, style).fit(plan)


def _plan(elf: Elf) -> Plan | None:
    return next((each for each in PLANS if _is_in(each, elf)), None)


def _is_in(plan: Plan, elf: Elf) -> bool:
    return all(elf.function(each) for each in plan.symbols) and (
        not plan.marks or any(elf.function(each) for each in plan.marks)
    )


class _Fitting:
    """Fits plans to one file."""

    def __init__(self, elf: Elf, style: ReturnStyle) -> None:
        self._elf = elf
        self._style = style

    def fit(self, plan: Plan) -> Attachment | Refusal:
        probes: list[Probe] = []
        left_out = []
        probed: set[int] = set()
        try:
            for group in plan.required:
                probes += self._cheapest(group, probed)
        except _Unfit as unfit:
            return Refusal(f"no place for its probes: {unfit}", is_tls=True)
        for row in plan.optional:
            try:
                probes += self._place(row, probed)
            except _Absent:
                continue
            except _Unfit as unfit:
                left_out.append(str(unfit))
        return Attachment(
            path=self._elf.path,
            build_id=self._elf.build_id,
            library=plan.library,
            probes=tuple(dict.fromkeys(probes)),
            layout=read_layout(self._elf),
            left_out=tuple(left_out),
            debug_file=self._elf.debug_file,
        )

    def _cheapest(self, group: tuple[Alternative, ...], probed: set[int]) -> list[Probe]:
        """Return the probes of the cheapest alternative; add its functions to ``probed``."""
        found: list[tuple[list[list[Probe]], set[int]]] = []
        reasons: list[str] = []
        for alternative in group:
            functions = probed.copy()
            try:
                found.append(([self._place(row, functions) for row in alternative], functions))
            except _Unfit as unfit:
                reasons.append(str(unfit))
        if not found:
            raise _Unfit("; ".join(dict.fromkeys(reasons)))
        rows, functions = min(found, key=lambda each: max(map(_dear_hits, each[0])))
        probed |= functions
        return [probe for row in rows for probe in row]

    def _place(self, row: Row, probed: set[int]) -> list[Probe]:
        """Return a row's probes and add its function to ``probed``; raises ``_Unfit``."""
        if row.unless is not None and self._elf.function(row.unless) is not None:
            raise _Unfit(f"there is {row.unless}")
        name, function = self._find(row.function)
        if row.through is not None and self._leads_to(function, probed, row.through):
            return []
        probed.add(function.address)
        code = self._elf.code(function)
        trampoline = row.leave is not None and self._style is ReturnStyle.TRAMPOLINE
        site = best_site(code, function.address, row.registers, with_return=row.leave is not None)
        if site is None:
            raise _Unfit(f"{name} has no place for a probe")
        offset = self._elf.offset(site.address)
        probes = []
        if row.enter is not None:
            probes.append(Probe(row.enter, offset, False, site.cost))
        if row.leave is not None and trampoline:
            probes.append(Probe(row.leave, offset, True, site.cost))
        elif row.leave is not None:
            probes += self._returns(name, function, code, row.leave)
        return probes

    def _returns(self, name: str, function: Function, code: bytes, leave: str) -> Iterator[Probe]:
        returns = return_sites(code, function.address)
        if returns is None:
            raise _Unfit(f"{name} has ways out other than its return instructions")
        for address in returns:
            yield Probe(leave, self._elf.offset(address), False, Cost.STEPPED)

    def _leads_to(self, function: Function, wanted: set[int], through: tuple[str, ...]) -> bool:
        """Say whether a function calls one of ``wanted``, itself or through the ones named."""
        targets = callees(self._elf.code(function), function.address)
        called = {each for target in targets if (each := self._behind_stub(target)) is not None}
        if any(each.address in wanted for each in called):
            return True
        inner = {name: self._elf.function(name) for name in through}
        return any(
            each in called and self._leads_to(each, wanted, tuple({*through} - {name}))
            for name, each in inner.items()
            if each is not None
        )

    def _behind_stub(self, address: int) -> Function | None:
        try:
            code = self._elf.code(Function(address, _STUB_BYTES))
        except ElfError:
            return None
        slot = stub_slot(code, address)
        name = None if slot is None else self._elf.name_in(slot)
        return self._elf.function_at(address) if name is None else self._elf.function(name)

    def _find(self, wanted: str | tuple[Passing, ...]) -> tuple[str, Function]:
        if isinstance(wanted, str):
            return wanted, self._named(wanted)
        return self._passed(wanted)

    def _named(self, name: str) -> Function:
        function = self._elf.function(name)
        if function is None:
            raise _Absent(f"there is no {name}")
        if not function.size:
            raise _Unfit(f"the length of {name} is unknown")
        return function

    def _passed(self, passings: tuple[Passing, ...]) -> tuple[str, Function]:
        """Find the one function that all of these calls lead to."""
        common: set[int] | None = None
        for passing in passings:
            caller = self._named(passing.caller)
            calls = handed_on(self._elf.code(caller), caller.address)
            passed = {
                callee for callee, kept in calls.items() if kept.issuperset(passing.registers)
            }
            common = passed if common is None else common & passed
        registers = {register for passing in passings for register in passing.registers}
        functions = [
            function
            for callee in common or ()
            if (function := self._elf.function_at(callee)) is not None
            and arguments(self._elf.code(function), callee) >= registers
        ]
        name = "what " + " and ".join(each.caller for each in passings) + " call"
        if len(functions) != 1:
            raise _Unfit(f"{name} is not one function")
        return name, functions[0]


def _dear_hits(row: list[Probe]) -> int:
    """Count the dear hits of one call; a return probe stands where the entry's does."""
    return len({each.program for each in row if each.cost is Cost.STEPPED and not each.is_return})
