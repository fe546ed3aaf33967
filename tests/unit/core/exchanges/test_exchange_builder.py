"""Chunks -> exchanges, with the real decoders."""

import pytest
from h2.config import H2Configuration
from h2.connection import H2Connection

from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
from sslsniff.core.losses import LossCause
from sslsniff.core.model import Connection, Direction
from sslsniff.core.sink import Sink
from sslsniff.decoders.messages import Side
from tests.unit.core.exchanges.wire import READ, REQUEST, RESPONSE, WRITE, Wire
from tests.unit.decoders.http2_wires import HELLO
from tests.unit.decoders.wires import frame
from tests.unit.exchanges import START_NS, connection


def test_an_exchange_has_both_halves_and_times() -> None:
    wire = Wire()
    wire.pass_bytes(WRITE, REQUEST)
    wire.pass_bytes(READ, RESPONSE[:-5])
    wire.pass_bytes(READ, RESPONSE[-5:])
    [exchange] = wire.sink.exchanges
    assert exchange.request is not None
    assert exchange.response is not None
    assert (exchange.request.method, exchange.request.target) == ("POST", "/a")
    assert (exchange.request.body.data, exchange.response.body.data) == (b"abc", b"hello")
    times = (exchange.started_ns, exchange.first_byte_ns, exchange.ended_ns)
    assert times == (1_000_000, 2_000_000, 3_000_000)
    assert (exchange.protocol, exchange.stream, exchange.tid) == ("http/1.1", None, 70)
    assert exchange.error is None
    wire.end()
    assert wire.sink.totals is not None
    assert wire.sink.totals.exchanges == 1
    assert wire.sink.totals.bytes == len(REQUEST + RESPONSE)


@pytest.mark.parametrize("decodes", [True, False])
def test_a_sink_learns_what_is_left_open(*, decodes: bool) -> None:
    """Also one that wants only plaintext, where nothing is decoded."""

    class LeftOpen(Sink):
        wants_messages = decodes

        def __init__(self) -> None:
            self.found: list[str] = []

        def left_open(self, connection: Connection) -> None:
            self.found.append(connection.id)

    sink = LeftOpen()
    builder = ExchangeBuilder([sink])
    ended, left = connection(1), connection(2)
    for each in (ended, left):
        builder.opened(each, 1)
    builder.closed(ended, 2)
    builder.finish()
    assert sink.found == [left.id]


def test_an_exchange_tells_of_framing_that_smuggles_requests() -> None:
    wire = Wire()
    both = b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    wire.pass_bytes(WRITE, b"POST / HTTP/1.1\r\n" + both)
    wire.pass_bytes(READ, RESPONSE)
    [exchange] = wire.sink.exchanges
    assert exchange.warnings == ["Content-Length beside Transfer-Encoding"]


def test_a_request_that_goes_on_as_http2_is_one_exchange() -> None:
    wire = Wire()
    for _ in range(2):
        wire.pass_bytes(WRITE, REQUEST)
        wire.pass_bytes(READ, RESPONSE)
    wire.pass_bytes(WRITE, b"GET /b HTTP/1.1\r\nUpgrade: h2c\r\n\r\n")
    wire.pass_bytes(READ, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n")
    wire.pass_bytes(READ, b"\0\0\0\4\0\0\0\0\0\0\0\1\1\5\0\0\0\1\x88")
    *_, last = wire.end()
    assert len(wire.sink.exchanges) == 3
    assert last.request is not None
    assert last.response is not None
    assert (last.request.target, last.response.status, last.error) == ("/b", 200, None)
    assert [each.status for each in last.informational] == [101]
    assert (last.protocol, last.stream) == ("http/2", 1)


def test_data_longer_than_the_peer_allows_is_skipped_by_its_length() -> None:
    """Below: 16,384 bytes are allowed without SETTINGS_MAX_FRAME_SIZE (RFC 9113 section 4.2)."""
    wire = Wire()
    wire.pass_bytes(WRITE, HELLO + frame(1, 5, 1, b"\x82\x84\x87"))
    answer = frame(1, 4, 1, b"\x88") + frame(0, 0, 1, bytes(20_000)) + frame(0, 1, 1, b"end")
    wire.pass_bytes(READ, frame(4, 0, 0) + answer)
    wire.pass_bytes(WRITE, frame(1, 5, 3, b"\x82\x84\x87"))
    wire.pass_bytes(READ, frame(1, 5, 3, b"\x88"))
    first, second = wire.end()
    assert first.response is not None
    assert (first.response.body.size, first.response.body.missing) == (20_003, 20_000)
    assert second.response is not None
    assert (second.response.status, second.error) == (200, None)


def test_a_response_that_switches_in_one_piece_is_still_of_http1() -> None:
    wire = Wire()
    wire.pass_bytes(READ, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\nrest")
    [exchange] = wire.end()
    assert (exchange.protocol, exchange.stream) == ("http/1.1", None)


def test_a_server_reads_requests() -> None:
    wire = Wire(Side.SERVER)
    wire.pass_bytes(READ, REQUEST)
    wire.pass_bytes(WRITE, RESPONSE)
    [exchange] = wire.end()
    assert exchange.error is None
    assert exchange.response is not None


@pytest.mark.parametrize("first", [READ, WRITE])
def test_an_unknown_role_is_told_by_the_bytes(first: Direction) -> None:
    wire = Wire(None)
    second = READ if first is WRITE else WRITE
    wire.pass_bytes(first, REQUEST)
    wire.pass_bytes(second, RESPONSE)
    assert wire.connection.role is (Side.CLIENT if first is WRITE else Side.SERVER)
    [exchange] = wire.end()
    assert exchange.error is None


@pytest.mark.parametrize(("first", "role"), [(READ, Side.SERVER), (WRITE, Side.CLIENT)])
def test_the_mask_of_websocket_frames_tells_the_role(first: Direction, role: Side) -> None:
    wire = Wire(None)
    wire.pass_bytes(first, b"\x81\x82mask\x05\x08")
    assert wire.connection.role is role
    other = Wire(None)
    other.pass_bytes(first, b"\x81\x02hi")
    assert other.connection.role is role.other


def test_bytes_that_tell_no_role_wait_for_some_that_do() -> None:
    wire = Wire(None)
    wire.pass_bytes(READ, b"the rest of a body, then ")
    wire.pass_bytes(WRITE, REQUEST)
    wire.pass_bytes(READ, RESPONSE)
    assert wire.connection.role is Side.CLIENT
    assert [exchange.error for exchange in wire.end()] == [None]


def test_an_open_exchange_ends_with_its_connection_or_the_capture() -> None:
    closed = Wire()
    closed.pass_bytes(WRITE, REQUEST)
    assert [exchange.error for exchange in closed.end()] == ["connection closed"]
    left_out = Wire()
    left_out.pass_bytes(WRITE, REQUEST)
    left_out.connection.left_out = True
    errors = [exchange.error for exchange in left_out.end()]
    assert errors == ["left out: more traffic than can be decoded"]
    running = Wire()
    running.pass_bytes(WRITE, REQUEST)
    running.builder.finish()
    assert [exchange.error for exchange in running.sink.exchanges] == ["capture ended"]


def test_bytes_that_the_end_of_the_capture_cuts_off_are_reported() -> None:
    """All of a head, a frame or a WebSocket's header that is not whole; bodies are decoded."""
    head = REQUEST.index(b"\r\n\r\n") + 4
    for cut in range(1, len(REQUEST)):
        wire = Wire()
        wire.pass_bytes(WRITE, REQUEST + REQUEST[:cut])
        wire.builder.finish()
        assert wire.sink.undecoded_bytes == (cut if cut < head else 0)
        errors = ["capture ended"] * (2 if cut >= head else 1)
        assert [exchange.error for exchange in wire.sink.exchanges] == errors
    ping = frame(6, 0, 0, bytes(8))
    for cut in range(1, len(ping)):
        wire = Wire()
        wire.pass_bytes(WRITE, HELLO + ping[:cut])
        wire.builder.finish()
        assert wire.sink.undecoded_bytes == cut


def test_a_websocket_that_the_end_of_the_capture_cuts_off() -> None:
    wire = Wire()
    wire.pass_bytes(WRITE, b"GET /w HTTP/1.1\r\nUpgrade: websocket\r\nHost: x\r\n\r\n")
    wire.pass_bytes(READ, b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n")
    wire.pass_bytes(READ, b"\x81\x02hi\x81")
    wire.builder.finish()
    assert wire.sink.undecoded_bytes == 1


def test_a_body_until_close_ends_with_the_connection_only() -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\n"
    closed = Wire()
    closed.pass_bytes(WRITE, b"GET / HTTP/1.1\r\n\r\n")
    closed.pass_bytes(READ, head + b"all")
    [exchange] = closed.end()
    assert exchange.error is None
    running = Wire()
    running.pass_bytes(WRITE, b"GET / HTTP/1.1\r\n\r\n")
    running.pass_bytes(READ, head + b"all")
    running.builder.finish()
    assert [exchange.error for exchange in running.sink.exchanges] == ["capture ended"]


def test_a_gap_in_a_body_is_counted() -> None:
    wire = Wire()
    wire.pass_bytes(WRITE, REQUEST)
    wire.pass_bytes(READ, RESPONSE[:-5])
    wire.pass_bytes(READ, b"", missing=4)
    wire.pass_bytes(READ, b"o")
    [exchange] = wire.end()
    assert exchange.response is not None
    assert (exchange.response.body.size, exchange.missing_bytes) == (5, 4)
    assert exchange.error is None
    totals = wire.sink.totals
    assert totals is not None
    assert [(loss.cause, loss.events, loss.bytes) for loss in totals.losses] == [
        (LossCause.RING_FULL, 1, 4)
    ]
    assert totals.lossy_connections == [wire.connection]


PINGS = frame(6, 0, 0, bytes(8)) * 3
LENGTH_10 = b"\x0f\x0d\x0210"

# What the heads of two streams say, and what is then known of the first: the bytes of its body that
# are missing, its size, and its error.
HEADS: dict[str, tuple[bytes, bytes, tuple[int, int, str | None]]] = {
    "a length": (b"\x82\x84", b"\x88" + LENGTH_10, (6, 10, None)),
    "no length": (b"\x82\x84", b"\x88", (0, 4, "undecodable: bytes lost")),
    "a length that is none": (
        b"\x82\x84",
        b"\x88\x0f\x0d\x01x",
        (0, 4, "undecodable: bytes lost"),
    ),
    "no body": (b"\x84\x02\x04HEAD", b"\x88" + LENGTH_10, (0, 4, None)),
}


@pytest.mark.parametrize("name", HEADS)
def test_what_a_loss_took_of_bodies_is_told_by_their_length(name: str) -> None:
    ask, answer, known = HEADS[name]
    wire = Wire()
    requests = frame(1, 5, 1, ask) + frame(1, 5, 3, ask)
    wire.pass_bytes(WRITE, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0) + requests)
    heads = frame(1, 4, 1, answer) + frame(1, 4, 3, answer)
    wire.pass_bytes(READ, frame(4, 0, 0) + heads + frame(0, 0, 1, b"ab"))
    wire.pass_bytes(READ, b"", missing=24)
    wire.pass_bytes(READ, PINGS + frame(0, 1, 1, b"yz"))
    [exchange] = wire.sink.exchanges
    assert exchange.response is not None
    body = exchange.response.body
    assert (body.missing, body.size, exchange.error) == known
    assert body.data == b"ab"  # what follows does not join it


def test_a_response_whose_head_was_lost_is_told() -> None:
    wire = Wire()
    wire.pass_bytes(WRITE, HELLO + frame(1, 5, 1, b"\x82\x84"))
    wire.pass_bytes(READ, frame(4, 0, 0) + frame(1, 4, 1, b"\x88")[:-1])
    wire.pass_bytes(READ, b"", missing=1)
    wire.pass_bytes(READ, frame(0, 1, 1, b"body"))
    [exchange] = wire.sink.exchanges
    assert exchange.response is None
    assert exchange.error == "undecodable: response head not seen"


def test_nothing_is_decoded_for_nobody() -> None:
    wire = Wire()
    wire.sink.wants_messages = False
    wire.builder = ExchangeBuilder([wire.sink])
    wire.builder.opened(wire.connection, 0)
    wire.pass_bytes(WRITE, REQUEST)
    assert wire.end() == []
    assert wire.sink.totals is not None
    assert wire.sink.totals.exchanges is None


def test_informational_responses_stand_apart() -> None:
    wire = Wire()
    wire.pass_bytes(WRITE, REQUEST)
    wire.pass_bytes(READ, b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + RESPONSE)
    [exchange] = wire.end()
    assert [each.status for each in exchange.informational] == [103]
    assert exchange.response is not None
    assert exchange.response.status == 200


def test_a_reset_without_error_behind_a_response_is_none() -> None:
    client = H2Connection(H2Configuration(header_encoding=None))
    server = H2Connection(H2Configuration(client_side=False))
    client.initiate_connection()
    server.initiate_connection()
    client.send_headers(
        1, [(":method", "POST"), (":path", "/"), (":scheme", "https"), (":authority", "x")]
    )
    wire = Wire()
    sent = client.data_to_send()
    wire.pass_bytes(WRITE, sent)
    server.receive_data(sent)
    server.send_headers(1, [(":status", "201")], end_stream=True)
    server.reset_stream(1, error_code=0)
    wire.pass_bytes(READ, server.data_to_send())
    assert [exchange.error for exchange in wire.sink.exchanges] == [None]


@pytest.mark.parametrize("role", [Side.CLIENT, None])
def test_a_side_that_ends_ends_its_answer_only(role: Side | None) -> None:
    wire = Wire(role)
    wire.pass_bytes(WRITE, b"GET /a HTTP/1.0\r\n\r\n")
    wire.pass_bytes(READ, b"HTTP/1.0 200 OK\r\n\r\nto the end")
    assert wire.end_direction(WRITE) == []
    [exchange] = wire.end_direction(READ)
    assert (exchange.error, exchange.ended_ns) == (None, 4_000_000)
    assert exchange.response is not None
    assert exchange.response.body.data == b"to the end"
    assert wire.end() == [exchange]


def test_open_exchanges_are_there_until_they_end() -> None:
    wire = Wire()
    assert wire.builder.open_exchanges() == []
    wire.pass_bytes(WRITE, REQUEST)
    wire.pass_bytes(READ, RESPONSE[:-2])
    [exchange] = wire.builder.open_exchanges()
    assert exchange.ended_ns is None
    assert exchange.response is not None
    assert exchange.response.body.size == 3
    wire.pass_bytes(READ, RESPONSE[-2:])
    assert wire.builder.open_exchanges() == []
    assert wire.sink.exchanges == [exchange]


def test_the_duration_is_from_the_earliest_connection() -> None:
    """In a file, a connection's packets may come after those of a later one; 0 is no time."""
    builder = ExchangeBuilder([])
    for number, began_ns in ((1, START_NS + 5), (2, START_NS), (3, 0)):
        builder.opened(connection(number), began_ns)
    builder.last_ns = START_NS + 9
    builder.finish()
    assert (builder.totals.began_ns, builder.totals.duration_ns) == (START_NS, 9)
