"""An HTTP/2 client that asks on command, all on one connection.

    python http2_client.py HOST PORT

Each line of standard input is a list of paths: one request each, all at once. It answers
with a line when the last response is complete.
"""

import socket
import ssl
import sys

import h2.connection
import h2.events


def main() -> None:
    """Serve the lines of standard input."""
    host, port = sys.argv[1], int(sys.argv[2])
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2"])
    with context.wrap_socket(socket.create_connection((host, port)), server_hostname=host) as sock:
        state = h2.connection.H2Connection()
        state.initiate_connection()
        print("connected", flush=True)
        for line in sys.stdin:
            ask(sock, state, f"{host}:{port}", line.split())
            print("done", flush=True)


def ask(
    sock: ssl.SSLSocket, state: h2.connection.H2Connection, authority: str, paths: list[str]
) -> None:
    """Send requests for all ``paths``, and take the responses."""
    open_streams = set()
    for path in paths:
        stream = state.get_next_available_stream_id()
        state.send_headers(
            stream,
            [
                (":method", "GET"),
                (":scheme", "https"),
                (":authority", authority),
                (":path", path),
                ("user-agent", "http2_client"),
                ("x-nonce", path),
            ],
            end_stream=True,
        )
        open_streams.add(stream)
    sock.sendall(state.data_to_send())
    while open_streams:
        for event in state.receive_data(sock.recv(65536)):
            if isinstance(event, h2.events.DataReceived):
                state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                open_streams.remove(event.stream_id)
        sock.sendall(state.data_to_send())


if __name__ == "__main__":
    main()
