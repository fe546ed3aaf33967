"""The result of a plan: each TLS library in a file, with its probes or the reason for none."""

from enum import Enum
from typing import NamedTuple

from sslsniff.machine_code.probe_sites import Cost
from sslsniff.matching.key_log.chains import Chain
from sslsniff.matching.object_layout import CheckedLayout, ObjectLayout


class ReturnStyle(Enum):
    """How returns are seen.

    ``TRAMPOLINE``: the kernel's return probes see them, and replace the return address by that of a
    trampoline. The kernel expects that the last call to begin is the first to return, else the
    program dies of SIGILL (kernel/events/uprobes.c, uprobe_handle_trampoline). So a program dies
    that switches coroutines inside a call.
    ``INSTRUCTIONS``: probes on instructions see them.
    ``PLAIN_INSTRUCTIONS``: the same for BPF programs without attach cookies, which find values only
    where the calling convention has them.
    """

    TRAMPOLINE = "trampoline"
    INSTRUCTIONS = "instructions"
    PLAIN_INSTRUCTIONS = "plain-instructions"


class Probe(NamedTuple):
    """A BPF program and the file offset where it is attached.

    ``is_return``: it is attached as a return probe of the kernel.
    ``convention``: where the program finds the values of the call: ``machine_code.conventions``.
    """

    program: str
    offset: int
    is_return: bool
    cost: Cost
    convention: int = 0


class KeyLogPlace(NamedTuple):
    """Where a library hands over a secret, whether a key log is wanted or not.

    ``offset``: the place in the file. The others: what leads to the values there. ``label_size`` is
    None where a zero byte ends the label.
    """

    offset: int
    label: Chain
    label_size: Chain | None
    random: Chain
    secret: Chain
    size: Chain


class KeyLog(NamedTuple):
    """Where the secrets of a library are seen, and why not all; "" if all are."""

    places: tuple[KeyLogPlace, ...]
    missing: str = ""


class ProbedLibrary(NamedTuple):
    """One TLS library in a file: its probes, and the layout of its objects.

    ``version``: the library's, as far as it decides the layout.
    ``read_as``: the version whose layout is used instead, because this one's is not known.
    ``tls_version``: the version of all its connections on the wire; None: their objects have it.
    ``found_by``: how its functions were identified; None: in the usual way of this library.
    ``key_log``: where its secrets can be seen; None: that was not asked for.
    """

    library: str
    probes: tuple[Probe, ...]
    layout: ObjectLayout | CheckedLayout
    version: str | None = None
    read_as: str | None = None
    tls_version: int | None = None
    found_by: str | None = None
    key_log: KeyLog | None = None

    def __str__(self) -> str:
        name = self.library if self.version is None else f"{self.library} {self.version}"
        return name if self.read_as is None else f"{name} (read as {self.read_as})"

    def places(self) -> dict[tuple[str, bool], list[Probe]]:
        """Return (program, is_return) -> the probes with both."""
        places: dict[tuple[str, bool], list[Probe]] = {}
        for probe in self.probes:
            places.setdefault((probe.program, probe.is_return), []).append(probe)
        return places


class Unprobed(NamedTuple):
    """A TLS library in a file that is not probed, with the reason and perhaps a remedy.

    ``library`` is its name for programs, ``name`` the one for people.
    ``is_runtime``: the file is a virtual machine, whose programs may use another library instead.
    """

    library: str
    name: str
    version: str | None
    reason: str
    remedy: str = ""
    is_runtime: bool = False

    def __str__(self) -> str:
        return self.name if self.version is None else f"{self.name} {self.version}"


class UnfitError(Exception):
    """A probe does not fit a file; the text says why."""


TRAMPOLINE_REMEDY = (
    "capture it with --returns trampoline, unless it switches coroutines inside of calls"
)
"""What helps if only ``ReturnStyle.TRAMPOLINE`` fits."""


class ReturnStyleError(UnfitError):
    """The probes need ``ReturnStyle.INSTRUCTIONS``: attach cookies say where their values are."""

    remedy = "use a newer kernel, or leave --returns out"

    def __init__(self) -> None:
        super().__init__("its probes need Linux 5.15 and --returns instructions")


class Attachment(NamedTuple):
    """The probes of a file.

    ``parts``: the TLS libraries in the file that are probed.
    ``left_out``: a line for each optional probe that does not fit, with the reason.
    ``debug_file``: the path of the debug file with the symbols, if the file has none itself.
    ``unprobed``: the other TLS libraries in the file.
    """

    path: str
    build_id: str | None
    parts: tuple[ProbedLibrary, ...]
    left_out: tuple[str, ...] = ()
    debug_file: str | None = None
    unprobed: tuple[Unprobed, ...] = ()

    @property
    def probes(self) -> tuple[Probe, ...]:
        """The probes of all libraries."""
        return tuple(probe for library in self.parts for probe in library.probes)

    @property
    def offsets(self) -> tuple[int, ...]:
        """The file offsets of all places that may be probed."""
        logs = (each.key_log for each in self.parts if each.key_log is not None)
        secrets = (place.offset for each in logs for place in each.places)
        return (*(each.offset for each in self.probes), *secrets)


class Refusal(NamedTuple):
    """Why a file gets no probes, and perhaps a remedy.

    ``is_tls``: the file has, or may have, a TLS library: then users see the reason.
    ``unprobed``: the TLS libraries in the file.
    ``debug_file``: see ``Attachment``.
    """

    reason: str
    is_tls: bool = False
    remedy: str = ""
    unprobed: tuple[Unprobed, ...] = ()
    debug_file: str | None = None
