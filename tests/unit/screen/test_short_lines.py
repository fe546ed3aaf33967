"""From the short lines of a capture comes what would come from its JSON lines."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.core.model import Address, Body, Connection, Exchange, Request, Response
from sslsniff.decoders.databases.statement import Statement
from sslsniff.decoders.messages import Frame, Header, Omitted, Side
from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.forms.json.short_lines import IS_EXCHANGE, IS_FRAME, ShortExchange, without_bodies
from sslsniff.screen.captured import capture_store
from sslsniff.screen.captured.capture_rows import ExchangeRow
from sslsniff.screen.captured.capture_store import Store
from sslsniff.screen.captured.rebuilt_exchanges import (
    exchange_of_line,
    frame_objects,
    object_of_line,
)
from sslsniff.statistics.outcome import Outcome
from tests.unit.exchanges import START_NS, connection, exchange, request, response
from tests.unit.screen.captured_lines import short_lines, written

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
HEADERS: st.SearchStrategy[list[Header]] = st.lists(
    st.tuples(TEXT | st.none(), TEXT | st.none()), max_size=4
)
DATA = st.binary(max_size=40) | st.text("\\n\n\x1f", max_size=9).map(str.encode)
REQUESTS: st.SearchStrategy[Request] = st.builds(
    request, st.sampled_from(["GET", "POST"]), TEXT, HEADERS, DATA, TEXT | st.none()
)
RESPONSES: st.SearchStrategy[Response] = st.builds(response, st.integers(100, 599), HEADERS, DATA)


def short_line(shown: Exchange) -> tuple[bytes, dict[str, Any]]:
    """Return the short line of an exchange, and the object of its origin."""
    origin, line = short_lines(lambda sink: sink.exchange(shown))
    assert line.startswith(IS_EXCHANGE)
    return line, orjson.loads(origin)


def json_object(write: Callable[[JsonSink], object]) -> dict[str, Any]:
    return orjson.loads(written(write))  # type: ignore[no-any-return]


@pytest.mark.tools
@given(REQUESTS | st.none(), RESPONSES | st.none(), TEXT | st.none(), st.sampled_from([0, 7]))
def test_all_of_an_exchange(
    asked: Request | None, answered: Response | None, error: str | None, missing: int
) -> None:
    original = exchange(asked, answered, error=error, protocol="http/2")
    original.first_byte_ns = START_NS + 1_234_567
    original.warnings = ["two lengths"]
    messages = [message for message in (asked, answered) if message is not None]
    for message in messages:
        message.body.size += missing
        message.body.missing = missing
        message.trailers.append(("digest", "\x7f\n"))
    line, origin = short_line(original)
    shown = json_object(lambda sink: sink.exchange(original))
    assert object_of_line(line, origin) == shown
    outcome = Outcome.of_short(ShortExchange.parse(line), origin)
    assert outcome == Outcome.of_json(shown) == Outcome.of(original)


@pytest.mark.parametrize("role", [Side.SERVER, None])
def test_of_whom_it_is(role: Side | None) -> None:
    on = connection()
    on.role, on.tls, on.sni = role, False, "name.example"
    original = exchange(Request("GET", "/", None, None, request().headers), response(), on)
    original.request.default_scheme = "http"  # type: ignore[union-attr]
    line, origin = short_line(original)
    rebuilt = exchange_of_line(line, origin, on.sni)
    assert object_of_line(line, origin) == json_object(lambda sink: sink.exchange(original))
    assert (rebuilt.connection.sni, rebuilt.connection.scheme) == ("name.example", "http")
    assert rebuilt.connection.client == on.client


def special() -> dict[str, Exchange]:
    grpc: list[Header] = [("content-type", "application/grpc")]
    surrogate: list[Header] = [("name", "\udc80")]
    made = {
        "gRPC": exchange(request(headers=grpc), response()),
        "lone surrogates": exchange(request(headers=surrogate), response()),
        "statement": exchange(),
        "informational": exchange(request(), response()),
        "omitted": exchange(request(), response()),
        "place": exchange(request(), response()),
    }
    made["statement"].statement = Statement("redis", "GET", "GET a")
    made["informational"].informational.append(response(103))
    made["omitted"].omitted = Omitted(1, 2)
    made["place"].place = "t/0/1/0"
    return made


@pytest.mark.parametrize("name", special())
def test_what_is_more_than_a_request_and_its_response(name: str) -> None:
    """It has a JSON line, the same as without short lines, and when the request was complete."""
    shown = special()[name]
    shown.sent_ns = shown.started_ns + 1_250_000
    [line] = short_lines(lambda sink: sink.exchange(shown))
    expected = written(lambda sink: sink.exchange(shown)).rstrip(b"\n")
    assert line == expected[:-1] + b',"sent_ms":1.25}'
    if name != "lone surrogates":  # orjson does not read them
        assert object_of_line(line, {}) == orjson.loads(expected)


FRAMES = (
    Frame(0, Side.CLIENT, "SETTINGS", [], 6, {"settings": {"MAX_FRAME_SIZE": 65536}}),
    Frame(1, Side.CLIENT, "HEADERS", ["END_STREAM"], 30, {"headers": [("a", "1"), ("b", None)]}),
    Frame(3, Side.SERVER, "DATA", [], 9, {"stream_window": 5, "connection_window": None}),
    Frame(0, Side.SERVER, "GOAWAY", [], 8, {"last_stream": 3, "data": b"bye\xff"}),
)


def test_frames() -> None:
    on = connection()

    def write(sink: JsonSink) -> None:
        for number, frame in enumerate(FRAMES):
            sink.frame(on, frame, START_NS + number, 7)

    origin, *lines = short_lines(write)
    shown = [orjson.loads(line) for line in written(write).splitlines()]
    assert [line.startswith(IS_FRAME) for line in lines] == [True, True, True, False]
    assert frame_objects(lines, orjson.loads(origin), None) == shown
    of_stream = [each for each in shown if each["stream"] in (0, 3)]
    assert frame_objects(lines, orjson.loads(origin), 3) == of_stream


def test_the_origin_is_written_once_and_when_it_changes() -> None:
    on = connection()
    on.role = None
    shown = exchange(request(), response(), on)

    def write(sink: JsonSink) -> None:
        sink.exchange(shown)
        sink.exchange(shown)
        on.role = Side.CLIENT
        sink.exchange(shown)
        sink.closed(on, START_NS)
        sink.exchange(shown)

    lines = short_lines(write)
    kinds = [line[:17] if line.startswith(b"{") else line[:3] for line in lines]
    origin, closed = b'{"type":"origin",', b'{"type":"connecti'
    assert kinds == [*(origin, b"[0,", b"[0,", origin, b"[0,"), *(closed, origin, b"[0,")]


def shown_row(row: ExchangeRow) -> dict[str, object]:
    names = {*ExchangeRow.__slots__} - {"line", "size", "connection"}
    return {name: getattr(row, name) for name in names}


def test_rows_are_the_same() -> None:
    failed = exchange(request("POST", "/a", body=b"ab"), response(500), error="reset: CANCEL")
    cut = exchange(request(), response(200, body=b"xyz"))
    cut.response.body = Body(10, b"xyz", 4)  # type: ignore[union-attr]
    socket = exchange(request(target="/ws"), response(101, [("upgrade", "websocket")]))
    for original in (failed, cut, socket, exchange(request(), None), exchange(None, response())):
        by_json, by_short = Store(), Store()
        by_json.feed(written(lambda sink, each=original: sink.exchange(each)).rstrip())  # type: ignore[misc]
        for line in short_lines(lambda sink, each=original: sink.exchange(each)):  # type: ignore[misc]
            by_short.feed(line)
        [first], [second] = by_json.rows.values(), by_short.rows.values()
        assert shown_row(first) == shown_row(second)
        assert by_json._open.keys() == by_short._open.keys()


def test_bodies_go_first() -> None:
    body = b"line\n" * 100
    line, origin = short_line(exchange(request(), response(200, [], body)))
    shown = object_of_line(without_bodies(line), origin)
    assert shown["response"]["body"] == {"size": 500, "text": "", "truncated": True}
    assert shown["request"]["body"] == {"size": 0, "text": ""}


def test_a_connection_that_was_dropped_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_store, "MOST_CONNECTIONS", 2)
    store = Store()
    ends: list[Connection] = [connection(number) for number in range(4)]
    ends[3].remote = Address("::1", 443)

    def write(sink: JsonSink) -> None:
        for each in [*ends, *ends]:
            sink.exchange(exchange(request(), response(), each))

    for line in short_lines(write):
        store.feed(line)
    assert store.ended == 8
    assert store.dropped.connections == 6
    assert [each.server for each in store.connections.values()] == ["127.0.0.1:8443", "[::1]:443"]
    last = [*store.rows.values()][-1]
    assert object_of_line(last.line or b"", last.connection.origin)["server"]["ip"] == "::1"
