"""Fits a plan to a file: finds the places of its probes.

A plan that does not fit exactly is refused with the reason: a probe in a wrong place would damage
the program that it watches.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING

from sslsniff.core.errors import ElfError
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.symbols import Function
from sslsniff.machine_code.callers import (
    arguments,
    callees,
    direct_calls,
    passed_arguments,
    stub_slot,
)
from sslsniff.machine_code.conventions import Signature
from sslsniff.machine_code.probe_sites import Cost, is_emulated
from sslsniff.matching.object_layout import ObjectLayout
from sslsniff.matching.placing import cheap_probes, entry_probes, inner_probes, record_probe
from sslsniff.matching.probe_set import (
    Probe,
    ProbedLibrary,
    ReturnStyle,
    ReturnStyleError,
    UnfitError,
)
from sslsniff.matching.rows import (
    Alternative,
    At,
    CallingBack,
    Continued,
    Listed,
    Passing,
    Plan,
    PointerTable,
    Raising,
    Row,
    WantedFunction,
)

if TYPE_CHECKING:
    from sslsniff.machine_code.call_chains import CallChains
    from sslsniff.matching.hidden_functions import Table

_STUB_BYTES = 16
_NO_COOKIES = "probes of inner functions need attach cookies"


_Placing = Callable[["_Fitting", Row, str, Function, set[int]], Iterator[Probe]]


class _AbsentError(UnfitError):
    """The file has no such function."""


def fit(
    plan: Plan,
    elf: Elf,
    style: ReturnStyle,
    cold_parts: Mapping[int, Sequence[Function]] = MappingProxyType({}),
) -> tuple[ProbedLibrary, list[str]]:
    """Return a plan's probes in a file, and why optional ones do not fit.

    ``cold_parts``: the parts of functions that are elsewhere, as far as they are known, by the
    addresses of the functions. Raises ``UnfitError``, and ``ElfError`` if the file is damaged.
    """
    return _Fitting(elf, style, cold_parts).fit(plan)


class _Fitting:
    """Fits plans to one file."""

    def __init__(
        self,
        elf: Elf,
        style: ReturnStyle,
        cold_parts: Mapping[int, Sequence[Function]] = MappingProxyType({}),
    ) -> None:
        self._elf = elf
        self._style = style
        self._cold_parts = cold_parts
        self._seen_inside: set[str] = set()
        """Public functions whose calls are seen in inner functions."""
        self._tables: dict[PointerTable, Table] = {}

    def fit(self, plan: Plan) -> tuple[ProbedLibrary, list[str]]:
        probes: list[Probe] = []
        left_out: list[str] = []
        probed: set[int] = set()
        for group in plan.required:
            probes += self._cheapest(group, probed)
        for row in plan.optional:
            try:
                probes += self._place(row, probed)
            except _AbsentError:
                continue
            except UnfitError as unfit:
                left_out.append(str(unfit))
        layout = ObjectLayout() if plan.layout is None else plan.layout(self._elf)
        return ProbedLibrary(plan.library, tuple(dict.fromkeys(probes)), layout), left_out

    def _cheapest(self, group: tuple[Alternative, ...], probed: set[int]) -> list[Probe]:
        """Return the probes of the cheapest alternative; add its functions to ``probed``."""
        found: list[tuple[float, list[Probe], set[int]]] = []
        reasons: list[str] = []
        other_style: ReturnStyleError | None = None
        for alternative in group:
            functions = probed.copy()
            try:
                rows = [self._place(row, functions) for row in alternative]
            except ReturnStyleError as error:
                other_style = error
                continue
            except UnfitError as unfit:
                # No reason for a refusal: public functions can be probed instead of inner ones.
                reasons += [str(unfit)] if alternative[0].at is not At.INNER else []
                continue
            cost = _cost(alternative, rows)
            found.append((cost, [probe for row in rows for probe in row], functions))
            if not cost:
                break
        if other_style is not None and not found:
            raise other_style
        if not found:
            raise UnfitError("; ".join(dict.fromkeys(reasons)))
        _, probes, functions = min(found, key=lambda each: each[0])
        probed |= functions
        return probes

    def _place(self, row: Row, probed: set[int]) -> list[Probe]:
        """Return a row's probes and add its function to ``probed``; raises ``UnfitError``."""
        if row.unless is not None and self._elf.function(row.unless) is not None:
            raise UnfitError(f"there is {row.unless}")
        name, function = self._find(row.function)
        if row.through is not None and (
            not self._seen_inside.isdisjoint(row.through)
            or self._leads_to(function, probed, row.through)
        ):
            return []
        probed.add(function.address)
        return list(_PLACES[row.at](self, row, name, function, probed))

    def _at_entry(
        self, row: Row, name: str, function: Function, _probed: set[int]
    ) -> Iterator[Probe]:
        cold_parts = self._cold_parts.get(function.address, ())
        return entry_probes(self._elf, name, function, row, self._style, cold_parts)

    def _in_span(
        self, row: Row, name: str, function: Function, _probed: set[int]
    ) -> Iterator[Probe]:
        probes = cheap_probes(self._elf, function, row, self._style)
        if not probes:
            raise UnfitError(f"{name} has no cheap places for probes")
        yield from probes

    def _at_calls(
        self, row: Row, name: str, function: Function, probed: set[int]
    ) -> Iterator[Probe]:
        calls = direct_calls(function.address, self._elf.executable(), self._code_around)
        if not calls:
            raise UnfitError(f"{name} has callers that cannot be found")
        for call in calls:
            if call.caller not in probed:
                cost = Cost.EMULATED if is_emulated(call.return_bytes) else Cost.STEPPED
                yield Probe(str(row.enter), self._elf.offset(call.address), False, Cost.EMULATED)
                yield Probe(str(row.leave), self._elf.offset(call.return_address), False, cost)

    @cached_property
    def _chains(self) -> "CallChains":
        from sslsniff.machine_code.call_chains import CallChains  # only to make a plan

        return CallChains(self._elf, self._called_through_stub)

    def _inside(
        self, row: Row, name: str, function: Function, _probed: set[int]
    ) -> Iterator[Probe]:
        from sslsniff.machine_code.call_chains import UnfollowedError

        if self._style is not ReturnStyle.INSTRUCTIONS:
            raise UnfitError(_NO_COOKIES)
        try:
            links = self._chains.follow(dict(row.outer), dict(row.others))
            usual = [each for each in links if each.is_usual] or links
            if any(each.pair is None for each in usual):
                raise UnfitError(f"what {name} calls has no cheap places for probes")
            probes = [probe for link in links for probe in inner_probes(self._elf, link, row)]
        except (UnfollowedError, ValueError) as error:
            raise UnfitError(f"{name} cannot be followed: {error}") from error
        self._seen_inside |= {outer for outer, _ in row.outer}
        yield from probes

    def _handed(
        self, row: Row, name: str, _function: Function, probed: set[int]
    ) -> Iterator[Probe]:
        from sslsniff.machine_code.call_chains import Link
        from sslsniff.machine_code.call_steps import FunctionBody
        from sslsniff.matching.handed_calls import record_function

        self._require_instructions()
        found: dict[int, Signature] = {}
        for outer, given in row.outer:
            handed = self._handed_by(self._named(outer), given, row.kind)
            if not handed:
                raise UnfitError(f"{outer} hands no calls on")
            found |= handed
        for other, given in row.others:
            function = self._elf.function(other)
            if function and self._handed_by(function, given, row.kind).keys() & found.keys():
                raise UnfitError(f"{other} and {name} hand their calls to one function")
        for address, signature in found.items():
            inner = self._elf.function_at(address)
            if inner is None:
                raise UnfitError(f"what {name} calls is no function")
            record = row.record and record_function(self._elf, inner, signature)
            if record:
                yield record_probe(self._elf, *record, row)
                continue
            pair = FunctionBody(self._elf.code(inner), address).pair(signature)
            probed.add(address)
            yield from inner_probes(self._elf, Link(inner, signature, True, pair), row)

    def _signed(
        self, row: Row, _name: str, function: Function, _probed: set[int]
    ) -> Iterator[Probe]:
        from sslsniff.machine_code.call_chains import Link
        from sslsniff.machine_code.call_steps import FunctionBody
        from sslsniff.matching.hidden_functions import tails

        assert row.signature is not None
        self._require_instructions()
        after = tails(self._elf, function)
        body = FunctionBody(self._elf.code(function), function.address)
        pair = body.pair(row.signature, frozenset(after))
        yield from inner_probes(self._elf, Link(function, row.signature, True, pair), row, after)
        for address in chain.from_iterable(after.values()):
            yield Probe(str(row.leave), self._elf.offset(address), False, Cost.STEPPED)

    def _stored(
        self, row: Row, name: str, function: Function, _probed: set[int]
    ) -> Iterator[Probe]:
        from sslsniff.matching.hidden_functions import stored_functions

        found = list(stored_functions(self._elf, function, row.registers[0]))
        if not found:
            raise UnfitError(f"{name} stores no addresses of functions")
        for each in found:
            yield from entry_probes(self._elf, f"what {name} stores", each, row, self._style)

    def _require_instructions(self) -> None:
        if self._style is not ReturnStyle.INSTRUCTIONS:
            raise ReturnStyleError

    def _handed_by(
        self, function: Function, given: Signature, kind: int | None
    ) -> dict[int, Signature]:
        """Return the functions that get a function's object and buffer -> how they get them.

        Without a constant, only those that read both: others are called while these are still in
        the registers.
        """
        from sslsniff.matching.handed_calls import handed_calls

        found = dict(handed_calls(self._elf, function, given, kind))
        if kind is not None:
            return found
        return {each: how for each, how in found.items() if {*how[:2]} <= self._reads(each)}

    def _reads(self, address: int) -> frozenset[str]:
        function = self._called_through_stub(address)
        return arguments(self._elf.code(function), function.address) if function else frozenset()

    def _code_around(self, address: int) -> tuple[int, bytes] | None:
        function = self._elf.function_around(address)
        return function and (function.address, self._elf.code(function))

    def _leads_to(self, function: Function, wanted: set[int], through: tuple[str, ...]) -> bool:
        """Say whether a function calls one of ``wanted``, itself or by those in ``through``."""
        targets = callees(self._elf.code(function), function.address)
        called = {
            each for target in targets if (each := self._called_through_stub(target)) is not None
        }
        if any(each.address in wanted for each in called):
            return True
        inner = {name: self._elf.function(name) for name in through}
        return any(
            each in called and self._leads_to(each, wanted, tuple({*through} - {name}))
            for name, each in inner.items()
            if each is not None
        )

    def _called_through_stub(self, address: int) -> Function | None:
        try:
            code = self._elf.code(Function(address, _STUB_BYTES))
        except ElfError:
            return None
        slot = stub_slot(code, address)
        name = None if slot is None else self._elf.name_in(slot)
        return self._elf.function_at(address) if name is None else self._elf.function(name)

    def _find(self, wanted: WantedFunction) -> tuple[str, Function]:
        if isinstance(wanted, str):
            return wanted, self._named(wanted)
        if isinstance(wanted, Listed):
            return wanted.name, self._listed(wanted)
        if isinstance(wanted, Continued):
            from sslsniff.matching.hidden_functions import continued

            name = f"what {wanted.caller} jumps to"
            return name, continued(self._elf, self._named(wanted.caller), wanted)
        if isinstance(wanted, Raising):
            from sslsniff.matching.raising_functions import find_raising

            raising = find_raising(self._elf, wanted)
            if raising is None:
                raise _AbsentError(f"nothing calls {wanted.raises}")
            return wanted.name, raising
        if isinstance(wanted, CallingBack):
            from sslsniff.matching.calling_back import find_calling_back

            calling = find_calling_back(self._elf, wanted)
            if calling is None:
                raise _AbsentError(f"nothing calls back as {wanted.name} does")
            return wanted.name, calling
        return self._passed(wanted)

    def _named(self, name: str) -> Function:
        function = self._elf.function(name)
        if function is None:
            raise _AbsentError(f"there is no {name}")
        if not function.size:
            raise UnfitError(f"the length of {name} is unknown")
        return function

    def _listed(self, wanted: Listed) -> Function:
        if wanted.table not in self._tables:
            from sslsniff.matching.hidden_functions import find_table

            self._tables[wanted.table] = find_table(self._elf, wanted.table)
        function = self._tables[wanted.table][wanted.number]
        assert function is not None
        return function

    def _passed(self, passings: tuple[Passing, ...]) -> tuple[str, Function]:
        """Return the one function that all of these calls reach; raises ``UnfitError``."""
        common: set[int] | None = None
        for passing in passings:
            caller = self._named(passing.caller)
            calls = passed_arguments(self._elf.code(caller), caller.address)
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
            raise UnfitError(f"{name} is not one function")
        return name, functions[0]


_PLACES: dict[At, _Placing] = {
    At.ENTRY: _Fitting._at_entry,
    At.SPAN: _Fitting._in_span,
    At.CALLS: _Fitting._at_calls,
    At.INNER: _Fitting._inside,
    At.HANDED: _Fitting._handed,
    At.SIGNED: _Fitting._signed,
    At.STORED: _Fitting._stored,
}


def _cost(alternative: Alternative, placed: list[list[Probe]]) -> float:
    """Return how many single-stepped hits a call has on average, if each row is used equally.

    Inner functions count as cheap: ``_inside`` proved it for those of usual calls.
    """
    hits = [
        0 if row.at is At.INNER else _stepped_hits(probes)
        for row, probes in zip(alternative, placed, strict=True)
    ]
    return sum(hits) / len(hits)


def _stepped_hits(row: list[Probe]) -> int:
    """Count the single-stepped hits of one call; a return probe is at the entry's place."""
    return len({each.program for each in row if each.cost is Cost.STEPPED and not each.is_return})
