"""Places at source lines, with the variables there, and at addresses, with the registers."""

from collections.abc import Iterator, Sequence

from sslsniff.core.errors import TargetError
from sslsniff.elf.readable_names import readable_name
from sslsniff.elf.symbols import Function
from sslsniff.fetching.locations import REGISTER_NAMES, in_register
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.functions.dwarf.function_model import DescribedFunction, Language
from sslsniff.functions.places.place_maker import PlaceMaker
from sslsniff.functions.values.fetching import WantedValue
from sslsniff.libraries.go.function_table import GoFunctions
from sslsniff.libraries.go.memory import Memory
from sslsniff.machine_code.instructions import instruction_lines
from sslsniff.machine_code.nop_places import after_nops


class PointPlacer(PlaceMaker):
    """Makes the places of lines and addresses of one file."""

    def at_line(self, address: int) -> Place:
        """Return a place at an instruction with the variables that the source shows there."""
        visible = self.debug.variables_at(address) if self.debug else None
        if visible is None or self.debug is None:
            return self._point(PlaceKind.LINE, self._distance(address), address, [], Language.C)
        probed = after_nops(self.elf, address)
        wanted = self.variables(visible.variables, visible.frame_base, probed)
        named = self.debug.functions(lambda name: name == visible.function)
        language = next((each.language for each in named), Language.C)
        return self._point(PlaceKind.LINE, visible.function, address, wanted, language)

    def at_address(self, address: int, *, force: bool = False) -> Place:
        """Return a place at an instruction with the registers.

        Raises ``TargetError``: no code is there, or no instruction begins there: a probe would
        break the program. ``force``: believe that one begins there.
        """
        self._check_code(address)
        if not force:
            self._check_instruction(address)
        wanted = [
            WantedValue(name, None, (in_register(number),))
            for number, name in enumerate(REGISTER_NAMES)
        ]
        language = Language.GO if self.go else Language.C
        return self._point(PlaceKind.ADDRESS, self._distance(address), address, wanted, language)

    def _check_code(self, address: int) -> None:
        path = self.elf.path
        if not any(start <= address < start + size for start, size in self.elf.code_parts):
            raise TargetError(
                f"{path} has no code at {address:#x}", f"sslsniff symbols {path} lists functions"
            )

    def _check_instruction(self, address: int) -> None:
        path = self.elf.path
        _, function = next(self._functions_around(address), (None, None))
        if function is None:
            raise TargetError(
                f"{path} has no function at {address:#x}, so it is not known whether an instruction"
                " begins there; if none does, a probe breaks the program",
                "use --force if you know that one begins there",
            )
        start = end = function.address
        code = self.elf.data(start, address - start) or b""
        for start, size, *_ in instruction_lines(code, function.address):
            end = start + size
        if end != address:
            raise TargetError(
                f"no instruction of {path} begins at {address:#x}: a probe there would break it",
                f"use {end:#x}",
            )

    def _distance(self, address: int) -> str:
        """Return the function that an address is in, with the distance from its entry."""
        for name, function in self._functions_around(address):
            if name is not None:
                return f"{name}+{address - function.address:#x}"
        return f"{address:#x}"

    def _functions_around(self, address: int) -> Iterator[tuple[str | None, Function]]:
        """Yield the functions that an address is in, with their names."""
        around = self.elf.function_around(address)
        for symbol, function in self.elf.functions():
            size = function.size or (around.size if around else 0)
            if function.address <= address < function.address + size:
                yield readable_name(symbol), function
        if self.go is not None:
            for name, function in GoFunctions(Memory(self.elf)).functions():
                if function.address <= address < function.address + function.size:
                    yield name, function
        if around is not None:
            yield None, around

    def _point(
        self,
        kind: PlaceKind,
        name: str,
        address: int,
        wanted: Sequence[WantedValue],
        language: Language,
    ) -> Place:
        line = self.debug.line_of(address) if self.debug else None
        function = DescribedFunction(name, None, language, line, (), None, ())
        probed = after_nops(self.elf, address)
        steps = self.stack_steps(function, self.frame_at(probed))
        fetch = self.fetch(function, probed, wanted, steps)
        return self.place_at(kind, function, probed, self.cost_at(probed), fetch)
