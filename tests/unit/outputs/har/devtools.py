"""Chromium's DevTools, as ``make test-all`` bundles their importer of archives: a judge of ours."""

import json
import subprocess
from pathlib import Path
from typing import Any

from tests.workload.node import NODE

PROGRAM = Path(__file__).parents[4] / ".cache/devtools/import.mjs"


def imported(archive: str) -> list[dict[str, Any]]:
    """Hold an archive against HAR's schema and import it; return what the network panel has."""
    assert PROGRAM.exists(), f"run make {PROGRAM.relative_to(Path.cwd())} first"
    done = subprocess.run(
        [NODE, PROGRAM], input=archive, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr[-2000:]
    requests: list[dict[str, Any]] = json.loads(done.stdout)
    return requests
