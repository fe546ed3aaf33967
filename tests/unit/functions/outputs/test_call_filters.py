"""Which calls are shown: those under a function, those of few levels, the slow ones."""

import re
from collections.abc import Callable

import pytest

from sslsniff.functions.calls.call_builder import CallBuilder
from sslsniff.functions.outputs.call_filters import (
    CallsUnder,
    ShallowCalls,
    ShownCalls,
    SlowCalls,
)
from sslsniff.functions.outputs.traced_call import CallSink, TraceSummary
from tests.unit.traced import ENTRY, INLINED, RETURN, Journal, hit, place

NAMES = [*"fgh"]
PLACES = [
    *(place(ENTRY, name) for name in NAMES),
    *(place(RETURN, name) for name in NAMES),
    place(ENTRY, "u"),
    place(INLINED, "i"),
]
ROW = {**{f"{name}(": at for at, name in enumerate(NAMES)}, "u": 6, "i": 7}
ROW |= {f"{name})": at for at, name in enumerate(NAMES, 3)}

Filter = Callable[[CallSink], CallSink]


def shown(words: str, make: Filter, tids: tuple[int, ...] = (7,)) -> str:
    """Return the calls that a filter lets through; the stack follows the brackets.

    In several threads, all do the same at the same time.
    """
    journal = Journal()
    builder = CallBuilder(PLACES, make(journal))
    stack = 100
    for at, word in enumerate(words.split()):
        stack -= 10 * word.endswith("(")
        for tid in tids:
            builder.handle(hit(at, ROW[word], stack, tid=tid))
        stack += 10 * word.endswith(")")
    builder.finish()
    return ", ".join(journal.lines)


def under(pattern: str) -> Filter:
    return lambda sink: CallsUnder(re.compile(pattern), sink)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("f( g( h( h) g) f)", "-> g 0, -> h 1, <- h 1 1 1, <- g 0 1 3"),
        ("f( h( h) f) h( h)", ""),
        ("g( g( g) g) h(", "-> g 0, -> g 1, <- g 1 1 1, <- g 0 1 3"),
        ("f( g( u i g) u f)", "-> g 0, -> u 1, <- u 1 ? ?, -> i 1, <- i 1 ? ?, <- g 0 1 3"),
        ("g( f(", "-> g 0, -> f 1, <- f 1 ? ?, <- g 0 ? ?"),
    ],
)
def test_under(words: str, expected: str) -> None:
    assert shown(words, under("^g$")) == expected


def test_under_what_cannot_be_followed() -> None:
    """It is shown itself: where it ends is not known."""
    assert shown("u f( f) i", under("u|i")) == "-> u 0, <- u 0 ? ?, -> i 0, <- i 0 ? ?"


def test_under_in_two_threads() -> None:
    assert shown("f( g( g) f)", under("g"), (7, 8)) == ", ".join(
        [*["-> g 0"] * 2, *["<- g 0 1 1"] * 2]
    )


@pytest.mark.parametrize(
    ("most", "expected"),
    [(1, "-> f 0, <- f 0 1 5"), (2, "-> f 0, -> g 1, <- g 1 1 3, <- f 0 1 5")],
)
def test_few_levels(most: int, expected: str) -> None:
    assert shown("f( g( h( h) g) f)", lambda sink: ShallowCalls(most, sink)) == expected


def test_levels_count_from_the_function_that_was_asked_for() -> None:
    both = lambda sink: under("g")(ShallowCalls(1, sink))  # noqa: E731
    assert shown("f( g( h( h) g) f)", both) == "-> g 0, <- g 0 1 3"


def test_slow_calls() -> None:
    slow = shown("f( g( h( h) g) u f) f(", lambda sink: SlowCalls(3, sink))
    assert slow == "-> g 1, <- g 1 1 3, -> f 0, <- f 0 1 6"


def test_slow_calls_have_ended() -> None:
    journal = Journal()
    builder = CallBuilder(PLACES, SlowCalls(0, journal))
    for at, row in enumerate((0, 3)):
        builder.handle(hit(at, row, 90))
    (call,) = journal.entered_calls
    assert (call.ends_later, call.duration_ns, call.result) == (False, 1, 1)


class Everything(Journal):
    """Remembers what is no call, too."""

    def began(self, time_ns: int) -> None:
        self.lines.append(f"began {time_ns}")

    def summary(self, summary: TraceSummary) -> None:
        self.lines.append(f"summary {summary.calls}")

    def flush(self) -> None:
        self.lines.append("flush")

    def close(self) -> None:
        self.lines.append("close")


def test_all_sinks_get_everything() -> None:
    sinks = [Everything(), Everything()]
    counted = ShownCalls(sinks)
    chain = under("g")(ShallowCalls(1, SlowCalls(0, counted)))
    builder = CallBuilder(PLACES, chain)
    for at, (row, stack) in enumerate([(0, 90), (3, 90), (1, 90), (4, 90), (0, 90)], 5):
        builder.handle(hit(at, row, stack))
    builder.finish()
    chain.summary(TraceSummary(calls=builder.calls, duration_ns=1))
    chain.flush()
    chain.close()
    for sink in sinks:
        assert sink.lines == ["began 5", "-> g 0", "<- g 0 1 1", "summary 3", "flush", "close"]
    assert counted.shown == 1
