"""What the first sends of a TLS socket prove: sizes and types as real libraries sent them."""

import pytest

from sslsniff.capture.handshakes.tls_evidence import passed_data, server_name
from sslsniff.core.events import NotedSend, TlsSocket, TlsStart
from tests.unit.capture.tls_sockets import tls_socket

_CHANGE = bytes.fromhex("140303000101")
_TYPES = {"handshake": 22, "alert": 21, "data": 23}


def record(kind: str, size: int, message: int = 0xFF) -> bytes:
    """Return a record of ``size`` bytes, which begin as a message of this type."""
    body = bytes([message]) + (size - 4).to_bytes(3, signed=True) + bytes(size)
    return bytes([_TYPES[kind], 3, 3]) + size.to_bytes(2) + body[:size]


def socket(start: TlsStart, *sends: tuple[bytes, int], **totals: int) -> TlsSocket:
    """Return a socket with these sends: the bytes of each, and how many were received before."""
    noted = (NotedSend(data[:16].ljust(16, b"\0"), len(data), received) for data, received in sends)
    return tls_socket(start=start, sends=tuple(noted), **totals)


ENCRYPTED = b"\x16\x03\x03\0\x28" + bytes(range(1, 41))  # begins as a ClientHello may
HELLO = record("handshake", 512, 1)
FINISHED = record("data", 69)
FINISHED_SHORT = record("data", 53)
CLOSE = record("data", 19)
SERVER_HELLO = record("handshake", 122, 2)


@pytest.mark.parametrize(
    ("sends", "expected"),
    [
        ([HELLO], False),
        ([HELLO, record("alert", 2)], False),
        ([HELLO, CLOSE], False),  # the certificate was refused: an encrypted alert
        ([HELLO, _CHANGE + FINISHED, CLOSE], False),
        ([HELLO, _CHANGE, FINISHED_SHORT, CLOSE], False),
        ([HELLO, _CHANGE + HELLO, _CHANGE + FINISHED], False),  # HelloRetryRequest
        ([HELLO, _CHANGE + FINISHED, record("data", 80)], True),
        ([HELLO, _CHANGE + FINISHED + record("data", 80)], True),  # rustls
        ([HELLO, FINISHED_SHORT, FINISHED_SHORT], True),  # data as long as a Finished message
        # With a certificate: its messages come before the Finished message.
        ([HELLO, _CHANGE, record("data", 900), record("data", 280), FINISHED], False),
        ([HELLO, record("data", 900), record("data", 280), FINISHED, record("data", 40)], True),
        # TLS 1.2
        ([HELLO, record("handshake", 37, 16) + _CHANGE + record("handshake", 40)], False),
        ([HELLO, record("handshake", 37, 16), _CHANGE + record("handshake", 40), CLOSE], False),
        ([HELLO, record("handshake", 37, 16) + _CHANGE, record("data", 53)], True),
        ([HELLO, _CHANGE + ENCRYPTED, record("data", 69)], True),  # resumed
    ],
)
def test_a_client(sends: list[bytes], expected: bool) -> None:
    found = socket(TlsStart.CLIENT_HELLO, *((each, 0) for each in sends))
    assert passed_data(found) is expected


@pytest.mark.parametrize(
    ("sends", "expected"),
    [
        ([(SERVER_HELLO + _CHANGE + record("data", 1000), 517)], False),
        ([(SERVER_HELLO, 517), (CLOSE, 524)], False),  # the client refused the certificate
        ([(SERVER_HELLO, 517), (record("data", 900), 517)], False),  # the rest of the flight
        ([(SERVER_HELLO, 517), (record("data", 250), 517 + 80)], False),  # a session ticket
        ([(SERVER_HELLO, 517), (record("data", 250), 517 + 64 + 24)], False),  # and a close_notify
        ([(SERVER_HELLO, 517), (record("data", 250), 517 + 80 + 100)], True),
        # A HelloRetryRequest first
        ([(SERVER_HELLO, 200), (SERVER_HELLO, 600), (record("data", 250), 680)], False),
        # TLS 1.2, as Erlang sends it
        ([(SERVER_HELLO, 220), (_CHANGE + record("handshake", 40), 346)], False),
        ([(SERVER_HELLO, 220), (_CHANGE + record("handshake", 40), 346), (FINISHED, 453)], True),
    ],
)
def test_a_server(sends: list[tuple[bytes, int]], expected: bool) -> None:
    assert passed_data(socket(TlsStart.SERVER_HELLO, *sends)) is expected


def test_a_connection_from_before() -> None:
    assert passed_data(socket(TlsStart.JOINED, (record("data", 80), 0)))
    assert not passed_data(socket(TlsStart.JOINED, (CLOSE, 0)))


def test_more_bytes_than_a_handshake_has() -> None:
    """A server that only receives, or one whose sends could not be read."""
    sends = ((SERVER_HELLO, 517),)
    assert passed_data(socket(TlsStart.SERVER_HELLO, *sends, received=1 << 20))
    assert passed_data(socket(TlsStart.CLIENT_HELLO, (HELLO, 0), acknowledged=1 << 20))
    assert not passed_data(socket(TlsStart.CLIENT_HELLO))


def client_hello(*extensions: tuple[int, bytes]) -> bytes:
    listed = b"".join(kind.to_bytes(2) + len(data).to_bytes(2) + data for kind, data in extensions)
    start = b"\x03\x03" + bytes(32) + b"\x20" + bytes(32) + b"\0\x04\x13\x01\x13\x02\x01\0"
    body = start + len(listed).to_bytes(2) + listed
    message = b"\x01" + len(body).to_bytes(3) + body
    return b"\x16\x03\x01" + len(message).to_bytes(2) + message


NAME = (0, b"\0\x0e\0\0\x0bexample.com")


def test_the_name_of_the_server() -> None:
    hello = client_hello((0x0A0A, b""), (43, b"\x02\x03\x04"), NAME, (51, bytes(200)))
    assert server_name(hello) == "example.com"
    assert server_name(client_hello((43, b"\x02\x03\x04"))) is None
    known = {server_name(hello[:size]) for size in range(len(hello))}
    assert known == {None, "example.com"}  # never half a name
    assert server_name(bytes(1024)) is None
