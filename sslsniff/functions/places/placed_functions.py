"""The places of one function: its entry, its returns, and each call of it that was inlined."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from sslsniff.elf.symbols import Function
from sslsniff.fetching.fetch import FetchLimits
from sslsniff.fetching.locations import (
    R8,
    R9,
    R10,
    R11,
    RAX,
    RBX,
    RCX,
    RDI,
    RDX,
    RSI,
    RSP,
    LocationPiece,
    ValueInMemory,
    in_memory,
)
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.dwarf.function_model import (
    AddressRange,
    DescribedFunction,
    FunctionCopy,
    Language,
    LocatedRange,
    SourceLine,
    Variable,
)
from sslsniff.functions.dwarf.type_model import Integer, UnknownType
from sslsniff.functions.locations.expression_run import CanonicalFrame
from sslsniff.functions.places.beginnings import function_beginning
from sslsniff.functions.places.entry_sites import EntryFunction, canonical_frame, entry_site
from sslsniff.functions.places.go_parameters import go_parameters
from sslsniff.functions.places.place_maker import (
    PlaceMaker,
    entry_pointer,
    in_source,
    named_apart,
)
from sslsniff.functions.results.function_results import RESULT, returns_address, wanted_results
from sslsniff.functions.results.go_results import go_argument_bytes
from sslsniff.functions.results.memory_results import ReturnSite, memory_return_sites
from sslsniff.functions.values.fetching import ValueRole, WantedValue
from sslsniff.libraries.go.function_table import GoFunctions
from sslsniff.libraries.go.go_frames import GoFrames
from sslsniff.libraries.go.memory import Memory
from sslsniff.machine_code.data_flow import Flow
from sslsniff.machine_code.function_code import Code
from sslsniff.machine_code.nop_places import after_nops
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.machine_code.returns import FunctionEnds, function_ends, switches

_CALL_FRAME_CFA = b"\x9c"
_IN_FRAME = (b"\x91", b"\x76", b"\x77")  # DW_OP_fbreg; DW_OP_breg6 and 7, of rbp and rsp
_WORD_BYTES = 8
_ASSIGNS_PARAMETERS = frozenset({Language.C, Language.CPP})
_CHANGED = b".isra."  # in the names that gcc gives them
_LONGEST_INSTRUCTION_BYTES = 15
_DEFAULT_LIMITS = FetchLimits()
C_ARGUMENTS = (RDI, RSI, RDX, RCX, R8, R9)
GO_ARGUMENTS = (RAX, RBX, RCX, RDI, RSI, R8, R9, R10, R11)


class PlacedFunction(NamedTuple):
    """The places of a function.

    ``problem``: why its own code has none, "" if it has.
    ``may_end_unseen``: a call may end without one of its return instructions.
    """

    places: tuple[Place, ...]
    problem: str = ""
    may_end_unseen: bool = False


class FunctionPlacer(PlaceMaker):
    """Makes the places of functions of one file."""

    def place(
        self, function: DescribedFunction, *, with_results: bool, by_trampoline: bool = False
    ) -> PlacedFunction:
        """Return the places of a function. Raises ``ElfError`` if the file is damaged.

        Where debug info has no parameters, the values are the registers that arguments have.
        ``by_trampoline``: the kernel reports returns, not a probe at each return instruction.
        """
        places: list[Place] = []
        problem, may_end_unseen = "", False
        for copy in function.copies:
            if copy.into is not None:
                places += self._inlined(function, copy)
                continue
            if function.declared is None and self.debug is not None:
                # Go 1.16 has it nowhere else.
                function = replace(function, declared=self.debug.line_of(copy.entries[0]))
            elif function.declared is None and self.go and function.language is Language.GO:
                function = replace(function, declared=self._go_line(copy.entries[0]))
            if copy.entries[0] in self._changed_by_gcc:
                copy = replace(copy, has_own_convention=True)
            ends = self._ends(copy)
            has_return_sites = with_results and not by_trampoline
            entry = self._entry(
                function, copy, with_return_address=with_results, may_return=has_return_sites
            )
            if entry is None:
                problem = "a loop leads back to its entry: each turn would count as a call"
                continue
            may_tail_call = bool(ends.tail_calls) or not ends.is_known
            places.append(replace(entry, may_tail_call=may_tail_call))
            if with_results and by_trampoline:
                places.append(self._trampoline(function, copy))
            elif with_results and not entry.returns_at_once:
                places += self._returns(function, copy, ends)
                may_end_unseen |= may_tail_call
        return PlacedFunction(tuple(places), problem, may_end_unseen)

    @cached_property
    def _changed_by_gcc(self) -> frozenset[int]:
        """The entries of functions from which gcc removed arguments, or the result (-fipa-sra)."""
        return frozenset(each.function.address for each in self.elf.functions_with(_CHANGED))

    def _entry(
        self,
        function: DescribedFunction,
        copy: FunctionCopy,
        *,
        with_return_address: bool,
        may_return: bool,
    ) -> Place | None:
        """Return where calls begin; None: there is no such place.

        ``may_return``: if a return instruction is the only place, calls end there, too. Of two
        probes there, nobody knows which one the kernel runs first.
        """
        entry = copy.entries[0]
        main = next(each for each in copy.ranges if each.start <= entry < each.end)
        code = self.elf.code(Function(entry, main.end - entry))
        parameters = named_apart(each for each in copy.parameters if not each.is_result)
        may_assign = function.language in _ASSIGNS_PARAMETERS
        if may_assign and not function.producer.startswith("GNU "):
            # gcc has a constant for a parameter only in copies for callers that all pass that.
            parameters = [replace(each, constant=None) for each in parameters]
        spilled: frozenset[str] = frozenset()
        if not function.has_parameters:
            parameters = self._raw_parameters(entry)
        elif function.language is Language.GO:
            parameters, spilled = go_parameters(
                function.name,
                parameters,
                entry,
                in_registers=self.go is None or self.go.in_registers,
                has_all=self._has_all_parameters(function, entry),
            )
            parameters = in_source(parameters)
        site = entry_site(
            function_beginning(code, entry),
            EntryFunction(
                entry,
                parameters,
                copy.frame_base,
                self._prologue_end(copy, parameters),
                has_precise_frame=copy.frame_base in (None, _CALL_FRAME_CFA),
                spilled=spilled,
                may_assign=may_assign,
            ),
        )
        if site is None:
            return None
        frame = canonical_frame(site.step)
        steps = self.stack_steps(function, frame)
        wanted = [
            WantedValue(name, each.type, location)
            for (name, location), each in zip(site.arguments.items(), parameters, strict=True)
        ]
        cost = Cost.EMULATED if site.step.is_emulated else Cost.STEPPED
        first = [_return_address(frame)] if with_return_address and frame is not None else []
        returns_at_once = may_return and site.step.is_return
        results = self._results_in_registers(function, copy) if returns_at_once else []
        ends = [each._replace(role=ValueRole.RESULT) for each in results]
        fetch = self.fetch(function, site.step.address, [*first, *wanted, *ends], steps)
        place = self.place_at(PlaceKind.ENTRY, function, site.step.address, cost, fetch)
        return replace(place, returns_at_once=returns_at_once)

    def _prologue_end(self, copy: FunctionCopy, parameters: Iterable[Variable]) -> int | None:
        """Return where the frame is set up if a location depends on that; None: unknown.

        To find it takes seconds in a program with much debug info.
        """
        if self.debug is None or copy.frame_base == _CALL_FRAME_CFA:
            return None
        located = (each.expression for variable in parameters for each in variable.locations)
        if any(each.startswith(_IN_FRAME) for each in located):
            return self.debug.prologue_end(copy.entries[0])
        return None

    def _trampoline(self, function: DescribedFunction, copy: FunctionCopy) -> Place:
        """Return the place whose hits are all returns; the return address is off the stack then."""
        wanted = wanted_results(function, copy)
        if returns_address(function, copy, wanted) is False:
            wanted = [wanted[0]._replace(location=Missing.OPTIMISED_OUT)]
        entry = after_nops(self.elf, copy.entries[0])
        steps = self.stack_steps(function, CanonicalFrame(RSP, 0))
        fetch = self.fetch(function, entry, wanted, steps)
        place = self.place_at(PlaceKind.RETURN, function, entry, Cost.EMULATED, fetch)
        return replace(place, by_trampoline=True)

    def _returns(
        self, function: DescribedFunction, copy: FunctionCopy, ends: FunctionEnds
    ) -> Iterator[Place]:
        wanted = self._results(function, copy)
        sites: Iterable[ReturnSite] = [ReturnSite(each, 0, None) for each in ends.returns]
        is_proved = returns_address(function, copy, wanted)
        if is_proved is not None:
            sites = self._memory_sites(copy, ends, wanted[0], is_proved=is_proved)
        for site in sites:
            if site.result is not None:
                wanted = [wanted[0]._replace(location=(site.result,))]
            elif is_proved is not None:
                wanted = [wanted[0]._replace(location=Missing.OPTIMISED_OUT)]
            frame = CanonicalFrame(RSP, _WORD_BYTES + site.depth_bytes)
            steps = self.stack_steps(function, frame)
            fetch = self.fetch(function, site.address, wanted, steps)
            cost = self.cost_at(site.address)
            yield self.place_at(PlaceKind.RETURN, function, site.address, cost, fetch)

    def _results(self, function: DescribedFunction, copy: FunctionCopy) -> list[WantedValue]:
        in_registers = self.go is None or self.go.in_registers
        if function.has_parameters:
            is_known = self.go is None or self.go.describes_results
        else:
            is_known = in_registers
        if not is_known:
            return []
        return wanted_results(
            function,
            copy,
            go_in_registers=in_registers,
            has_all_parameters=self._has_all_parameters(function, copy.entries[0]),
        )

    def _has_all_parameters(self, function: DescribedFunction, entry: int) -> bool | None:
        """Say whether debug info has all arguments and results of a Go function; None: unknown."""
        if self.go is None or not self.go.describes_results or not function.has_parameters:
            return None
        size = self._go_functions.argument_bytes(entry)
        if size is None:
            return None
        arguments, results = (
            [
                each.type or UnknownType(name="", size=_WORD_BYTES)
                for each in function.parameters
                if each.is_result is is_result
            ]
            for is_result in (False, True)
        )
        in_registers = self.go.in_registers
        return size == go_argument_bytes(arguments, results, in_registers=in_registers)

    def _go_line(self, entry: int) -> SourceLine | None:
        """Return the source line of a function of a stripped program; None: unknown."""
        places = self._go_frames.places(entry)
        return SourceLine(places[-1].file, places[-1].line) if places else None

    @cached_property
    def _memory(self) -> Memory:
        return Memory(self.elf)

    @cached_property
    def _go_frames(self) -> GoFrames:
        return GoFrames(self._memory)

    @cached_property
    def _go_functions(self) -> GoFunctions:
        return GoFunctions(self._memory)

    def _results_in_registers(
        self, function: DescribedFunction, copy: FunctionCopy
    ) -> list[WantedValue]:
        """Return the results of a function that sets none: they are what its arguments were."""
        wanted = self._results(function, copy)
        if returns_address(function, copy, wanted) is not None:
            return [wanted[0]._replace(location=Missing.OPTIMISED_OUT)]
        return wanted

    def _memory_sites(
        self, copy: FunctionCopy, ends: FunctionEnds, result: WantedValue, *, is_proved: bool
    ) -> Iterator[ReturnSite]:
        """Yield where the address of a result in memory is known.

        ``is_proved``: where nothing else is found, it is in rax at the return.
        """
        main = copy.ranges[0]
        code = self.elf.code(Function(main.start, main.end - main.start))
        cases = switches(code, main.start, self.elf.data)
        fatal = filter(self._never_returns, Code(code, main.start).called)
        flow = Flow(Code(code, main.start, fatal, cases))
        size = result.type.size if result.type else 0
        for site in memory_return_sites(flow, ends.returns, size):
            if site.result is None and is_proved:
                yield site._replace(result=in_memory(RAX, 0, size))
            else:
                yield site

    def _never_returns(self, called: int) -> bool:
        """Say whether a function never returns, or the one whose address is in a word."""
        if self.debug is None:
            return False
        is_code = self.elf.function_around(called) is not None
        return self.debug.never_returns(called if is_code else self._memory.word(called))

    def _inlined(self, function: DescribedFunction, copy: FunctionCopy) -> Iterator[Place]:
        entries = [after_nops(self.elf, each) for each in copy.entries]
        for address in entries:
            wanted = self.variables(copy.parameters, copy.frame_base, address, is_call=True)
            yield self._inside(PlaceKind.INLINED, function, copy, address, wanted)
        if copy.result_variable is None or len(copy.result_addresses) != len(copy.entries):
            return
        ends = [after_nops(self.elf, each) for each in copy.result_addresses]
        for call, address in zip(entries, ends, strict=True):
            result = replace(copy.result_variable, name=RESULT)
            wanted = self.variables([result], copy.frame_base, address)
            place = self._inside(PlaceKind.INLINED_RESULT, function, copy, address, wanted)
            yield replace(place, call_address=call)

    def _inside(
        self,
        kind: PlaceKind,
        function: DescribedFunction,
        copy: FunctionCopy,
        address: int,
        wanted: Sequence[WantedValue],
    ) -> Place:
        """Return a place in a function that another was inlined into."""
        steps = self.stack_steps(function, self.frame_at(address))
        fetch = self.fetch(function, address, wanted, steps)
        place = self.place_at(kind, function, address, self.cost_at(address), fetch)
        called_from = copy.called_from or SourceLine("", 0)
        return replace(
            place,
            into=copy.into,
            file=called_from.file or None,
            line=called_from.line or None,
        )

    def _ends(self, copy: FunctionCopy) -> FunctionEnds:
        parts = [
            (each.start, self.elf.code(Function(each.start, each.end - each.start)))
            for each in copy.ranges
        ]
        return function_ends(parts, self.elf.data)

    def _raw_parameters(self, entry: int) -> list[Variable]:
        """Return the registers in which arguments are at the entry."""
        if self.go and not self.go.in_registers:
            return []
        registers = GO_ARGUMENTS if self.go else C_ARGUMENTS
        at_entry = AddressRange(entry, entry + 1)
        # The expressions DW_OP_reg0 to DW_OP_reg31 (DWARF 5, section 2.6.1.1.2).
        return [
            Variable(f"arg{number}", None, (LocatedRange(at_entry, bytes([0x50 + register])),))
            for number, register in enumerate(registers, 1)
        ]


def _return_address(frame: CanonicalFrame) -> WantedValue:
    """Return the value by which a tail call is told from a call after one that was left."""
    number = Integer(name="", size=_WORD_BYTES, is_signed=False)
    pointer = LocationPiece(ValueInMemory(entry_pointer(frame)))
    return WantedValue("", number, (pointer,), ValueRole.RETURN_ADDRESS)
