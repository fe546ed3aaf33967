"""The parts of a file: each TLS library in it, with the probes that belong there."""

from enum import Enum
from typing import NamedTuple

from sslsniff.machine_code.probe_sites import Cost
from sslsniff.probing.object_layout import ObjectLayout
from sslsniff.probing.plans.rustls_ciphers import RustlsLayout


class ReturnStyle(Enum):
    """How returns are seen: by probes on instructions, or by the kernel's return probes.

    A return probe puts a trampoline's address in the place of the return address. The kernel
    expects that calls of a thread return in the order in which they began: else the program dies
    of SIGILL (kernel/events/uprobes.c, uprobe_handle_trampoline). So a program dies that switches
    coroutines inside a call.

    PLAIN_INSTRUCTIONS: where BPF programs get no attach cookie, and so find values only where the
    calling convention has them.
    """

    TRAMPOLINE = "trampoline"
    INSTRUCTIONS = "instructions"
    PLAIN_INSTRUCTIONS = "plain-instructions"


class Probe(NamedTuple):
    """A BPF program and the file offset where it is attached; ``is_return``: as a return probe.

    ``convention`` says where the program finds the values of the call: see ``conventions``.
    """

    program: str
    offset: int
    is_return: bool
    cost: Cost
    convention: int = 0


class ProbedLibrary(NamedTuple):
    """One TLS library in a file: its probes, and where its objects keep what.

    ``version`` is the library's, as far as that decides the layout; ``read_as`` is another whose
    layout is used, as that of this one is not known. ``tls_version`` (as on the wire) is that of
    all of the part's connections, None: they tell.
    """

    library: str
    probes: tuple[Probe, ...]
    layout: ObjectLayout | RustlsLayout
    version: str | None = None
    read_as: str | None = None
    tls_version: int | None = None

    def __str__(self) -> str:
        name = self.library if self.version is None else f"{self.library} {self.version}"
        return name if self.read_as is None else f"{name} (read as {self.read_as})"

    def places(self) -> dict[tuple[str, bool], list[Probe]]:
        """Return the programs, each with whether it is for returns -> its probes."""
        places: dict[tuple[str, bool], list[Probe]] = {}
        for probe in self.probes:
            places.setdefault((probe.program, probe.is_return), []).append(probe)
        return places


class Unprobed(NamedTuple):
    """A TLS library in a file that is not probed, why not, and what to do about it, if anything.

    ``library`` is what programs call it, ``name`` what people do.
    """

    library: str
    name: str
    version: str | None
    reason: str
    remedy: str = ""

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name} {self.version}"


class UnfitError(Exception):
    """A probe does not fit a file; says why."""
