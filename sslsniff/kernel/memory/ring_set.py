"""All rings of a capture: receives them from programs, and reads them as if they were one.

The order of records of different programs is that of their time, as far as they are there.
"""

import contextlib
import ctypes
import time
from ctypes import POINTER, c_uint32, c_uint64, c_void_p

from sslsniff.core.ring_records import PADDING_BYTES, Records
from sslsniff.kernel import procfs
from sslsniff.kernel.memory.control_page import ControlPage
from sslsniff.kernel.memory.ring_listener import RingListener
from sslsniff.kernel.memory.shared_ring import (
    COUNTERS,
    LIBRARY,
    SMALLEST_RING_BYTES,
    SharedRing,
    UnusableRingError,
    UnwrappedCopy,
)
from sslsniff.kernel.memory.skipping import plaintext_bytes

_ROOM_BYTES = 1 << 20
"""For records that are read at once: what follows is handled while it is in the cache."""
_LEAST_ROOM_BYTES = 128 << 10
"""For one record, whatever its size."""
_MOST_OF_A_PROCESS = 16
"""Rings that wait for the end of an earlier one of the same process: programs that began there."""
_NUMBER_SHIFT = 32
"""The upper half of a connection's id is the number of its ring."""
_MOST = 16_384
_SHARE_OF_ONE = 1 << 16


class _Fill(ctypes.Structure):
    """``struct fill`` of ``rings.c``."""

    _fields_ = (("waiting_bytes", c_uint64), ("fullest", c_uint64), ("damaged", c_uint32))


_Lookup = ctypes.CFUNCTYPE(c_uint32, c_uint64, c_uint32)
_Rings = POINTER(c_void_p)
LIBRARY.ring_fill.argtypes = [_Rings, c_uint32, POINTER(_Fill)]
LIBRARY.ring_fill.restype = None
LIBRARY.move_records.argtypes = [_Rings, c_uint32, c_void_p, c_uint64, c_uint64, _Lookup]
LIBRARY.move_records.restype = c_uint64


class RingSet:
    """Rings with room for ``size_bytes`` if there is one; of more, each has a part of that.

    ``call_limit_bytes``: the most plaintext of one call. Raises ``OSError``.
    """

    def __init__(self, size_bytes: int, call_limit_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.refused = 0
        """How many rings could not be used."""
        self._listener = RingListener()
        self.address = self._listener.address
        filters = procfs.own_filters()
        self.control = ControlPage(size_bytes, call_limit_bytes, self.address, filters)
        self.since_ns = time.monotonic_ns()
        """No record is older."""
        self._rings: dict[int, list[SharedRing]] = {}
        """The rings of each process, the first of which is read."""
        self._by_number: dict[int, SharedRing] = {}
        self._number = 0
        self._pointers = (c_void_p * 0)()
        self._fill = _Fill()
        self._gone_counters = (0,) * len(COUNTERS.unpack(bytes(COUNTERS.size)))
        self._gone_copies: list[UnwrappedCopy] = []
        self._room = ctypes.create_string_buffer(_ROOM_BYTES + PADDING_BYTES)
        self._view = memoryview(self._room).cast("B")
        self._read_bytes = 0
        self._records = Records(self._view, 0, 0)
        self._look_up = _Lookup(self._shown_thread)

    @property
    def path(self) -> str:
        """The file by which programs find this process."""
        return self.control.path

    @property
    def waiting_bytes(self) -> int:
        """See ``RecordRing``."""
        return int(self._measure().waiting_bytes)

    @property
    def fullest_bytes(self) -> int:
        """How many of ``size_bytes`` would wait if all rings were as full as the fullest one."""
        return int(self._measure().fullest * self.size_bytes // _SHARE_OF_ONE)

    @property
    def counters(self) -> tuple[int, ...]:
        """What all programs counted: ``COUNTERS``."""
        rings = (ring.counters for ring in self._by_number.values())
        return tuple(map(sum, zip(self._gone_counters, *rings, strict=True)))

    def new_copies(self) -> list[UnwrappedCopy]:
        """Return the copies of libraries that programs named since the last call."""
        found, self._gone_copies = self._gone_copies, []
        for ring in self._by_number.values():
            found += ring.new_copies()
        return found

    @property
    def have_ended(self) -> bool:
        """Whether programs have ended whose rings are not removed yet."""
        return any(rings[0].is_over for rings in self._rings.values())

    def has_ring_of(self, pid: int) -> bool:
        """Say whether a process has a ring that is not removed yet."""
        return pid in self._rings

    def own_id(self, connection: int) -> int:
        """Return the id that its program has for a connection that was just read."""
        ring = self._by_number[connection >> _NUMBER_SHIFT]
        return ring.own_pid << _NUMBER_SHIFT | connection & (1 << _NUMBER_SHIFT) - 1

    def name_of(self, connection: int) -> str:
        """Return the name of the process of a connection that was just read: as it is now.

        A program that was replaced by another one keeps the name that it began with.
        """
        ring = self._by_number[connection >> _NUMBER_SHIFT]
        is_there = not ring.is_over and procfs.program(ring.pid) == ring.program
        now = procfs.thread_name(ring.pid) if is_there else None
        return ring.comm if now is None else now

    def receive(self) -> list[SharedRing]:
        """Return the rings that programs sent since the last call; each is read from now on.

        A program that a process executes ends the earlier one there.
        """
        found = []
        for sent in self._listener.receive():
            earlier = self._rings.setdefault(sent.pid, [])
            number = self._number + 1
            most = 0 if len(earlier) == _MOST_OF_A_PROCESS else self.size_bytes
            if len(self._by_number) == _MOST:
                most = 0
            try:
                ring = SharedRing(sent, number, most, self.since_ns)
            except UnusableRingError:
                self.refused += 1
                continue
            for each in earlier:
                each.is_over = True
            earlier.append(ring)
            self._number = number
            self._by_number[number] = ring
            found.append(ring)
        if found:
            self._choose()
        return found

    def end_process(self, pid: int) -> None:
        """Note that a process has ended: its rings are removed once they are read."""
        for ring in self._rings.get(pid, ()):
            ring.is_over = True

    def remove_ended(self) -> list[SharedRing]:
        """Remove the rings that are read to their end, and the damaged ones; return them.

        Removes none while records of the last ``read`` are not handled: their rings are looked up.
        """
        removed: list[SharedRing] = []
        if self._records.position < self._records.end:
            return removed
        for pid, rings in list(self._rings.items()):
            while rings and (
                rings[0].is_damaged or (rings[0].is_over and self._is_empty(rings[0]))
            ):
                ring = rings.pop(0)
                counters = zip(self._gone_counters, ring.counters, strict=True)
                self._gone_counters = tuple(map(sum, counters))
                self._gone_copies += ring.new_copies()
                del self._by_number[ring.state.number]
                removed.append(ring)
            if not rings:
                del self._rings[pid]
        if removed:
            self._choose()
        for ring in removed:
            ring.close()
        return removed

    def read(self, most_bytes: int = _ROOM_BYTES) -> Records:
        """See ``RecordRing``. The records are copies, checked; their room is free again."""
        room = max(_LEAST_ROOM_BYTES, min(most_bytes, _ROOM_BYTES))
        pointers, now_ns = self._pointers, time.monotonic_ns()
        self._read_bytes = LIBRARY.move_records(
            pointers, len(pointers), self._room, room, now_ns, self._look_up
        )
        self._records = Records(self._view, 0, self._read_bytes)
        return self._records

    def release(self) -> int:
        """Return how many bytes were read since the last call."""
        size, self._read_bytes = self._read_bytes, 0
        return size

    def unread_plaintext(self) -> int:
        """See ``ReadableRecords``."""
        unread = sum(LIBRARY.unread_plaintext(ring.state) for ring in self._by_number.values())
        return int(unread) + plaintext_bytes(self._records)

    def skip_abandoned(self, after_s: float, *, whoever: bool = False) -> int:
        """Skip records that are not finished; return how many.

        They are those of ended processes and, after ``after_s``, of ended threads; of ``whoever``:
        all of them.
        """
        skipped, now_s = 0, time.monotonic()
        for rings in self._rings.values():
            ring = rings[0]
            if not LIBRARY.writing_thread(ring.state):
                ring.stuck_since_s = None
                continue
            ring.stuck_since_s = ring.stuck_since_s or now_s
            is_nobodys = whoever or ring.is_over
            if (is_nobodys or now_s - ring.stuck_since_s > after_s) and ring.skip_abandoned(
                whoever=is_nobodys
            ):
                ring.stuck_since_s = None
                skipped += 1
        return skipped

    def close(self) -> None:
        """Unmap all, and let no program join."""
        for ring in self._by_number.values():
            ring.close()
        self._by_number.clear()
        self._rings.clear()
        self._pointers = (c_void_p * 0)()
        self._listener.close()
        self.control.close()

    def _measure(self) -> _Fill:
        LIBRARY.ring_fill(self._pointers, len(self._pointers), self._fill)
        return self._fill

    def _is_empty(self, ring: SharedRing) -> bool:
        pointer = (c_void_p * 1)(ctypes.addressof(ring.state))
        LIBRARY.ring_fill(pointer, 1, self._fill)
        return not self._fill.waiting_bytes

    def _choose(self) -> None:
        """Read the first ring of each process; let new ones have a part of the room."""
        first = [ctypes.addressof(rings[0].state) for rings in self._rings.values() if rings]
        self._pointers = (c_void_p * len(first))(*first)
        part = self.size_bytes // (len(first) + 1)
        power = 1 << max(part, 1).bit_length() - 1
        self.control.set_ring_bytes(max(SMALLEST_RING_BYTES, min(power, self.size_bytes)))

    def _shown_thread(self, number: int, tid: int) -> int:
        with contextlib.suppress(KeyError, ValueError):
            return self._by_number[number].shown_thread(tid)
        return 0
