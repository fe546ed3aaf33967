"""Fetches whose decoders are compiled when the first hit is shown.

To compile those of a function of Rust takes 20 ms, and most of many functions are never called.
"""

from collections.abc import Callable, ItemsView, Iterator, Mapping
from functools import cached_property

from sslsniff.analysis.checked_fields import INVALID
from sslsniff.fetching.fetch import Fetch, ValueDecoder
from sslsniff.fetching.fetch_steps import FetchStep
from sslsniff.fetching.traced_values import Missing, Value
from sslsniff.functions.values.fetching import FetchSource, ValueRole, compile_fetch
from sslsniff.functions.values.raw_values import always
from sslsniff.kernel.resource_limits import OverTimeError, limited

_MOST_CPU_S = 10
_MOST_MEMORY_BYTES = 512 << 20
"""What the types of a hostile worker may take; those of real programs take 0.02 s."""


def late_fetch(source: FetchSource, steps: tuple[FetchStep, ...], data_bytes: int) -> Fetch:
    """Return a fetch of ``steps``, which a worker says to be those of ``source``.

    If they are not, or its types take too much, all values are ``Missing.UNREADABLE``.
    """
    late = _LateDecoders(source, steps, data_bytes)
    has_address = any(each.role is ValueRole.RETURN_ADDRESS for each in source.wanted)
    return Fetch(
        steps,
        data_bytes,
        _Decoders(lambda: late.fetch.decoders),
        late.return_address if has_address else None,
        _Decoders(lambda: late.fetch.results),
    )


class _LateDecoders:
    """Compiles a fetch when it is needed."""

    def __init__(self, source: FetchSource, steps: tuple[FetchStep, ...], data_bytes: int) -> None:
        self._source: FetchSource | None = source
        self._steps = steps
        self._data_bytes = data_bytes

    @cached_property
    def fetch(self) -> Fetch:
        source, self._source = self._source, None
        assert source is not None
        try:
            with limited(_MOST_CPU_S, _MOST_MEMORY_BYTES):
                found = compile_fetch(*source)
        except (*INVALID, OverTimeError, MemoryError):
            return _unreadable(source)
        if (found.steps, found.data_bytes) != (self._steps, self._data_bytes):
            return _unreadable(source)
        return found._replace(source=None)  # its types need memory

    def return_address(self, data: bytes, failed: int, /) -> Value:
        decode = self.fetch.return_address
        return Missing.UNREADABLE if decode is None else decode(data, failed)


def _unreadable(source: FetchSource) -> Fetch:
    decoders: dict[ValueRole, dict[str, ValueDecoder]] = {role: {} for role in ValueRole}
    for each in source.wanted:
        decoders[each.role][each.name] = always(Missing.UNREADABLE)
    return Fetch(decoders=decoders[ValueRole.VALUE], results=decoders[ValueRole.RESULT])


class _Decoders(Mapping[str, ValueDecoder]):
    """Decoders by name; ``compiled`` returns them."""

    def __init__(self, compiled: Callable[[], Mapping[str, ValueDecoder]]) -> None:
        self._compile = compiled

    @cached_property
    def _decoders(self) -> Mapping[str, ValueDecoder]:
        return self._compile()

    def __getitem__(self, name: str) -> ValueDecoder:
        return self._decoders[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._decoders)

    def __len__(self) -> int:
        return len(self._decoders)

    def items(self) -> ItemsView[str, ValueDecoder]:
        """Return those of the mapping itself: values are read by them 100,000 times in a second."""
        return self._decoders.items()
