"""How a message of HTTP/1 continues after its head."""

from dataclasses import dataclass
from enum import Enum, auto


class State(Enum):
    """What the next byte of a direction belongs to."""

    __hash__ = object.__hash__  # Enum's own is a call of Python for each look-up

    HEAD = auto()
    FIXED = auto()
    DOUBT = auto()
    """Behind a response's head whose request was not seen, perhaps a HEAD: a body, or the next
    response."""
    CHUNK_SIZE = auto()
    CHUNK_DATA = auto()
    CHUNK_END = auto()
    TRAILERS = auto()
    UNTIL_CLOSE = auto()
    WAIT = auto()
    """Behind a request to switch protocols: whose bytes these are, the response tells."""
    SCAN = auto()
    """Out of step: looking for the next start of a message."""
    SWITCHED = auto()


IN_MESSAGE = frozenset(
    (
        State.FIXED,
        State.DOUBT,
        State.CHUNK_SIZE,
        State.CHUNK_DATA,
        State.CHUNK_END,
        State.TRAILERS,
        State.UNTIL_CLOSE,
    )
)
"""The states in which a message has begun and not ended."""


@dataclass(slots=True, frozen=True)
class Plan:
    """How a message continues after its head; ``length`` is that of its body, None if unknown.

    ``state`` HEAD means that it has no body: with length 0 it ends here, without a length another
    head of it follows. ``switch`` tells that HTTP/1 may end with it, ``doubt`` a response that has
    no body if another response follows at once.
    """

    state: State
    length: int | None = None
    fault: str | None = None
    switch: bool = False
    doubt: bool = False
