"""What a call of the library costs under several watches: one program, one run, in alternation."""

import contextlib
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.loads import MessageLoad
from bench.sniffer import Running

_ROUNDS = 5


class Watch:
    """Nobody watches: what a tool overrides."""

    name = "nobody"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextlib.contextmanager
    def on(self, program: MessageLoad) -> Iterator[None]:
        """Watch the program, from ``with`` to its end."""
        yield


class Sslsniff(Watch):
    """Captures every byte to a file, with some options."""

    def __init__(self, folder: Path, *options: str, name: str = "sslsniff") -> None:
        super().__init__(folder)
        self.name = name
        self.lost_bytes = 0
        self._options = options

    @contextlib.contextmanager
    def on(self, program: MessageLoad) -> Iterator[None]:
        """See ``Watch``."""
        capture = self.folder / "capture.pcapng"
        pid = str(program.pid)
        sniffer = Running("--force", "--pcap", capture, "--pid", pid, *self._options)
        yield
        self.lost_bytes += sniffer.stop_whole()[1]


class Cost(NamedTuple):
    """Medians of what a watch changes."""

    rate: float
    """Messages a second, of those sent while nobody watched."""

    added_us: float
    """Microseconds that a call of the library took longer."""


def compare(
    program: MessageLoad, watches: Sequence[Watch], messages: Mapping[int, int]
) -> dict[tuple[str, int], Cost]:
    """Return what each watch costs, by its name and the size of messages.

    ``messages`` are sizes in bytes -> how many of them are sent in a round.
    """
    seen: dict[tuple[str, int], list[Cost]] = {}
    _send(program, messages)  # the first run is slower
    for _ in range(_ROUNDS):
        for watch in watches:
            before = _send(program, messages)
            with watch.on(program):
                watched = _send(program, messages)
            after = _send(program, messages)
            for size, (seconds, calls) in watched.items():
                alone_s = (before[size][0] + after[size][0]) / 2
                cost = Cost(alone_s / seconds, 1e6 * (seconds - alone_s) / calls)
                seen.setdefault((watch.name, size), []).append(cost)
    return {
        key: Cost(*(statistics.median(each) for each in zip(*costs, strict=True)))
        for key, costs in seen.items()
    }


def _send(program: MessageLoad, messages: Mapping[int, int]) -> dict[int, tuple[float, int]]:
    return {size: program.send(count, size) for size, count in messages.items()}
