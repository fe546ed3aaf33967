"""Bytes of no protocol that is known: when they are told."""

import pytest

from sslsniff.decoders.messages import Side
from tests.unit.core.exchanges.wire import READ, REQUEST, RESPONSE, WRITE, Wire


def test_bytes_of_no_known_protocol_wait_for_both_ends() -> None:
    wire = Wire()
    wire.pass_bytes(WRITE, b"\x00\x01")
    wire.end_direction(WRITE)
    wire.end_direction(WRITE)
    wire.pass_bytes(READ, b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
    [exchange] = wire.end()
    assert exchange.response is not None
    assert exchange.response.status == 400


SECOND_NS = 1_000_000_000


@pytest.mark.parametrize("role", [Side.CLIENT, None])
def test_an_unknown_protocol_is_told_after_a_second(role: Side | None) -> None:
    wire = Wire(role)
    wire.pass_bytes(WRITE, b"+PING\r\n" * 20)
    began_ns = wire.now_ns
    wire.builder.tick(began_ns + SECOND_NS - 1)
    assert wire.sink.unknowns == []
    wire.builder.tick(began_ns + SECOND_NS)
    [(side, first, time_ns)] = wire.sink.unknowns
    assert (side, time_ns) == (Side.CLIENT, began_ns)
    assert (b"+PING\r\n" * 20).startswith(first)
    for number in range(20_000):
        wire.pass_bytes(READ if number % 2 else WRITE, b"+PONG\r\n")
    wire.end()
    assert len(wire.sink.unknowns) == 1
    assert wire.sink.undecoded_bytes == 7 * 20_020


@pytest.mark.parametrize("ends", ["connection", "capture"])
def test_the_bytes_of_an_unknown_protocol_come_however_it_ends(ends: str) -> None:
    wire = Wire()
    wire.pass_bytes(READ, b"220 ready\r\n")
    if ends == "connection":
        wire.builder.closed(wire.connection, wire.now_ns)
    wire.builder.finish()
    assert wire.sink.unknowns == [(Side.SERVER, b"220 ready\r\n", 1_000_000)]
    assert wire.sink.undecoded_bytes == 11


def test_a_known_protocol_is_never_told_as_unknown() -> None:
    wire = Wire()
    wire.pass_bytes(WRITE, REQUEST)
    wire.builder.tick(wire.now_ns + SECOND_NS)
    wire.pass_bytes(READ, RESPONSE + b"and what no response may be followed by\n")
    wire.end()
    assert wire.sink.unknowns == []
