"""Opens the ring buffer of loaded programs for reading, perhaps with more room in a file."""

import contextlib
import select
from typing import TYPE_CHECKING, NamedTuple

from sslsniff.kernel.loaders.loader import Loader
from sslsniff.kernel.ring_buffer import Ring

if TYPE_CHECKING:
    from sslsniff.kernel.spill_file import Spill


class WaitingRecords(NamedTuple):
    """The records to read; ``epoll`` is ready when there are some."""

    records: "Ring | Spill"
    epoll: select.epoll


def open_records(
    loader: Loader, ring_bytes: int, spill_bytes: int, closing: contextlib.ExitStack
) -> WaitingRecords:
    """Open the ring buffer; ``closing`` closes it.

    ``spill_bytes``: the size of a temporary file for records that the ring has no room for.
    Raises ``OutputError`` if that cannot be made.
    """
    ring = Ring(loader.map_fd("events"), ring_bytes)
    closing.callback(ring.close)
    records = _with_file(ring, spill_bytes, closing) if spill_bytes else ring
    epoll = closing.enter_context(select.epoll())
    epoll.register(records.fd, select.EPOLLIN)
    return WaitingRecords(records, epoll)


def _with_file(ring: Ring, size_bytes: int, closing: contextlib.ExitStack) -> "Spill":
    from sslsniff.kernel.spill_file import Spill  # imports tempfile: 10 ms

    records = Spill(ring, size_bytes)
    closing.callback(records.close)
    return records
