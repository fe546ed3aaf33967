"""How an HTTP/1 message continues after its head, and the interface that decides it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from sslsniff.decoders.messages import Message, RequestHead, ResponseHead


class ReadState(Enum):
    """What the next byte of a direction belongs to."""

    __hash__ = object.__hash__  # Enum's own is a call of Python for each look-up

    HEAD = auto()
    FIXED = auto()
    DOUBT = auto()
    """After a response whose request was not seen. If that was a HEAD, the next response follows
    without a body."""
    EXPECT = auto()
    """After a request that expects ``100 Continue``: no byte of its body came yet."""
    REFUSED = auto()
    """After its final response: the body may come, or the next request (``refused_body``)."""
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    CHUNK_END = auto()
    TRAILERS = auto()
    UNTIL_CLOSE = auto()
    WAIT = auto()
    """After a request to switch protocols: the response decides whose bytes these are."""
    AFTER_LAST = auto()
    """After the last request: its response runs until the connection closes."""
    SCAN = auto()
    """Out of sync: searching for the next start of a message."""
    SWITCHED = auto()
    """Not HTTP/1 any more."""


@dataclass(slots=True, frozen=True)
class Framing:
    """How a message continues after its head."""

    state: ReadState
    """HEAD: there is no body. The message ends if ``length`` is 0, else another head follows."""
    length: int | None = None
    """Of the body in bytes; None if unknown."""
    fault: str | None = None
    """Why the end of the body cannot be known."""
    switch: bool = False
    """Whether HTTP/1 may end with this message."""
    expected: ReadState | None = None
    """In the state ``EXPECT``: that of the body."""
    doubt: bool = False
    """Whether a response has no body if another response follows at once."""


class Pairing(NamedTuple):
    """Callbacks of a reader, for decisions that need both sides of the connection."""

    begin: Callable[[bytes, list[Message]], tuple[RequestHead | ResponseHead, Framing] | None]
    """Report a head, which is given without its last line feed and the empty line.

    Return the message of the head, and the framing of its body; None if the bytes are no head.
    """
    switch: Callable[[int], ReadState]
    """Return the state after a message, given its stream, with which HTTP/1 may end."""
    lost: Callable[[list[Message]], None]
    """Note that messages may have been lost."""
    last: Callable[[list[Message]], None]
    """Note that a message runs until the connection closes."""
