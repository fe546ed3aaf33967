"""Writes the page of a report into its file, once, at the end.

Until then a regular file has a page that says so: that is what is left if sslsniff is killed. The
report takes its place in one step. First everything after its first ``_STEP_BYTES`` is written,
after the element ``plaintext``, in which a browser reads nothing (WHATWG HTML, 13.2.5.5); then the
first, by one write within a page of memory, which no signal interrupts.
"""

import contextlib
import fcntl
import itertools
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from sslsniff.core.errors import OutputError

_STEP_BYTES = 4096
_BLOCK_BYTES = 1 << 20

_UNFINISHED = b"""<!doctype html><html lang="en"><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'">
<title>No report yet</title><h1>No report yet</h1>
<p>The capture goes on, or sslsniff ended before it could write its report.
Open this page again after the capture. A capture file has a report at any time:
<code>sslsniff report FILE -o PAGE</code>
<plaintext hidden>
"""


class PageFile:
    """Writes a page to the open ``file``, which the caller closes.

    A pipe gets it in order. Raises ``OutputError``; what was in the file then stays.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._fd = file.fileno()
        self._name = file.name
        # As for archives: a file opened for appending cannot be written elsewhere.
        self._is_regular = stat.S_ISREG(os.fstat(self._fd).st_mode) and not (
            fcntl.fcntl(self._fd, fcntl.F_GETFL) & os.O_APPEND
        )
        self._start = os.lseek(self._fd, 0, os.SEEK_CUR) if self._is_regular else 0
        if self._is_regular:
            with self._errors():
                self._write_at(0, _UNFINISHED)

    def write(self, pieces: Iterable[bytes]) -> None:
        """Write the page that consists of ``pieces``."""
        with self._errors():
            if self._is_regular:
                self._replace(_blocks(pieces))
            else:
                for block in _blocks(pieces):
                    _write_all(lambda view: os.write(self._fd, view), block)

    def _replace(self, blocks: Iterator[bytes]) -> None:
        first = next(blocks)
        position = _STEP_BYTES
        for block in itertools.chain((first[_STEP_BYTES:],), blocks):
            self._write_at(position, block)
            position += len(block)
        self._write_at(0, first[:_STEP_BYTES])

    def _write_at(self, position: int, data: bytes) -> None:
        at = self._start + position

        def write(view: memoryview) -> int:
            return os.pwrite(self._fd, view, at + len(data) - len(view))

        _write_all(write, data)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise an ``OutputError`` for what goes wrong, and cut off what is half written."""
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            if self._is_regular:
                with contextlib.suppress(OSError):
                    os.ftruncate(self._fd, self._start + len(_UNFINISHED))
            raise OutputError(
                f"cannot write {self._name}: {error.strerror}",
                "make room or name a file elsewhere",
            ) from error


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Join pieces to blocks of ``_BLOCK_BYTES`` or a little more, the last one shorter."""
    block = bytearray()
    for piece in pieces:
        block += piece
        if len(block) >= _BLOCK_BYTES:
            yield bytes(block)
            block.clear()
    yield bytes(block)


def _write_all(write: Callable[[memoryview], int], data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[write(view) :]
