"""Messages between sslsniff and a worker: JSON of any length, requests with open files."""

import json
import socket
import time
from collections.abc import Sequence
from typing import Any

MOST_MESSAGE_BYTES = 256 << 20
"""Of a plan with 100,000 places, about half."""

_PIECE_BYTES = 32 << 10
_MORE, _LAST = b"+", b"."
_MOST_FILES = 8


class MessageError(Exception):
    """The other end is gone, does not answer, or sent what is no message."""


class LongMessageError(Exception):
    """A message would have more than ``MOST_MESSAGE_BYTES``."""


class MessageChannel:
    """One end of a socket whose messages arrive as they were sent (SOCK_SEQPACKET)."""

    def __init__(self, channel: socket.socket) -> None:
        self._socket = channel

    def send(self, message: Any, files: Sequence[int] = ()) -> None:
        """Send a message with open files; raises ``MessageError`` and ``LongMessageError``."""
        data = json.dumps(message, separators=(",", ":")).encode()
        if len(data) > MOST_MESSAGE_BYTES:
            raise LongMessageError
        last_at = (len(data) - 1) // _PIECE_BYTES * _PIECE_BYTES
        try:
            for at in range(0, last_at, _PIECE_BYTES):
                self._socket.send(_MORE + data[at : at + _PIECE_BYTES])
            socket.send_fds(self._socket, [_LAST + data[last_at:]], files)
        except OSError as error:
            raise MessageError from error

    def receive(self, until_s: float, most_bytes: int = MOST_MESSAGE_BYTES) -> Any:
        """Return the next message of one who is not trusted, without files that come with it.

        ``until_s``: until when it must be there, by the monotonic clock. Raises ``MessageError``.
        """
        data = bytearray()
        while True:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise MessageError
            self._socket.settimeout(left_s)
            try:
                piece = self._socket.recv(1 + _PIECE_BYTES)
            except OSError as error:
                raise MessageError from error
            data += piece[1:]
            if not piece or len(data) > most_bytes:
                raise MessageError
            if piece[:1] == _LAST:
                return _parsed(data)

    def receive_with_files(self) -> tuple[Any, list[int]]:
        """Return the next message, of one who is trusted, with its files.

        Raises ``MessageError``.
        """
        data, files = bytearray(), list[int]()
        while True:
            try:
                piece, some, _, _ = socket.recv_fds(self._socket, 1 + _PIECE_BYTES, _MOST_FILES)
            except OSError as error:
                raise MessageError from error
            data += piece[1:]
            files += some
            if not piece:
                raise MessageError
            if piece[:1] == _LAST:
                return _parsed(data), files


def _parsed(data: bytearray) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise MessageError from error
