"""The program tests/workload/c/fetched.c, and what one place of it fetches."""

import functools
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple, Self

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from sslsniff.capture.scope import Scope
from sslsniff.core.events import Exited
from sslsniff.fetching.fetch import Fetch
from sslsniff.fetching.fetch_steps import FetchStep
from sslsniff.fetching.fetch_tables import Use
from sslsniff.fetching.hit_records import Hit
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.functions.capture.function_capture import FunctionCapture
from sslsniff.machine_code.probe_sites import Cost
from tests.workload.processes import PROGRAMS, Process, started

MEMORY = 0x50000000
MAPPED = 8192
UNUSED = 0x60000000
"""16 pages that the process has never used: the kernel has not mapped them yet."""
TEXT = MEMORY + 0x1000
"""``short``"""
REGISTERS = 0xF0E0D0C0B0A00000
"""What a register contains, plus its index; rdi contains how often the place was passed."""
RDI = 14


def memory(offset: int, size: int) -> bytes:
    """Return what is at ``MEMORY + offset``, except at ``TEXT``."""
    return bytes(at % 251 + 1 for at in range(offset, offset + size))


def build(folder: Path) -> Path:
    """Compile the program into ``folder``."""
    program = folder / "fetched"
    flags = ("-O2", "-Wall", "-Wextra", "-Werror", "-static", "-no-pie", "-pthread")
    source = PROGRAMS / "c/fetched.c"
    subprocess.run(["gcc", *flags, "-o", program, source], check=True)
    return program


def place(
    program: Path,
    steps: Sequence[FetchStep] = (),
    data_bytes: int = 0,
    *,
    symbol: str = "probed",
    kind: PlaceKind = PlaceKind.ADDRESS,
    has_semaphore: bool = False,
) -> Place:
    """Return the place of the program at ``symbol``, which fetches by these steps."""
    address, offset = _symbol(program, symbol)
    return Place(
        kind,
        "probed",
        str(program),
        address,
        offset,
        Cost.EMULATED,
        Fetch(tuple(steps), data_bytes),
        semaphore=_symbol(program, "semaphore")[1] if has_semaphore else None,
    )


@functools.cache
def _symbol(program: Path, name: str) -> tuple[int, int]:
    """Return the address of a symbol, and its offset in the file."""
    with program.open("rb") as file:
        elf = ELFFile(file)
        symbols = elf.get_section_by_name(".symtab")
        assert isinstance(symbols, SymbolTableSection)
        [symbol] = symbols.get_symbol_by_name(name) or []
        [offset] = elf.address_offsets(symbol["st_value"])
        return symbol["st_value"], offset


class Passer(NamedTuple):
    """Who passed the place, and the program's semaphore then."""

    pid: int
    tid: int
    semaphore: int


class Fetched:
    """The running program, traced at ``places``; a context manager."""

    capture: FunctionCapture

    def __init__(
        self,
        program: Path,
        places: Sequence[Place],
        ring_bytes: int = 1 << 22,
        most_hits: int = 0,
        use: Use = Use.REPORT,
    ) -> None:
        self._program = program
        self._places = places
        self._ring_bytes = ring_bytes
        self._most_hits = most_hits
        self._use = use
        self._closing = ExitStack()
        self.process: Process

    def __enter__(self) -> Self:
        with ExitStack() as closing:
            self.process = closing.enter_context(started(self._program))
            self.capture = closing.enter_context(
                FunctionCapture(
                    self._places,
                    Scope(pids=(self.process.pid,)),
                    ring_bytes=self._ring_bytes,
                    most_hits=self._most_hits,
                    use=self._use,
                )
            )
            self._closing = closing.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def passes(self, how: str) -> tuple[list[Hit], Passer]:
        """Let the program pass its place; return the hits until it ended, and who passed."""
        passer = pass_place(self.process, how)
        events = [*self.capture.poll(0), *self.capture.poll(0)]
        return [each for each in events if isinstance(each, Hit)], passer

    def until_end(self) -> list[Hit | Exited]:
        """Let the program end; return what is still reported."""
        self.process.communicate()
        return list(self.capture.finish())


def pass_place(process: Process, how: str) -> Passer:
    """Let a program pass its place; return who passed it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(how + "\n")
    process.stdin.flush()
    return Passer(*map(int, process.stdout.readline().split()))
