"""Opens capture files: by name or from standard input, plain or compressed with gzip."""

import io
import os
import stat
import zlib
from collections.abc import Callable

from sslsniff.errors import CaptureFileError

STANDARD_INPUT = "-"

_STANDARD_INPUT_FD = 0
_GZIP = b"\x1f\x8b"
_GZIP_WINDOW = 31  # zlib.h: the largest window, in gzip's wrapping
_BUFFER_BYTES = 1 << 20
_PIECE_BYTES = 64 << 10


class Input:
    """An open capture file, read from its beginning to its end."""

    is_damaged = False
    """Whether the compressed data ended too early, or was invalid."""

    def __init__(self, file: "io.BufferedReader[io.FileIO]", name: str) -> None:
        self.name = name
        self._file = file
        self.read: Callable[[int], bytes] = file.read
        """Returns the next bytes, so many, or fewer at the end. Raises ``OSError``."""
        self.is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        """Whether it is a regular file; a pipe may be as slow as the traffic that is captured."""

    @property
    def progress(self) -> tuple[int, int] | None:
        """How many bytes were read, of how many there are; None: a pipe does not say."""
        try:
            return (self._file.tell(), os.fstat(self._file.fileno()).st_size)
        except (OSError, ValueError):  # it is a pipe, or was closed
            return None

    def close(self) -> None:
        """Close it; safe to call again."""
        self._file.close()


class _Compressed(Input):
    """A file compressed with gzip (RFC 1952), of one or more members.

    It uses ``zlib``: Python's ``gzip`` withholds the last readable bytes of a file that is cut off.
    Memory: one compressed piece and one decompressed piece, whatever the ratio.
    """

    def __init__(self, file: "io.BufferedReader[io.FileIO]", name: str) -> None:
        super().__init__(file, name)
        self.read = self._read
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._compressed = b""
        self._plain = bytearray()

    def _read(self, size: int) -> bytes:
        while len(self._plain) < size and not self.is_damaged and self._next_piece():
            self._inflate()
        data = bytes(self._plain[:size])
        del self._plain[:size]
        return data

    def _next_piece(self) -> bool:
        """Read compressed bytes if none are left; return whether there are any."""
        self._compressed = self._compressed or self._file.read(_PIECE_BYTES)
        if not self._compressed:
            self.is_damaged = not self._member.eof
        elif self._member.eof:
            self._member = zlib.decompressobj(_GZIP_WINDOW)
        return bool(self._compressed)

    def _inflate(self) -> None:
        try:
            self._plain += self._member.decompress(self._compressed, _PIECE_BYTES)
        except zlib.error:
            self.is_damaged = True
        self._compressed = self._member.unconsumed_tail or self._member.unused_data


def open_input(name: str) -> Input:
    """Open the capture file ``name``; ``-`` is standard input. Raises ``CaptureFileError``."""
    source: int | str = name
    if name == STANDARD_INPUT:
        source, name = _STANDARD_INPUT_FD, "standard input"
    try:
        file = io.BufferedReader(io.FileIO(source, closefd=source is name), _BUFFER_BYTES)
        if file.isatty():
            raise CaptureFileError("standard input is a terminal", "name a file, or pipe one in")
        is_compressed = file.peek(len(_GZIP)).startswith(_GZIP)
    except OSError as error:
        raise CaptureFileError(
            f"cannot read {name}: {error.strerror}", "name a pcap or pcapng file"
        ) from error
    return (_Compressed if is_compressed else Input)(file, name)
