"""Opens capture files: by name or from standard input, plain or compressed with gzip or zstd."""

import io
import os
import select
import stat
import zlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import zstandard

from sslsniff.core.errors import CaptureFileError
from sslsniff.core.events import IsOver, never

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

STANDARD_INPUT = "-"

_STANDARD_INPUT_FD = 0
_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"
_SKIPPED_BY_ZSTD = tuple(bytes((0x50 + n, 0x2A, 0x4D, 0x18)) for n in range(16))
_NOT_READ = {
    b"\x04\x22\x4d\x18": ("lz4", "lz4 -d"),
    b"\xfd7zXZ\x00": ("xz", "xz -d"),
    b"BZh": ("bzip2", "bunzip2"),
    b"PK\x03\x04": ("zip", "unzip"),
}
"""How other compressed files begin; the format and the program that decompresses it."""

_GZIP_WINDOW = 31  # zlib.h: the largest window, in gzip's wrapping
_BUFFER_BYTES = 1 << 20
_PIECE_BYTES = 64 << 10
_ZSTD_PIECE_BYTES = 256
"""Every four bytes may expand to 128 KiB (RFC 8878 section 3.1.1.2.3): this gives 8 MiB at most."""
_ZSTD_WINDOW_BYTES = 128 << 20
"""The largest window that the program zstd accepts unless asked for a larger one."""
_LOOK_MS = 100
"""How often it looks whether to wait any longer for what comes through a pipe."""


class _RawInput(io.FileIO):
    """A file or a pipe, which ends early once ``is_over`` and nothing is there to be read."""

    is_abandoned = False
    """Whether it ended early."""

    def __init__(self, source: int | str, is_over: IsOver, *, closefd: bool) -> None:
        super().__init__(source, closefd=closefd)
        self._is_over = is_over
        self._waiting = select.poll()
        self._waiting.register(self.fileno(), select.POLLIN)

    def readinto(self, buffer: "WriteableBuffer", /) -> int | None:
        """See ``io.RawIOBase``: waits until bytes are there, the end is, or ``is_over``."""
        while not self._waiting.poll(_LOOK_MS):
            if self._is_over():
                self.is_abandoned = True
                return 0
        return super().readinto(buffer)


class Input:
    """An open capture file, read from its beginning to its end."""

    is_damaged = False
    """Whether the compressed data ended too early, or was invalid."""

    def __init__(self, file: "io.BufferedReader[_RawInput]", name: str) -> None:
        self.name = name
        self._file = file
        self.read: Callable[[int], bytes] = file.read
        """Returns the next bytes, so many, or fewer at the end. Raises ``OSError``."""
        self.is_regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        """Whether it is a regular file; a pipe may be as slow as the traffic that is captured."""

    @property
    def is_abandoned(self) -> bool:
        """Whether it was not read to its end, as nobody waits for the rest any longer."""
        return self._file.raw.is_abandoned

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


class _Stream(Protocol):
    """Decompresses one member of a gzip file, or one frame of a zstd file."""

    @property
    def eof(self) -> bool:
        """Whether it has ended."""

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        """Return what the next bytes expand to, and those that it did not need yet.

        Raises one of ``_DAMAGED``.
        """


class _GzipStream:
    """``zlib``: Python's ``gzip`` withholds the last readable bytes of a file that is cut off."""

    def __init__(self) -> None:
        self._stream = zlib.decompressobj(_GZIP_WINDOW)

    @property
    def eof(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        plain = self._stream.decompress(data, _PIECE_BYTES)
        return plain, self._stream.unconsumed_tail or self._stream.unused_data


class _ZstdStream:
    def __init__(self) -> None:
        # The context must live as long as what it made.
        self._context = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
        self._stream = self._context.decompressobj()

    @property
    def eof(self) -> bool:
        return self._stream.eof

    def feed(self, data: bytes) -> tuple[bytes, bytes]:
        plain = self._stream.decompress(data[:_ZSTD_PIECE_BYTES])
        return plain, self._stream.unused_data + data[_ZSTD_PIECE_BYTES:]


_FORMATS: dict[bytes, Callable[[], _Stream]] = {
    _GZIP: _GzipStream,
    **dict.fromkeys((_ZSTD, *_SKIPPED_BY_ZSTD), _ZstdStream),
}
"""By how the file begins."""
_DAMAGED = zlib.error, zstandard.ZstdError
_MOST_MAGIC_BYTES = max(map(len, (*_FORMATS, *_NOT_READ)))


class _Compressed(Input):
    """A compressed file: gzip (RFC 1952) of one or more members, zstd (RFC 8878) of frames.

    Memory: one compressed piece and one decompressed piece, whatever the ratio; a window of zstd.
    """

    def __init__(
        self, file: "io.BufferedReader[_RawInput]", name: str, new_stream: Callable[[], _Stream]
    ) -> None:
        super().__init__(file, name)
        self.read = self._read
        self._new_stream = new_stream
        self._stream = new_stream()
        self._compressed = b""
        self._plain = bytearray()

    def _read(self, size: int) -> bytes:
        while len(self._plain) < size and not self.is_damaged and self._next_piece():
            self._expand()
        data = bytes(self._plain[:size])
        del self._plain[:size]
        return data

    def _next_piece(self) -> bool:
        """Read compressed bytes if none are left; return whether there are any."""
        self._compressed = self._compressed or self._file.read1(_PIECE_BYTES)
        if not self._compressed:
            self.is_damaged = not self._stream.eof
        elif self._stream.eof:
            self._stream = self._new_stream()
        return bool(self._compressed)

    def _expand(self) -> None:
        try:
            plain, self._compressed = self._stream.feed(self._compressed)
            self._plain += plain
        except _DAMAGED:
            self.is_damaged = True


def open_input(name: str, is_over: IsOver = never) -> Input:
    """Open the capture file ``name``; ``-`` is standard input. Raises ``CaptureFileError``.

    ``is_over``: returns whether to stop waiting for what comes through a pipe.
    """
    source: int | str = name
    if name == STANDARD_INPUT:
        source, name = _STANDARD_INPUT_FD, "standard input"
    try:
        raw = _RawInput(source, is_over, closefd=source is name)
        file = io.BufferedReader(raw, _BUFFER_BYTES)
        if file.isatty():
            raise CaptureFileError("standard input is a terminal", "name a file, or pipe one in")
        start = file.peek(_MOST_MAGIC_BYTES)
    except OSError as error:
        raise CaptureFileError(
            f"cannot read {name}: {error.strerror}", "name a pcap or pcapng file"
        ) from error
    for magic, (format_name, program) in _NOT_READ.items():
        if start.startswith(magic):
            file.close()
            raise CaptureFileError(
                f"{name} is compressed with {format_name}, which is not read",
                f"decompress it with {program}",
            )
    for magic, new_stream in _FORMATS.items():
        if start.startswith(magic):
            return _Compressed(file, name, new_stream)
    return Input(file, name)
