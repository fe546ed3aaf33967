"""The oldest tables go first."""

import os
from pathlib import Path

from sslsniff.cli.agent.disk_limit import DiskLimit


def table(folder: Path, name: str, size: int, age_s: int) -> Path:
    file = folder / "date=2026-11-26" / "hour=07" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes(size))
    os.utime(file, (1_700_000_000 - age_s,) * 2)
    return file


def test_the_oldest_go(tmp_path: Path) -> None:
    files = [table(tmp_path, f"{n}.parquet", 100, age_s=n) for n in range(5)]
    unfinished = table(tmp_path, ".6.parquet.part", 1000, age_s=9)
    other = table(tmp_path, "notes.txt", 1000, age_s=9)
    limit = DiskLimit(tmp_path, 250)
    assert limit.apply() == 300
    assert [file.exists() for file in files] == [True, True, False, False, False]
    assert unfinished.exists()
    assert other.exists()
    assert limit.apply() == 0
    assert limit.removed == 3


def test_an_empty_folder(tmp_path: Path) -> None:
    assert DiskLimit(tmp_path / "absent", 1).apply() == 0
