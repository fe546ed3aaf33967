"""Which files are looked at to be probed, and when again."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.analysis import plan_cache
from sslsniff.analysis.planning import Planning
from sslsniff.capture.planner import Planned, Planner
from tests import libraries
from tests.unit.analysis.waiting import PATIENCE_S


@pytest.fixture
def planning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Planning]:
    monkeypatch.setattr(plan_cache, "folder", lambda: tmp_path / "cache")
    with Planning() as planning:
        yield planning


def planned(planner: Planner, planning: Planning) -> list[Planned]:
    """Wait until nothing waits any more; return what is to be probed."""
    found = []
    deadline_s = time.monotonic() + PATIENCE_S
    while planning.is_busy:
        assert time.monotonic() < deadline_s
        planning.wait(1)
        for each in planner.decided():
            if each.planned is not None:
                assert os.fstat(each.planned.file)  # open, now
                found.append(each.planned)
    return found


def test_what_is_no_file_is_refused(tmp_path: Path, planning: Planning) -> None:
    """A process may put a FIFO in the place of a library that it has mapped."""
    path = tmp_path / "libssl.so.3"
    os.mkfifo(path)
    planner = Planner(planning)
    assert not planner.add(str(path))
    assert planner.refusal is not None
    assert planner.refusal.fact == f"{path} is not a file"


def test_a_library_is_planned_once(planning: Planning) -> None:
    path = str(libraries.library("3.0").path)
    planner = Planner(planning)
    assert planner.add(path)
    assert not planner.add(path)
    [found] = planned(planner, planning)
    assert found.path == path
    assert len(found.plan.probes) > 5
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(found.file)
    status = Path(path).stat()
    assert planner.has_seen(status.st_dev, status.st_ino, path)


def test_a_file_is_looked_at_again_when_it_changed(tmp_path: Path, planning: Planning) -> None:
    path = tmp_path / "program"
    path.write_bytes(b"of another form")
    planner = Planner(planning)
    inode = path.stat().st_ino
    device = path.stat().st_dev

    def looked_at() -> bool:
        planner.refusal = None
        planner.add(str(path))
        assert planned(planner, planning) == []
        assert planner.has_seen(device, inode, str(path))
        return planner.refusal is not None

    assert not planner.has_seen(device, inode, str(path))
    assert looked_at()
    assert not looked_at()
    changed_ns = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == changed_ns:  # it is that of the kernel's last tick
        path.write_bytes(b"of yet another")
    assert not planner.has_seen(device, inode, str(path))
    assert looked_at()
    path.unlink()
    assert planner.has_seen(device, inode, str(path))


def test_what_comes_when_too_many_wait_is_counted_and_taken_later(
    tmp_path: Path, planning: Planning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sslsniff.analysis.planning._MOST_WAITING", 1)
    paths = [tmp_path / "first", tmp_path / "second"]
    for path in paths:
        path.write_bytes(b"no program")
    planner = Planner(planning)
    assert [planner.add(str(path)) for path in paths] == [True, False]
    assert planner.left_out == 1
    assert planned(planner, planning) == []
    status = paths[1].stat()
    assert not planner.has_seen(status.st_dev, status.st_ino, str(paths[1]))
    assert planner.add(str(paths[1]))
    assert planner.left_out == 1
    assert planned(planner, planning) == []
