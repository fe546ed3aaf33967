"""Where values of Go are: its compiler writes no piece for the padding between members.

And up to Go 1.20 it may write one piece twice, of a value in a generic function or a text.
"""

from collections.abc import Iterator

from sslsniff.fetching.locations import ConstantBytes, LocationPiece, ValueLocation
from sslsniff.fetching.traced_values import Missing
from sslsniff.functions.dwarf.type_model import Array, Structure, Type

_MOST_PIECES = 64


def with_padding(
    location: ValueLocation | Missing, described: Type | None
) -> ValueLocation | Missing:
    """Return a location with pieces for the padding in a value, if its pieces are all members.

    (cmd/compile/internal/ssa/debug.go: a piece for each register that a value was split into.)
    """
    if isinstance(location, Missing) or described is None or len(location) < 2:
        return location
    once = _without_repeated(location)
    if once != location:
        is_whole = sum(each.size or 0 for each in once) == described.size
        return once if is_whole else Missing.OPTIMISED_OUT
    pieces: list[LocationPiece] = []
    end = 0
    numbers = _numbers_in(described, 0)
    for piece in location:
        offset, size = next(numbers, (0, 0))
        if piece.size != size or len(pieces) > _MOST_PIECES:
            return location
        if offset > end:
            pieces.append(LocationPiece(Missing.OPTIMISED_OUT, offset - end))
        pieces.append(piece)
        end = offset + size
    return tuple(pieces)


def _without_repeated(location: ValueLocation) -> ValueLocation:
    """Return the pieces without those that are where the one before is."""
    return tuple(
        each
        for each, before in zip(location, (None, *location), strict=False)
        if each != before or isinstance(each.source, Missing | ConstantBytes)
    )


def _numbers_in(described: Type, offset: int) -> Iterator[tuple[int, int]]:
    """Yield the offset and size of each number and pointer in a value."""
    if isinstance(described, Structure):
        for each in described.members:
            yield from _numbers_in(each.type, offset + each.offset)
    elif isinstance(described, Array):
        for index in range(described.count or 0):
            yield from _numbers_in(described.element, offset + index * described.element.size)
    elif described.size:
        yield offset, described.size
