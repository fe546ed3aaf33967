"""A capture of HTTP/2 in which flow control stalls the server."""

from pathlib import Path

import h2.config
import h2.connection

from tests.unit.captures import READ, WRITE, Taker

WAITED_MS = 250
BODY_BYTES = 100_000
_WINDOW = 65_535


def write_stalled(path: Path) -> None:
    """Write it: of three streams the second waits; the client opens its windows after a while."""
    taker = Taker(path)
    connection = taker.open(alpn="h2")
    client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))

    def to_server() -> None:
        data = client.data_to_send()
        taker.pass_steps(connection, [(WRITE, data)])
        server.receive_data(data)

    def to_client() -> None:
        data = server.data_to_send()
        taker.pass_steps(connection, [(READ, data)])
        client.receive_data(data)

    client.initiate_connection()
    server.initiate_connection()
    to_server()
    to_client()
    for stream in (1, 3, 5):
        path_and_more = [(":path", f"/{stream}"), (":scheme", "https"), (":authority", "h.example")]
        client.send_headers(stream, [(":method", "GET"), *path_and_more], end_stream=True)
        to_server()
    server.send_headers(1, [(":status", "204")], end_stream=True)
    server.send_headers(3, [(":status", "200")])
    to_client()
    taker.now_ns += 20_000_000
    left = _WINDOW
    while left:
        size = min(left, 16384)
        server.send_data(3, bytes(size))
        left -= size
    to_client()
    taker.now_ns += WAITED_MS * 1_000_000
    client.increment_flow_control_window(1 << 20)
    client.increment_flow_control_window(1 << 20, 3)
    to_server()
    left = BODY_BYTES - _WINDOW
    while left:
        size = min(left, 16384)
        left -= size
        server.send_data(3, bytes(size), end_stream=not left)
    to_client()
    taker.now_ns += 15_000_000
    server.send_headers(5, [(":status", "503")], end_stream=True)
    to_client()
    taker.end(connection)
    taker.close()
