"""Programs with mounts of their own."""

import sys
from pathlib import Path

from tests.workload.processes import PROGRAMS


def apart(*command: str | Path) -> list[str]:
    """Return what runs ``command`` where nobody else sees what it mounts."""
    return [sys.executable, str(PROGRAMS / "python/apart.py"), *map(str, command)]
