"""Runs sslsniff and takes the times of it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
READY = "sslsniff: watching"

# With compiled modules, as installed ones are.
ENVIRONMENT = {name: os.environ[name] for name in os.environ if name != "PYTHONDONTWRITEBYTECODE"}


class Running:
    """A sslsniff whose probes stand; ``ready_ms`` after it was started."""

    def __init__(self, *arguments: str | Path, before: tuple[str, ...] = ()) -> None:
        started = time.perf_counter()
        self.process = subprocess.Popen(
            [*before, SSLSNIFF, *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=ENVIRONMENT,
        )
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        self.ready_ms = 1000 * (time.perf_counter() - started)
        if not line.startswith(READY):
            raise RuntimeError(line + self.process.communicate()[1])
        self.watching = line.removeprefix("sslsniff: ").partition(";")[0]

    def stop(self, pid: int | None = None) -> tuple[float, str]:
        """End it as Ctrl-C does; return the milliseconds that takes, and what it said.

        ``pid`` is its number where what was started only leads to it.
        """
        started = time.perf_counter()
        if pid is None:
            self.process.send_signal(signal.SIGINT)
        else:
            os.kill(pid, signal.SIGINT)
        _, said = self.process.communicate(timeout=60)
        return 1000 * (time.perf_counter() - started), said

    def memory_mb(self, name: str) -> float:
        """Return VmRSS or VmHWM, in millions of bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith(f"{name}:")]
        return int(line.split()[1]) * 1024 / 1e6
