"""Parses records of the ring buffer into events. Nothing is interpreted here.

The layouts are those of ``bpf/event.h``; ``tests/unit/live/test_wire.py`` compares
them with the BTF of the built object. A recorded capture (``replay``) makes the
same events.
"""

import socket
import struct
from collections.abc import Callable, Iterator

from sslsniff.decoders.messages import Side
from sslsniff.events import (
    DIRECTIONS,
    Addresses,
    Closed,
    Data,
    Ended,
    Exited,
    LeftOut,
    Opened,
    Paired,
    Record,
    SocketGone,
)
from sslsniff.fast_path import Aliases, Lane, Lanes
from sslsniff.kernel.ring_records import DISCARDED, HEADER_BYTES, Records
from sslsniff.model import Address, LossCause

DATA_KIND = 2
HEADER = struct.Struct("<HBBIQQ")
OPENED = struct.Struct("<HBBIQQIIQIIBBBB4x16s32s256s48s")
DATA = struct.Struct("<HBBIQQQIIII")
_DATA_BYTES = DATA.size
HEAD_OF_DATA = struct.Struct("<I4xHBBIQQQII")
"""What a record begins with that is of ``DATA_KIND``, its length in the ring first."""
_PLAINTEXT_AT = HEADER_BYTES + _DATA_BYTES
ADDRESSES = struct.Struct("<HBBIQQHHH2x16s16sQ")
CLOSED = struct.Struct("<HBBIQQQQ")
ENDED = struct.Struct("<HBBIQQQ")
EXITED = struct.Struct("<HBBIQQI4x")
PAIRED = struct.Struct("<HBBIQQQ")
SOCKET_GONE = struct.Struct("<HBBIQQQ")
LEFT_OUT = HEADER

_HALVES = (None, *DIRECTIONS)
_ROLES = (None, Side.CLIENT, Side.SERVER)
_CUTS = (None, LossCause.CALL_LIMIT, LossCause.UNREADABLE, LossCause.SENDFILE, LossCause.NOT_READ)
_TLS_VERSIONS = {
    0x0300: "SSL 3.0",
    0x0301: "TLS 1.0",
    0x0302: "TLS 1.1",
    0x0303: "TLS 1.2",
    0x0304: "TLS 1.3",
    0xFEFF: "DTLS 1.0",
    0xFEFD: "DTLS 1.2",
}


def parse(record: memoryview, clock_offset_ns: int) -> Record:
    """Return the event in ``record``, one ring buffer record without its header.

    ``clock_offset_ns`` is what turns CLOCK_MONOTONIC into nanoseconds since the
    epoch. Raises ``KeyError`` for a kind that ``bpf/event.h`` does not have.
    """
    kind = record[0] | record[1] << 8
    return _PARSERS[kind](record, clock_offset_ns)


def hand_over(
    records: Records, clock_offset_ns: int, lanes: Lanes, aliases: Aliases
) -> Iterator[memoryview]:
    """Give the plaintext of records to the lanes that it continues; yield the other records.

    Without a call that can be spared: most of what there is to read goes this way.
    """
    unpack, lent, data = HEAD_OF_DATA.unpack_from, lanes.get, records.data
    taker: Lane | None = None
    try:
        while (at := records.position) < records.end:
            length, kind, direction, cut, tid, time_ns, connection, position, span, size = unpack(
                data, at
            )
            if kind == DATA_KIND and length < DISCARDED and size == span and size and not cut:
                key = connection << 1 | direction  # lane_key, without the call
                lane = lent(key) or lent(aliases.get(key, 0))
                if lane is not None and position == lane.position:
                    lane.follow(key, records, clock_offset_ns)
                    if records.position == at:  # it takes one by one, or this one
                        start = at + _PLAINTEXT_AT
                        records.position = (at + HEADER_BYTES + length + 7) & ~7
                        lane.take(time_ns + clock_offset_ns, tid, data[start : start + size])
                    taker = lane
                    continue
            record = records.next()
            if record is None:
                break
            yield record
    finally:  # also where nobody asks for the rest: the bytes are not valid for longer
        if taker is not None:
            taker.flush()


def _parse_data(record: memoryview, clock_offset_ns: int) -> Data:
    _, direction, cut, tid, time_ns, connection, position, span, captured, _, _ = DATA.unpack_from(
        record
    )
    return Data(
        time_ns + clock_offset_ns,
        tid,
        connection,
        DIRECTIONS[direction],
        position,
        span,
        bytes(record[DATA.size : DATA.size + captured]),
        _CUTS[cut],
    )


def _parse_opened(record: memoryview, clock_offset_ns: int) -> Opened:
    (
        *_,
        tid,
        time_ns,
        connection,
        pid,
        uid,
        object_address,
        library,
        tls_version,
        role,
        from_start,
        alpn_bytes,
        half,
        comm,
        alpn,
        sni,
        cipher,
    ) = OPENED.unpack_from(record)
    return Opened(
        time_ns=time_ns + clock_offset_ns,
        tid=tid,
        connection=connection,
        pid=pid,
        uid=uid,
        object_address=object_address,
        comm=_text(comm) or "",
        library=library,
        role=_ROLES[role],
        from_start=bool(from_start),
        tls_version=_TLS_VERSIONS.get(tls_version),
        alpn=_text(alpn[:alpn_bytes]),
        sni=_text(sni),
        cipher=_text(cipher),
        half=_HALVES[half],
    )


def _parse_addresses(record: memoryview, clock_offset_ns: int) -> Addresses:
    _, _, _, _, time_ns, connection, family, local_port, remote_port, local, remote, sock = (
        ADDRESSES.unpack_from(record)
    )
    size = 4 if family == socket.AF_INET else 16
    return Addresses(
        time_ns + clock_offset_ns,
        connection,
        Address.of(local[:size], local_port),
        Address.of(remote[:size], remote_port),
        sock,
    )


def _parse_closed(record: memoryview, clock_offset_ns: int) -> Closed:
    _, _, _, _, time_ns, connection, *positions = CLOSED.unpack_from(record)
    return Closed(time_ns + clock_offset_ns, connection, *positions)


def _parse_ended(record: memoryview, clock_offset_ns: int) -> Ended:
    _, direction, _, _, time_ns, connection, position = ENDED.unpack_from(record)
    return Ended(time_ns + clock_offset_ns, connection, DIRECTIONS[direction], position)


def _parse_exited(record: memoryview, clock_offset_ns: int) -> Exited:
    _, _, _, _, time_ns, _, pid = EXITED.unpack_from(record)
    return Exited(time_ns + clock_offset_ns, pid)


def _parse_paired(record: memoryview, clock_offset_ns: int) -> Paired:
    _, _, _, _, time_ns, writes, reads = PAIRED.unpack_from(record)
    return Paired(time_ns + clock_offset_ns, writes, reads)


def _parse_socket_gone(record: memoryview, clock_offset_ns: int) -> SocketGone:
    _, _, _, _, time_ns, _, sock = SOCKET_GONE.unpack_from(record)
    return SocketGone(time_ns + clock_offset_ns, sock)


def _parse_left_out(record: memoryview, clock_offset_ns: int) -> LeftOut:
    _, _, _, _, time_ns, connection = LEFT_OUT.unpack_from(record)
    return LeftOut(time_ns + clock_offset_ns, connection)


_PARSERS: dict[int, Callable[[memoryview, int], Record]] = {
    1: _parse_opened,
    DATA_KIND: _parse_data,
    3: _parse_addresses,
    4: _parse_closed,
    5: _parse_exited,
    6: _parse_ended,
    7: _parse_paired,
    8: _parse_socket_gone,
    9: _parse_left_out,
}


def _text(raw: bytes) -> str | None:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace") or None
