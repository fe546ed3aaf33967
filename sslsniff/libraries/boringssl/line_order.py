"""Tells which function each error's line is in, by the order of all lines of the source file."""

from collections.abc import Iterator, Sequence
from itertools import combinations

from sslsniff.libraries.boringssl.error_reasons import (
    ALIKE,
    CONNECTION_TYPE_NOT_SET,
    FORMS,
    FunctionReasons,
    Raised,
)
from sslsniff.matching.stripped.evidence import LineReason

_MOST_SHOWN = 26
_MOST_LINES = 512
_MOST_WAYS = 4  # each takes a proof of all functions


class LineOrderError(Exception):
    """The lines cannot be distinguished; the text says why."""


def readings_of_lines(lines: Sequence[LineReason]) -> list[dict[int, str]]:
    """Return the ways to read the lines: each line -> the function that it is in.

    ``lines``: those of all errors of the file; the ways are from ``SSL_do_handshake`` on, and those
    that explain most lines. They differ in other functions than those in ``ALIKE``. Raises
    ``LineOrderError`` if there is none, or too many.
    """
    ordered = _with_one_reason(lines)
    first = [at for at, (_, reason) in enumerate(ordered) if reason == CONNECTION_TYPE_NOT_SET]
    if len(first) != 1:
        raise LineOrderError(
            f"reason {CONNECTION_TYPE_NOT_SET} is raised on {len(first)} lines, not on one"
        )
    rest = ordered[first[0] : first[0] + _MOST_LINES]
    reasons = [reason for _, reason in rest]
    for forms in FORMS:
        ways = {way for form in forms for way in _ways(form, reasons)}
        if ways:
            break
    else:
        shown = " ".join(f"{line}:{reason}" for line, reason in rest[:_MOST_SHOWN])
        raise LineOrderError(f"the reasons by line are in no known order: {shown}")
    longest = max(map(len, ways))
    different = {
        tuple(None if name in ALIKE else name for name in way): way
        for way in sorted(ways)
        if len(way) == longest
    }
    if len(different) > _MOST_WAYS:
        raise LineOrderError(f"there are {len(different)} ways to read the order of the reasons")
    return [
        {line: name for (line, _), name in zip(rest, way, strict=False)}
        for way in different.values()
    ]


def _with_one_reason(lines: Sequence[LineReason]) -> list[LineReason]:
    """Return the lines in order, without those that have several reasons: merged paths."""
    reasons: dict[int, set[int]] = {}
    for line, reason in lines:
        reasons.setdefault(line, set()).add(reason)
    return [(line, each.pop()) for line, each in sorted(reasons.items()) if len(each) == 1]


def _ways(form: Sequence[FunctionReasons], reasons: Sequence[int]) -> Iterator[tuple[str, ...]]:
    """Yield each way to read the first of ``reasons`` by a form: a function's name for each."""
    if not form:
        yield ()
        return
    function, *later = form
    for raised in _choices(function.raised):
        if list(reasons[: len(raised)]) == raised:
            for way in _ways(later, reasons[len(raised) :]):
                yield (*[function.name] * len(raised), *way)
    if not function.is_in_all:
        yield from _ways(later, reasons)


def _choices(raised: Sequence[Raised]) -> Iterator[list[int]]:
    """Yield the rows of reasons that a function may raise."""
    optional = [at for at, each in enumerate(raised) if not each.is_in_all]
    for count in range(len(optional) + 1):
        for absent in combinations(optional, count):
            yield [each.reason for at, each in enumerate(raised) if at not in absent]
