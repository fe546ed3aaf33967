"""Keeps a folder of tables within its limit: the oldest go first."""

import contextlib
from pathlib import Path


class DiskLimit:
    """Removes whole files of ``folder`` while all together are larger than ``most_bytes``."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self.removed = 0
        """How many files were removed."""

    def apply(self) -> int:
        """Return how many bytes were removed just now."""
        found = []
        for file in self._folder.glob("date=*/hour=*/*.parquet"):
            with contextlib.suppress(FileNotFoundError):
                status = file.stat()
                found.append((status.st_mtime_ns, status.st_size, file))
        excess = sum(size for _, size, _ in found) - self._most_bytes
        freed = 0
        for _, size, file in sorted(found):
            if freed >= excess:
                break
            with contextlib.suppress(FileNotFoundError):
                file.unlink()
                freed += size
                self.removed += 1
        return freed
