"""Probes are where the plan says and go away, however the kernel attaches them."""

import collections
import contextlib
import itertools
import os
import re
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from sslsniff.capture.capture import LiveCapture
from sslsniff.capture.early_files import EarlyFiles
from sslsniff.capture.maps import Tables
from sslsniff.capture.probes import Probes
from sslsniff.capture.scope import Scope
from sslsniff.core.errors import KernelError
from sslsniff.kernel.loaders import uprobe_multi
from sslsniff.kernel.loaders.libbpf import LibbpfLoader
from sslsniff.kernel.loaders.loader import Loader
from sslsniff.matching.probe_set import Attachment
from tests.live.memory import breakpoints
from tests.planned import plan_file
from tests.workload.processes import PATIENCE_S, started

RING_BYTES = 4 << 20
COPIES = 6
TIMES_FASTER = 6
MOST_VERIFIED = 70_000
LOAD = "import ctypes, sys; [ctypes.CDLL(each) for each in sys.argv[1:]]; print(); input()"


@pytest.fixture
def libraries(own_library: Path) -> list[Path]:
    names = [own_library.with_name(f"libssl-{index}.so") for index in range(COPIES)]
    return [Path(shutil.copy(own_library, name)) for name in names]


@pytest.fixture
def pid(libraries: list[Path]) -> Iterator[int]:
    with started(sys.executable, "-c", LOAD, *map(str, libraries)) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid


def capturing(
    libraries: list[Path],
    note: Callable[[str], None] = pytest.fail,
    load: Callable[[], Loader] = lambda: LibbpfLoader(RING_BYTES),
) -> LiveCapture:
    scope = Scope(libraries=tuple(map(str, libraries)))
    files = EarlyFiles(scope)
    return LiveCapture(files, load, ring_bytes=RING_BYTES, call_limit_bytes=1, note=note)


@pytest.mark.parametrize("by_multi_links", [True, False])
def test_probes_come_and_go(
    by_multi_links: bool, libraries: list[Path], pid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert uprobe_multi.is_supported()
    if not by_multi_links:  # as before kernel 6.6
        monkeypatch.setattr(uprobe_multi, "is_supported", lambda: False)
        del libraries[1:]
    plan = plan_file(str(libraries[0]))
    assert isinstance(plan, Attachment)
    with capturing(libraries) as capture:
        for library in libraries:
            assert breakpoints(pid, library) == {each.offset for each in plan.probes}
        count = len(plan.probes) * len(libraries)
        files = "1 file" if len(libraries) == 1 else f"{len(libraries)} files"
        assert capture.describe() == f"watching {files} with {count} probes"
    for library in libraries:
        assert breakpoints(pid, library) == set()
    assert len(plan.probes) * COPIES > 50


@pytest.mark.heavy
def test_multi_links_go_fast(libraries: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each link is waited for, not each probe; a busy machine is slow at both."""

    def detached_s() -> float:
        with capturing(libraries):
            began = time.monotonic()
        return time.monotonic() - began

    fast_s = detached_s()
    monkeypatch.setattr(uprobe_multi, "is_supported", lambda: False)
    assert fast_s * TIMES_FASTER < detached_s()


@pytest.fixture
def _few_files() -> Iterator[None]:
    """Allow 20 more open files, unless the limit is raised."""
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = {int(each.name) for each in Path("/proc/self/fd").iterdir()}
    free = (number for number in itertools.count() if number not in taken)
    few = next(itertools.islice(free, 20, None))
    resource.setrlimit(resource.RLIMIT_NOFILE, (few, usual[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, usual)


@pytest.mark.usefixtures("_few_files")
def test_many_files_need_no_ulimit(libraries: list[Path], pid: int) -> None:
    with capturing(libraries):
        assert all(breakpoints(pid, library) for library in libraries)


def test_what_the_verifier_looks_at() -> None:
    """It takes half of a start: in instructions, which are the same on each run, 64,000 on 6.18."""
    before = verified_instructions()
    loader = LibbpfLoader(RING_BYTES)
    assert 0 < verified_instructions() - before < MOST_VERIFIED
    loader.close()


def verified_instructions() -> int:
    """Return how many instructions the kernel looked at for the programs that are open here."""
    infos = [each.read_text() for each in Path("/proc/self/fdinfo").iterdir() if each.exists()]
    return sum(
        int(each) for info in infos for each in re.findall(r"^verified_insns:\s(\d+)", info, re.M)
    )


@contextlib.contextmanager
def ticking() -> Iterator[list[int]]:
    """Yield the signals of a timer that come meanwhile: one each millisecond."""
    ticks: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: ticks.append(number))
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        yield ticks
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_programs_are_loaded_while_signals_come() -> None:
    """As at the end of a capture; the verifier takes longer than from one to the next."""
    with ticking() as ticks:
        LibbpfLoader(RING_BYTES, loads_all=True).close()
    assert ticks


@pytest.mark.parametrize("by_multi_links", [True, False])
def test_a_refused_probe_names_its_file(
    by_multi_links: bool, own_library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not by_multi_links:
        monkeypatch.setattr(uprobe_multi, "is_supported", lambda: False)
    loader = LibbpfLoader(RING_BYTES)
    plan = plan_file(str(own_library))
    assert isinstance(plan, Attachment)
    [part] = plan.parts
    beyond = part._replace(probes=tuple(each._replace(offset=1 << 40) for each in part.probes))
    notes: list[str] = []
    probes = Probes(loader, Tables(loader), ["unknown"], notes.append)
    with own_library.open("rb") as file:
        assert not probes.attach(str(own_library), file.fileno(), (beyond,))
    probes.detach()
    loader.close()
    [note] = notes
    assert re.fullmatch(
        rf"{own_library}: cannot attach \w+ at 0x10000000000.* \(.+\): run sslsniff doctor", note
    )


def test_a_file_that_was_refused_is_probed_when_it_changed(libraries: list[Path]) -> None:
    """Nothing holds it: a later one in its place, or with its number, is another."""
    good, changing, *_ = libraries
    content = changing.read_bytes()
    notes: list[str] = []
    for each in (good, changing):
        plan_file(str(each))  # what is remembered is known before the programs are loaded

    def load() -> Loader:
        os.truncate(changing, 0)
        return LibbpfLoader(RING_BYTES)

    with capturing([good, changing], notes.append, load) as capture:
        assert capture.describe().startswith("watching 1 file ")
        [refused] = notes
        assert refused.startswith(f"{changing}: cannot attach ")
        changing.write_bytes(content)
        with started(sys.executable, "-c", LOAD, changing) as process:
            assert process.stdout is not None
            process.stdout.readline()
            deadline = time.monotonic() + PATIENCE_S
            while not breakpoints(process.pid, changing) and time.monotonic() < deadline:
                collections.deque(capture.poll(0.1), maxlen=0)
    assert notes[1:] == [f"{changing} was loaded by process {process.pid}: watched from now on"]


def test_a_part_whose_last_probe_is_refused_has_none(libraries: list[Path], pid: int) -> None:
    loader = LibbpfLoader(RING_BYTES)
    plan = plan_file(str(libraries[0]))
    assert isinstance(plan, Attachment)
    [part] = plan.parts
    *first, last = part.probes
    beyond = part._replace(probes=(*first, last._replace(offset=1 << 40)))
    notes: list[str] = []
    probes = Probes(loader, Tables(loader), ["unknown"], notes.append)
    with libraries[0].open("rb") as file:
        assert probes.attach(str(libraries[0]), file.fileno(), (beyond, part))
        assert (probes.files, probes.count, len(notes)) == (1, len(part.probes), 1)
        assert breakpoints(pid, libraries[0]) == {each.offset for each in part.probes}
        probes.detach()
        assert not probes.attach(str(libraries[0]), file.fileno(), (beyond,))
        assert breakpoints(pid, libraries[0]) == set()
    loader.close()


def test_a_full_table_is_told_with_a_remedy() -> None:
    loader = LibbpfLoader(RING_BYTES)
    full = "the kernel's table of uids is full: name fewer to watch"
    uids = (uid.to_bytes(4, "little") for uid in range(1 << 20))

    def fill() -> None:
        for uid in uids:
            loader.update("uids", uid, bytes(4))

    with pytest.raises(KernelError, match=f"^{full}$"):
        fill()
    loader.close()
