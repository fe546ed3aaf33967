"""Resets of HTTP/2 streams: an error only if the response is not whole (RFC 9113 section 8.1)."""

import pytest
from opentelemetry.trace.status import StatusCode

from sslsniff.core.model import Exchange
from sslsniff.decoders.http2.frames import DATA, GOAWAY, HEADERS, RST_STREAM
from sslsniff.filters.filters import parse
from sslsniff.outputs.otlp.exchange_spans import span_of
from sslsniff.statistics.outcome import Outcome
from tests.unit.core.exchanges.wire import READ, WRITE, Wire
from tests.unit.decoders.http2_wires import ASK, HELLO, block
from tests.unit.decoders.wires import frame

NO_ERROR, STREAM_CLOSED, CANCEL = 0, 5, 8
FOUR = ("content-length", "4")
GRPC = ("content-type", "application/grpc")


def reset(code: int) -> bytes:
    return frame(RST_STREAM, 0, 1, code.to_bytes(4, "big"))


def head(*fields: tuple[str, str], status: str = "200") -> bytes:
    return frame(HEADERS, 4, 1, block([(":status", status), *fields]))


def body(data: bytes, flags: int = 0) -> bytes:
    return frame(DATA, flags, 1, data)


WHOLE = {
    "as long as it declares, the client resets": (head(FOUR) + body(b"done"), STREAM_CLOSED),
    "the same, cancelled": (head(FOUR) + body(b"do") + body(b"ne"), CANCEL),
    "none": (head(("content-length", "0")), CANCEL),
    "to its end": (head() + body(b"done", 1), NO_ERROR),
}
CUT = {
    "shorter than it declares": (head(FOUR) + body(b"don"), CANCEL, "reset: CANCEL"),
    "of unknown length": (head() + body(b"done"), STREAM_CLOSED, "reset: STREAM_CLOSED"),
    "whose status of gRPC is missing": (
        head(FOUR, GRPC) + body(b"done"),
        CANCEL,
        "reset: CANCEL",
    ),
    "whose announced trailers are missing": (
        head(FOUR, ("trailer", "digest")) + body(b"done"),
        CANCEL,
        "reset: CANCEL",
    ),
    "not yet begun": (b"", CANCEL, "reset: CANCEL"),
}
GET, POST = 5, 4  # the flags of a request without and with a body


def exchanges(response: bytes, code: int, flags: int) -> list[Exchange]:
    wire = Wire()
    wire.pass_bytes(WRITE, HELLO + frame(HEADERS, flags, 1, block(ASK)))
    wire.pass_bytes(READ, frame(4, 0, 0) + response)
    wire.pass_bytes(WRITE, reset(code))
    wire.pass_bytes(READ, body(b"", 1))  # it was on its way
    return wire.end()


def errors(response: bytes, code: int, flags: int) -> list[str | None]:
    return [exchange.error for exchange in exchanges(response, code, flags)]


@pytest.mark.parametrize("flags", [GET, POST])
@pytest.mark.parametrize("name", WHOLE)
def test_a_reset_after_a_whole_response_is_no_error(name: str, flags: int) -> None:
    response, code = WHOLE[name]
    assert errors(response, code, flags) == [None]


@pytest.mark.parametrize("flags", [GET, POST])
@pytest.mark.parametrize("name", CUT)
def test_a_reset_of_a_response_is_an_error(name: str, flags: int) -> None:
    response, code, error = CUT[name]
    assert errors(response, code, flags) == [error]


@pytest.mark.parametrize(
    ("response", "code", "fails"),
    [*((*each, False) for each in WHOLE.values()), *((*each[:2], True) for each in CUT.values())],
)
def test_what_counts_errors_agrees(response: bytes, code: int, *, fails: bool) -> None:
    """The filter ``~e``, statistics and spans."""
    [exchange] = exchanges(response, code, GET)
    assert parse("~e").matches(exchange) is fails
    assert Outcome.of(exchange).is_failed is fails
    span = span_of(exchange, [])
    assert (span.status.status_code is StatusCode.ERROR) is fails
    assert ("error.type" in (span.attributes or {})) is fails


@pytest.mark.parametrize(
    "last", [reset(NO_ERROR), reset(CANCEL), frame(GOAWAY, 0, 0, bytes(8)), b""]
)
def test_a_server_may_stop_an_upload_that_it_has_answered(last: bytes) -> None:
    wire = Wire()
    wire.pass_bytes(WRITE, HELLO + frame(HEADERS, POST, 1, block(ASK)) + body(b"01"))
    wire.pass_bytes(READ, frame(4, 0, 0) + head(status="413") + body(b"big", 1) + last)
    if last:
        wire.pass_bytes(WRITE, body(b"234"))
    [exchange] = wire.end()
    assert exchange.error is None
    assert wire.sink.undecoded_bytes == (3 if last else 0)
