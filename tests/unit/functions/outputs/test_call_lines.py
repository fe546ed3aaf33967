"""Calls as text: exact lines."""

import io

import pytest

from sslsniff.fetching.trace_places import Place, PlaceKind
from sslsniff.functions.calls.call_builder import CallBuilder
from sslsniff.functions.outputs.call_lines import CallLines, short_duration, summary_line
from sslsniff.functions.outputs.traced_call import TracedCall, TraceSummary
from tests.unit.traced import ENTRY, INLINED, RESULT, RETURN, START_NS, Named, hit, place

PLACES = [
    place(ENTRY, "orders::sum"),
    place(RETURN, "orders::sum"),
    place(ENTRY, "orders::\x1b[31madd"),
    place(RETURN, "orders::\x1b[31madd"),
    place(INLINED, "hello", into="main", file="/src/main.rs", line=8, address=1),
    place(RESULT, "hello", call_address=1),
    place(INLINED, "tiny"),
    place(PlaceKind.LINE, "larger"),
    place(PlaceKind.STATIC, "mysql:query__start"),
    place(PlaceKind.ADDRESS, "main+0x12"),
    place(ENTRY, "go.f", is_go=True),
]
SUM, SUM_END, ADD, ADD_END, HELLO, HELLO_END, TINY, LINE, STATIC, ADDRESS, GO = range(11)


def text(rows: list[tuple[int, int]], **more: int) -> list[str]:
    """Return the lines for hits of (place, stack), 1.5 us after one another."""
    out = io.StringIO()
    builder = CallBuilder(PLACES, CallLines(out, names=Named()))
    for at, (index, stack) in enumerate(rows):
        builder.handle(hit(START_NS + at * 1500, index, stack, bytes([at]), **more))
    builder.finish()
    return out.getvalue().splitlines()


def test_calls_in_calls() -> None:
    assert text([(SUM, 90), (ADD, 80), (ADD_END, 80), (SUM_END, 90)]) == [
        "   0.000000  demo[7]         -> orders::sum(n=0)",
        "   0.000002  demo[7]           -> orders::\\x1b[31madd(n=1)",
        "   0.000003  demo[7]           <- orders::\\x1b[31madd = 2  1.5 us",
        "   0.000005  demo[7]         <- orders::sum = 3  4.5 us",
    ]


def test_a_return_that_was_not_seen() -> None:
    assert text([(SUM, 90), (ADD, 80), (SUM_END, 90), (SUM, 90)]) == [
        "   0.000000  demo[7]         -> orders::sum(n=0)",
        "   0.000002  demo[7]           -> orders::\\x1b[31madd(n=1)",
        "             demo[7]           <- orders::\\x1b[31madd  (return not seen)",
        "   0.000003  demo[7]         <- orders::sum = 2  3.0 us",
        "   0.000005  demo[7]         -> orders::sum(n=3)",
        "             demo[7]         <- orders::sum  (return not seen)",
    ]


def test_inlined_calls() -> None:
    assert text([(HELLO, 90), (HELLO_END, 90), (TINY, 90), (HELLO, 90)]) == [
        "   0.000000  demo[7]         -> hello(n=0)  [inlined into main, main.rs:8]",
        "             demo[7]         <- hello = 1  (from the caller's variable)",
        "   0.000003  demo[7]         tiny(n=2)  [inlined, demo.c:7]",
        "   0.000005  demo[7]         -> hello(n=3)  [inlined into main, main.rs:8]",
    ]


def test_lines_static_probes_and_addresses() -> None:
    assert text([(LINE, 90), (STATIC, 90), (ADDRESS, 90)]) == [
        "   0.000000  demo[7]         demo.c:7 larger: n=0",
        "   0.000002  demo[7]         mysql:query__start(n=1)",
        "   0.000003  demo[7]         main+0x12(n=2)",
    ]


@pytest.mark.parametrize(
    ("index", "label"), [(GO, "demo[7] goroutine 17"), (TINY, "worker[8] task 17")]
)
def test_goroutines_and_tasks(index: int, label: str) -> None:
    (line,) = text([(index, 90)], tid=8, task=17)
    assert line[13:].startswith(f"{label}  ")


def test_a_deep_call_has_its_depth_as_a_number() -> None:
    lines = text([(SUM, 900 - at) for at in range(100)])
    assert lines[60].endswith(f"  {'  ' * 60}-> orders::sum(n=60)")
    assert lines[61].endswith(f"  {'  ' * 60}(61) -> orders::sum(n=61)")


def test_what_has_no_arguments() -> None:
    out = io.StringIO()
    shown = CallLines(out, names=Named())
    shown.began(START_NS)
    for kind, line in [
        (ENTRY, "f()"),
        (PlaceKind.LINE, "demo.c:7 f"),
        (PlaceKind.ADDRESS, "f"),
    ]:
        call = TracedCall(place(kind, "f"), START_NS, 7, 7, None, 0)
        shown.entered(call)
        shown.ended(call)
        assert out.getvalue().splitlines()[-1] == f"   0.000000  demo[7]         {line}"


def test_a_call_that_is_shown_after_its_end_has_one_line() -> None:
    out = io.StringIO()
    shown = CallLines(out, names=Named())
    shown.began(START_NS)
    call = TracedCall(place(ENTRY, "f"), START_NS, 7, 7, None, 1, {"n": 1}, 12_300_000, 6, True)
    shown.entered(call)
    shown.ended(call)
    assert out.getvalue() == "   0.000000  demo[7]           f(n=1) = 6  12.3 ms\n"


def test_colours() -> None:
    out = io.StringIO()
    shown = CallLines(out, lambda style, text: f"<{style}>{text}</>", Named())
    shown.began(START_NS)
    call = TracedCall(place(ENTRY, "f"), START_NS, 7, 7, None, 0, ends_later=True)
    shown.entered(call)
    shown.ended(call)
    assert out.getvalue().splitlines() == [
        "<dim>   0.000000</>  <process>demo[7]       </>  -> <method>f</>()",
        "<dim>           </>  <process>demo[7]       </>  <- <method>f</>  "
        "<loss>(return not seen)</>",
    ]


@pytest.mark.parametrize(
    ("span_ns", "shown"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1000, "1.0 us"),
        (12_345, "12.3 us"),
        (12_345_678, "12.3 ms"),
        (1_234_567_890, "1.23 s"),
    ],
)
def test_durations(span_ns: int, shown: str) -> None:
    assert short_duration(span_ns) == shown


def test_the_figures() -> None:
    assert summary_line(TraceSummary(calls=1, duration_ns=2_500_000_000)) == (
        "1 call in 2.50 s, 0 lost"
    )
    whole = TraceSummary(calls=10, duration_ns=1_000_000, shown=3, lost=4, limited=5, forgotten=6)
    assert summary_line(whole) == (
        "3 shown of 10 calls in 1.0 ms, 4 lost, 5 dropped by the rate limit (--rate),"
        " 6 ended early, because too many were open"
    )


def test_one_who_watches_sees_each_line_at_once() -> None:
    """A line is written when its hit comes, not when the call ends."""
    out = io.StringIO()
    builder = CallBuilder(PLACES, CallLines(out, names=Named()))
    builder.handle(hit(START_NS, SUM, 90))
    assert out.getvalue().count("\n") == 1


def test_places_are_told_apart() -> None:
    """Two places of the same words need not be the same."""
    out = io.StringIO()
    shown = CallLines(out, names=Named())
    shown.began(START_NS)

    def line(of: Place) -> str:
        shown.ended(TracedCall(of, START_NS, 7, 7, None, 0))
        return out.getvalue().splitlines()[-1][29:]

    places = [place(PlaceKind.LINE, "f", line=each) for each in (1, 2)]
    assert [line(each) for each in places] == ["demo.c:1 f", "demo.c:2 f"]
