"""Runs sslsniff where it is to refuse, and tells whether it did so as it should."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

from tests.live.sniffer import SSLSNIFF, divided
from tests.workload.mounts import apart
from tests.workload.processes import PATIENCE_S, PROGRAMS

ROOT = PROGRAMS.parent.parent
NO_PROCESS = Path("/proc/sys/kernel/pid_max").read_text().strip()  # one above the largest
NOBODY = "65534"
Done = subprocess.CompletedProcess[str]


def sniff(*arguments: str | Path, before: tuple[str | Path, ...] = (), **options: Any) -> Done:
    done: Done = subprocess.run(
        [*before, SSLSNIFF, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE_S,
        **options,
    )
    return done


def assert_told(done: Done, fact: str, *, code: int = 1) -> None:
    """One line, which says ``fact`` and then what to do; nothing in it that a terminal acts on."""
    [line] = divided(done.stderr)[0].splitlines()
    assert line.isprintable()
    assert re.fullmatch(rf"sslsniff: .*{fact}.*: .+", line), line
    assert done.returncode == code


def as_nobody(*arguments: str | Path, stdin: str = "", share: Path | None = None) -> Done:
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
