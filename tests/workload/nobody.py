"""Runs sslsniff as a user without rights."""

import os
import subprocess
from pathlib import Path

from tests.workload.mounts import apart
from tests.workload.processes import PATIENCE_S, PROGRAMS

NOBODY = "65534"
Done = subprocess.CompletedProcess[str]
ROOT = PROGRAMS.parent.parent
"""The project's folder."""


def as_nobody(
    *arguments: str | Path, stdin: str = "", share: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run sslsniff without any right; the project is at /mnt, where that user may read it.

    The files in ``share``, a folder, are in /usr/share, too.
    """
    lower = f"lowerdir={share}:/usr/share"
    over = f"mount -t overlay overlay -o '{lower}' /usr/share" if share else "true"
    script = f'{over} && mount --bind "$0" /mnt && cd / && exec "$@"'
    setpriv = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
    sslsniff = ("/mnt/.venv/bin/python", "-m", "sslsniff")
    return subprocess.run(
        apart("sh", "-c", script, ROOT, *setpriv, *sslsniff, *arguments),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        env={**os.environ, "PYTHONPATH": "/mnt", "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/"},
    )
