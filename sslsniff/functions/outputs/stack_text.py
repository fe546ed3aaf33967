"""Stacks as text for people, and as objects for programs."""

import functools
from collections.abc import Iterator

from sslsniff.core.escaping import escape
from sslsniff.functions.stacks.stack_trace import CodePlace, StackTrace

_MOST_PLACES = 16_384
"""So many lines are kept as they are shown."""


def stack_lines(stack: StackTrace) -> Iterator[str]:
    """Yield a line for each function of a stack, escaped, the innermost first."""
    yield from map(_line, stack.places)
    if stack.missing is not None:
        yield f"... (missing: {stack.missing.value})"


def function_name(place: CodePlace) -> str:
    """Return the function of a place; if it has no name, its address and file."""
    if place.function is not None:
        return place.function
    return f"{place.address:#x}" if place.module is None else f"{place.module}+{place.address:#x}"


@functools.lru_cache(_MOST_PLACES)
def _line(place: CodePlace) -> str:
    shown = escape(function_name(place))
    if place.file is not None:
        name = escape(place.file.rpartition("/")[2])
        shown += f"  {name}" if place.line is None else f"  {name}:{place.line}"
    elif place.function is not None and place.module is not None:
        shown += f"  ({escape(place.module)})"
    return f"{shown}  [inlined]" if place.is_inlined else shown


def stack_objects(stack: StackTrace) -> list[dict[str, object]]:
    """Return a stack as it is written in JSON (docs/json.md)."""
    objects: list[dict[str, object]] = [
        {
            "function": each.function,
            "file": each.file,
            "line": each.line,
            "inlined": each.is_inlined,
            "module": each.module,
            "address": each.address,
        }
        for each in stack.places
    ]
    if stack.missing is not None:
        objects.append({"missing": stack.missing.value})
    return objects
