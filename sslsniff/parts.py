"""The parts of a file: each TLS library in it, with the probes that belong there."""

from enum import Enum
from typing import NamedTuple

from sslsniff.layout import SslLayout
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
    """One TLS library in a file: its probes, and where its objects keep what."""

    library: str
    probes: tuple[Probe, ...]
    layout: SslLayout

    def places(self) -> dict[tuple[str, bool], list[int]]:
        """Return the programs, each with whether it is for returns -> its file offsets."""
        places: dict[tuple[str, bool], list[int]] = {}
        for probe in self.probes:
            places.setdefault((probe.program, probe.is_return), []).append(probe.offset)
        return places


class UnfitError(Exception):
    """A probe does not fit a file; says why."""
