"""What is left of a server's rate while sslsniff captures."""

import operator
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.rows import Row
from bench.sniffer import Running

_ROUNDS = 5


def compare(
    what: str,
    rate: Callable[[], float],
    folder: Path,
    watched: list[str],
    least: float | None = None,
) -> Iterator[Row]:
    """Take the ``rate`` of ``what`` while nobody and while sslsniff watches, in alternation."""
    rate()  # the first run is slower
    alone, probed, lost = [], [], 0
    for _ in range(_ROUNDS):
        alone.append(rate())
        sniffer = Running("--force", "--pcap", folder / "capture.pcapng", *watched)
        probed.append(rate())
        lost += sniffer.stop_whole()[1]
    alone_s, probed_s = statistics.median(alone), statistics.median(probed)
    note = f"{alone_s:,.0f} alone, {probed_s:,.0f} captured; {lost:,} bytes lost"
    # Of each round: the machine's own speed changes from one to the next by more than is measured.
    left = statistics.median(map(operator.truediv, probed, alone))
    yield Row(f"{what}: requests/s left", 100 * left, "%", least=least, note=note)
