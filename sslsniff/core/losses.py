"""Says why plaintext may be missing, and how much of it is.

The kernel counts what its BPF programs could not pass on, by cause (bpf/losses.bpf.h).
``core.flows`` finds by the positions of what comes where bytes are missing, and passes that on as a
chunk without data. Decoders resume after it, and an exchange says how many bytes it lacks.
"""

from dataclasses import dataclass
from enum import Enum


class LossCause(Enum):
    """Why plaintext is not in the capture."""

    RING_FULL = "ring full"
    """The reader was too slow: the ring buffer had no room for the event."""
    CALL_LIMIT = "call limit"
    """One call carried more bytes than ``--max-call-bytes``."""
    UNREADABLE = "unreadable memory"
    """The buffer's pages were not in memory when the probe ran."""
    SENDFILE = "sendfile"
    """The kernel encrypted a file (``SSL_sendfile``); its bytes never were in the process."""
    NOT_READ = "not read"
    """No probe saw these records of rustls (a byte for each), or the end of one in many pieces."""
    EVICTED = "connection table full"
    """The kernel's table was full, and evicted the connection while a call passed these bytes."""
    NO_TIME = "no time"
    """The capture had to end before the bytes were decoded: see ``--end-within``."""
    FILTER = "filter"
    """The bytes came before the exchange that matched the filter, and its buffer was full."""
    NOT_DELIVERED = "not delivered"
    """Kafka did not take the message with the bytes, or it was too old when they were read."""
    NOT_CAPTURED = "not captured"
    """A capture file lacks the bytes and does not say why."""


@dataclass(slots=True)
class Loss:
    """How much plaintext was lost because of one cause, in events and bytes."""

    cause: LossCause
    events: int
    bytes: int
