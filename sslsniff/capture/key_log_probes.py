"""Probes where TLS libraries hand over their secrets."""

from collections.abc import Callable

from sslsniff.capture.secret_fetch import fetch_secret, read_secret
from sslsniff.core.logged_secret import LoggedSecret
from sslsniff.core.wire import is_hit
from sslsniff.fetching.fetch_tables import FetchTables, Use, probed_place
from sslsniff.fetching.hit_records import parse_hit
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.kernel.loaders.loader import Detach, Loader
from sslsniff.kernel.probe_safety.place_check import UNSAFE_NOP, unsafe_offsets
from sslsniff.kernel.regular_files import descriptor_path
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.matching.probe_set import KeyLog, KeyLogPlace, ProbedLibrary

MOST_PLACES = 1024
"""As many as there are layouts of libraries: ``maps.MOST_LAYOUTS``."""


class KeyLogProbes:
    """Probes the key logs of libraries in the processes that a capture of TLS watches.

    ``first``: how many places of other probes there are.
    """

    def __init__(self, first: int = 0) -> None:
        self.writers: list[Callable[[LoggedSecret, int], None]] = []
        """They get each secret, and the number of its process; set before records are read."""
        self.unreadable = 0
        """How many secrets could not be read."""
        self._first = self._next = first
        self.missing: dict[str, str] = {}
        """A line for the user about each library whose secrets are not all seen, by its name."""

    @property
    def entries(self) -> dict[str, int]:
        """How many entries maps need, by name: set before the programs are loaded."""
        most = self._first + MOST_PLACES
        return {"fetches": most, "counts": most}

    def attach(self, loader: Loader, library: ProbedLibrary, path: str, file: int) -> list[Detach]:
        """Probe the key log of a library in the open ``file``; what it lacks is in ``missing``.

        Raises ``SslsniffError``.
        """
        places, missing = library.key_log or KeyLog(())
        if unsafe_offsets(descriptor_path(file), [each.offset for each in places]):
            places, missing = (), UNSAFE_NOP
        if self._next + len(places) > self._first + MOST_PLACES:
            places, missing = (), "too many files have some"
        if missing:
            self.missing[library.library] = f"not all secrets of {path}: {missing}"
        return [self._attach(loader, each, path, file) for each in places]

    def _attach(self, loader: Loader, where: KeyLogPlace, path: str, file: int) -> Detach:
        fetch = fetch_secret(where)
        place = Place(PlaceKind.ADDRESS, "key log", path, 0, where.offset, Cost.STEPPED, fetch)
        probed = probed_place(place, Use.REPORT)
        index, self._next = self._next, self._next + 1
        FetchTables(loader).write(index, probed, 0)
        return loader.attach_uprobes(
            probed.program,
            descriptor_path(file),
            [where.offset],
            is_return=False,
            cookies=[index],
        )

    def handle(self, record: memoryview, clock_offset_ns: int) -> bool:
        """Handle a record if it is a hit of a key log; return whether it was one."""
        if not is_hit(record):
            return False
        hit = parse_hit(record, clock_offset_ns)
        if hit.place < self._first:
            return False
        secret = read_secret(hit.data, hit.failed)
        if secret is None:
            self.unreadable += 1
        else:
            for write in self.writers:
                write(secret, hit.pid)
        return True
