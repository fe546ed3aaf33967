"""How a message of HTTP/1 continues after its head, and who decides that."""

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
    """After a response's head whose request was not seen, perhaps a HEAD: a body, or the next
    response."""
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    CHUNK_END = auto()
    TRAILERS = auto()
    UNTIL_CLOSE = auto()
    WAIT = auto()
    """After a request to switch protocols: the response decides whose bytes these are."""
    SCAN = auto()
    """Out of sync: searching for the next start of a message."""
    SWITCHED = auto()


@dataclass(slots=True, frozen=True)
class Framing:
    """How a message continues after its head; ``length`` is that of its body, None if unknown.

    ``state`` HEAD means that it has no body: with length 0 it ends here, without a length another
    head of it follows. ``switch`` tells that HTTP/1 may end with it, ``doubt`` a response that has
    no body if another response follows at once.
    """

    state: ReadState
    length: int | None = None
    fault: str | None = None
    switch: bool = False
    doubt: bool = False


class Pairing(NamedTuple):
    """What the reader of a side asks about the connection as a whole."""

    begin: Callable[[bytes, list[Message]], tuple[RequestHead | ResponseHead, Framing] | None]
    """Report a head, given but for its last line feed and the empty line after.

    Return the message of the head, and the framing of its body; None if it is no head.
    """
    switch: Callable[[int], ReadState]
    """Decide what follows a message of a stream with which HTTP/1 may end."""
    lost: Callable[[list[Message]], None]
    """Note that messages may have been lost."""
