"""Start-up, memory and end of ``sslsniff --pid``: medians of several runs on a process of its own.

The bars: the first probe stands within 250 ms of the start, and the process holds less
than 80 MB.
"""

import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

RUNS = 10
SSLSNIFF = Path(sys.executable).with_name("sslsniff")

# A process with libssl mapped, that does nothing with it.
IDLE = "import ssl, time; print(flush=True); time.sleep(600)"


class Run(NamedTuple):
    """One start and end: seconds, and kilobytes resident."""

    ready_s: float
    end_s: float
    resident_kb: int


def main() -> None:
    """Measure, and print a table with the bars."""
    target = subprocess.Popen([sys.executable, "-c", IDLE], stdout=subprocess.PIPE, text=True)
    try:
        assert target.stdout is not None
        target.stdout.readline()
        measure(target.pid)  # fills the file cache
        runs = [measure(target.pid) for _ in range(RUNS)]
    finally:
        target.kill()
        target.communicate()
    table = Table(title=f"sslsniff --pid, medians of {RUNS} runs", box=None)
    for heading in ("what", "measured", "bar"):
        table.add_column(heading)
    ready_s, end_s, resident_kb = (statistics.median(values) for values in zip(*runs, strict=True))
    table.add_row("start to first probes", f"{ready_s * 1000:.0f} ms", "250 ms")
    table.add_row("resident memory", f"{resident_kb / 1000:.0f} MB", "80 MB")
    table.add_row("Ctrl-C to end", f"{end_s * 1000:.0f} ms", "")
    Console().print(table)


def measure(pid: int) -> Run:
    """Start sslsniff on ``pid``, wait until it watches, and end it."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [SSLSNIFF, "--pid", str(pid)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    process.stderr.readline()
    ready_s = time.perf_counter() - started
    status = Path(f"/proc/{process.pid}/status").read_text()
    resident_kb = int(status.partition("VmHWM:")[2].split()[0])
    asked = time.perf_counter()
    process.send_signal(signal.SIGINT)
    process.communicate()
    return Run(ready_s, time.perf_counter() - asked, resident_kb)


if __name__ == "__main__":
    main()
