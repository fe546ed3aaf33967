"""Writes an HTTP Archive (HAR 1.2), which browsers' developer tools and mitmproxy read.

An exchange is written when it ends; a WebSocket over HTTP/1, when its connection ends, as its entry
contains its messages. A regular file is a whole archive after each entry: one write replaces the
end of the archive by the entry and a new end. A ``FileGuard`` mends the file if a write is cut.
"""

import contextlib
import fcntl
import os
import stat
from importlib.metadata import version
from typing import BinaryIO

from sslsniff.core.errors import OutputError
from sslsniff.core.model import Connection, Exchange, InnerMessage
from sslsniff.core.sink import Sink
from sslsniff.files.file_guard import FileGuard
from sslsniff.files.mending import HAR_END, end_archive
from sslsniff.forms.json.encoded_json import encoded_json
from sslsniff.outputs.har.entry import entry
from sslsniff.outputs.har.socket_messages import SocketMessages


class HarSink(Sink):
    """Writes exchanges to ``file``, which the caller closes.

    A pipe gets the end of the archive on ``close``. Raises ``OutputError`` once if the file cannot
    be written any more; what was written stays a whole archive.
    """

    wants_bodies = True

    def __init__(self, file: BinaryIO) -> None:
        self._archive = _Archive(file)
        creator = encoded_json({"name": "sslsniff", "version": version("sslsniff")})
        self._archive.add(b'{"log":{"version":"1.2","creator":%b,"pages":[],"entries":[' % creator)
        self._archive.guard()
        self._separator = b"\n"
        self._messages = SocketMessages()
        self._websockets: dict[str, Exchange] = {}

    def message(self, inner: InnerMessage) -> None:
        """See ``Sink``."""
        if inner.exchange is not None and inner.exchange.rpc is None:
            self._messages.add(inner.exchange, inner.message, inner.time_ns)

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``; HAR is of HTTP: it has no place for statements and calls by JSON-RPC."""
        if exchange.statement is not None or exchange.rpc is not None:
            return
        if exchange.is_websocket and exchange.stream is None:
            self._websockets[exchange.connection.id] = exchange
        else:
            self._write(exchange)

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._write_websocket(connection.id)
        self._messages.forget(connection)

    def _write_websocket(self, connection: str) -> None:
        exchange = self._websockets.pop(connection, None)
        if exchange is not None:
            self._write(exchange)

    def _write(self, exchange: Exchange) -> None:
        shown = encoded_json(entry(exchange) | self._messages.pop(exchange))
        self._archive.add(self._separator + shown)
        self._separator = b",\n"

    def close(self) -> None:
        """See ``Sink``."""
        for connection in list(self._websockets):
            self._write_websocket(connection)
        self._archive.close()


class _Archive:
    """A file that ends with ``HAR_END`` after each part, if it is a regular file."""

    def __init__(self, file: BinaryIO) -> None:
        self._fd = file.fileno()
        self._name = file.name
        # pwrite() on a file opened for appending appends, wherever it should go (man 2 pwrite).
        self._is_regular = stat.S_ISREG(os.fstat(self._fd).st_mode) and not (
            fcntl.fcntl(self._fd, fcntl.F_GETFL) & os.O_APPEND
        )
        self._position = os.lseek(self._fd, 0, os.SEEK_CUR) if self._is_regular else 0
        self._failed = False
        self._guard: FileGuard | None = None

    def guard(self) -> None:
        """Keep the file whole even if this process is killed."""
        if self._is_regular:
            self._guard = FileGuard(self._fd, "har")
            self._guard.note(self._position)

    def add(self, part: bytes) -> None:
        if self._failed:
            return
        try:
            self._write(part + HAR_END if self._is_regular else part)
        except BrokenPipeError:
            self._failed = True
            raise
        except OSError as error:
            self._failed = True
            with contextlib.suppress(OSError):
                if self._is_regular:  # the end needs no new space on the disk
                    end_archive(self._fd, self._position)
            raise OutputError(
                f"cannot write {self._name}: {error.strerror}",
                "make room or name a file elsewhere, and start again",
            ) from error
        self._position += len(part)
        if self._guard is not None:
            self._guard.note(self._position)

    def close(self) -> None:
        if not self._is_regular:
            self.add(HAR_END)
        if self._guard is not None:
            self._guard.close()

    def _write(self, data: bytes) -> None:
        view, position = memoryview(data), self._position
        while view:
            size = (
                os.pwrite(self._fd, view, position)
                if self._is_regular
                else os.write(self._fd, view)
            )
            view, position = view[size:], position + size
