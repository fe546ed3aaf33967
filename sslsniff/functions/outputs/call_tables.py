"""Counts and durations of calls by function, as the kernel added them up."""

from collections.abc import Mapping, Sequence

from sslsniff.core.errors import counted
from sslsniff.core.escaping import escape
from sslsniff.forms.json.encoded_json import encoded_json
from sslsniff.functions.outputs.call_lines import short_duration

_BAR_COLUMNS = 40
_GAP = "  "


def count_lines(counts: Mapping[str, int]) -> list[str]:
    """Return how often each function was called, as lines: the most frequent first."""
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    columns = max((len(str(count)) for _, count in rows), default=0)
    return [f"{count:>{columns}}{_GAP}{escape(function)}" for function, count in rows]


def count_objects(counts: Mapping[str, int]) -> list[str]:
    """Return the same as JSON lines."""
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]))
    return [
        encoded_json({"type": "count", "function": function, "calls": count}).decode()
        for function, count in rows
    ]


def histogram_lines(histograms: Mapping[str, Sequence[int]]) -> list[str]:
    """Return histograms of durations as lines, by function.

    The number n, from 0, is of calls that took from 2**n to before 2**(n+1) nanoseconds; the first
    one has those that took none, too.
    """
    return [line for each in histograms.items() for line in _histogram(*each)]


def histogram_objects(histograms: Mapping[str, Sequence[int]]) -> list[str]:
    """Return the same as JSON lines."""
    lines = []
    for function, buckets in histograms.items():
        rows = [
            {"from_ns": _start_ns(n), "to_ns": 2 << n, "calls": buckets[n]} for n in _used(buckets)
        ]
        calls = sum(buckets)
        line = {"type": "histogram", "function": function, "calls": calls, "buckets": rows}
        lines.append(encoded_json(line).decode())
    return lines


def _histogram(function: str, buckets: Sequence[int]) -> list[str]:
    used = _used(buckets)
    lines = [f"{escape(function)}: {counted(sum(buckets), 'call')}"]
    largest = max(buckets, default=0)
    spans = [f"{short_duration(_start_ns(n))} to {short_duration(2 << n)}" for n in used]
    span_columns = max(map(len, spans), default=0)
    count_columns = len(str(largest))
    for n, span in zip(used, spans, strict=True):
        bar = "#" * round(buckets[n] * _BAR_COLUMNS / largest)
        line = f"{_GAP}{span:>{span_columns}}{_GAP}{buckets[n]:>{count_columns}}{_GAP}{bar}"
        lines.append(line.rstrip())
    return lines


def _used(buckets: Sequence[int]) -> range:
    """Return the buckets from the first to the last one with calls."""
    found = [n for n, count in enumerate(buckets) if count]
    return range(found[0], found[-1] + 1) if found else range(0)


def _start_ns(n: int) -> int:
    return 1 << n if n else 0
