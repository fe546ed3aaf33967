"""What is said of the end of a connection, by what is known of it."""

import pytest

from sslsniff.core.endings import ConnectionEnding as Ending
from sslsniff.core.handshakes import SocketEnding as Socket
from sslsniff.decoders.messages import Side

CLIENT, SERVER = Side.CLIENT, Side.SERVER

CASES = [
    (Ending(), None, None, None),
    (Ending(Socket.CLOSED), "fin", CLIENT, "closed by the client"),
    (
        Ending(Socket.PEER_CLOSED, received_notify=False),
        *("fin", SERVER, "closed by the server without close_notify"),
    ),
    (
        Ending(Socket.PEER_CLOSED, sent_notify=False),
        *("fin", SERVER, "closed by the server"),
    ),
    (
        Ending(Socket.PEER_CLOSED, received_notify=True, sent_notify=False),
        *("close_notify", SERVER, "closed by the server with close_notify"),
    ),
    (
        Ending(received_notify=True),
        "close_notify",
        SERVER,
        "closed by the server with close_notify",
    ),
    (
        Ending(sent_notify=True, received_notify=False),
        *("close_notify", CLIENT, "closed by the client with close_notify"),
    ),
    (Ending(sent_notify=True, received_notify=True), None, None, None),
    (Ending(sent_notify=False, received_notify=False), None, None, None),
    (Ending(Socket.RESET, sent_notify=True), "rst", CLIENT, "reset by the client"),
    (Ending(Socket.PEER_RESET), "rst", SERVER, "reset by the server"),
    (Ending(Socket.TIMED_OUT), "timeout", None, "timed out: the server acknowledged nothing"),
    (
        Ending(Socket.CLOSED, sent_alert=80),
        *("alert", CLIENT, "alert 80 (internal error) sent by the client"),
    ),
    (
        Ending(Socket.CLOSED, received_alert=20, sent_alert=80),
        *("alert", SERVER, "alert 20 (bad record MAC) sent by the server"),
    ),
    (Ending(process_ended=True), "process ended", CLIENT, "the process of the client ended"),
    (
        Ending(Socket.RESET, process_ended=True),
        *("rst", CLIENT, "reset by the client, whose process ended"),
    ),
    (Ending(Socket.PEER_CLOSED, process_ended=True), "fin", SERVER, "closed by the server"),
]


@pytest.mark.parametrize(("ending", "how", "by", "text"), CASES)
def test_words(ending: Ending, how: str | None, by: Side | None, text: str | None) -> None:
    assert ending.how == how
    assert ending.ended_by(CLIENT) == by
    assert ending.text(CLIENT) == text
    assert ending.ended_by(None) is None
    assert "client" not in (ending.text(None) or "")
