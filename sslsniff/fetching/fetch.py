"""What a probe fetches: steps for the kernel, and how the bytes become values."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from sslsniff.fetching.fetch_steps import FetchStep
from sslsniff.fetching.traced_values import Value

_SMALLEST_TEXT_BYTES = 32


class FetchLimits(NamedTuple):
    """How much of a value is fetched.

    ``text_bytes``: bytes of a string. ``items``: elements of an array, slice or vector.
    ``depth``: how many structures inside of each other, and pointers one after the other.
    """

    text_bytes: int = 256
    items: int = 16
    depth: int = 3

    def deeper(self) -> "FetchLimits":
        """Return the limits for what a structure has inside, or a pointer leads to."""
        return self._replace(depth=self.depth - 1)

    def for_each_item(self) -> "FetchLimits":
        """Return the limits for each of several elements, which share the space."""
        text_bytes = min(self.text_bytes, max(self.text_bytes // 4, _SMALLEST_TEXT_BYTES))
        return FetchLimits(text_bytes, max(self.items // 4, 1), self.depth - 1)


class ValueDecoder(Protocol):
    """Turns the bytes that a probe fetched into one value."""

    def __call__(self, data: bytes, failed: int, /) -> Value:
        """Return the value; ``failed`` has a bit set for each item that could not be read."""


class Fetch(NamedTuple):
    """What a probe reads: ``steps``, which write ``data_bytes`` bytes, and a decoder by name.

    ``return_address``: reads where the call returns to; None: that is not fetched.
    ``results``: decoders of a call's results, where its entry is its return.
    ``source``: what it was compiled from. A process sends that to another one, which compiles it
    again: decoders cannot be sent.
    """

    steps: tuple[FetchStep, ...] = ()
    data_bytes: int = 0
    decoders: Mapping[str, ValueDecoder] = {}
    return_address: ValueDecoder | None = None
    results: Mapping[str, ValueDecoder] = {}
    source: object = None

    def values(self, data: bytes, failed: int) -> dict[str, Value]:
        """Return the values by name, in the order of the parameters."""
        return {name: decode(data, failed) for name, decode in self.decoders.items()}

    def result_values(self, data: bytes, failed: int) -> dict[str, Value]:
        """Return what ``results`` read, by name."""
        return {name: decode(data, failed) for name, decode in self.results.items()}
