"""Memory over time, while exchanges come on connections that come and go, and are decoded."""

import statistics
import threading
from collections.abc import Iterator

from bench.loads import Exchanges, own_folder
from bench.rows import Row
from bench.sniffer import Decoding

_CONNECTIONS = 10_000
_EXCHANGES = 100  # on each
_AT_A_TIME = 100
_MINUTES = 10
_SAMPLES = 200


def measure(share: float) -> Iterator[Row]:
    """Make a ``share`` of 1,000,000 exchanges in that share of ten minutes."""
    connections = round(share * _CONNECTIONS)
    seconds = share * _MINUTES * 60
    total = connections * _EXCHANGES
    with own_folder() as (folder, certificate), Exchanges(folder, certificate) as exchanges:
        sniffer = Decoding(folder / "decoded.jsonl", "--pid", str(exchanges.pid))
        over = threading.Event()
        course: list[tuple[float, float]] = []

        def sample() -> None:
            pause_s = seconds / _SAMPLES
            while not over.wait(pause_s):
                course.append((pause_s * (len(course) + 1), sniffer.memory_mb("VmRSS")))

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            took_s = exchanges.make(connections, _EXCHANGES, _AT_A_TIME, total / seconds)
        finally:
            over.set()
            sampler.join()
        most_mb = sniffer.memory_mb("VmHWM")
        _, whole, lost = sniffer.stop_counted()
    what = f"{total:,} exchanges on {connections:,} connections"
    note = f"{_AT_A_TIME} open at a time, in {took_s:.0f} s, {total - whole} not decoded"
    yield Row(f"{what}: most memory", most_mb, "MB", 80, note, course=tuple(course))
    yield Row(f"{what}: bytes lost", lost, "bytes", 0)
    quarter = len(course) // 4
    third, last = (
        statistics.median(mb for _, mb in part)
        for part in (course[-2 * quarter : -quarter], course[-quarter:])
    )
    note = f"medians, from {third:.1f} to {last:.1f} MB"
    yield Row(f"{what}: grown between the last quarters", last - third, "MB", 0.5, note)
