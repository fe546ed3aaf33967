"""Stacks with how often each was seen: "folded" lines, which flame graph tools read.

A line is ``outermost;...;innermost count`` (github.com/brendangregg/FlameGraph, stackcollapse).
speedscope.app and inferno-flamegraph read them, too.
"""

from typing import TextIO

from sslsniff.core.escaping import escape
from sslsniff.functions.outputs.stack_text import function_name
from sslsniff.functions.outputs.traced_call import CallSink, TracedCall
from sslsniff.functions.stacks.stack_trace import StackTrace

_MOST_STACKS = 100_000
_OTHERS = "[stacks beyond the first 100,000]"
_MISSING = "[missing: {}]"


class FoldedStacks(CallSink):
    """Counts calls by their stacks; writes them to ``stream`` at its end.

    Memory is bounded: beyond 100,000 different stacks, the others are counted as one.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._stacks: dict[int, StackTrace] = {}
        """By their identity: to compare stacks takes longer."""
        self._counts: dict[int, int] = {}
        self._others = 0

    def entered(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        stack = call.stack
        if stack is None:
            return
        key = id(stack)
        if key in self._counts:
            self._counts[key] += 1
        elif len(self._counts) < _MOST_STACKS:
            self._stacks[key] = stack
            self._counts[key] = 1
        else:
            self._others += 1

    def close(self) -> None:
        """Write the lines, in the order in which the stacks were first seen."""
        lines: dict[str, int] = {}
        for key, count in self._counts.items():
            line = folded(self._stacks[key])
            lines[line] = lines.get(line, 0) + count
        if self._others:
            lines[_OTHERS] = self._others
        self._stream.writelines(f"{line} {count}\n" for line, count in lines.items())
        self._stream.flush()


def folded(stack: StackTrace) -> str:
    """Return a stack as one line, the outermost function first."""
    names = [function_name(each) for each in reversed(stack.places)]
    if stack.missing is not None:
        names.insert(0, _MISSING.format(stack.missing.value))
    return ";".join(escape(name).replace(";", ":") for name in names)
