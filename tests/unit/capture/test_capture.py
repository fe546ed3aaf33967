"""Reading the ring: what waits is read whole, what comes meanwhile may wait."""

import contextlib
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn, cast

import pytest

from sslsniff.capture.capture import LiveCapture
from sslsniff.capture.early_files import EarlyFiles
from sslsniff.capture.maps import Tables
from sslsniff.capture.process_containers import ProcessContainers
from sslsniff.capture.record_events import RecordEvents
from sslsniff.capture.scope import Scope
from sslsniff.capture.unseen.unprobed_libraries import UnprobedLibraries
from sslsniff.core import wire
from sslsniff.core.events import EventKind
from sslsniff.core.fast_path import FastPath
from sslsniff.kernel.loaders.loader import Loader
from sslsniff.kernel.ring_buffer import LARGEST_RECORD_BYTES, PollPacing, Ring
from tests.unit.kernel.ring import laid_out

RING_BYTES = 1 << 16


def ring_of(records: list[bytes], path: Path) -> Ring:
    """Return a ring in a file, laid out as the kernel lays it out in memory."""
    laid = laid_out(records)
    page = mmap.PAGESIZE
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    os.truncate(fd, 2 * page + RING_BYTES + LARGEST_RECORD_BYTES)
    os.pwrite(fd, laid.end.to_bytes(8, "little"), page)
    os.pwrite(fd, laid.data, 2 * page)
    return Ring(fd, RING_BYTES)


def unloaded() -> NoReturn:
    raise AssertionError


def records_of(count: int) -> list[bytes]:
    return [
        wire.DATA.pack(EventKind.DATA, 1, 0, 70, number, 1, 1000 * number, 1000, 1000, 0)
        + bytes(1000)
        for number in range(count)
    ]


def events_of_plaintext() -> RecordEvents:
    """Return what turns records of plaintext alone into events: it needs no map of a program."""
    tables = Tables(cast(Loader, None))
    containers = ProcessContainers(None, tables.decide_cgroup)
    unprobed = UnprobedLibraries(Scope(), tables.name)
    return RecordEvents([], FastPath(), tables, containers, unprobed, 0, 0, None)


@contextlib.contextmanager
def capturing(ring: Ring) -> Iterator[LiveCapture]:
    capture = LiveCapture(
        EarlyFiles(Scope()), unloaded, ring_bytes=RING_BYTES, call_limit_bytes=1000, note=print
    )
    capture._records = ring
    capture._events = events_of_plaintext()
    yield capture
    ring.close()
    os.close(ring.fd)


def test_all_that_waits_is_read_however_little_may_be_left(tmp_path: Path) -> None:
    """What halves wait for may be in it, and it may have waited for long."""
    records = records_of(40)
    with capturing(ring_of(records, tmp_path / "ring")) as capture:
        assert len(list(capture._drain(1 << 20, RING_BYTES))) == len(records)
        assert capture._records.waiting_bytes == 0


@pytest.mark.parametrize(("count", "delays"), [(0, 4), (1, 4), (2, 1), (40, 1)])
def test_delays_are_over_when_enough_has_come(
    count: int, delays: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    with capturing(ring_of(records_of(count), tmp_path / "ring")) as capture:
        PollPacing().wait(capture._records, 2000)
    assert slept == [0.002] * delays


def test_who_only_captures_does_not_import_what_makes_plans() -> None:
    """They take 60 ms and 10 MB; a start with cached plans needs none of them."""
    program = (
        "import sys\n"
        "from sslsniff.cli import watch, chosen_sinks, pump\n"
        "from sslsniff.capture import capture, early_files\n"
        "print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    imported = done.stdout.decode().split()
    assert "sslsniff.analysis.result_cache" in imported
    assert {"capstone", "elftools", "sslsniff.analysis.attachments"}.isdisjoint(imported)


def test_a_plain_capture_imports_nothing_of_traces() -> None:
    """They would take time at its start, and memory while it runs."""
    code = (
        "import sys\n"
        "import sslsniff.cli.watch, sslsniff.cli.chosen_sinks, sslsniff.cli.pump\n"
        "import sslsniff.capture.capture, sslsniff.capture.seen_files\n"
        "import sslsniff.forms.json.json_lines\n"
        "words = ('.functions.', '.calls', '.dwarf', 'elftools')\n"
        "found = [name for name in sys.modules if any(word in name for word in words)]\n"
        "print([name for name in found if not name.endswith('.options')])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
