"""Functions from debug info, with all copies of their code."""

from collections.abc import Callable, Iterable, Iterator

from elftools.dwarf.enums import ENUM_DW_CC

from sslsniff.functions.dwarf.debug_units import DebugUnit, Entry
from sslsniff.functions.dwarf.described_types import DescribedTypes
from sslsniff.functions.dwarf.function_model import (
    AddressRange,
    DescribedFunction,
    FunctionCopy,
    Language,
    LocatedRange,
    SourceLine,
    Variable,
    signature_of,
)
from sslsniff.functions.dwarf.inlined_calls import CodeCheck, entries_of
from sslsniff.functions.dwarf.line_tables import LineTable
from sslsniff.functions.dwarf.type_model import Type

_MOST_DEPTH = 512
_NOCALL = ENUM_DW_CC["DW_CC_nocall"]
# Of constructors and destructors: not in the source
_BLANK = {"_"}
_HIDDEN_PARAMETERS = {"__in_chrg", "__vtt_parm"}


class CopyPlace:
    """An entry with code of a function, in debug info.

    ``around``: offsets of the functions and inlined functions that it is in, the innermost first.
    ``name_of_caller``: returns the full name of the innermost one.
    """

    def __init__(
        self, entry: Entry, around: tuple[int, ...], name_of_caller: Callable[[], str | None]
    ) -> None:
        self.entry = entry
        self._around = around
        self._name_of_caller = name_of_caller

    @property
    def caller_name(self) -> str | None:
        """The full name of the function that it was inlined into; None: it was not."""
        return self._name_of_caller() if self.is_inlined else None

    @property
    def caller(self) -> Entry | None:
        """The entry of the function that it was inlined into."""
        return self.entry.unit.entry(self._around[0]) if self._around else None

    @property
    def owner(self) -> int:
        """The offset of the entry of the function whose frame the code uses."""
        return self._around[-1] if self._around and self.is_inlined else self.entry.offset

    @property
    def is_inlined(self) -> bool:
        """Whether it is the code of a call that was inlined."""
        return self.entry.tag == "DW_TAG_inlined_subroutine"


class FunctionReader:
    """Describes functions; ``lines_of``: returns a unit's line table."""

    def __init__(
        self,
        types: DescribedTypes,
        check: CodeCheck,
        lines_of: Callable[[DebugUnit], LineTable | None],
    ) -> None:
        self._types = types
        self._check = check
        self._lines_of = lines_of
        self._owners: dict[tuple[int, int], bool] = {}
        self._locals: dict[tuple[int, int], list[tuple[Entry, list[AddressRange]]]] = {}

    def function(
        self, name: str, symbol: str | None, places: Iterable[CopyPlace]
    ) -> DescribedFunction | None:
        """Return a function by the places of its copies; None: all of its code was removed."""
        copies = []
        origin: Entry | None = None
        for place in places:
            copy = self._copy(place)
            if copy is not None:
                copies.append(copy)
                origin = origin or place.entry
        if origin is None:
            return None
        described = _definition(origin)
        return DescribedFunction(
            name=name,
            symbol=symbol,
            language=_language(described, origin),
            declared=self.source_line(described, "DW_AT_decl_file", "DW_AT_decl_line"),
            parameters=self._described_parameters(described),
            result=self._types.type_of(described),
            copies=tuple(copies),
            has_parameters=_has_parameters(described, origin),
            producer=origin.unit.producer or described.unit.producer,
        )

    def by_declaration(
        self, symbol: str | None, places: list[CopyPlace]
    ) -> Iterable[list[CopyPlace]]:
        """Return the copies of each function: those with one symbol are of one function.

        Static functions of C have none; those in different files may share a name.
        """
        if symbol is not None or len({id(each.entry.unit) for each in places}) == 1:
            return [places]
        found: dict[SourceLine | None, list[CopyPlace]] = {}
        for place in places:
            declared = self.source_line(
                _definition(place.entry), "DW_AT_decl_file", "DW_AT_decl_line"
            )
            found.setdefault(declared, []).append(place)
        return found.values()

    def signature(self, copy: Entry) -> str | None:
        """Return the signature of a function; None if its parameters are not described."""
        described = _definition(copy)
        if not _has_parameters(described, copy):
            return None
        parameters = self._described_parameters(described)
        return signature_of(parameters, self._types.type_of(described))

    def _described_parameters(self, described: Entry) -> tuple[Variable, ...]:
        return tuple(self.variable(each, has_location=False) for each in _parameters(described))

    def calls(self, place: CopyPlace) -> tuple[tuple[AddressRange, ...], tuple[int, ...]] | None:
        """Return a copy's ranges and entries; None: it was removed, or is a part that gcc moved."""
        if place.is_inlined and not self._has_code(place.entry.unit, place.owner):
            return None
        ranges = [each for each in place.entry.ranges() if self._check.is_code(each)]
        if not ranges:
            return None
        first = self._entry_address(place.entry, ranges)
        ranges.sort(key=lambda each: (not each.start <= first < each.end, each))
        if not place.is_inlined:
            return None if self._is_fragment(place.entry, first) else (tuple(ranges), (first,))
        found = entries_of(ranges, first, self._check, place.entry.unit, self._lines_of)
        return (tuple(ranges), found) if found else None

    def _is_fragment(self, entry: Entry, address: int) -> bool:
        """Say whether a part begins at ``address`` that gcc moved. Go has functions named so."""
        return address in self._check.fragments and not _is_go(entry)

    def _has_code(self, unit: DebugUnit, owner: int) -> bool:
        """Say whether a function has code, or a linker removed it."""
        key = id(unit.sections), owner
        if key not in self._owners:
            ranges = unit.entry(owner).ranges()
            self._owners[key] = any(map(self._check.is_code, ranges))
        return self._owners[key]

    def _entry_address(self, entry: Entry, ranges: list[AddressRange]) -> int:
        """Return where the code is entered: DW_AT_entry_pc, else where its first range begins.

        A range with a part that was moved may be the first one.
        """
        starts = [each.start for each in ranges]
        first = next((each for each in starts if not self._is_fragment(entry, each)), starts[0])
        low = entry.address("DW_AT_low_pc")
        address = entry.address("DW_AT_entry_pc", first if low is None else low)
        if address is None:
            return first
        return address if any(each.start <= address < each.end for each in ranges) else first

    def _copy(self, place: CopyPlace) -> FunctionCopy | None:
        found = self.calls(place)
        if found is None:
            return None
        ranges, entries = found
        entry = place.entry
        copy = FunctionCopy(
            ranges=ranges,
            entries=entries,
            parameters=tuple(self._located_parameters(entry)),
            frame_base=entry.unit.entry(place.owner).expression("DW_AT_frame_base"),
            has_own_convention=not place.is_inlined and _is_nocall(entry),
        )
        if not place.is_inlined:
            return copy
        result, addresses = self._result(place, entries)
        return FunctionCopy(
            ranges=ranges,
            entries=entries,
            into=place.caller_name,
            called_from=self.source_line(entry, "DW_AT_call_file", "DW_AT_call_line"),
            parameters=copy.parameters,
            frame_base=copy.frame_base,
            result_variable=result,
            result_addresses=addresses,
        )

    def _located_parameters(self, entry: Entry) -> Iterator[Variable]:
        """Yield the parameters of a copy; those that it does not mention were optimised out."""
        own = [*_parameters(entry)]
        described = _definition(entry)
        if described is entry:
            yield from (self.variable(each) for each in own)
            return
        by_origin = {
            origin.offset: each
            for each in own
            if (origin := each.reference("DW_AT_abstract_origin")) is not None
        }
        for each in _parameters(described):
            mentioned = by_origin.pop(each.offset, None)
            yield self.variable(mentioned or each, has_location=mentioned is not None)
        for each in own:
            origin = each.reference("DW_AT_abstract_origin")
            if origin is None:  # gcc: of a copy with other parameters
                yield self.variable(each)

    def variable(self, entry: Entry, *, has_location: bool = True) -> Variable:
        """Return what an entry of a parameter or variable describes."""
        kind = self._types.type_of(entry)
        described = entry.with_attribute("DW_AT_decl_line")
        constant = entry.with_attribute("DW_AT_const_value") if has_location else None
        flagged = entry.with_attribute("DW_AT_variable_parameter")
        return Variable(
            name=entry.name or "",
            type=kind,
            locations=entry.locations("DW_AT_location") if has_location else (),
            constant=_constant(constant, kind) if constant else None,
            line=described.number("DW_AT_decl_line") if described else None,
            is_result=bool(flagged and flagged.number("DW_AT_variable_parameter")),
            address_at=entry.unit.address_in_expression,
        )

    def source_line(self, entry: Entry, file: str, line: str) -> SourceLine | None:
        """Return the source line that two attributes of an entry, or of its origin, have."""
        found = entry.with_attribute(line)
        number = found.number(line) if found else None
        index = found.number(file) if found else None
        if found is None or not number:
            return None
        table = self._lines_of(found.unit)
        path = table.files.get(index) if table and index is not None else None
        return SourceLine(path, number) if path else None

    def _result(
        self, place: CopyPlace, entries: tuple[int, ...]
    ) -> tuple[Variable | None, tuple[int, ...]]:
        """Return the caller's variable that gets the result, and where it has it.

        It is one that is declared in the line of the call and has the result's type.
        """
        kind = _definition(place.entry).with_attribute("DW_AT_type")
        wanted = kind.reference("DW_AT_type") if kind else None
        call_line = place.entry.number("DW_AT_call_line")
        caller = place.caller
        if wanted is None or not call_line or caller is None:
            return None, ()
        if caller.key not in self._locals:
            self._locals[caller.key] = [*_local_variables(caller)]
        found = []
        for entry, scope in self._locals[caller.key]:
            described = entry.with_attribute("DW_AT_decl_line")
            if described is None or described.number("DW_AT_decl_line") != call_line:
                continue
            typed = entry.with_attribute("DW_AT_type")
            of_type = typed.reference("DW_AT_type") if typed else None
            if of_type is not None and of_type.key == wanted.key:
                found.append((self.variable(entry), scope))
        if len(found) != 1 or not found[0][0].locations:
            return None, ()  # none, or it is not known which
        [(variable, scope)] = found
        return variable, self._result_addresses(variable.locations, scope, entries)

    def _result_addresses(
        self,
        locations: tuple[LocatedRange, ...],
        scope: list[AddressRange],
        entries: tuple[int, ...],
    ) -> tuple[int, ...]:
        """Return the first address after each of ``entries`` where the variable has its value."""
        starts = sorted(
            self._check.without_padding(each).start
            for each in [each.range for each in locations if each.range] or scope
            if self._check.is_code(each)
        )
        found = []
        for at, entry in enumerate(entries):
            next_entry = entries[at + 1] if at + 1 < len(entries) else None
            after = (each for each in starts if each > entry)
            start = next(after, None)
            if start is None or (next_entry is not None and start > next_entry):
                return ()
            found.append(start)
        return tuple(found)

    def variables_at(self, function: Entry, address: int) -> list[Variable]:
        """Return the variables of the scopes that ``address`` is in; inner ones hide outer ones."""
        found: dict[str, Variable] = {}
        entry: Entry | None = function
        for _ in range(_MOST_DEPTH):
            if entry is None:
                break
            inner = None
            for each in entry.children():
                if each.tag in {"DW_TAG_formal_parameter", "DW_TAG_variable"}:
                    variable = self.variable(each)
                    found.pop(variable.name, None)
                    found[variable.name] = variable
                elif each.tag in _SCOPES_OF_VARIABLES and any(
                    start <= address < end for start, end in each.ranges()
                ):
                    inner = each
            if inner is not None and inner.tag == "DW_TAG_inlined_subroutine":
                found.clear()  # the caller's are not visible in the source there
            entry = inner
        return [*found.values()]


_SCOPES_OF_VARIABLES = {"DW_TAG_lexical_block", "DW_TAG_inlined_subroutine"}


def _definition(entry: Entry) -> Entry:
    """Return the entry that describes the parameters: that of the abstract function, or itself."""
    for _ in range(8):
        origin = entry.reference("DW_AT_abstract_origin")
        if origin is None:
            break
        entry = origin
    return entry


def _has_parameters(described: Entry, copy: Entry) -> bool:
    """Say whether the units of a function have more than names and lines of functions."""
    return bool(described.unit.scanned.has_types or copy.unit.scanned.has_types)


def _is_nocall(entry: Entry) -> bool:
    found = entry.with_attribute("DW_AT_calling_convention")
    return found is not None and found.number("DW_AT_calling_convention") == _NOCALL


def _language(described: Entry, origin: Entry) -> Language:
    units = (described.unit, origin.unit)
    return next(
        (each.language for each in units if each.language != Language.OTHER), Language.OTHER
    )


def _is_go(entry: Entry) -> bool:
    return entry.unit.producer.startswith("Go ")


def _parameters(entry: Entry) -> Iterator[Entry]:
    """Yield the parameters of a function, and Go's results.

    Go lists a named result twice where a deferred function may run before a return.
    """
    go_names: set[str] | None = set() if _is_go(entry) else None
    for each in entry.children():
        if each.tag == "DW_TAG_formal_parameter" and each.name not in _HIDDEN_PARAMETERS:
            if go_names is not None and each.name and each.name not in _BLANK:
                if each.name in go_names:
                    continue
                go_names.add(each.name)
            yield each
        elif each.tag in _SCOPES_OF_VARIABLES:  # all compilers write parameters before them
            return


def _local_variables(
    scope: Entry, ranges: list[AddressRange] | None = None, depth: int = 0
) -> Iterator[tuple[Entry, list[AddressRange]]]:
    """Yield a function's variables, with the code of the block that each is in."""
    covered = scope.ranges() if ranges is None else ranges
    for each in scope.children():
        if each.tag == "DW_TAG_variable":
            yield each, covered
        elif each.tag == "DW_TAG_lexical_block" and depth < _MOST_DEPTH:
            yield from _local_variables(each, each.ranges() or covered, depth + 1)


def _constant(entry: Entry, kind: Type | None) -> bytes | None:
    """Return the bytes of a variable that always has the same value."""
    value = entry.value("DW_AT_const_value")
    if value is None or isinstance(value, bytes):
        return value
    size = kind.size if kind and kind.size else 8
    return (value & (1 << 8 * size) - 1).to_bytes(size, "little")
