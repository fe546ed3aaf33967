"""Parses hits of functions in the ring buffer: ``struct event_hit`` of ``bpf/event.h``."""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from sslsniff.core.events import EventKind, Exited
from sslsniff.core.ring_records import BUSY, DISCARDED, HEADER_BYTES, Records

HIT = struct.Struct("<HBBIQQIIQQQQII")
_RECORD = struct.Struct("<I4xHxxIQ8xIIQQQQII")
"""A record's header and those fields of ``HIT`` that have a meaning. An ``EXITED`` is shorter: its
fields are the same up to the process, and what follows is another record's."""
MOST_STACK_BYTES = 16384
STACK = struct.Struct("<17QQ")
_HIT, _EXITED = EventKind.HIT.value, EventKind.EXITED.value


class HitStack(NamedTuple):
    """What a thread's stack was at a hit: ``struct event_stack``.

    ``registers``: their values, by numbers in DWARF; the last one, 16, is the instruction pointer.
    ``data``: the memory from the stack pointer up, as far as it is mapped or ``MOST_STACK_BYTES``.
    """

    registers: tuple[int, ...]
    data: bytes


class Hit(NamedTuple):
    """A probe was hit.

    ``time_ns``: the time since the epoch. ``pid``, ``tid``: the ids in this process's own /proc.
    ``place``: index of the place that was probed.
    ``stack``: the stack pointer at the entry of the call, where the fetch program computes it; else
    that at the probe. In Go it is not an address: see ``runtimes/goroutines.py``.
    ``task``: what the fetch program says that it is, such as a goroutine; 0: it says nothing.
    ``failed``: has a bit set for each item that could not be read; its bytes are 0.
    ``dropped``: how many hits, of all threads, were lost or limited before this one.
    ``data``: what was fetched: ``Fetch.data_bytes`` of it.
    ``thread_stack``: None: nobody asked for it.
    """

    time_ns: int
    pid: int
    tid: int
    place: int
    stack: int
    task: int
    failed: int
    dropped: int
    data: bytes
    thread_stack: HitStack | None = None


def parse_hit(record: memoryview, clock_offset_ns: int) -> Hit:
    """Return the hit in a record; ``clock_offset_ns`` is added to CLOCK_MONOTONIC."""
    fields = HIT.unpack_from(record)
    _, _, _, tid, time_ns, _, pid, place, stack, task, failed, dropped, size, stack_at = fields
    data = bytes(record[HIT.size : HIT.size + size])
    copied = _stack(record, stack_at) if stack_at else None
    return Hit(
        time_ns + clock_offset_ns, pid, tid, place, stack, task, failed, dropped, data, copied
    )


def _stack(record: memoryview, at: int) -> HitStack:
    *registers, size = STACK.unpack_from(record, at)
    start = at + STACK.size
    return HitStack(tuple(registers), bytes(record[start : start + size]))


def read_hits(records: Records, clock_offset_ns: int) -> Iterator[Hit | Exited]:
    """Yield the hits and the ends of processes in ``records``; reading moves their position.

    ``clock_offset_ns`` is added to CLOCK_MONOTONIC. Each hit is read by one call of ``struct``, as
    there may be 100,000 in a second.
    """
    data, position, end = records.data, records.position, records.end
    unpack, make, size_before = _RECORD.unpack_from, tuple.__new__, _RECORD.size
    while position < end:
        fields = unpack(data, position)
        length, kind, tid, time_ns, pid, place, stack, task, failed, dropped, size, at = fields
        if length & BUSY:
            break
        start = position + size_before
        next_position = (position + HEADER_BYTES + (length & ~DISCARDED) + 7) & ~7
        records.position = position = next_position
        if length & DISCARDED:
            continue
        if kind == _HIT:
            fetched = bytes(data[start : start + size])
            copied = _stack(data, start - HIT.size + at) if at else None
            time_ns += clock_offset_ns
            yield make(
                Hit, (time_ns, pid, tid, place, stack, task, failed, dropped, fetched, copied)
            )
        elif kind == _EXITED:
            yield Exited(time_ns + clock_offset_ns, pid)
