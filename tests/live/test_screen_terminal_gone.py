"""A screen ends when its terminal is gone, also where SIGHUP is ignored."""

import contextlib
import os
import select
import subprocess
from pathlib import Path

import pytest

from sslsniff.kernel import procfs
from tests.live.sniffer import SSLSNIFF
from tests.workload.processes import PATIENCE_S, started, wait_until

CAPTURE = next(iter(sorted((Path(__file__).parents[2] / "pcaps").glob("*.pcapng"))))
IGNORING = 'trap "" HUP; exec "$@"'


@pytest.mark.parametrize("is_live", [True, False], ids=["top", "read"])
def test_it_ends(is_live: bool) -> None:
    with started("sleep", "1000") as target:
        what: tuple[str | Path, ...] = ("top", "--pid", str(target.pid))
        command = (SSLSNIFF, *(what if is_live else ("read", CAPTURE, "--tui")))
        terminal, other = os.openpty()
        process = subprocess.Popen(
            ["sh", "-c", IGNORING, "sh", *command],
            stdin=other,
            stdout=other,
            stderr=other,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color"},
        )
        os.close(other)
        shown = b""
        while (b"Quit" if is_live else b"capture ended") not in shown:
            assert select.select([terminal], [], [], PATIENCE_S)[0]
            shown += os.read(terminal, 1 << 16)
        beside = procfs.descendants((process.pid,))[1:]
        assert bool(beside) == is_live  # the capture, which has the probes
        os.close(terminal)
        try:
            assert process.wait(PATIENCE_S) in (0, 129)
            wait_until(lambda: not any(procfs.process(pid) for pid in beside))
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
