"""Packets of a capture file, assembled in memory by ``packing.c``.

The layouts of structures and the constants that both have are those of ``packing.h``;
``tests/unit/capture_files/test_packing_contract.py`` compares them with the library's.

Python took 1.3 us for each, with one function and no call that could be spared; this takes 0.1 us.
"""

import ctypes
import errno
import functools
import os
import weakref
from collections.abc import Collection
from ctypes import POINTER, c_char_p, c_int, c_int64, c_long, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from sslsniff.errors import OutputError
from sslsniff.kernel.ring_records import Records

BATCH_BYTES = 1 << 20
"""A batch is full, and to be written, once so many bytes have come together."""

KEPT_TEMPLATES = 8
"""How many templates a direction has at once: so many threads may take turns."""

_LIBRARY = Path(__file__).with_name("libpacking.so")


class _Buffer(ctypes.Structure):
    """Py_buffer, which is stable since CPython 3.11; of memory that is read only, too."""

    _fields_ = (("address", c_void_p), ("_rest", c_void_p * 9))


class Template(ctypes.Structure):
    """What the packets of one thread have in common in the file.

    ``head`` is before the data. In it, at ``time_at``, is room for two words of time, then for
    the packet's length, twice; then comes the packet, its IP header with room for length and
    checksum, its TCP header with room for the sequence numbers. Behind the data come
    ``zero_bytes``, if any those of a TLS record's MAC, whose length is the end of the head; then
    ``tail``, which is a block's in pcapng: it and the head have room for the block's length.
    """

    _fields_ = (
        ("_head", c_char_p),
        ("_tail", c_char_p),
        ("_head_bytes", c_uint32),
        ("_tail_bytes", c_uint32),
        ("_time_at", c_uint32),
        ("_zero_bytes", c_uint32),
        ("_tid", c_uint32),
    )

    def __init__(self, head: bytes, tail: bytes, time_at: int, zero_bytes: int, tid: int) -> None:
        super().__init__(head, tail, len(head), len(tail), time_at, zero_bytes, tid)


class Endpoint(ctypes.Structure):
    """One direction of a connection: what its next packet needs, and how far it got.

    ``in_flight_bytes`` is what was sent and not acknowledged by the peer, ``record_bytes`` what a
    TLS record adds to the data. While the ``EndpointPair`` is not settled, packets come one by
    one where ``looks`` is not 0, and where the other endpoint is the speaker.
    """

    _fields_ = (
        ("_pair", c_void_p),
        ("_key", c_uint64),
        ("position", c_uint64),
        ("last_ns", c_uint64),
        ("_templates", c_void_p * KEPT_TEMPLATES),
        ("_acknowledgement", c_void_p),
        ("looks", c_uint32),
        ("sequence", c_uint32),
        ("in_flight_bytes", c_uint32),
        ("record_bytes", c_uint32),
    )

    position: int
    last_ns: int
    looks: int
    sequence: int
    in_flight_bytes: int
    record_bytes: int

    def acknowledge_by(self, template: Template) -> None:
        """Acknowledge what the peer sends by packets of a template, which must stay alive."""
        self._acknowledgement = ctypes.addressof(template)

    def keep(self, templates: Collection[Template]) -> None:
        """Use these for what follows, ``KEPT_TEMPLATES`` at most; they must stay alive."""
        missing = KEPT_TEMPLATES - len(templates)
        self._templates[:] = [*map(ctypes.addressof, templates), *[None] * missing]


class EndpointPair(ctypes.Structure):
    """Both directions of a connection, as ``bpf/event.h`` counts them: ``ends[0]`` is read.

    ``settled`` says that what follows can be dissected, ``speaker`` whose bytes were looked at
    last.
    """

    _fields_ = (("ends", Endpoint * 2), ("settled", c_uint32), ("speaker", c_uint32))

    ends: "ctypes.Array[Endpoint]"
    settled: bool
    speaker: int

    def __init__(self) -> None:
        super().__init__()
        for endpoint in self.ends:
            endpoint._pair = ctypes.addressof(self)


class Batch:
    """Packets in the order of a file, where a time is so many ``high_ns`` and ``low_ns`` after.

    Who adds to it writes it when it ``is_full``. Memory: 2 MiB, as far as it was ever used.
    """

    def __init__(self, high_ns: int, low_ns: int) -> None:
        self._library = _library()
        self._batch = self._library.batch_new(high_ns, low_ns)
        if not self._batch:
            raise MemoryError
        self._size = c_uint64.from_address(self._batch)
        weakref.finalize(self, self._library.batch_free, self._batch)

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return self._size.value

    @property
    def is_full(self) -> bool:
        """Whether it is time to write it."""
        return self._size.value >= BATCH_BYTES

    def add(self, raw: bytes) -> None:
        """Add bytes as they are; raises ``ValueError`` where they are longer than BATCH_BYTES."""
        _check(self._library.batch_add(self._batch, raw, len(raw)))

    def put(
        self,
        endpoint: Endpoint,
        template: Template,
        time_ns: int,
        data: bytes,
        *,
        count: int,
        acknowledges: bool = True,
    ) -> None:
        """Add a packet of a direction that takes ``count`` of TCP's sequence numbers.

        Raises ``ValueError`` where ``data`` is longer than BATCH_BYTES.
        """
        _check(
            self._library.batch_put(
                self._batch, endpoint, template, time_ns, count, acknowledges, data, len(data)
            )
        )

    def put_next(self, endpoint: Endpoint, template: Template, time_ns: int, data: bytes) -> None:
        """Add the next packet with data of a direction, which continues after it.

        Where enough is not acknowledged, the peer does so. Raises what ``put`` does.
        """
        _check(
            self._library.batch_put_next(self._batch, endpoint, template, time_ns, data, len(data))
        )

    def follow(self, endpoint: Endpoint, key: int, records: Records, clock_offset_ns: int) -> None:
        """Add the packets of records, until the batch is full or a record is of another kind.

        The records of ``endpoint`` come under ``key`` (``fast_path.direction_key``): from now on
        they are known, until ``forget``. Long data stays in the memory of ``records``, and has to
        until the batch is written.
        """
        records.position = self._library.batch_follow(
            self._batch,
            endpoint,
            key,
            _address(records.data),
            records.position,
            records.end,
            clock_offset_ns,
        )

    def forget(self, endpoint: Endpoint) -> None:
        """Take no more records of an endpoint."""
        self._library.batch_forget(self._batch, endpoint)

    def write(self, fd: int, skipped: int) -> int:
        """Write what is after so many bytes; return how many were written, 0 if interrupted.

        Raises ``OSError``.
        """
        written: int = self._library.batch_write(self._batch, fd, skipped)
        if written < 0 and written != -errno.EINTR:
            raise OSError(-written, os.strerror(-written))
        return max(0, written)

    def joined(self) -> bytes:
        """Return all of it in one piece."""
        joined = ctypes.create_string_buffer(self.size)
        self._library.batch_join(self._batch, joined)
        return joined.raw

    def clear(self) -> None:
        """Begin a new batch."""
        self._library.batch_clear(self._batch)


def reserve(fd: int, position: int, size: int) -> None:
    """Give a file room for so many bytes, where its file system can, and leave its length as it is.

    What is not used has to be given back, by truncating the file to its length.
    """
    _library().reserve(fd, position, size)


def _address(data: memoryview) -> int:
    """Return where the bytes lie in this process, for as long as there is ``data``."""
    buffer = _Buffer()
    ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(data), ctypes.byref(buffer), 0)
    ctypes.pythonapi.PyBuffer_Release(ctypes.byref(buffer))  # ``data`` itself holds it
    return buffer.address or 0


def _check(fits: int) -> None:
    if not fits:
        raise ValueError("longer than what a batch has room for")


_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "batch_new": (c_void_p, [c_uint64, c_uint64]),
    "batch_free": (None, [c_void_p]),
    "batch_clear": (None, [c_void_p]),
    "batch_add": (c_int, [c_void_p, c_char_p, c_uint32]),
    "batch_put": (
        c_int,
        [
            *(c_void_p, POINTER(Endpoint), POINTER(Template), c_uint64),
            *(c_uint32, c_int, c_char_p, c_uint32),
        ],
    ),
    "batch_put_next": (
        c_int,
        [c_void_p, POINTER(Endpoint), POINTER(Template), c_uint64, c_char_p, c_uint32],
    ),
    "batch_follow": (
        c_uint64,
        [c_void_p, POINTER(Endpoint), c_uint64, c_void_p, c_uint64, c_uint64, c_int64],
    ),
    "batch_forget": (None, [c_void_p, POINTER(Endpoint)]),
    "batch_write": (c_long, [c_void_p, c_int, c_uint64]),
    "batch_join": (None, [c_void_p, c_char_p]),
    "reserve": (None, [c_int, c_uint64, c_uint64]),
}


@functools.cache
def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(_LIBRARY))
    except OSError as error:
        raise OutputError(f"the library {_LIBRARY} is missing", "build it (make)") from error
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library
