"""Runs several ``sslsniff decode`` of one group, and says what they found together."""

import contextlib
import json
import subprocess
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.workload.kafka.broker import Broker

FAST_TO_MISS = "session.timeout.ms=6000\nheartbeat.interval.ms=1000\n"
"""So that a killed consumer is missed after 6 s: the least that a broker allows by itself."""


class Consumers:
    """Consumers of ``topic``, each with an output of its own in ``folder``."""

    def __init__(self, sslsniff: Sequence[str | Path], broker: Broker, topic: str, folder: Path):
        self.running: list[subprocess.Popen[str]] = []
        self._folder = folder
        self._started = 0
        properties = folder / "kafka.properties"
        properties.write_text(FAST_TO_MISS)
        self._command = [
            *(*sslsniff, "decode", "--kafka", broker.address, "--topic", topic, "--group", topic),
            *("--kafka-properties", properties, "--until-end", "--json", "-o"),
        ]

    def start(self) -> "subprocess.Popen[str]":
        """Start one more."""
        output = self._folder / f"{self._started}.jsonl"
        self._started += 1
        process = subprocess.Popen([*self._command, output], stderr=subprocess.PIPE, text=True)
        self.running.append(process)
        return process

    def kill_one(self) -> None:
        """End the one that runs longest, by SIGKILL."""
        process = self.running.pop(0)
        process.kill()
        process.communicate()

    def wait(self, timeout_s: float) -> list[str]:
        """Wait until all have ended, and return what each said."""
        until_s = time.monotonic() + timeout_s
        said = []
        for process in self.running:
            said.append(process.communicate(timeout=max(1, until_s - time.monotonic()))[1])
            assert process.returncode == 0, said[-1]
        self.running.clear()
        return said

    @property
    def written_bytes(self) -> int:
        """How much all have written so far."""
        return sum(file.stat().st_size for file in self._folder.glob("*.jsonl"))

    def found(self) -> "Found":
        """Return what is in all outputs together."""
        return exchanges_in(*self._folder.glob("*.jsonl"))

    def end(self) -> None:
        """Kill those that run still."""
        for process in self.running:
            process.kill()
            process.communicate()


@contextlib.contextmanager
def consumers(
    sslsniff: Sequence[str | Path], broker: Broker, topic: str, folder: Path
) -> Iterator[Consumers]:
    """Yield ``Consumers``; at the end none runs."""
    found = Consumers(sslsniff, broker, topic, folder)
    try:
        yield found
    finally:
        found.end()


class Found(NamedTuple):
    """How often each exchange is there, and how many lines came a second time (``place``)."""

    exchanges: Counter[str]
    repeated: int


def exchanges_in(*outputs: Path) -> Found:
    """Return the exchanges in outputs of ``--json``, without what names machine and place."""
    found: Counter[str] = Counter()
    places: set[str] = set()
    repeated = 0
    for line in _lines(outputs):
        shown = json.loads(line)
        shown.pop("machine", None)
        place = shown.pop("place", None)
        if place in places:
            repeated += 1
            continue
        if place is not None:
            places.add(place)
        shown["connection"] = shown["connection"].rpartition("/")[2]
        found[json.dumps(shown)] += 1
    return Found(found, repeated)


def _lines(outputs: Iterable[Path]) -> Iterator[str]:
    """Yield the lines of exchanges. A killed consumer may have left the last one cut off."""
    for output in outputs:
        with output.open() as file:
            for line in file:
                if line.startswith('{"type":"exchange"') and line.endswith("\n"):
                    yield line
