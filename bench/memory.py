"""Memory over time, while exchanges come on connections that come and go, and are decoded."""

from collections.abc import Iterator

from bench.course import Course
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
        sniffer = Decoding(folder / "decoded.jsonl", "--no-children", "--pid", str(exchanges.pid))
        with Course(sniffer, seconds / _SAMPLES) as course:
            took_s = exchanges.make(connections, _EXCHANGES, _AT_A_TIME, total / seconds)
        most_mb = sniffer.memory_mb("VmHWM")
        _, whole, lost = sniffer.stop_counted()
    what = f"{total:,} exchanges on {connections:,} connections"
    note = f"{_AT_A_TIME} open at a time, in {took_s:.0f} s, {total - whole} not decoded"
    yield Row(f"{what}: most memory", most_mb, "MB", 80, note, course=tuple(course.samples))
    yield Row(f"{what}: bytes lost", lost, "bytes", 0)
    third, last = course.last_quarters()
    note = f"medians, from {third:.1f} to {last:.1f} MB"
    yield Row(f"{what}: grown between the last quarters", last - third, "MB", 0.5, note)
