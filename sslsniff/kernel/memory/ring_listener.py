"""Receives the rings that preloaded programs make: ``preload/joining.h``."""

import array
import contextlib
import os
import secrets
import socket
import struct
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from sslsniff.kernel.memory.control_page import MAGIC, SocketAddress

_INTRODUCTION = struct.Struct("<QII16s16s")
"""``struct introduction`` of ``preload/shared.h``."""
_CREDENTIALS = struct.Struct("3i")  # struct ucred, unix(7)
_BACKLOG = 4096
"""Rings that wait to be received; the kernel may allow fewer (net.core.somaxconn)."""
_MOST_SILENT = 64
"""Connections that have sent nothing yet: of more, the oldest is closed."""
_FOLDERS = (None, "/dev/shm", "/run")
_NAME_BYTES = 31  # with the zero byte before it, SOCKET_NAME_BYTES of preload/shared.h
_INT_BYTES = array.array("i").itemsize
_ANCILLARY_BYTES = socket.CMSG_SPACE(_INT_BYTES) + socket.CMSG_SPACE(_CREDENTIALS.size)


class SentRing(NamedTuple):
    """A ring that a process sent.

    ``fd``: its memory, to be closed. ``pid`` and ``uid`` are the kernel's: of the process that
    connected and sent; ``own_pid`` and ``comm`` the process's own: the number in its PID namespace,
    its name.
    """

    fd: int
    pid: int
    uid: int
    own_pid: int
    comm: str


class RingListener:
    """Listens at ``address`` for programs that were able to read it. Raises ``OSError``."""

    def __init__(self) -> None:
        self._token = secrets.token_bytes(16)
        name = secrets.token_hex(15).encode()
        self._sockets = [_socket(), _socket()]
        self._fd = _bind_to_file(self._sockets[0])
        self._sockets[1].bind(b"\0" + name.ljust(_NAME_BYTES, b"\0"))
        for each in self._sockets:
            each.listen(_BACKLOG)
        path = f"/proc/{os.getpid()}/fd/{self._fd}"  # the file itself has no name any more
        self.address = SocketAddress(path, name, self._token)
        self._silent: list[socket.socket] = []

    def receive(self) -> Iterator[SentRing]:
        """Yield the rings that were sent since the last call."""
        for each in self._sockets:
            with contextlib.suppress(OSError):  # no more wait, or there are no descriptors left
                while True:
                    self._silent.append(each.accept()[0])
                    yield from self._receive_all()
        yield from self._receive_all()

    def close(self) -> None:
        """Close the socket: programs that begin from now on are not watched."""
        for each in (*self._silent, *self._sockets):
            each.close()
        os.close(self._fd)

    def _receive_all(self) -> Iterator[SentRing]:
        waiting, self._silent = self._silent[-_MOST_SILENT:], []
        for connection in waiting:
            try:
                sent = _receive(connection, self._token)
            except BlockingIOError:
                self._silent.append(connection)
                continue
            except OSError:
                sent = None
            connection.close()
            if sent is not None:
                yield sent


def _socket() -> socket.socket:
    """Return a socket whose connections say of each message who sent it: unix(7)."""
    kind = socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    made = socket.socket(socket.AF_UNIX, kind)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return made


def _bind_to_file(listener: socket.socket) -> int:
    """Give a socket a name, and take it away again; return a descriptor of its file."""
    for folder in _FOLDERS:
        with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=folder) as made:
            path = str(Path(made) / "ring")
            listener.bind(path)
            return os.open(path, os.O_PATH | os.O_CLOEXEC)
    raise FileNotFoundError(2, "no folder for temporary files")


def _receive(connection: socket.socket, token: bytes) -> SentRing | None:
    """Return what was sent; None: no ring. Raises ``OSError``."""
    connection.setblocking(False)
    data, ancillary, _, _ = connection.recvmsg(
        _INTRODUCTION.size, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
    )
    fds, sender = array.array("i"), 0
    for level, kind, content in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(content[: len(content) - len(content) % _INT_BYTES])
        elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS):
            sender, _, _ = _CREDENTIALS.unpack(content)
    if len(fds) == 1 and len(data) == _INTRODUCTION.size:
        magic, own_pid, _, comm, said = _INTRODUCTION.unpack(data)
        raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        pid, uid, _ = _CREDENTIALS.unpack(raw)
        # One that connected and has ended may have left its number to another process.
        is_sender = pid == sender > 0
        if magic == MAGIC and secrets.compare_digest(said, token) and is_sender:
            name = comm.split(b"\0", 1)[0].decode("utf-8", "replace")
            return SentRing(fds[0], pid, uid, own_pid, name)
    for fd in fds:
        os.close(fd)
    return None
