"""Skips records that there is no time to decode: their plaintext is counted as lost."""

from collections.abc import Callable, Iterator

from sslsniff.core import events, wire
from sslsniff.core.losses import LossCause
from sslsniff.core.ring_records import Records
from sslsniff.kernel.memory.skipping import SkippedPlaintext
from sslsniff.kernel.ring_buffer import ReadableRecords

_BYTES_AT_ONCE = 4 << 20


def skip_rest(
    waiting: ReadableRecords,
    reading: Records,
    clock_offset_ns: int,
    is_over: Callable[[], bool],
) -> Iterator[events.Record]:
    """Yield the events of all records that are not handled yet, without their plaintext.

    ``reading``: the batch that was read last, perhaps in part. When it ``is_over``, the rest stays
    unread.
    """
    has_moved = True
    while has_moved and not is_over():
        yield from skip_plaintext(reading, clock_offset_ns, is_over)
        was_whole = reading.position >= reading.end
        has_moved = waiting.release() > 0 or was_whole  # else the next record is not whole
        reading = waiting.read(_BYTES_AT_ONCE)
        has_moved &= reading.position < reading.end


def no_time_bytes(event: events.Record) -> int:
    """Return how many bytes of plaintext an event of ``skip_rest`` stands for."""
    if isinstance(event, events.Data) and event.cut is LossCause.NO_TIME:
        return event.span
    return 0


def skip_plaintext(
    records: Records, clock_offset_ns: int, is_over: Callable[[], bool]
) -> Iterator[events.Record]:
    """Yield the events of ``records``, but for each run of plaintext one event without its bytes.

    Stops when it ``is_over``, with ``records.position`` after the last record that it handled.
    """
    skipped = SkippedPlaintext()
    while not is_over() and records.position < records.end:
        if skipped.skip(records):
            continue
        yield from _lost(skipped, clock_offset_ns)
        record = records.next()
        if record is None:
            break
        if wire.is_hit(record):
            continue
        event = wire.parse(record, clock_offset_ns)
        if isinstance(event, events.Data):
            yield from _without_plaintext(event)
        else:
            yield event
    yield from _lost(skipped, clock_offset_ns)


def _without_plaintext(event: events.Data) -> Iterator[events.Data]:
    """Yield what a record stands for: its plaintext, lost now, and what was lost before."""
    captured = len(event.data)
    if captured:
        yield event._replace(span=captured, data=b"", cut=LossCause.NO_TIME)
    if event.span > captured:
        at = event.position + captured
        yield event._replace(position=at, span=event.span - captured, data=b"")


def _lost(skipped: SkippedPlaintext, clock_offset_ns: int) -> Iterator[events.Data]:
    """Yield each run as lost plaintext, and forget it."""
    for run in skipped.take_runs():
        yield events.Data(
            run.time_ns + clock_offset_ns,
            run.tid,
            run.connection,
            events.DIRECTIONS[run.direction],
            run.first,
            run.end - run.first,
            b"",
            LossCause.NO_TIME,
        )
