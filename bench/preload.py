"""What a call costs a command under the preloaded library, beside probes and nobody.

Both ends of a connection are in one thread, and their bytes pass through memory: that thread has
one processor, and sslsniff, which captures to pcap, the other.
"""

import contextlib
import re
import shutil
import statistics
from collections.abc import Iterator
from pathlib import Path

from bench.loads import InMemory, MessageLoad, Messages, own_folder
from bench.rows import Row
from bench.sniffer import SSLSNIFF
from bench.watches import Cost
from sslsniff.kernel import procfs
from tests.workload.servers import Certificate

_MESSAGES = {64: 30_000, 1024: 20_000, 16384: 2_000}
_MOST_ADDED_NS = {64: 250, 1024: 250, 16384: None}
_ROUNDS = 5
_ALTERNATIONS = 10  # in each: the machine's speed changes from one second to the next
_LEAST_RATE = 85
_PACED, _PACED_RATE = 600_000, 300_000
_ENGINES = ("preload", "probes")
_LIBRARY = "libssl.so.3"
_LOST = re.compile(r"(\d+) bytes lost")


class _Watched:
    """A program under ``sslsniff -- COMMAND``; ``lost_bytes`` once it has ended."""

    lost_bytes = -1

    def __init__(self, folder: Path, engine: str) -> None:
        self.errors = folder / "errors.txt"
        capture = folder / "capture.pcapng"
        self.before = (SSLSNIFF, "--force", "--engine", engine, "--pcap", capture, "--")

    @contextlib.contextmanager
    def running(
        self, load: type[MessageLoad], folder: Path, certificate: Certificate
    ) -> Iterator[MessageLoad]:
        """Run a program from ``with`` to its end."""
        with self.errors.open("w") as errors:
            program = load(folder, certificate, before=self.before, stderr=errors)
            yield program
            program.end()
        found = _LOST.search(self.errors.read_text())
        if found is None:
            raise RuntimeError(self.errors.read_text())
        self.lost_bytes = int(found[1])


def measure() -> Iterator[Row]:
    """Start the program alone and by each engine, in alternation."""
    with own_folder() as (folder, certificate):
        costs = {load: _compare(load, folder, certificate) for load in (InMemory, Messages)}
        for size in _MESSAGES:
            probes = costs[InMemory]["probes", size]
            ours = costs[InMemory]["preload", size]
            note = f"probes {1000 * probes.added_us:,.0f} ns"
            bar = _MOST_ADDED_NS[size]
            yield Row(
                f"{size} B: preloaded, added to a call", 1000 * ours.added_us, "ns", bar, note
            )
        for size in _MESSAGES:
            probes, ours = (costs[Messages][engine, size] for engine in ("probes", "preload"))
            note = f"probes {100 * probes.rate:.0f} %"
            least = _LEAST_RATE if size == 1024 else None
            yield Row(
                f"{size} B between two threads: rate left",
                100 * ours.rate,
                "%",
                note=note,
                least=least,
            )
        for size in (64, 1024):
            watched = _Watched(folder, "preload")
            with watched.running(InMemory, folder, certificate) as program:
                seconds, _ = program.send(_PACED, size, _PACED_RATE)
            note = f"{_PACED / seconds:,.0f} messages a second, each written and read"
            yield Row(
                f"{size} B at 300,000 a second: bytes lost", watched.lost_bytes, "bytes", 0, note
            )


def _with_own_library(folder: Path) -> tuple[str, ...]:
    """Return a command that runs a program with a copy of OpenSSL, which no probe is in.

    A probe stops all programs that use the file; whom it is not for, pays for that, too.
    """
    copies = folder / "own"
    copies.mkdir(exist_ok=True)
    shutil.copy(dict(procfs.libraries())[_LIBRARY], copies / _LIBRARY)
    return ("env", f"LD_LIBRARY_PATH={copies}")


def _compare(
    load: type[MessageLoad], folder: Path, certificate: Certificate
) -> dict[tuple[str, int], Cost]:
    """Return the medians of what each engine changes, by its name and the size of messages."""
    seen: dict[tuple[str, int], list[Cost]] = {}
    with load(folder, certificate, before=_with_own_library(folder)) as alone:
        for _ in range(_ROUNDS):
            for engine in _ENGINES:
                with _Watched(folder, engine).running(load, folder, certificate) as watched:
                    for size, count in [*_MESSAGES.items()] * _ALTERNATIONS:
                        before_s, _ = alone.send(count, size)
                        seconds, calls = watched.send(count, size)
                        after_s, _ = alone.send(count, size)
                        alone_s = (before_s + after_s) / 2
                        cost = Cost(alone_s / seconds, 1e6 * (seconds - alone_s) / calls)
                        seen.setdefault((engine, size), []).append(cost)
    return {
        key: Cost(*(statistics.median(each) for each in zip(*costs, strict=True)))
        for key, costs in seen.items()
    }
