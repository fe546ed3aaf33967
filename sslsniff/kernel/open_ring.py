"""Opens the ring buffer of loaded programs for reading, perhaps with more room in a file."""

import contextlib
import os
import select
import signal
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from sslsniff.kernel.loaders.loader import Loader
from sslsniff.kernel.ring_buffer import Ring

if TYPE_CHECKING:
    from sslsniff.kernel.spill_file import Spill


class WaitingRecords(NamedTuple):
    """The records to read; ``epoll`` is ready when there are some, and once after each signal."""

    records: "Ring | Spill"
    epoll: select.epoll


def open_records(
    loader: Loader,
    ring_bytes: int,
    spill_bytes: int,
    closing: contextlib.ExitStack,
    *,
    also: Iterable[int] = (),
) -> WaitingRecords:
    """Open the ring buffer; ``closing`` closes it.

    ``spill_bytes``: the size of a temporary file for records that the ring has no room for.
    ``also``: other descriptors for which ``epoll`` is ready when there is something to read.
    Raises ``OutputError`` if that cannot be made.
    """
    ring = Ring(loader.map_fd("events"), ring_bytes)
    closing.callback(ring.close)
    records = _with_file(ring, spill_bytes, closing) if spill_bytes else ring
    epoll = closing.enter_context(select.epoll())
    for fd in (records.fd, *also):
        epoll.register(fd, select.EPOLLIN)
    _register_signals(epoll, closing)
    return WaitingRecords(records, epoll)


def _register_signals(epoll: select.epoll, closing: contextlib.ExitStack) -> None:
    """Make ``epoll`` ready once after each signal that is handled.

    Python goes on waiting where a signal interrupted it (PEP 475): so Ctrl-C would wait, too.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    closing.callback(os.close, reader)
    closing.callback(os.close, writer)
    epoll.register(reader, select.EPOLLIN | select.EPOLLET)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    closing.callback(signal.set_wakeup_fd, before)


def _with_file(ring: Ring, size_bytes: int, closing: contextlib.ExitStack) -> "Spill":
    from sslsniff.kernel.spill_file import Spill  # imports tempfile: 10 ms

    records = Spill(ring, size_bytes)
    closing.callback(records.close)
    return records
