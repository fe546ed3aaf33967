"""Assembles the packets of a capture file in memory, by ``packing.c``.

Structures and constants are those of ``packing.h``;
``tests/unit/files/test_packing_contract.py`` compares them with the library's.

It is in C as a packet takes 0.1 us there, and 1.3 us in Python.
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

from sslsniff.core.errors import OutputError
from sslsniff.core.ring_records import Records
from sslsniff.kernel.memory.addresses import address_of

BATCH_BYTES = 1 << 20
"""A batch of this size or more is full, and has to be written."""

KEPT_TEMPLATES = 8
"""How many templates a direction has at once: one for each thread that takes turns."""

_LIBRARY = Path(__file__).with_name("libpacking.so")


class Template(ctypes.Structure):
    """What the packets of one thread have in common in the file.

    A packet in the file is ``head``, data, ``zero_bytes`` zeros and ``tail``.

    - ``head`` has at ``time_at`` room for two words of time, then twice for the packet's length.
      The packet follows: its IP header with room for length and checksum, its TCP header with room
      for the sequence numbers.
    - ``zero_bytes`` is the length of a TLS record's MAC; the head then ends with that record's
      header, and room for its length. It is 0 if data is not in TLS records.
    - ``tail`` is the end of a block of pcapng; it and the head then have room for the block's
      length. It is empty in classic pcap.
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
    """One direction of a connection: what its next packet needs, and how far it got."""

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
    """Offset of the next byte of plaintext."""
    last_ns: int
    """Time of the last packet with data."""
    looks: int
    """In how many of the next packets the start of a message is still searched for.

    While it is not 0 and the pair is not settled, ``Batch.follow`` stops at each packet.
    """
    sequence: int
    """TCP sequence number of the next packet."""
    in_flight_bytes: int
    """Bytes sent that the peer has not acknowledged yet."""
    record_bytes: int
    """How much a TLS record adds to the data of a packet."""

    def acknowledge_by(self, template: Template) -> None:
        """Acknowledge what the peer sends by packets of ``template``, which must stay alive."""
        self._acknowledgement = ctypes.addressof(template)

    def set_templates(self, templates: Collection[Template]) -> None:
        """Replace the templates: ``KEPT_TEMPLATES`` at most, which must stay alive."""
        missing = KEPT_TEMPLATES - len(templates)
        self._templates[:] = [*map(ctypes.addressof, templates), *[None] * missing]


class EndpointPair(ctypes.Structure):
    """Both directions of a connection, numbered as in ``bpf/event.h``: ``ends[0]`` is read."""

    _fields_ = (("ends", Endpoint * 2), ("settled", c_uint32), ("speaker", c_uint32))

    ends: "ctypes.Array[Endpoint]"
    settled: bool
    """Whether Wireshark can dissect what follows."""
    speaker: int
    """The direction whose bytes were searched last for the start of a message.

    While the pair is not settled, ``Batch.follow`` stops at packets of the other direction.
    """

    def __init__(self) -> None:
        super().__init__()
        for endpoint in self.ends:
            endpoint._pair = ctypes.addressof(self)


class Batch:
    """Packets that are written together, in the order of the file.

    A time is written as two words: how many ``high_ns`` it has, and how many ``low_ns`` the rest
    has. Whoever adds packets writes the batch when it ``is_full``. Memory: 2 MiB, as far as it was
    ever used.
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
        """How many bytes the batch has."""
        return self._size.value

    @property
    def is_full(self) -> bool:
        """Whether the batch has to be written."""
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
        """Add the next packet with data of a direction, and advance the direction's position.

        Also adds the peer's acknowledgement now and then. Raises what ``put`` does.
        """
        _check(
            self._library.batch_put_next(self._batch, endpoint, template, time_ns, data, len(data))
        )

    def follow(self, endpoint: Endpoint, key: int, records: Records, clock_offset_ns: int) -> None:
        """Add packets for records, until the batch is full or a record needs more than a packet.

        ``key`` is the ``fast_path.direction_key`` of the records of ``endpoint``. The batch knows
        them by it until ``forget``. Long data is not copied: the memory of ``records`` must not
        change until the batch is written.
        """
        records.position = self._library.batch_follow(
            self._batch,
            endpoint,
            key,
            address_of(records.data),
            records.position,
            records.end,
            clock_offset_ns,
        )

    def forget(self, endpoint: Endpoint) -> None:
        """Forget the key of an endpoint's records: ``follow`` stops at them."""
        self._library.batch_forget(self._batch, endpoint)

    def write(self, fd: int, skipped: int) -> int:
        """Write the batch without its first ``skipped`` bytes; return how many were written.

        That is 0 if a signal interrupted it. Raises ``OSError``.
        """
        written: int = self._library.batch_write(self._batch, fd, skipped)
        if written < 0 and written != -errno.EINTR:
            raise OSError(-written, os.strerror(-written))
        return max(0, written)

    def joined(self) -> bytes:
        """Return the whole batch in one piece."""
        joined = ctypes.create_string_buffer(self.size)
        self._library.batch_join(self._batch, joined)
        return joined.raw

    def clear(self) -> None:
        """Remove all packets."""
        self._library.batch_clear(self._batch)


def reserve(fd: int, position: int, size: int) -> None:
    """Reserve disk space for ``size`` bytes from ``position``; the file's length stays.

    Does nothing on a file system that cannot reserve space. The caller frees what is not used, by
    truncating the file to its length.
    """
    _library().reserve(fd, position, size)


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
