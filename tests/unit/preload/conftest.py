"""A capture of rings that a test writes itself."""

import subprocess
from collections.abc import Iterator

import pytest

from sslsniff.kernel.memory.ring_set import RingSet
from sslsniff.preload.preload_capture import PreloadCapture
from sslsniff.preload.unseen_libraries import UnseenLibraries
from tests.unit.kernel.memory.ring_writer import Writer


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def rings() -> RingSet:
    return RingSet(1 << 22, 1 << 20)


@pytest.fixture
def writer(rings: RingSet) -> Writer:
    return Writer(rings)


@pytest.fixture
def capture(rings: RingSet, notes: list[str]) -> Iterator[PreloadCapture]:
    command = subprocess.Popen(["sleep", "60"])
    made = PreloadCapture(
        rings,
        command.pid,
        note=notes.append,
        unseen=UnseenLibraries(notes.append),
    )
    yield made
    made.close()
    command.kill()
    command.wait()
