"""Places of one file: what a probe at an instruction fetches and costs, and what it stands for."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from sslsniff.elf.call_frames import RegisterOffset, cfa_at
from sslsniff.elf.elf_file import Elf
from sslsniff.fetching.fetch import Fetch, FetchLimits
from sslsniff.fetching.fetch_steps import FetchStep, StepKind
from sslsniff.fetching.locations import RSP, add_constant, push_register
from sslsniff.fetching.task_location import TaskLocation
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.functions.conditions.condition import ArgumentCondition
from sslsniff.functions.conditions.condition_steps import condition_steps
from sslsniff.functions.dwarf.debug_info import DebugInfo
from sslsniff.functions.dwarf.function_model import DescribedFunction, Language, Variable
from sslsniff.functions.locations.expression_run import CanonicalFrame, ExpressionContext
from sslsniff.functions.locations.location_expressions import variable_location
from sslsniff.functions.results.function_results import RESULT
from sslsniff.functions.runtimes.goroutines import stack_steps
from sslsniff.functions.values.fetching import (
    FetchContext,
    ValueRole,
    WantedValue,
    compile_fetch,
)
from sslsniff.functions.values.go_type_names import GoTypeNames
from sslsniff.machine_code.instructions import disassemble
from sslsniff.machine_code.probe_sites import Cost, is_emulated

_WORD_BYTES = 8
_AT_ENTRY = CanonicalFrame(RSP, _WORD_BYTES)
"""The canonical frame address at the first instruction."""
_LONGEST_INSTRUCTION_BYTES = 15
_DEFAULT_LIMITS = FetchLimits()
_GO_TYPE_ARGUMENTS = ".dict"  # cmd/compile/internal/typecheck.LocalDictName
_IS_UNNAMED = re.compile("_$|~")  # Go calls those without a name ~p0, ~r0


class GoCode(NamedTuple):
    """What is particular to a Go program.

    ``goroutine``: where its id is.
    ``in_registers``: arguments are passed in registers, from Go 1.17 on.
    ``describes_results``: debug info has all results. That of Go 1.17 has some.
    """

    goroutine: TaskLocation
    in_registers: bool
    describes_results: bool


class PlaceMaker:
    """Makes places of one file; ``go``: None: it is no Go program.

    ``condition``: hits that do not meet it are dropped. ``undecided``: the functions for which the
    kernel cannot decide all of it.
    """

    def __init__(
        self,
        elf: Elf,
        debug: DebugInfo | None = None,
        *,
        limits: FetchLimits = _DEFAULT_LIMITS,
        go: GoCode | None = None,
        condition: ArgumentCondition | None = None,
    ) -> None:
        self.elf = elf
        self.debug = debug
        self.limits = limits
        self.go = go
        self.condition = condition
        self.undecided: list[str] = []

    def variables(
        self,
        variables: Iterable[Variable],
        frame_base: bytes | None,
        address: int,
        *,
        is_call: bool = False,
    ) -> list[WantedValue]:
        """Return variables at an address within a function; ``is_call``: one begins there."""
        context = ExpressionContext(address, frame_base, self.frame_at(address))
        return [
            WantedValue(each.name, each.type, variable_location(each, context, is_call=is_call))
            for each in named_apart(in_source(variables))
        ]

    def frame_at(self, address: int) -> CanonicalFrame | bytes | None:
        """Return the canonical frame address at an instruction, or an expression for it."""
        found = cfa_at(self.elf, address)
        return CanonicalFrame(*found) if isinstance(found, RegisterOffset) else found

    def cost_at(self, address: int) -> Cost:
        """Return what a probe costs at an instruction."""
        code = self.elf.data(address, _LONGEST_INSTRUCTION_BYTES) or b""
        found = disassemble(code, address, 1)
        return Cost.EMULATED if found and is_emulated(found[0].bytes) else Cost.STEPPED

    def stack_steps(
        self, function: DescribedFunction, frame: CanonicalFrame | bytes | None
    ) -> tuple[FetchStep, ...]:
        """Return the steps that set a hit's stack pointer to that of the entry, if it is known."""
        known = frame if isinstance(frame, CanonicalFrame) else _AT_ENTRY
        if self.go is not None and function.language is Language.GO:
            return stack_steps(self.go.goroutine, entry_pointer(known))
        return () if known == _AT_ENTRY else (*entry_pointer(known), FetchStep(StepKind.STACK))

    def fetch(
        self,
        function: DescribedFunction,
        address: int,
        wanted: Sequence[WantedValue],
        steps: tuple[FetchStep, ...],
    ) -> Fetch:
        """Return what fetches ``wanted`` at an address, after ``steps``."""
        if self.go is not None and function.language is Language.GO:
            steps += self.go.goroutine.steps
        steps = self._condition_steps(function, wanted) + steps
        types = self._go_types if function.language is Language.GO else None
        context = FetchContext(function.language, self.limits, steps, address, types)
        return compile_fetch(wanted, context)

    def _condition_steps(
        self, function: DescribedFunction, wanted: Sequence[WantedValue]
    ) -> tuple[FetchStep, ...]:
        arguments = [
            each for each in wanted if each.name != RESULT and each.role is not ValueRole.RESULT
        ]
        if self.condition is None or not arguments:
            return ()
        steps, is_whole = condition_steps(self.condition, arguments)
        if not is_whole:
            self.undecided.append(function.name)
        return steps

    @cached_property
    def _go_types(self) -> GoTypeNames:
        return GoTypeNames(self.elf)

    def place_at(
        self,
        kind: PlaceKind,
        function: DescribedFunction,
        address: int,
        cost: Cost,
        fetch: Fetch,
    ) -> Place:
        """Return a place at an address. Raises ``ElfError``: no code is there."""
        declared = function.declared
        return Place(
            kind,
            function.name,
            self.elf.path,
            address,
            self.elf.offset(address),
            cost,
            fetch,
            file=declared.file if declared else None,
            line=declared.line if declared else None,
            is_go=function.language is Language.GO,
        )


def in_source(variables: Iterable[Variable]) -> list[Variable]:
    """Return the variables that the source has, too: Go adds one to generic functions."""
    return [each for each in variables if each.name != _GO_TYPE_ARGUMENTS]


def named_apart(variables: Iterable[Variable]) -> list[Variable]:
    """Return variables with names that differ; those without are ``arg1`` and so on."""
    named: dict[str, Variable] = {}
    for number, each in enumerate(variables, 1):
        is_named = each.name and not _IS_UNNAMED.match(each.name) and each.name not in named
        name = each.name if is_named else f"arg{number}"
        named[name] = replace(each, name=name)
    return list(named.values())


def entry_pointer(frame: CanonicalFrame) -> tuple[FetchStep, ...]:
    """Return the steps that push the stack pointer of the entry."""
    return (*push_register(frame.register), *add_constant(frame.offset - _WORD_BYTES))
