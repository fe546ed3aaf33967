"""Where an exchange is in the tree of its request."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

CONNECTION = "connection"
"""The evidence that an exchange is one of the other end of its connection."""
GOROUTINE = "goroutine"
"""The evidence that the goroutine that served a request made another one meanwhile."""
THREAD = "thread"
"""The same of a thread that waits for the requests of its connection alone."""


@dataclass(slots=True, eq=False)
class TreePlace:
    """The place of an exchange in a tree. Exchanges of a tree come one after the other.

    ``id``: that of the exchange, the id of its connection and a running number.
    ``parent``: the id of the exchange that it belongs to; ``evidence``: what proves that:
    ``CONNECTION``, ``GOROUTINE``, ``THREAD``, or the name of the header field with the id that both
    have.
    ``depth``: how far it is below the first of its tree. ``other_end``: the same exchange as the
    server at the other end of the connection saw it. ``is_other_end``: this is that server's view.
    ``members``: all exchanges of the tree, in their order, this one, too; empty but while sinks
    handle them. ``tree_number``: another one for each tree. An ``Exchange`` has a place, so these
    two have no type here: the modules would import each other.
    """

    id: str
    parent: str | None = None
    evidence: str | None = None
    tree_number: int = 0
    depth: int = 0
    other_end: Any = None
    is_other_end: bool = False
    members: Sequence[Any] = ()

    @property
    def is_known(self) -> bool:
        """Whether the place is known now: also sinks that get no trees see this object."""
        return bool(self.members)
