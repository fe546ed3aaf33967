"""What the first sends and receives of a socket tell of its handshake, as libraries sent them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sslsniff.capture.handshakes.socket_evidence import facts_of
from sslsniff.capture.handshakes.tls_evidence import client_random, passed_data, server_name
from sslsniff.core.events import NotedSend, TlsSocket, TlsStart
from sslsniff.core.handshakes import SocketEnding, explain
from sslsniff.decoders.messages import Side
from tests.unit.capture.tls_sockets import tls_socket

HELLO = NotedSend(bytes.fromhex("1603010200010001fc0303") + bytes(5), 517, 0)
SERVER_HELLO = NotedSend(bytes.fromhex("160303007a020000760303") + bytes(5), 700, 0)


def sent(head: str, size: int, received: int = 700) -> NotedSend:
    return NotedSend(bytes.fromhex(head).ljust(16, b"\xa5"), size, received)


def socket(start: TlsStart, *sends: NotedSend, **fields: Any) -> TlsSocket:
    usual: dict[str, Any] = {
        "received": 761,
        "has_ended": True,
        "ending": SocketEnding.CLOSED,
    }
    return tls_socket(start=start, sends=sends, **(usual | fields))


ALERT = sent("15030300020230", 7)
ALERT_HEADER = sent("1503030002", 5)
"""Sent alone; the level and the description follow in a send of their own."""
FINISHED = sent("1403030001011703030035", 6 + 58)
FINISHED_1_2 = sent("1403030001011603030028", 6 + 45)
ENCRYPTED_ALERT = sent("1703030013", 24)
ENCRYPTED_ALERT_AFTER_CHANGE = sent("1403030001011703030013", 30)


def test_a_server_that_only_sent_an_alert() -> None:
    """It got no ClientHello."""
    found = socket(TlsStart.ALERT_SENT, ALERT, answer=b"GET / HT")
    facts = facts_of(found)
    assert (facts.sent_alert, facts.is_complete, facts.answer) == (48, False, b"GET / HT")
    assert not passed_data(found)
    assert explain(facts, Side.SERVER, None).kind == "plaintext"


@pytest.mark.parametrize(
    ("sends", "alert", "is_complete", "is_encrypted"),
    [
        ([HELLO], None, False, False),
        ([HELLO, ALERT], 48, False, False),
        ([HELLO, ALERT_HEADER], None, False, False),
        ([HELLO, ENCRYPTED_ALERT], None, False, True),
        ([HELLO, ENCRYPTED_ALERT_AFTER_CHANGE], None, False, True),
        ([HELLO, FINISHED], None, True, False),
        ([HELLO, FINISHED, ENCRYPTED_ALERT], None, True, True),
        ([HELLO, FINISHED_1_2], None, True, False),
    ],
)
def test_a_client(
    sends: list[NotedSend], alert: int | None, is_complete: bool, is_encrypted: bool
) -> None:
    facts = facts_of(socket(TlsStart.CLIENT_HELLO, *sends))
    assert (facts.sent_alert, facts.is_complete) == (alert, is_complete)
    assert facts.sent_encrypted is is_encrypted


@pytest.mark.parametrize("start", [TlsStart.SERVER_HELLO, TlsStart.HELLO_RECEIVED])
@pytest.mark.parametrize(
    ("answered", "is_complete"),
    [(0, False), (7, False), (30, False), (6 + 74, True), (58, True), (6 + 74 + 24, True)],
)
def test_a_server(start: TlsStart, answered: int, is_complete: bool) -> None:
    """It is complete if the client's Finished message came, whatever the client sent then."""
    server_hello = SERVER_HELLO._replace(received=517)
    found = socket(start, server_hello, received=517 + answered)
    assert facts_of(found).is_complete is is_complete


def test_an_alert_instead_of_a_server_hello() -> None:
    facts = facts_of(socket(TlsStart.HELLO_RECEIVED, sent("15030300020246", 7)))
    assert (facts.sent_alert, facts.is_complete) == (70, False)


def test_received_bytes_of_an_open_socket_are_not_known() -> None:
    still = {"has_ended": False, "ending": SocketEnding.UNKNOWN}
    assert facts_of(socket(TlsStart.CLIENT_HELLO, HELLO, **still)).received is None
    closing = still | {"ended_ns": 5}
    assert facts_of(socket(TlsStart.CLIENT_HELLO, HELLO, **closing)).received == 761


NOTED_SENDS = st.builds(
    NotedSend, st.binary(min_size=16, max_size=16), st.integers(0, 1 << 32), st.integers(0, 1 << 32)
)


@given(
    st.sampled_from(TlsStart),
    st.lists(NOTED_SENDS, max_size=8),
    st.binary(max_size=600),
    st.binary(max_size=16),
    st.sampled_from(Side),
)
def test_any_bytes_are_explained(
    start: TlsStart, sends: list[NotedSend], hello: bytes, answer: bytes, role: Side
) -> None:
    found = socket(start, *sends, hello=hello, answer=answer)
    assert explain(facts_of(found), role, server_name(hello)).text
    assert len(client_random(hello)) in (0, 32)
    assert passed_data(found) in (True, False)
