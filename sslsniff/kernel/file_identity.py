"""What tells a file from all others, whatever paths lead to it."""

import os
from pathlib import Path

from sslsniff.kernel import overlay

Identity = tuple[int | bytes, int]
"""Device and inode; on overlayfs, where each container has another device, see ``lower_file``."""


def identify(path: str) -> tuple[Identity, os.stat_result]:
    """Return what identifies the file at ``path``, and its status; raises ``OSError``."""
    status = Path(path).stat()
    lower = overlay.lower_file(path)
    if lower is not None:
        return (lower, status.st_ctime_ns), status
    return (status.st_dev, status.st_ino), status
