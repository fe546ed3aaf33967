"""The commands of Redis that wait for EXEC, and what its answer says of each."""

from collections.abc import Callable

_MOST_ELEMENTS = 4096

Change = Callable[[], object]


class Transaction:
    """Makes the changes of queued commands whose elements in the answer to EXEC are no errors.

    The answer says how many commands there are. A command that subscribes has an element for each
    channel, one that asks for silence has none.
    """

    def __init__(self) -> None:
        self._commands = 0
        self._elements: list[Change | None] = []
        self._changes_after: list[Change] = []  # of commands without an element
        self._total = self._seen = -1
        self._failed: set[int] = set()

    @property
    def held_bytes(self) -> int:
        """The memory that it takes."""
        return 100 * (len(self._elements) + len(self._changes_after))

    def queue(self, change: Change | None, elements: int) -> None:
        """Note a queued command that gets so many ``elements``."""
        self._commands += 1
        if len(self._elements) + len(self._changes_after) + elements > _MOST_ELEMENTS:
            return
        if elements:
            self._elements += [change, *[None] * (elements - 1)]
        elif change is not None:
            self._changes_after.append(change)

    def begin_elements(self, commands: int) -> int:
        """Return how many elements an answer has that says that it is of so many ``commands``."""
        if commands != self._commands or commands > _MOST_ELEMENTS:
            return commands
        self._total, self._seen = len(self._elements), 0
        return self._total

    def note_element(self, left: int, *, failed: bool) -> None:
        """Note an element, or one inside of it, of which ``left`` are to come with itself."""
        if left == self._total - self._seen:
            if failed:
                self._failed.add(self._seen)
            self._seen += 1

    def execute(self) -> None:
        """Make the changes, if the answer was one element for each command."""
        if self._total >= 0:
            for number, change in enumerate(self._elements):
                if change is not None and number not in self._failed:
                    change()
            for change in self._changes_after:
                change()
        self.clear()

    def clear(self) -> None:
        """Forget all that was queued."""
        self._commands = 0
        self._elements.clear()
        self._changes_after.clear()
        self._failed.clear()
        self._total = self._seen = -1
