"""A clock that steps back inside an exchange: its duration is not known, in no output negative."""

import io
import json
from dataclasses import replace

from sslsniff.sinks.har.entry import entry
from sslsniff.sinks.json_lines import JsonSink
from sslsniff.sinks.statistics.outcome import Outcome
from sslsniff.sinks.tables.exchange_columns import exchange_columns
from sslsniff.sinks.text.lines import Lines
from sslsniff.sinks.text.pieces import span_ns
from tests.unit.exchanges import exchange, request, response

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


def test_archives_have_to_have_a_time() -> None:
    assert entry(STEPPED)["time"] == 0
