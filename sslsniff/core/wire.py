"""Parses records of the ring buffer into events. Nothing is interpreted here.

Layouts and numbers are those of ``bpf/event.h``; ``tests/unit/core/test_wire.py`` compares
them with the built object. ``files.replay`` makes the same events of a capture file.
"""

import os
import socket
import struct
from collections.abc import Callable

from sslsniff.core.events import (
    DIRECTIONS,
    Addresses,
    CgroupMade,
    Closed,
    Data,
    Ended,
    EventKind,
    Exited,
    Failure,
    LeftOut,
    NotedSend,
    Opened,
    Paired,
    Record,
    SocketEnded,
    SocketGone,
    TlsSocket,
    TlsStart,
)
from sslsniff.core.handshakes import SocketEnding
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Address, Peer
from sslsniff.decoders.messages import Side

HEADER = struct.Struct("<HBBIQQ")
OPENED = struct.Struct("<HBBIQQIIQIIBBBBIQ16s32s256s48s")
DATA = struct.Struct("<HBBIQQQIIQ")
ADDRESSES = struct.Struct("<HBBIQQHHH2x16s16sQ")
CLOSED = struct.Struct("<HBBIQQQQ")
ENDED = struct.Struct("<HBBIQQQ")
EXITED = struct.Struct("<HBBIQQII")
PAIRED = struct.Struct("<HBBIQQQ")
SOCKET_GONE = struct.Struct("<HBBIQQQ")
SOCKET_ENDED = struct.Struct("<HBBIQQQB7x")
LEFT_OUT = HEADER
CGROUP = struct.Struct("<HBBIQQQ1024s")
FAILURE = struct.Struct(f"<{OPENED.size}siiiBB2xQHHH2x16s16s32s")
STDIO = struct.Struct(f"<{OPENED.size}sQQII16s256s")
_BEFORE_TLS_START = "<QQQQQIIHHH"
TLS_SOCKET = struct.Struct(f"{_BEFORE_TLS_START}BBII16s16sBBBBBBBx16s16s16s400s1032s")
"""``struct tls_socket``, which follows the header and the socket in its event."""

_TLS_START_AT = struct.calcsize(_BEFORE_TLS_START)
_SOCKET = struct.Struct("<Q")
_RECORD_HEADER_BYTES = 5  # RFC 8446, section 5.1
_NOTED_SEND = struct.Struct("<16sQQQ")

_UNKNOWN_UID = 0xFFFFFFFF

_HALVES = (None, *DIRECTIONS)
_ROLES = (None, Side.CLIENT, Side.SERVER)
_CUTS = (
    None,
    LossCause.CALL_LIMIT,
    LossCause.UNREADABLE,
    LossCause.SENDFILE,
    LossCause.NOT_READ,
    LossCause.EVICTED,
)
_NOTIFIED = {1: True, 2: False}  # enum ended_by
_SOCKET_ENDS, _FLAGS_KNOWN, _SENT, _RECEIVED = 1, 2, 4, 8  # enum closing
# As on the wire, and as GnuTLS numbers them (gnutls_protocol_t in gnutls/gnutls.h).
_TLS_VERSIONS = {
    1: "SSL 3.0",
    2: "TLS 1.0",
    3: "TLS 1.1",
    4: "TLS 1.2",
    5: "TLS 1.3",
    201: "DTLS 1.0",
    202: "DTLS 1.2",
    0x0300: "SSL 3.0",
    0x0301: "TLS 1.0",
    0x0302: "TLS 1.1",
    0x0303: "TLS 1.2",
    0x0304: "TLS 1.3",
    0xFEFF: "DTLS 1.0",
    0xFEFD: "DTLS 1.2",
}


def is_hit(record: memoryview) -> bool:
    """Say whether a record is a hit; there are other kinds."""
    return record[0] == EventKind.HIT


def parse(record: memoryview, clock_offset_ns: int) -> Record:
    """Return the event in ``record``, one ring buffer record without its header.

    ``clock_offset_ns`` is added to CLOCK_MONOTONIC: nanoseconds since the epoch result. Raises
    ``KeyError`` for a kind that ``bpf/event.h`` does not have.
    """
    kind = record[0] | record[1] << 8
    return _PARSERS[kind](record, clock_offset_ns)


def _parse_data(record: memoryview, clock_offset_ns: int) -> Data:
    _, direction, cut, tid, time_ns, connection, position, span, captured, task = DATA.unpack_from(
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
        task,
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
        container_pid,
        cgroup,
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
        cgroup=cgroup,
        container_pid=container_pid or None,
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
    _, _, closing, _, time_ns, connection, reads, writes = CLOSED.unpack_from(record)
    knows = closing & _FLAGS_KNOWN
    return Closed(
        time_ns + clock_offset_ns,
        connection,
        reads,
        writes,
        socket_ends=bool(closing & _SOCKET_ENDS),
        sent_notify=False if knows and not closing & _SENT else None,
        received_notify=False if knows and not closing & _RECEIVED else None,
    )


def _parse_socket_ended(record: memoryview, clock_offset_ns: int) -> SocketEnded:
    *_, time_ns, connection, sock, ending = SOCKET_ENDED.unpack_from(record)
    return SocketEnded(time_ns + clock_offset_ns, connection, sock, SocketEnding(ending))


def _parse_ended(record: memoryview, clock_offset_ns: int) -> Ended:
    _, direction, by, _, time_ns, connection, position = ENDED.unpack_from(record)
    return Ended(
        time_ns + clock_offset_ns, connection, DIRECTIONS[direction], position, _NOTIFIED.get(by)
    )


def _parse_exited(record: memoryview, clock_offset_ns: int) -> Exited:
    _, _, _, _, time_ns, _, pid, is_exec = EXITED.unpack_from(record)
    return Exited(time_ns + clock_offset_ns, pid, bool(is_exec))


def _parse_paired(record: memoryview, clock_offset_ns: int) -> Paired:
    _, _, _, _, time_ns, writes, reads = PAIRED.unpack_from(record)
    return Paired(time_ns + clock_offset_ns, writes, reads)


def _parse_socket_gone(record: memoryview, clock_offset_ns: int) -> SocketGone:
    _, _, _, _, time_ns, _, sock = SOCKET_GONE.unpack_from(record)
    return SocketGone(time_ns + clock_offset_ns, sock)


def _parse_left_out(record: memoryview, clock_offset_ns: int) -> LeftOut:
    _, _, _, _, time_ns, connection = LEFT_OUT.unpack_from(record)
    return LeftOut(time_ns + clock_offset_ns, connection)


def _parse_cgroup(record: memoryview, clock_offset_ns: int) -> CgroupMade:
    _, _, _, _, time_ns, _, cgroup, path = CGROUP.unpack_from(record)
    return CgroupMade(time_ns + clock_offset_ns, cgroup, os.fsdecode(path.split(b"\0", 1)[0]))


def _parse_tls_socket(record: memoryview, clock_offset_ns: int) -> TlsSocket:
    [sock] = _SOCKET.unpack_from(record, HEADER.size)
    return tls_socket(sock, record[HEADER.size + _SOCKET.size :], clock_offset_ns)


def is_filled_in(value: bytes) -> bool:
    """Say whether an entry of the kernel's table of TLS sockets is whole: it is made empty."""
    return value[_TLS_START_AT] != 0


def tls_socket(sock: int, value: memoryview, clock_offset_ns: int) -> TlsSocket:
    """Return the event for ``value``, an entry of the kernel's table of TLS sockets."""
    (
        since_ns,
        ended_ns,
        cgroup,
        acknowledged,
        received,
        pid,
        uid,
        family,
        local_port,
        remote_port,
        start,
        is_probed,
        sends,
        hello_bytes,
        local,
        remote,
        ending,
        alert_level,
        alert,
        hello_start,
        is_gone,
        is_complete,
        is_called,
        answer,
        comm,
        program,
        noted,
        hello,
    ) = TLS_SOCKET.unpack_from(value)
    size = 4 if family == socket.AF_INET else 16
    return TlsSocket(
        time_ns=since_ns + clock_offset_ns,
        socket=sock,
        ended_ns=ended_ns + clock_offset_ns if ended_ns else None,
        pid=pid,
        uid=uid,
        cgroup=cgroup,
        comm=_text(comm) or "",
        program=_text(program) or "",
        start=TlsStart(start),
        is_probed=bool(is_probed),
        local=Address.of(local[:size], local_port),
        remote=Address.of(remote[:size], remote_port),
        sends=tuple(
            NotedSend(head, size, before, time_ns + clock_offset_ns)
            for head, size, before, time_ns in [*_NOTED_SEND.iter_unpack(noted)][:sends]
        ),
        hello=hello[hello_start : _RECORD_HEADER_BYTES + hello_bytes] if hello_bytes else b"",
        answer=answer.rstrip(b"\0"),
        received_alert=alert if alert_level else None,
        ending=SocketEnding(ending),
        has_ended=bool(is_gone),
        is_complete=bool(is_complete),
        is_called=bool(is_called),
        acknowledged=acknowledged,
        received=received,
    )


def _parse_failure(record: memoryview, clock_offset_ns: int) -> Failure:
    (
        *_,
        alert,
        error,
        verified,
        has_data,
        is_sure,
        sock,
        family,
        local_port,
        remote_port,
        local,
        remote,
        random,
    ) = FAILURE.unpack_from(record)
    size = 4 if family == socket.AF_INET else 16
    return Failure(
        opened=_parse_opened(record, clock_offset_ns),
        alert=None if alert < 0 else alert,
        error=error,
        verified=None if verified < 0 else verified,
        has_data=bool(has_data),
        is_sure=bool(is_sure),
        socket=sock,
        local=Address.of(local[:size], local_port) if sock else None,
        remote=Address.of(remote[:size], remote_port) if sock else None,
        random=random if any(random) else b"",
    )


def _parse_stdio(record: memoryview, clock_offset_ns: int) -> Opened:
    _, *ways, pid, command_bytes, comm, command = STDIO.unpack_from(record)
    opened = _parse_opened(record, clock_offset_ns)
    words = os.fsdecode(command[:command_bytes]).removesuffix("\0").split("\0")
    peer = Peer(pid, _text(comm) or "", tuple(words) if command_bytes else ())
    uid = None if opened.uid == _UNKNOWN_UID else opened.uid
    return opened._replace(tls=False, uid=uid, peer=peer, ways=tuple(ways))


_PARSERS: dict[int, Callable[[memoryview, int], Record]] = {
    EventKind.OPENED.value: _parse_opened,
    EventKind.DATA.value: _parse_data,
    EventKind.ADDRESSES.value: _parse_addresses,
    EventKind.CLOSED.value: _parse_closed,
    EventKind.EXITED.value: _parse_exited,
    EventKind.ENDED.value: _parse_ended,
    EventKind.PAIRED.value: _parse_paired,
    EventKind.SOCKET_GONE.value: _parse_socket_gone,
    EventKind.LEFT_OUT.value: _parse_left_out,
    EventKind.CGROUP.value: _parse_cgroup,
    EventKind.TLS_SOCKET.value: _parse_tls_socket,
    EventKind.FAILURE.value: _parse_failure,
    EventKind.SOCKET_ENDED.value: _parse_socket_ended,
    EventKind.STDIO.value: _parse_stdio,
}


def _text(raw: bytes) -> str | None:
    return raw.split(b"\0", 1)[0].decode("utf-8", "replace") or None
