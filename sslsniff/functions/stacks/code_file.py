"""What a file says about its code: how to unwind it, and which functions it is."""

from bisect import bisect_right
from functools import cached_property

from sslsniff.core.errors import ElfError
from sslsniff.elf import debug_files
from sslsniff.elf.call_frames import CallFrame, call_frame_at
from sslsniff.elf.elf_file import Elf
from sslsniff.elf.frame_descriptions import FrameDescriptions
from sslsniff.elf.readable_names import readable_name
from sslsniff.elf.symbols import Symbol
from sslsniff.functions.dwarf.debug_info import DebugInfo, open_debug_info
from sslsniff.functions.stacks.stack_trace import CodePlace
from sslsniff.libraries.go.go_frames import GoFrames
from sslsniff.libraries.go.memory import Memory

_MOST_KNOWN = 65_536


class CodeFile:
    """The code of an open file; ``name``: as it is shown. It is valid while ``elf`` is open.

    Addresses are as linked.
    """

    def __init__(self, elf: Elf, name: str) -> None:
        self._elf = elf
        self.name = name
        self._descriptions = FrameDescriptions(elf)
        self._frames: dict[int, CallFrame | None] = {}
        self._places: dict[int, tuple[CodePlace, ...]] = {}

    def call_frame(self, address: int) -> CallFrame | None:
        """Return what leads from the code at ``address`` to its caller; None: unknown."""
        if address not in self._frames:
            if len(self._frames) >= _MOST_KNOWN:
                self._frames.clear()
            self._frames[address] = self._found_frame(address)
        return self._frames[address]

    def _found_frame(self, address: int) -> CallFrame | None:
        try:
            found = call_frame_at(self._descriptions, address)
        except ElfError:
            return None
        if found is None or self._go is None:
            return found if self._go is None else self._go.call_frame(address)
        return self._go.call_frame(address) or found

    def places(self, address: int) -> tuple[CodePlace, ...]:
        """Return the functions that the code at ``address`` is of, the innermost first."""
        if address not in self._places:
            if len(self._places) >= _MOST_KNOWN:
                self._places.clear()
            try:
                found = self._of_go(address) or self._of_debug_info(address)
            except ElfError:
                found = ()
            self._places[address] = found or (self._of_symbol(address),)
        return self._places[address]

    def _of_go(self, address: int) -> tuple[CodePlace, ...]:
        return tuple(
            CodePlace(each.function, each.file, each.line, each.is_inlined, self.name, address)
            for each in (self._go.places(address) if self._go else ())
        )

    def _of_debug_info(self, address: int) -> tuple[CodePlace, ...]:
        found = []
        for each in self._debug.places_at(address) if self._debug else ():
            file, line = each.source or (None, None)
            found.append(CodePlace(each.function, file, line, each.is_inlined, self.name, address))
        return tuple(found)

    def _of_symbol(self, address: int) -> CodePlace:
        symbol = self._symbol(address)
        name = symbol and readable_name(symbol.name)
        return CodePlace(name, None, None, False, self.name, address)

    def _symbol(self, address: int) -> Symbol | None:
        """Return the symbol of the function that ``address`` is in; None: it has none."""
        at = bisect_right(self._symbols, address, key=lambda each: each.function.address) - 1
        if at < 0:
            return None
        found = self._symbols[at]
        return found if address < found.function.address + found.function.size else None

    @cached_property
    def _symbols(self) -> list[Symbol]:
        try:
            debug = debug_files.find(self._elf)
            if debug is not None:
                self._elf.add_symbols(debug.symbols, debug.path)
            found = {each.function.address: each for each in self._elf.functions()}
        except ElfError:
            return []
        return [found[address] for address in sorted(found)]

    @cached_property
    def _debug(self) -> DebugInfo | None:
        try:
            return open_debug_info(self._elf)
        except ElfError:
            return None

    @cached_property
    def _go(self) -> GoFrames | None:
        try:
            return GoFrames(Memory(self._elf))
        except ElfError:
            return None
