"""How the memory of a process goes while something else is done."""

import statistics
import threading
from types import TracebackType
from typing import Self

from bench.sniffer import Running


class Course:
    """Samples sslsniff's resident memory every ``pause_s``, from ``with`` to its end."""

    def __init__(self, sniffer: Running, pause_s: float) -> None:
        self.samples: list[tuple[float, float]] = []
        """Seconds since the beginning, and MB."""
        self._sniffer = sniffer
        self._pause_s = pause_s
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()

    def last_quarters(self) -> tuple[float, float]:
        """Return the medians of the last quarter but one, and of the last, in MB."""
        quarter = len(self.samples) // 4
        parts = self.samples[-2 * quarter : -quarter], self.samples[-quarter:]
        third, last = (statistics.median(mb for _, mb in part) for part in parts)
        return third, last

    def _sample(self) -> None:
        while not self._over.wait(self._pause_s):
            seconds = self._pause_s * (len(self.samples) + 1)
            self.samples.append((seconds, self._sniffer.memory_mb("VmRSS")))
