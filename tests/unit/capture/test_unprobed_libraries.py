"""Libraries that are not probed are named once, their processes counted, and both bounded."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.capture.scope import Scope
from sslsniff.capture.unseen.unprobed_libraries import UnprobedLibraries
from sslsniff.core.process import Process
from sslsniff.kernel import procfs
from sslsniff.kernel.file_identity import identify
from sslsniff.matching.probe_set import Unprobed

NAMES = {4_194_305: "wget"}  # of processes that are gone
ROW = Unprobed("gnutls", "GnuTLS", "3.7.9", "no probes", "")
CAT = next(str(path) for path in map(Path, ("/usr/bin/cat", "/bin/cat")) if path.exists())


@pytest.fixture
def cat() -> Iterator[int]:
    """Return the number of a process with a file that is taken for one with a TLS library."""
    with subprocess.Popen([CAT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        yield process.pid
        process.kill()


def known(scope: Scope, *rows: Unprobed, path: str = CAT) -> UnprobedLibraries:
    made = UnprobedLibraries(scope, NAMES.get)
    made.add(identify(path)[0], path, rows or (ROW,))
    return made


def test_a_process_from_before_is_found(cat: int) -> None:
    """Of those that were asked for, and of nobody else."""
    watched = procfs.process(cat)
    assert watched is not None
    for scope in (
        Scope(pids=(cat,)),
        Scope(comms=("cat",)),
        Scope(comms=("cat",), uids=(watched.uid,)),
    ):
        unprobed = known(scope)
        assert list(unprobed.new_lines()) == []
        unprobed.find_processes()
        [line] = unprobed.new_lines()
        assert line.startswith("not probed: GnuTLS 3.7.9 in cat[")
        assert list(unprobed.new_lines()) == []
    for scope in (
        Scope(pids=(os.getpid(),), follows_children=False),
        Scope(comms=("none",)),
        Scope(pids=(cat,), uids=(4_000_000,)),
    ):
        unprobed = known(scope)
        unprobed.find_processes()
        assert unprobed.sums() == []


@pytest.mark.tools
def test_a_process_that_was_to_be_watched_may_be_gone(cat: int) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    unprobed = known(Scope(pids=(gone.pid, cat)))
    unprobed.find_processes()
    [found] = unprobed.sums()
    assert found.first is not None
    assert (found.first.pid, found.processes) == (cat, 1)


def test_processes_count_once(cat: int) -> None:
    unprobed = known(Scope(pids=(cat,)))
    unprobed.find_processes()
    for _ in range(2):
        unprobed.mapped(cat, CAT)
        unprobed.mapped(4_194_304, CAT)  # it is gone now
        unprobed.mapped(os.getpid(), CAT)  # sslsniff is not watched
        unprobed.mapped(cat, sys.executable)
        unprobed.mapped(cat, "/nonexistent")
    [found] = unprobed.sums()
    assert found.processes == 2


def test_one_that_is_gone_counts_if_it_was_watched() -> None:
    unprobed = known(Scope(comms=("wget",)))
    unprobed.mapped(4_194_304, CAT)
    assert unprobed.sums() == []
    unprobed.mapped(4_194_305, CAT)
    [found] = unprobed.sums()
    assert found.first == Process(4_194_305, "wget")


def test_a_library_that_was_asked_for_needs_no_process() -> None:
    [found] = known(Scope(libraries=(CAT,))).sums()
    assert (found.file, found.processes, found.first) == (CAT, 0, None)


def test_two_libraries_in_a_file_are_two(cat: int) -> None:
    other = ROW._replace(library="nss", name="NSS")
    unprobed = known(Scope(), ROW, other)
    unprobed.mapped(cat, CAT)
    assert [each.library for each in unprobed.sums()] == ["gnutls", "nss"]
    assert len(list(unprobed.new_lines())) == 2


@pytest.mark.parametrize(("is_whole_host", "counts"), [(True, [(2, 2)]), (False, [(1, 1), (1, 1)])])
def test_files_with_the_same_library(
    is_whole_host: bool, counts: list[tuple[int, int]], cat: int, tmp_path: Path
) -> None:
    """They are one on a whole host, where they may be many, and else as many as there are."""
    copy = tmp_path / "cat"
    copy.touch()
    unprobed = known(Scope() if is_whole_host else Scope(pids=(cat, 1)))
    unprobed.add(identify(str(copy))[0], str(copy), [ROW])
    unprobed.mapped(cat, CAT)
    unprobed.mapped(1, str(copy))
    assert [(each.files, each.processes) for each in unprobed.sums()] == counts


def test_a_file_that_changed_has_what_it_has_now(cat: int) -> None:
    unprobed = known(Scope(pids=(cat,)))
    unprobed.add(identify(CAT)[0], CAT, [])
    unprobed.mapped(cat, CAT)
    assert unprobed.sums() == []


@pytest.mark.heavy
def test_made_up_libraries_are_bounded(tmp_path: Path) -> None:
    """Somebody maps thousands of files that tell thousands of versions and reasons."""
    unprobed = UnprobedLibraries(Scope(pids=(1,)), NAMES.get)
    file = tmp_path / "file"
    for number in range(5000):
        file.unlink(missing_ok=True)
        file.touch()
        row = ROW._replace(version=str(number), reason="no probes " * 10)
        unprobed.add(identify(str(file))[0], f"{file}-{number}", [row])
        unprobed.mapped(1, str(file))
    found = unprobed.sums()
    assert len(found) <= 513
    assert sum(each.files for each in found) == 5000
    assert found[-1].reason == "there are more of them than sslsniff tells apart"
    assert found[-1].version is None


def test_processes_are_bounded(cat: int) -> None:
    """Beyond a thousand each that maps the file counts, even if it did before."""
    unprobed = known(Scope())
    for pid in range(4_194_304, 4_194_304 + 3000):
        unprobed.mapped(pid, CAT)
    [found] = unprobed.sums()
    assert found.processes == 3000
    [use] = unprobed._uses.values()
    assert len(use._pids) == 1024


def test_since_when_a_process_has_probes(cat: int) -> None:
    """That of its last library; a process that has ended may have had probes, or not."""
    unprobed = known(Scope())
    assert unprobed.probed_ns(cat) is None
    unprobed.find_processes()
    assert unprobed.probed_ns(4_194_305) == 0
    before_ns = time.monotonic_ns()
    unprobed.add_probed(identify(CAT)[0])
    probed_ns = unprobed.probed_ns(cat)
    assert probed_ns is not None
    assert before_ns <= probed_ns <= time.monotonic_ns()


def test_what_came_too_early_counts_apart() -> None:
    unprobed = UnprobedLibraries(Scope(), NAMES.get)
    for is_too_early in (True, False, True):
        unprobed.carries_tls(4_194_305, "wget", "wget", "to b:443", is_too_early=is_too_early)
    early, other = unprobed.sums()
    assert (early.connections, other.connections) == (2, 1)
    assert early.reason == "it passed before the process's library got its probes"
