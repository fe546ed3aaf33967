"""Probes where TLS libraries hand over their secrets."""

from collections.abc import Callable

from sslsniff.kernel.loaders.loader import Detach, Loader
from sslsniff.kernel.regular_files import descriptor_path
from sslsniff.live.functions.fetch_tables import FetchTables, Use, probed_place
from sslsniff.live.functions.hit_records import parse_hit
from sslsniff.live.wire import is_hit
from sslsniff.machine_code.probe_sites import Cost
from sslsniff.probing.functions.trace_places import Place, PlaceKind
from sslsniff.probing.key_log.secret_fetch import LoggedSecret, fetch_secret, read_secret
from sslsniff.probing.probe_set import KeyLogPlace, ProbedLibrary

MOST_PLACES = 1024
"""As many as there are layouts of libraries: ``maps.MOST_LAYOUTS``."""


class KeyLogProbes:
    """Probes the key logs of libraries in the processes that a capture of TLS watches.

    ``note``: called with lines for the user. ``first``: how many places of other probes there are.
    """

    def __init__(self, note: Callable[[str], None], first: int = 0) -> None:
        self.writers: list[Callable[[LoggedSecret, int], None]] = []
        """They get each secret, and the number of its process; set before records are read."""
        self.unreadable = 0
        """How many secrets could not be read."""
        self._note = note
        self._first = self._next = first
        self._said: set[str] = set()

    @property
    def entries(self) -> dict[str, int]:
        """How many entries maps need, by name: set before the programs are loaded."""
        most = self._first + MOST_PLACES
        return {"fetches": most, "counts": most}

    def attach(self, loader: Loader, library: ProbedLibrary, path: str, file: int) -> Detach | None:
        """Probe the key log of a library in the open ``file``; None: it has none, which is noted.

        Raises ``SslsniffError``.
        """
        where = library.key_log
        if not isinstance(where, KeyLogPlace) or self._next == self._first + MOST_PLACES:
            self._say(f"no secrets from {path}: {where or 'too many files have some'}")
            return None
        fetch = fetch_secret(where, library.library)
        place = Place(PlaceKind.ENTRY, "key log", path, 0, where.offset, Cost.STEPPED, fetch)
        probed = probed_place(place, Use.REPORT)
        FetchTables(loader).write(self._next, probed, 0)
        self._next += 1
        return loader.attach_uprobes(
            probed.program,
            descriptor_path(file),
            [where.offset],
            is_return=False,
            cookies=[self._next - 1],
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

    def _say(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            self._note(line)
