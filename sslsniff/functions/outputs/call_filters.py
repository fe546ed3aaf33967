"""Which calls are shown: filters that stand between what builds calls and their sinks."""

import re
from collections.abc import Sequence
from dataclasses import replace

from sslsniff.functions.conditions.condition import ArgumentCondition, is_met
from sslsniff.functions.outputs.traced_call import CallSink, TracedCall, TraceSummary


class ShownCalls(CallSink):
    """Gives calls to several sinks; ``shown`` counts them."""

    def __init__(self, sinks: Sequence[CallSink]) -> None:
        self._sinks = sinks
        self.shown = 0

    def began(self, time_ns: int) -> None:
        """See ``CallSink``."""
        for sink in self._sinks:
            sink.began(time_ns)

    def entered(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        self.shown += 1
        for sink in self._sinks:
            sink.entered(call)

    def ended(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        for sink in self._sinks:
            sink.ended(call)

    def summary(self, summary: TraceSummary) -> None:
        """See ``CallSink``."""
        for sink in self._sinks:
            sink.summary(summary)

    def flush(self) -> None:
        """See ``CallSink``."""
        for sink in self._sinks:
            sink.flush()

    def close(self) -> None:
        """See ``CallSink``."""
        for sink in self._sinks:
            sink.close()


class _CallFilter(CallSink):
    """Gives ``sink`` all that is no call."""

    def __init__(self, sink: CallSink) -> None:
        self._sink = sink

    def began(self, time_ns: int) -> None:
        """See ``CallSink``."""
        self._sink.began(time_ns)

    def summary(self, summary: TraceSummary) -> None:
        """See ``CallSink``."""
        self._sink.summary(summary)

    def flush(self) -> None:
        """See ``CallSink``."""
        self._sink.flush()

    def close(self) -> None:
        """See ``CallSink``."""
        self._sink.close()


class _EarlyFilter(_CallFilter):
    """Decides when a call begins: ``lets_through``."""

    def __init__(self, sink: CallSink) -> None:
        super().__init__(sink)
        self._passed: set[int] = set()

    def lets_through(self, call: TracedCall) -> bool:
        """Return whether a call that began is shown."""
        raise NotImplementedError

    def entered(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        if self.lets_through(call):
            self._passed.add(id(call))
            self._sink.entered(call)

    def ended(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        if id(call) in self._passed:
            self._passed.discard(id(call))
            self._sink.ended(call)


class CallsThatMeet(_EarlyFilter):
    """Lets calls through whose arguments meet a condition."""

    def __init__(self, condition: ArgumentCondition, sink: CallSink) -> None:
        super().__init__(sink)
        self._node = condition.node

    def lets_through(self, call: TracedCall) -> bool:
        """See ``_EarlyFilter``."""
        return is_met(self._node, call.arguments) is True


class CallsUnder(_EarlyFilter):
    """Lets calls of functions that ``pattern`` matches through, and all calls inside of them.

    The outermost call of such a function gets depth 0. Only what it calls itself is inside, in its
    thread or goroutine.
    """

    def __init__(self, pattern: re.Pattern[str], sink: CallSink) -> None:
        super().__init__(sink)
        self._pattern = pattern
        self._outermost: dict[tuple[int, int], tuple[TracedCall, int]] = {}

    def lets_through(self, call: TracedCall) -> bool:
        """See ``_EarlyFilter``."""
        _, depth = self._outermost.get(call.thread, (None, None))
        if depth is None:
            if not self._pattern.search(call.place.function):
                return False
            depth = call.depth
            if call.has_inside:
                self._outermost[call.thread] = call, depth
        call.depth -= depth
        return True

    def ended(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        super().ended(call)
        outermost, _ = self._outermost.get(call.thread, (None, None))
        if outermost is call:
            del self._outermost[call.thread]


class ShallowCalls(_EarlyFilter):
    """Lets calls through that are inside of fewer than ``most_levels`` others."""

    def __init__(self, most_levels: int, sink: CallSink) -> None:
        super().__init__(sink)
        self._most_levels = most_levels

    def lets_through(self, call: TracedCall) -> bool:
        """See ``_EarlyFilter``."""
        return call.depth < self._most_levels


class SlowCalls(_CallFilter):
    """Lets calls through that took ``least_ns`` or longer, when they end.

    They are given as calls that end at once: their callers, which end later, need not be shown.
    """

    def __init__(self, least_ns: int, sink: CallSink) -> None:
        super().__init__(sink)
        self._least_ns = least_ns

    def ended(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        if call.duration_ns is not None and call.duration_ns >= self._least_ns:
            shown = replace(call, ends_later=False)
            self._sink.entered(shown)
            self._sink.ended(shown)
