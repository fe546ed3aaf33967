"""A capture file has the real end of each connection, and says so where it is made up."""

from pathlib import Path

import pytest

from sslsniff import decode
from sslsniff.core.endings import ConnectionEnding
from sslsniff.core.handshakes import SocketEnding
from sslsniff.core.model import Connection, Direction
from sslsniff.decoders.messages import Side
from sslsniff.forms.endings import failure
from tests.unit.captures import READ, WRITE, Taker, complaints, get, replay, tshark_fields

CUT = b"HTTP/1.1 200 OK\r\nContent-Length: 5507\r\n\r\n" + b"x" * 2900

ENDINGS = {
    ConnectionEnding(SocketEnding.PEER_CLOSED, 5, received_notify=False): "FIN server",
    ConnectionEnding(SocketEnding.CLOSED, 5, sent_notify=False): "FIN client",
    ConnectionEnding(SocketEnding.PEER_RESET, 5): "RST server",
    ConnectionEnding(SocketEnding.RESET, 5, process_ended=True): "RST client",
    ConnectionEnding(SocketEnding.PEER_CLOSED, 5, received_alert=80): "alert 80 server",
    ConnectionEnding(SocketEnding.CLOSED, 5, sent_alert=20): "alert 20 client",
    ConnectionEnding(process_ended=True): "made up",
    ConnectionEnding(SocketEnding.TIMED_OUT, 5): "made up",
    ConnectionEnding(): "made up",
}


def write(path: Path, layout: str) -> list[Connection]:
    taker = Taker(path, "pcapng", layout)
    connections = []
    for ending in ENDINGS:
        connection = taker.open(80 if layout == "plain" else 8443)
        taker.pass_steps(connection, [(WRITE, get("/")), (READ, CUT)])
        connection.ending = ending
        taker.end(connection)
        connections.append(connection)
    taker.close()
    return connections


@pytest.mark.parametrize("layout", ["null-tls", "plain"])
def test_read_back(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "file.pcapng"
    written = write(path, layout)
    seen = [each.connection for each in replay(path)]
    assert [each.id for each in seen] == [each.id for each in written]
    none = ConnectionEnding()
    assert [each.ending or none for each in seen] == [each.ending for each in written]
    assert [failure(each) for each in decode(path)] == [
        f"2,900 of 5,507 B, {ending.text(Side.CLIENT) or 'connection closed'}" for ending in ENDINGS
    ]


@pytest.mark.tools
@pytest.mark.parametrize("layout", ["null-tls", "plain"])
def test_tshark_sees_who_ended_it(tmp_path: Path, layout: str) -> None:
    path = tmp_path / "file.pcapng"
    write(path, layout)
    flags = ("tcp.flags.fin", "tcp.flags.reset", "tls.alert_message.desc")
    fields = ("tcp.stream", "tcp.dstport", *flags, "frame.comment")
    only = "tcp.flags.fin == 1 || tcp.flags.reset == 1 || tls.alert_message"
    first: dict[str, str] = {}
    for stream, port, fin, reset, alert, comment in tshark_fields(path, *fields, only=only):
        sender = "client" if port in ("80", "8443") else "server"
        kind = f"alert {alert}" if alert else "RST" if reset == "1" else "FIN"
        assert fin == "1" or kind != "FIN"
        is_made_up = comment.startswith("made up")
        first.setdefault(stream, "made up" if is_made_up else f"{kind} {sender}")
    expected = [*ENDINGS.values()]
    if layout == "plain":  # there are no records of TLS
        expected = [each.replace("alert 80", "FIN").replace("alert 20", "FIN") for each in expected]
    assert [*first.values()] == expected
    assert [each for each in complaints(path) if not each.endswith("Connection reset (RST)")] == []


def test_a_close_notify_is_an_alert(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    connection = taker.open()
    taker.pass_steps(connection, [(WRITE, get("/")), (READ, CUT)])
    connection.ending = ConnectionEnding(received_notify=True)
    taker.end_direction(connection, Direction.READ)
    connection.ending = ConnectionEnding(SocketEnding.CLOSED, 5, False, True)
    taker.end(connection)
    taker.close()
    [seen] = replay(path)
    assert [*seen.ended_ns] == [Direction.READ, Direction.WRITE]
    assert seen.connection.ending == connection.ending
    [exchange] = decode(path)
    assert failure(exchange) == "2,900 of 5,507 B, closed by the server with close_notify"
