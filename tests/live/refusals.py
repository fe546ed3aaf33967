"""Runs sslsniff where it is to refuse, and tells whether it did so as it should."""

import re
import subprocess
from pathlib import Path
from typing import Any

from tests.live.sniffer import SSLSNIFF, divided
from tests.workload.processes import PATIENCE_S

NO_PROCESS = Path("/proc/sys/kernel/pid_max").read_text().strip()  # one above the largest
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
