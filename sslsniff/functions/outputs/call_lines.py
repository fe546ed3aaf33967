"""Calls as lines of text for people, indented by their depth."""

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TextIO

from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape
from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.forms.text import pieces
from sslsniff.forms.text.lines import Paint, plain
from sslsniff.functions.outputs.stack_text import stack_lines
from sslsniff.functions.outputs.thread_names import ThreadNames
from sslsniff.functions.outputs.traced_call import CallSink, TracedCall, TraceSummary
from sslsniff.functions.outputs.value_text import arguments_text, value_text

_INDENT = "  "
_STACK_INDENT = "   "
_MOST_INDENTED = 60
"""Calls that are deeper get no more indent, but their depth as a number."""
_LABEL_COLUMNS = 14
_SECONDS_COLUMNS = 11
_NO_TIME = " " * _SECONDS_COLUMNS
_MOST_LABELS = 4096
_INFERRED = "(from the caller's variable)"
_DOUBTFUL = "(hits were dropped: perhaps the end of a later call)"
_UNITS = ((1_000, 1, "ns"), (1_000_000, 1_000, "us"), (1_000_000_000, 1_000_000, "ms"))


def short_duration(span_ns: int) -> str:
    """Return a span of time in the unit that fits, from nanoseconds."""
    for limit, divisor, unit in _UNITS:
        if span_ns < limit:
            return f"{span_ns} ns" if divisor == 1 else f"{span_ns / divisor:.1f} {unit}"
    return f"{span_ns / 1e9:.2f} s"


class _ShownPlace(NamedTuple):
    """What all calls of a place have in common, with escapes and colours.

    ``before`` and ``after``: their arguments. ``alone``: all of it, where there are none.
    """

    place: Place
    name: str
    before: str
    after: str
    alone: str


class CallSummaryLine(CallSink):
    """Writes to ``stream`` at the end of the trace only."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def summary(self, summary: TraceSummary) -> None:
        """See ``CallSink``."""
        self._stream.write(summary_line(summary) + "\n")

    def flush(self) -> None:
        """See ``CallSink``."""
        self._stream.flush()


class CallLines(CallSummaryLine):
    """Writes a line when a call begins, and one when it returns, as SystemTap's examples do.

    What ends as soon as it begins has one line. Times are seconds since the first call.
    """

    def __init__(
        self,
        stream: TextIO,
        paint: Paint = plain,
        names: ThreadNames | None = None,
    ) -> None:
        super().__init__(stream)
        self._paint = paint
        self._names = names or ThreadNames()
        self._start_ns = 0
        self._shown: dict[int, _ShownPlace] = {}
        """By the places' identities, which stay theirs while they are held."""
        self._label = functools.lru_cache(_MOST_LABELS)(self._make_label)

    def began(self, time_ns: int) -> None:
        """See ``CallSink``."""
        self._start_ns = time_ns

    def entered(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        if call.ends_later:
            self._write(call, call.time_ns, f"-> {self._begin(call)}")
            self._write_stack(call)

    def ended(self, call: TracedCall) -> None:
        """See ``CallSink``."""
        if not call.ends_later:
            self._write(call, call.time_ns, self._begin(call) + self._end(call))
            self._write_stack(call)
            return
        end = self._end(call)
        if end:
            end_ns = None if call.duration_ns is None else call.time_ns + call.duration_ns
            self._write(call, end_ns, f"<- {self._place(call.place).name}{end}")

    def nested(self, calls: Sequence[TracedCall]) -> Iterator[str]:
        """Yield a line for each call with all that is known of it, indented below the first."""
        first = min((each.depth for each in calls), default=0)
        for each in calls:
            indent = _INDENT * min(each.depth - first, _MOST_INDENTED)
            yield f"{indent}{self._begin(each)}{self._end(each)}"

    def _write(self, call: TracedCall, time_ns: int | None, shown: str) -> None:
        """Write a line; ``time_ns``: None where it is not known."""
        since = (
            _NO_TIME
            if time_ns is None
            else f"{(time_ns - self._start_ns) / 1e9:{_SECONDS_COLUMNS}.6f}"
        )
        depth = call.depth
        indent = _INDENT * depth
        if depth > _MOST_INDENTED:
            indent = f"{_INDENT * _MOST_INDENTED}({depth}) "
        self._stream.write(
            f"{self._paint('dim', since)}"
            f"  {self._label(call.pid, call.tid, call.task, call.place.is_go)}  {indent}{shown}\n"
        )

    def _write_stack(self, call: TracedCall) -> None:
        """Write the functions of the call's stack below it, if they were asked for."""
        if call.stack is None:
            return
        start = " " * (_SECONDS_COLUMNS + 2 + _LABEL_COLUMNS + 2 + len(_STACK_INDENT))
        start += _INDENT * min(call.depth, _MOST_INDENTED)
        for line in stack_lines(call.stack):
            self._stream.write(f"{start}{self._paint('dim', line)}\n")

    def _make_label(self, pid: int, tid: int, task: int | None, is_go: bool) -> str:
        label = escape(self._names.label(pid, tid, task, is_go=is_go))
        return self._paint("process", label.ljust(_LABEL_COLUMNS))

    def _begin(self, call: TracedCall) -> str:
        shown = self._place(call.place)
        if not call.arguments:
            return shown.alone
        return f"{shown.before}{arguments_text(call.arguments)}{shown.after}"

    def _end(self, call: TracedCall) -> str:
        """Return what is known of the end of a call; an empty string: no line is needed."""
        if not (call.ends_later or call.has_result) and call.duration_ns is None:
            return ""  # as of most hits where there are many
        shown = []
        if call.has_result:
            shown.append(f" = {value_text(call.result)}")
        if call.is_result_inferred:
            shown.append(f"  {self._paint('dim', _INFERRED)}")
        if call.duration_ns is not None:
            shown.append(f"  {self._paint('dim', short_duration(call.duration_ns))}")
        elif call.ends_later and call.place.kind is PlaceKind.ENTRY:
            shown.append(f"  {self._paint('loss', '(return not seen)')}")
        if call.is_end_doubtful:
            shown.append(f"  {self._paint('loss', _DOUBTFUL)}")
        return "".join(shown)

    def _place(self, place: Place) -> _ShownPlace:
        known = self._shown.get(id(place))
        if known is None:
            known = self._shown[id(place)] = self._make_place(place)
        return known

    def _make_place(self, place: Place) -> _ShownPlace:
        name, remark = _described(place)
        shown = self._paint("method", name)
        end = f"  {self._paint('dim', remark)}" if remark else ""
        if place.kind is PlaceKind.LINE:
            return _ShownPlace(place, shown, f"{shown}: ", end, shown + end)
        alone = shown if place.kind is PlaceKind.ADDRESS else f"{shown}()"
        return _ShownPlace(place, shown, f"{shown}(", f"){end}", alone + end)


def _described(place: Place) -> tuple[str, str]:
    """Return the name of a place and a remark on it, escaped."""
    name, at = escape(place.function), escape(short_position(place))
    if place.kind is PlaceKind.LINE:
        return f"{at} {name}", ""
    if place.kind is not PlaceKind.INLINED:
        return name, ""
    into = f" into {escape(place.into)}" if place.into else ""
    return name, f"[inlined{into}{f', {at}' if at else ''}]"


def short_position(place: Place) -> str:
    """Return ``file:line`` of a place, without the folder; an empty string: it is not known."""
    if place.file is None:
        return ""
    name = place.file.rpartition("/")[2]
    return name if place.line is None else f"{name}:{place.line}"


def summary_line(summary: TraceSummary) -> str:
    """Return the figures of a trace in one line."""
    of = "" if summary.shown is None else f"{summary.shown} shown of "
    figures = [
        f"{of}{counted(summary.calls, 'call')} in {pieces.duration(summary.duration_ns)}",
        f"{summary.lost} lost",
    ]
    if summary.limited:
        figures.append(f"{summary.limited} dropped by the rate limit (--rate)")
    if summary.forgotten:
        figures.append(f"{summary.forgotten} ended early, because too many were open")
    return ", ".join(figures)
