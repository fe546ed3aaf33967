"""A clock that steps back inside an exchange: its duration is not known, in no output negative."""

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from sslsniff.core.model import Exchange, InnerMessage
from sslsniff.core.sink import FlowControlStall
from sslsniff.decoders.messages import Frame, ServerSentEvent, Side
from sslsniff.files.kafka.schema import Exchange as ExchangeMessage
from sslsniff.forms.exchange_columns import exchange_columns
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.text.lines import Lines
from sslsniff.forms.text.pieces import span_ns
from sslsniff.outputs.chrome_trace.exchange_trace import ExchangeTrace
from sslsniff.outputs.har.entry import entry
from sslsniff.outputs.kafka.kafka_exchanges import JsonExchange, ProtobufExchange
from sslsniff.outputs.lines.frame_lines import FrameLines
from sslsniff.outputs.otlp.exchange_spans import span_of
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.contents.exchange_panes import exchange_lines, message_lines
from sslsniff.screen.contents.frame_list import frame_lines
from sslsniff.screen.contents.waterfall import waterfall_lines
from sslsniff.statistics.outcome import Outcome
from tests.unit.exchanges import connection, exchange, request, response
from tests.unit.outputs.report.pages import Parts, sink
from tests.unit.screen.captured_lines import short_lines, written

HOUR_NS = 3_600_000_000_000
STEPPED = exchange(request(), response())
STEPPED = replace(
    STEPPED,
    first_byte_ns=STEPPED.started_ns - HOUR_NS,
    ended_ns=STEPPED.started_ns - HOUR_NS + 5,
)


def test_a_span_needs_both_ends_in_order() -> None:
    assert (span_ns(1, 3), span_ns(1, 1)) == (2, 0)
    assert [span_ns(3, 1), span_ns(None, 1), span_ns(1, None)] == [None] * 3


def test_json_lines() -> None:
    stream = io.BytesIO()
    JsonSink(stream).exchange(STEPPED)
    shown = json.loads(stream.getvalue())
    assert (shown["duration_ms"], shown["first_byte_ms"]) == (None, None)


def test_tables() -> None:
    values = {each.name: each.value(STEPPED) for each in exchange_columns(0)}
    assert (values["duration_ms"], values["first_byte_ms"]) == (None, None)


def test_lines() -> None:
    assert Lines(columns=lambda: 300).exchange(STEPPED).split()[-4:-1] == ["?", "0", "B"]


def test_statistics() -> None:
    outcome = Outcome.of(STEPPED)
    assert (outcome.duration_ns, outcome.first_byte_ns) == (None, None)


def test_archives_and_spans_have_to_have_a_time() -> None:
    assert entry(STEPPED)["time"] == 0
    span = span_of(STEPPED, [])
    assert (span.start_time, span.end_time) == (STEPPED.started_ns, STEPPED.started_ns)


UNDATED_START = replace(STEPPED, started_ns=0)
"""Its first packets have no time, its last ones have one."""


def test_a_beginning_without_a_time_makes_no_long_duration() -> None:
    assert entry(UNDATED_START)["time"] == 0
    span = span_of(UNDATED_START, [])
    assert (span.start_time, span.end_time) == (0, 0)


@pytest.mark.parametrize("odd", [STEPPED, UNDATED_START])
def test_traces(odd: Exchange) -> None:
    """Neither a time nor a duration is negative, also after an exchange before the step."""
    stream = io.BytesIO()
    trace = ExchangeTrace(stream)
    for each in (exchange(request(), response()), odd, replace(STEPPED, started_ns=1)):
        trace.exchange(each)
    trace.close()
    slices = [each for each in json.loads(stream.getvalue()) if each["ph"] == "X"]
    assert [each["dur"] for each in slices[:2]] == [5000, 0]
    assert min(each["ts"] for each in slices) >= 0


def test_kafka() -> None:
    shown = json.loads(JsonExchange().encode(STEPPED))
    assert (shown["duration_ms"], shown["first_byte_ms"]) == (None, None)
    message = ExchangeMessage.FromString(ProtobufExchange(0).encode(STEPPED))
    assert not message.HasField("duration_ms")
    assert not message.HasField("first_byte_ms")


def test_reports(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    with path.open("wb") as file:
        page = sink(file)
        page.exchange(STEPPED)
        page.close()
    [row] = Parts(path.read_bytes()).rows
    assert row[2:4] == [None, None]


def test_stalls() -> None:
    out = io.StringIO()
    stall = FlowControlStall(1, Side.CLIENT, STEPPED.started_ns, is_over=True)
    FrameLines(out).stall(connection(), stall, STEPPED.started_ns - HOUR_NS)
    assert "waited ?: " in out.getvalue()


def test_screen() -> None:
    store = Store()
    event = ServerSentEvent(0, Side.SERVER, b"{}", 2, event="message")
    before_ns = STEPPED.started_ns - HOUR_NS
    inner = InnerMessage(STEPPED.connection, STEPPED, event, before_ns, 7)
    store.feed(written(lambda sink: sink.exchange(STEPPED)))
    [row] = store.rows.values()
    shown = [json.loads(written(lambda sink: sink.message(inner)))]
    assert message_lines(row, shown)[0].text.split()[:2] == ["<-", "?"]
    assert waterfall_lines(row.connection, [row], 80)[-1].text.endswith(" ?")
    assert "first byte ?, duration ?" in " ".join(
        each.text for each in exchange_lines(row, json.loads(row.line or b""))
    )


def test_frames_on_the_screen() -> None:
    store = Store()
    on, frame = connection(), Frame(1, Side.CLIENT, "DATA", [], 5, {})
    for time_ns in (STEPPED.started_ns, STEPPED.started_ns - HOUR_NS):
        for line in short_lines(lambda sink, at=time_ns: sink.frame(on, frame, at, 7)):  # type: ignore[misc]
            store.feed(line)
    [of_lists] = store.connections.values()
    shown = frame_lines(of_lists, store.frames_of(of_lists), None)
    assert [each.text.split()[0] for each in shown[1:3]] == ["0.0", "?"]
