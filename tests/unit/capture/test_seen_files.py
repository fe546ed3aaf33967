"""Which files are looked at to be probed, and when again."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sslsniff.analysis import result_cache
from sslsniff.analysis.file_analyzer import AnalysedFile, FileAnalyzer
from sslsniff.capture.seen_files import SeenFiles
from sslsniff.matching.probe_set import Attachment
from tests import libraries
from tests.unit.analysis.waiting import PATIENCE_S


@pytest.fixture
def analyzer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FileAnalyzer]:
    monkeypatch.setattr(result_cache, "folder", lambda: tmp_path / "cache")
    with FileAnalyzer() as analyzer:
        yield analyzer


def to_probe(seen: SeenFiles, analyzer: FileAnalyzer) -> list[tuple[AnalysedFile, Attachment]]:
    """Wait until nothing waits any more; return what is to be probed."""
    found = []
    deadline_s = time.monotonic() + PATIENCE_S
    while analyzer.is_busy:
        assert time.monotonic() < deadline_s
        analyzer.wait(1)
        for _, each in seen.results():
            if isinstance(each.result, Attachment):
                assert each.file is not None
                assert os.fstat(each.file)  # open, now
                found.append((each, each.result))
    return found


def test_what_is_no_file_is_refused(tmp_path: Path, analyzer: FileAnalyzer) -> None:
    """A process may put a FIFO in the place of a library that it has mapped."""
    path = tmp_path / "libssl.so.3"
    os.mkfifo(path)
    seen = SeenFiles(analyzer)
    assert not seen.add(str(path))
    assert seen.refusal is not None
    assert seen.refusal.fact == f"{path} is not a file"


def test_a_file_that_is_gone(tmp_path: Path, analyzer: FileAnalyzer) -> None:
    with pytest.raises(FileNotFoundError):
        SeenFiles(analyzer).add(str(tmp_path / "libssl.so.3"))


def test_a_file_that_is_deleted_while_it_is_analysed(
    tmp_path: Path, analyzer: FileAnalyzer
) -> None:
    """Java does so with the libraries that it unpacks."""
    path = tmp_path / "libssl.so.3"
    path.write_bytes(b"no program")
    seen = SeenFiles(analyzer)
    identity = seen.add(str(path))
    path.unlink()
    assert seen.waits_for(str(path)) is None
    assert to_probe(seen, analyzer) == []
    assert [each for each, _, _ in seen.unprobed] == [identity]


@pytest.mark.tools
def test_a_library_is_analysed_once(analyzer: FileAnalyzer) -> None:
    path = str(libraries.library("3.0").path)
    seen = SeenFiles(analyzer)
    assert seen.add(path)
    assert not seen.add(path)
    [(file, found)] = to_probe(seen, analyzer)
    assert file.path == path
    assert len(found.probes) > 5
    assert file.file is not None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file.file)
    status = Path(path).stat()
    assert seen.has_seen(status.st_dev, status.st_ino, path)


def test_a_file_is_looked_at_again_when_it_changed(tmp_path: Path, analyzer: FileAnalyzer) -> None:
    path = tmp_path / "program"
    path.write_bytes(b"of another form")
    seen = SeenFiles(analyzer)
    inode = path.stat().st_ino
    device = path.stat().st_dev

    def looked_at() -> bool:
        seen.refusal = None
        seen.add(str(path))
        assert to_probe(seen, analyzer) == []
        assert seen.has_seen(device, inode, str(path))
        return seen.refusal is not None

    assert not seen.has_seen(device, inode, str(path))
    assert looked_at()
    assert not looked_at()
    changed_ns = path.stat().st_ctime_ns
    while path.stat().st_ctime_ns == changed_ns:  # it is that of the kernel's last tick
        path.write_bytes(b"of yet another")
    assert not seen.has_seen(device, inode, str(path))
    assert looked_at()
    path.unlink()
    assert seen.has_seen(device, inode, str(path))


def test_what_comes_when_too_many_wait_is_counted_and_taken_later(
    tmp_path: Path, analyzer: FileAnalyzer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sslsniff.analysis.file_analyzer._MOST_WAITING", 1)
    paths = [tmp_path / "first", tmp_path / "second"]
    for path in paths:
        path.write_bytes(b"no program")
    seen = SeenFiles(analyzer)
    assert [seen.add(str(path)) is None for path in paths] == [False, True]
    assert seen.left_out == 1
    assert to_probe(seen, analyzer) == []
    status = paths[1].stat()
    assert not seen.has_seen(status.st_dev, status.st_ino, str(paths[1]))
    assert seen.add(str(paths[1]))
    assert seen.left_out == 1
    assert to_probe(seen, analyzer) == []
