"""Secrets that were blanked: where each was and what found it, but never its text.

Redaction attaches them to the chunk in which a secret began. From there they get to the exchange of
the message, to capture files and to the summary.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

MOST_SECRETS = 64
"""Kinds of secrets that a chunk or an exchange has by name; the others are counted together."""
MOST_NAMES = 1024
"""Names that a capture counts; the others are counted together."""
OTHERS = "(others)"
"""The name of secrets that are counted together."""


class RedactedSecret(NamedTuple):
    """A secret that was blanked.

    ``where``: such as ``request header``. ``name``: of its header or field, or what kind it is.
    ``pattern``: the name of the user's pattern that matched; None: another rule found it.
    ``fingerprint``: of its text; the same text has the same in one run. None: not known.
    """

    where: str
    name: str
    pattern: str | None = None
    fingerprint: str | None = None

    @property
    def label(self) -> str:
        """A short text for people, without the place."""
        return f"{self.name} #{self.fingerprint}" if self.fingerprint else self.name


MessageKey = tuple[int, int | None]
"""Which message of a connection a secret was in; neither is known of other protocols.

The stream of HTTP/2, else 0; the offset in its direction at which a message of HTTP/1 begins.
"""

NO_MESSAGE: MessageKey = (0, None)

Counts = dict[RedactedSecret, int]
"""How many of each secret there were."""
PlacedCounts = dict[MessageKey, Counts]
"""The same for each message in a chunk."""


def add(counts: Counts, secret: RedactedSecret, count: int = 1) -> None:
    """Count a secret; beyond ``MOST_SECRETS`` kinds, as one of the others."""
    if secret not in counts and len(counts) >= MOST_SECRETS:
        secret = RedactedSecret(secret.where, OTHERS)
    counts[secret] = counts.get(secret, 0) + count


def place(placed: PlacedCounts, message: MessageKey, secrets: Sequence[RedactedSecret]) -> None:
    """Count secrets of a message; beyond ``MOST_SECRETS`` messages, as of none."""
    counts = placed.get(message)
    if counts is None:
        if len(placed) >= MOST_SECRETS:
            message = NO_MESSAGE
        counts = placed.setdefault(message, {})
    for secret in secrets:
        add(counts, secret)


@dataclass(slots=True)
class SecretTotals:
    """How many secrets a capture had, by name and by the user's pattern."""

    counts: dict[tuple[str, str | None], int] = field(default_factory=dict)

    def add(self, placed: PlacedCounts) -> None:
        """Count the secrets of a chunk."""
        counts = self.counts
        for secrets in placed.values():
            for (_, name, pattern, _), count in secrets.items():
                key = name, pattern
                if key not in counts and len(counts) >= MOST_NAMES:
                    key = OTHERS, None
                counts[key] = counts.get(key, 0) + count

    @property
    def total(self) -> int:
        """How many there were in all."""
        return sum(self.counts.values())

    def most(self) -> list[tuple[str, str | None, int]]:
        """Return name, pattern and count, the most frequent first."""
        by_count = sorted(self.counts.items(), key=lambda item: (-item[1], item[0][0]))
        return [(name, pattern, count) for (name, pattern), count in by_count]


def counts_of(objects: list[dict[str, Any]]) -> Counts:
    """Return the secrets of such objects."""
    names = RedactedSecret._fields
    return {RedactedSecret(*(each[name] for name in names)): each["count"] for each in objects}


def labels(counts: Iterable[RedactedSecret]) -> list[str]:
    """Return the short texts of secrets, each once."""
    return list(dict.fromkeys(secret.label for secret in counts))
