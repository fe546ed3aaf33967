"""Runs sslsniff and takes the times of it."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

SSLSNIFF = Path(sys.executable).with_name("sslsniff")
READY = "sslsniff: watching"
_LOST = re.compile(r"(\d+) bytes lost")
_SETTLED_S = 0.5

# With compiled modules, as installed ones are.
ENVIRONMENT = {name: os.environ[name] for name in os.environ if name != "PYTHONDONTWRITEBYTECODE"}


def cpu_s(pid: int) -> float:
    """Return the seconds of CPU that a process took so far."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    user, system = stat.rpartition(")")[2].split()[11:13]  # proc(5): fields 14 and 15
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


class Running:
    """A sslsniff whose probes are placed; ``ready_ms`` after it was started."""

    def __init__(self, *arguments: str | Path, before: tuple[str, ...] = ()) -> None:
        started = time.perf_counter()
        self.process = subprocess.Popen(
            # All that waits at the end is decoded, and that takes a part of the time measured.
            [*before, SSLSNIFF, "--end-within", "600", *arguments],
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

    def stop_whole(self) -> tuple[float, int]:
        """End it; return the seconds until all that passed is in its file, and the bytes lost."""
        took_ms, said = self.stop()
        found = _LOST.search(said)
        if self.process.returncode or found is None:
            raise RuntimeError(f"sslsniff ended with {self.process.returncode}: {said}")
        return took_ms / 1000, int(found[1])

    def cpu_s(self) -> float:
        """Wait until it has nothing to do; return the seconds of CPU that it took so far."""
        last = -1.0
        while (now := self._cpu_s()) != last:
            last = now
            time.sleep(_SETTLED_S)
        return now

    def _cpu_s(self) -> float:
        return cpu_s(self.process.pid)

    def files(self) -> list[Path]:
        """Return its open files."""
        return list(Path(f"/proc/{self.process.pid}/fd").iterdir())

    def memory_mb(self, name: str) -> float:
        """Return VmRSS or VmHWM, in millions of bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        [line] = [line for line in status.splitlines() if line.startswith(f"{name}:")]
        return int(line.split()[1]) * 1024 / 1e6


class Decoding(Running):
    """A sslsniff that writes what it decodes into ``output``, as JSON."""

    def __init__(self, output: Path, *arguments: str) -> None:
        self._output = output
        super().__init__("--json", "--force", "-o", output, *arguments)

    def stop_counted(self) -> tuple[float, int, int]:
        """End it; return the seconds that takes, the whole exchanges, and the bytes lost."""
        took_ms, said = self.stop()
        if self.process.returncode:
            raise RuntimeError(f"sslsniff ended with {self.process.returncode}: {said}")
        whole = 0
        with self._output.open("rb") as lines:
            for line in lines:
                told = json.loads(line)
                if told["type"] == "exchange":
                    whole += bool(told["request"] and told["response"] and not told["error"])
        return took_ms / 1000, whole, told["lost_bytes"]
