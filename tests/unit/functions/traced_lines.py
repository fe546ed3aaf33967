"""The lines of a trace: calls with their values, from the hits of one thread."""

import re
from collections.abc import Iterable

from sslsniff.fetching.trace_places import PlaceKind
from sslsniff.functions.outputs.value_text import arguments_text, value_text
from tests.unit.functions.probed_run import PlaceHit


def traced_lines(hits: Iterable[PlaceHit]) -> list[str]:
    """Return ``name(argument=value) = result`` for each call, in the order of the returns.

    A return belongs to the call with its stack pointer.
    """
    lines = []
    calls: list[tuple[int, str]] = []
    for place, values, stack, _ in hits:
        if place.kind is PlaceKind.RETURN:
            entered, line = calls.pop()
            assert entered == stack or place.is_go, (place, line)  # whose stacks move
            result = value_text(values["result"]) if len(values) == 1 else arguments_text(values)
            lines.append(f"{line} = {result}" if values else line)
        elif place.kind is PlaceKind.ENTRY:
            name = re.split(r"::|\.", place.function)[-1]
            calls.append((stack, f"{name}({arguments_text(values)})"))
    assert not calls
    return lines
