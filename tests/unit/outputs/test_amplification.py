"""Some kilobytes of traffic never fill a disk: what is told of them is bounded, and says so."""

import io
import json
from collections.abc import Callable
from typing import Any

import pytest

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.model import Chunk
from sslsniff.core.sink import Sink
from sslsniff.decoders.content.codings import HARMLESS_BYTES
from sslsniff.decoders.content.output_limit import RATIO
from sslsniff.decoders.http2.hpack import MAX_LIST
from sslsniff.decoders.inner.partial_messages import START_BYTES
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.outputs.har.entry import entry
from sslsniff.outputs.lines.frame_lines import FrameLines
from sslsniff.outputs.lines.terminal import TerminalSink
from tests.unit.core.exchanges.wire import READ, WRITE
from tests.unit.decoders.wires import END, C, Step
from tests.unit.exchanges import connection
from tests.unit.linear import Spent
from tests.unit.outputs.amplifiers import AMPLIFIERS

START = 2 * START_BYTES + 2 * MAX_LIST
"""What a connection may tell whatever comes: of messages, of their codings, of both tables."""
_ESCAPED = 6
"""JSON needs six characters for a control character."""


def shown(wire: list[Step], make: Callable[[Any], Sink], *, frames: bool = False) -> str:
    """Return what a sink writes of a connection."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, "utf-8", errors="surrogateescape", newline="\n")
    sink = make(raw if make is JsonSink else stream)
    builder = ExchangeBuilder([sink], frames=frames)
    one = connection()
    builder.opened(one, 0)
    for at, (side, step) in enumerate(wire):
        direction = WRITE if side is C else READ
        if isinstance(step, bytes):
            builder.chunk(Chunk(one, direction, at, 7, 0, step))
        elif step == END:
            builder.ended(one, direction, at)
    builder.closed(one, len(wire))
    builder.finish()
    stream.flush()
    return raw.getvalue().decode("utf-8", "surrogateescape")


SINKS: dict[str, tuple[Callable[[Any], Sink], bool]] = {
    "json": (JsonSink, False),
    "frames as json": (JsonSink, True),
    "text": (lambda stream: TerminalSink(stream, 2), False),
    "frames": (FrameLines, True),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", SINKS)
@pytest.mark.parametrize("name", AMPLIFIERS)
@pytest.mark.reliability("input", "kilobytes that stand for megabytes")
def test_what_is_told_is_bounded(name: str, form: str) -> None:
    wire = AMPLIFIERS[name]()
    size = sum(len(step) for _, step in wire if isinstance(step, bytes))
    assert size < 32_000
    make, frames = SINKS[form]
    spent = Spent()
    told = len(shown(wire, make, frames=frames))
    print(f"{name}: {size} B -> {told / 1e6:.2f} MB of {form}")
    # With --frames header blocks are told twice.
    assert told < _ESCAPED * (1 + frames) * (START + RATIO * size)
    assert spent.units() < 10_000_000


def objects(name: str, *, frames: bool = False) -> list[dict[str, Any]]:
    lines = shown(AMPLIFIERS[name](), JsonSink, frames=frames).splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.parametrize(
    "name",
    [
        "references to a field",
        "references before an error",
        "one reference a block",
        "references to a name",
        "references into a large table",
        "static fields",
        "trailers in gzip",
    ],
)
def test_fields_that_are_not_told_are_counted(name: str) -> None:
    exchanges = [each for each in objects(name) if each["type"] == "exchange"]
    cut = [each for each in exchanges if each.get("truncated")]
    assert cut
    assert all(each["omitted"]["fields"] > 0 for each in cut)
    assert all("omitted" not in each for each in exchanges if not each.get("truncated"))
    if name == "references to a field":
        for each in cut:
            headers = each["request"]["headers"]
            assert len(headers) + each["omitted"]["fields"] == 250
            assert each["omitted"]["bytes"] == 4001 * each["omitted"]["fields"]
        assert f"{cut[0]['omitted']['fields']} header fields" in shown(
            AMPLIFIERS[name](), TerminalSink
        )


def test_frames_count_the_fields_that_they_do_not_show() -> None:
    frames = [each for each in objects("references to a field", frames=True) if "frame" in each]
    cut = [each for each in frames if each.get("truncated")]
    assert cut
    assert all(len(each["headers"]) + each["omitted"]["fields"] == 253 for each in cut)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["a body in gzip", "many bodies in gzip", "many bodies in br", "a body in gzip twice"]
)
def test_decoded_bodies_say_that_they_are_cut(name: str) -> None:
    exchanges = [each for each in objects(name) if each["type"] == "exchange"]
    for each in exchanges:
        body = each["response"]["body"]
        assert "truncated" not in body
        assert body["decoded"]["truncated"]
        assert body["decoded"]["size"] <= max(HARMLESS_BYTES, RATIO * body["size"])


def test_messages_name_the_beginning_of_a_long_target() -> None:
    told = [each for each in objects("messages to a long target") if each["type"] == "message"]
    assert len(told) == 4000
    assert {(len(each["target"]), each["truncated"]) for each in told} == {(500, True)}


@pytest.mark.parametrize("name", ["calls in gzip", "compressed messages", "events in gzip"])
def test_messages_that_are_cut_say_why(name: str) -> None:
    told = [each for each in objects(name) if each["type"] in ("message", "grpc")]
    assert "over" in told[-1]["error"]


def test_a_har_entry_counts_them_too() -> None:
    class Kept(Sink):
        def __init__(self, _stream: object) -> None:
            self.entries: list[dict[str, Any]] = []

        def exchange(self, exchange: Any) -> None:
            self.entries.append(entry(exchange))

    kept = Kept(None)
    shown(AMPLIFIERS["references to a field"](), lambda _stream: kept)
    omitted = [each["response"].get("_omitted") for each in kept.entries]
    assert any(each and each["fields"] for each in omitted)
