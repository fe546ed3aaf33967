"""The parts of a file: each TLS library in it, with the probes that belong there."""

from enum import Enum
from typing import NamedTuple

from sslsniff.layout import SslLayout
from sslsniff.plans.rustls import RustlsLayout
from sslsniff.sites import Cost


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


class Part(NamedTuple):
    """One TLS library in a file: its probes, and where its objects keep what.

    ``version`` is the library's, as far as that decides the layout; ``read_as`` is another whose
    layout is used, as that of this one is not known. ``tls_version`` (as on the wire) is that of
    all of the part's connections, None: they tell.
    """

    library: str
    probes: tuple[Probe, ...]
    layout: SslLayout | RustlsLayout
    version: str | None = None
    read_as: str | None = None
    tls_version: int | None = None

    def __str__(self) -> str:
        name = self.library if self.version is None else f"{self.library} {self.version}"
        return name if self.read_as is None else f"{name} (read as {self.read_as})"

    def places(self) -> dict[tuple[str, bool], list[int]]:
        """Return the programs, each with whether it is for returns -> its file offsets."""
        places: dict[tuple[str, bool], list[int]] = {}
        for probe in self.probes:
            places.setdefault((probe.program, probe.is_return), []).append(probe.offset)
        return places


class UnfitError(Exception):
    """A probe does not fit a file; says why."""
