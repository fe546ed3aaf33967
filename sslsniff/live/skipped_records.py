"""Skips records that there is no time to decode: their plaintext is counted as lost."""

from collections.abc import Callable, Iterator

from sslsniff import events
from sslsniff.errors import NO_TIME
from sslsniff.fast_path import DATA_KIND, HEAD_OF_DATA
from sslsniff.kernel.ring_buffer import ReadableRecords
from sslsniff.kernel.ring_records import BUSY, DISCARDED, HEADER_BYTES, Records
from sslsniff.live import wire
from sslsniff.model import LossCause

_CHECK_EVERY = 1024  # records: one look at the clock takes as long as one record

_BYTES_AT_ONCE = 4 << 20

_Runs = dict[tuple[int, int], tuple[int, int, int, int]]
"""(connection, number of its direction) -> (first position, end position, thread, time)."""


def skip_rest(
    waiting: ReadableRecords,
    reading: Records,
    clock_offset_ns: int,
    is_over: Callable[[], bool],
    note: Callable[[str], None],
) -> Iterator[events.Record]:
    """Yield the events of all records that are not handled yet, without their plaintext.

    ``reading``: the batch that was read last, perhaps in part. ``note``: called with what was lost.
    """
    lost_bytes = 0
    while not is_over():
        for event in skip_plaintext(reading, clock_offset_ns, is_over):
            if isinstance(event, events.Data):
                lost_bytes += event.span
            yield event
        waiting.release()
        reading = waiting.read(_BYTES_AT_ONCE)
        if reading.position == reading.end:
            if lost_bytes:
                note(f"{lost_bytes} bytes of plaintext are not decoded: {NO_TIME}")
            return
    note(f"{waiting.waiting_bytes} bytes in the ring buffer were not even counted: {NO_TIME}")


def skip_plaintext(
    records: Records, clock_offset_ns: int, is_over: Callable[[], bool]
) -> Iterator[events.Record]:
    """Yield the events of ``records``, but for each run of plaintext one event without its bytes.

    Stops when it ``is_over``, with ``records.position`` after the last record that it handled.
    Takes 1 us for each record.
    """
    runs: _Runs = {}
    while not is_over() and records.position < records.end:
        if _skip_run(records, runs):
            continue
        record = records.next()
        if record is None:
            break
        yield from _lost(runs, clock_offset_ns)
        if not wire.is_hit(record):
            yield wire.parse(record, clock_offset_ns)
    yield from _lost(runs, clock_offset_ns)


def _skip_run(records: Records, runs: _Runs) -> bool:
    """Skip the next records of plaintext, ``_CHECK_EVERY`` at most; return False if none is next.

    Most records are of plaintext, so the loop makes as few calls as possible.
    """
    unpack, data, end = HEAD_OF_DATA.unpack_from, records.data, records.end
    at = start = records.position
    for _ in range(_CHECK_EVERY):
        if at >= end:
            break
        length, kind, direction, _, tid, time_ns, connection, position, span, _ = unpack(data, at)
        if kind == DATA_KIND and length < DISCARDED:
            key = connection, direction
            run = runs.get(key)
            runs[key] = (run[0] if run else position), position + span, tid, time_ns
        elif length & (BUSY | DISCARDED) != DISCARDED:
            break
        at = (at + HEADER_BYTES + (length & ~DISCARDED) + 7) & ~7
    records.position = at
    return at > start


def _lost(runs: _Runs, clock_offset_ns: int) -> Iterator[events.Data]:
    """Yield each run as lost plaintext, and remove it from ``runs``."""
    for (connection, direction), (first, last, tid, time_ns) in runs.items():
        yield events.Data(
            time_ns + clock_offset_ns,
            tid,
            connection,
            events.DIRECTIONS[direction],
            first,
            last - first,
            b"",
            LossCause.NO_TIME,
        )
    runs.clear()
