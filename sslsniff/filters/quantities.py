"""The operators of filters that compare a quantity: how long an exchange took, how large it was."""

from collections.abc import Callable
from typing import NamedTuple

from sslsniff.core.model import Exchange
from sslsniff.forms.text import pieces
from sslsniff.settings import values


class Least(NamedTuple):
    """An operator that takes the least value that matches.

    ``parse`` reads it, and raises ``argparse.ArgumentTypeError``; ``kind`` and ``example`` say what
    it is. ``value_of`` returns an exchange's value; None: it is not known.
    """

    kind: str
    example: str
    parse: Callable[[str], int]
    value_of: Callable[[Exchange], int | None]


def _duration_ns(exchange: Exchange) -> int | None:
    return pieces.rounded_span_ns(exchange.started_ns, exchange.ended_ns)


def _idle_ns(exchange: Exchange) -> int | None:
    """Return how long a session was idle in a transaction before a statement."""
    return exchange.statement.idle_ns if exchange.statement is not None else None


def _body_bytes(exchange: Exchange) -> int | None:
    """Return the bytes of both bodies as sent; None for what is no request and no response."""
    sizes = [each.body.size for each in (exchange.request, exchange.response) if each is not None]
    return sum(sizes) if sizes else None


LEAST: dict[str, Least] = {
    "idle": Least("a duration", "1s", values.duration, _idle_ns),
    "size": Least("a size", "64K", values.size, _body_bytes),
    "slow": Least("a duration", "1s", values.duration, _duration_ns),
}
