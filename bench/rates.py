"""The highest rates at which nothing is lost, found in steps."""

from collections.abc import Callable, Iterator
from pathlib import Path

from bench.loads import Messages, Pairs, own_folder
from bench.rows import Row
from bench.sniffer import Decoding, Running

_STEP = 1.15
_CALL_BYTES = 16 << 10
_CAPTURE_S = 2  # a virtual machine may get the memory for more of a file from its host too late
_DECODE_S = 5
_CONNECTIONS = 50
_MB_S = 200
_EVENTS_S = 10_000
_EVENTS = 4  # of an exchange: both ends read once and write once


def measure() -> Iterator[Row]:
    """Raise the rate until something is lost, or the program does not give more."""
    with own_folder() as (folder, certificate):
        with Messages(folder, certificate) as messages:
            rate, note = _highest(_MB_S, lambda wanted: _capture(folder, messages, wanted))
            yield Row("captured to pcap, none lost", rate, "MB/s", least=400, note=note)
        with Pairs(folder, certificate) as pairs:
            rate, note = _highest(_EVENTS_S, lambda wanted: _decode(folder, pairs, wanted))
            yield Row("decoded to JSON, none lost", rate, "events/s", least=50_000, note=note)


def _highest(first: float, run: Callable[[float], tuple[float, int]]) -> tuple[float, str]:
    """Return the highest rate that ``run`` came to without a loss, and what ended the steps."""
    best, wanted = 0.0, first
    while True:
        reached, lost = run(wanted)
        if lost:
            return best, f"{lost:,} lost when {wanted:,.0f} were wanted"
        best = max(best, reached)
        if reached < wanted / _STEP:
            return best, f"in all the time until sslsniff had ended, {wanted:,.0f} wanted"
        wanted *= _STEP


def _capture(folder: Path, messages: Messages, mb_s: float) -> tuple[float, int]:
    """Capture both ends of a connection; return MB/s until all is in the file, and bytes lost."""
    rate = mb_s * 1e6 / (2 * _CALL_BYTES)
    count = int(rate * _CAPTURE_S)
    sniffer = Running("--force", "--pcap", folder / "capture.pcapng", "--pid", str(messages.pid))
    seconds, _ = messages.send(count, _CALL_BYTES, rate)
    rest_s, lost = sniffer.stop_whole()
    return 2 * count * _CALL_BYTES / 1e6 / (seconds + rest_s), lost


def _decode(folder: Path, pairs: Pairs, events_s: float) -> tuple[float, int]:
    """Decode both ends; return events/s until all are in the file, and the exchanges lost."""
    rate = events_s / _EVENTS
    each = int(rate * _DECODE_S / _CONNECTIONS)
    sniffer = Decoding(folder / "decoded.jsonl", "--pid", str(pairs.pid))
    seconds = pairs.make(_CONNECTIONS, each, rate)
    rest_s, whole, _ = sniffer.stop_counted()
    made = _CONNECTIONS * each
    return _EVENTS * made / (seconds + rest_s), 2 * made - whole
