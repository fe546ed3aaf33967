"""Says which messages of Redis answer a command that subscribes, and which nobody asked for."""

SUBSCRIBES = frozenset(("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE"))
UNSUBSCRIBES = frozenset(("UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"))
ANSWERED_BY_NAME = {**{name: name for name in SUBSCRIBES | UNSUBSCRIBES}, "PING": "PONG"}
"""What the first word of an answer in RESP 2 must be, as messages may come before it."""


class Subscriptions:
    """Counts the channels and patterns that a connection subscribes to."""

    def __init__(self) -> None:
        self._counts = dict.fromkeys(SUBSCRIBES, 0)

    def confirm(self, words: list[str]) -> None:
        """Note an answer: what was done, for which channel, and how many there are now.

        Channels and patterns are counted together, those of shards apart.
        """
        kind = words[0].upper().replace("UNSUBSCRIBE", "SUBSCRIBE")
        if kind not in self._counts or len(words) < 3 or not words[2].isdigit():
            return
        other = {"SUBSCRIBE": "PSUBSCRIBE", "PSUBSCRIBE": "SUBSCRIBE"}.get(kind)
        self._counts[kind] = max(0, int(words[2]) - (self._counts[other] if other else 0))

    def count(self, unsubscribe: str) -> int:
        """Return how many answers the command gets without arguments, which ends all of a kind."""
        return max(1, self._counts[unsubscribe.replace("UNSUBSCRIBE", "SUBSCRIBE")])

    def clear(self) -> None:
        """Note that none is left."""
        self._counts = dict.fromkeys(SUBSCRIBES, 0)
