"""What a spill file's folder has no room for is told before anything is captured."""

from pathlib import Path

import pytest

from sslsniff.errors import OutputError
from sslsniff.kernel.ring_buffer import Ring
from sslsniff.kernel.spill_file import Spill


def test_a_file_that_has_no_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(OutputError, match=r"no room for \d+ bytes in .*: choose a smaller --spill"):
        Spill(Ring.__new__(Ring), 1 << 60)
    assert not list(tmp_path.iterdir())
