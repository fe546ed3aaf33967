"""An HTTP/2 client on one connection.

    python h2_client.py PORT CERTIFICATE

For each number read from standard input it makes so many requests at once, and tells what
passed: a JSON object for each, in a line.
"""

import hashlib
import json
import secrets
import socket
import ssl
import sys

import h2.config
import h2.connection
import h2.events
from server import pattern, send_body


def sha256(data: bytes) -> str:
    """Return the hexadecimal hash of ``data``."""
    return hashlib.sha256(data).hexdigest()


class Client:
    """One connection."""

    def __init__(self, port: int, certificate: str) -> None:
        context = ssl.create_default_context(cafile=certificate)
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection(("127.0.0.1", port))
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = context.wrap_socket(plain, server_hostname="localhost")
        self._state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self._state.initiate_connection()
        self._unsent: dict[int, memoryview] = {}
        self._asked: dict[int, tuple[str, str, bytes, str]] = {}
        self._status: dict[int, int] = {}
        self._answers: dict[int, bytearray] = {}

    def make(self, count: int) -> None:
        """Make requests at once, half of them with a body."""
        for number in range(count):
            self._ask(number)
        while self._asked:
            for stream in list(self._unsent):
                send_body(self._state, stream, self._unsent)
            self._socket.sendall(self._state.data_to_send())
            for event in self._state.receive_data(self._socket.recv(65536)):
                self._take(event)
        self._socket.sendall(self._state.data_to_send())

    def _ask(self, number: int) -> None:
        nonce = secrets.token_hex(12)
        method, target = ("POST", "/echo") if number % 2 else ("GET", f"/bytes/{number * 5000}")
        body = pattern(number * 4000) if number % 2 else b""
        stream = self._state.get_next_available_stream_id()
        self._asked[stream] = (method, target, body, nonce)
        self._answers[stream] = bytearray()
        headers = [
            (":method", method),
            (":scheme", "https"),
            (":authority", "localhost"),
            (":path", target),
            ("x-nonce", nonce),
        ]
        self._state.send_headers(stream, headers, end_stream=not body)
        if body:
            self._unsent[stream] = memoryview(body)

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.ResponseReceived):
            headers = {bytes(name): value for name, value in event.headers}
            self._status[event.stream_id] = int(headers[b":status"])
        elif isinstance(event, h2.events.DataReceived):
            self._answers[event.stream_id].extend(event.data)
            self._state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            self._tell(event.stream_id)

    def _tell(self, stream: int) -> None:
        method, target, body, nonce = self._asked.pop(stream)
        told = {
            "nonce": nonce,
            "protocol": "http/2",
            "method": method,
            "target": target,
            "status": self._status[stream],
            "client": self._socket.getsockname(),
            "server": self._socket.getpeername(),
            "request_sha256": sha256(body),
            "response_sha256": sha256(bytes(self._answers.pop(stream))),
        }
        print(json.dumps(told), flush=True)


def main() -> None:
    """Make as many requests as standard input says."""
    client = Client(int(sys.argv[1]), sys.argv[2])
    for line in sys.stdin:
        client.make(int(line))
        print(flush=True)


if __name__ == "__main__":
    main()
