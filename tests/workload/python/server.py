"""A small TLS server for the demo and the live tests: HTTP/1.1 and, where ALPN says so, HTTP/2.

    python server.py CERTIFICATE KEY [HOST]

Prints its port, then serves until it is ended. GET /bytes/N answers N bytes, POST
/echo the request's body, GET /script/NONCE/N a page whose script makes N requests with this nonce,
anything else a greeting; each answer repeats the request's ``x-nonce`` header. What is sent to
/slow over HTTP/1 is read slowly, what is sent to /unread over HTTP/2 when /read is asked for.
"""

import contextlib
import hashlib
import http.server
import socket
import ssl
import sys
import threading
import time

import h2.config
import h2.connection
import h2.events


def pattern(size: int) -> bytes:
    """Return ``size`` bytes that are the same every time, and no two parts of which are."""
    blocks = (hashlib.sha256(b"%d" % index).digest() for index in range(size // 32 + 1))
    return b"".join(blocks)[:size]


SCRIPT = """<!doctype html><link rel=icon href=data:,><script>
const [nonce, count] = location.pathname.split("/").slice(2)
for (let number = 0; number < count; number++) {
    const request = new XMLHttpRequest()
    request.open("POST", "/echo", false)
    request.setRequestHeader("x-nonce", nonce + "-" + number)
    request.send("x".repeat(1 + 5000 * number))
}
</script>"""


def answer(method: str, path: str, body: bytes) -> bytes:
    """Return the body of the answer to a request."""
    if path.startswith("/bytes/"):
        return pattern(int(path.rsplit("/", 1)[1]))
    if path.startswith("/script/"):
        return SCRIPT.encode()
    return body if method == "POST" else b"hello from " + path.encode() + b"\n"


class Http1Handler(http.server.BaseHTTPRequestHandler):
    """HTTP/1.1 with keep-alive."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer a request of any method."""
        body = self._read_body(int(self.headers.get("content-length", 0)))
        reply = answer(self.command, self.path, body)
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.send_header("X-Nonce", self.headers.get("x-nonce", ""))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply)

    do_POST = do_HEAD = do_PUT = do_GET

    def _read_body(self, size: int) -> bytes:
        """Return the body of ``size`` bytes; of /slow, so slowly that its sender has to wait."""
        body = bytearray()
        while piece := self.rfile.read(min(size - len(body), 16384)):
            body += piece
            if self.path == "/slow":
                time.sleep(0.002)
        return bytes(body)

    def log_message(self, *_: object) -> None:
        """Stay silent."""


def serve_http2(connection: ssl.SSLSocket) -> None:
    """Answer requests on all streams until the client is done."""
    state = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
    state.initiate_connection()
    connection.sendall(state.data_to_send())
    requests: dict[int, tuple[dict[str, str], bytearray]] = {}
    unsent: dict[int, memoryview] = {}
    unread: dict[int, int] = {}
    while data := connection.recv(65536):
        for event in state.receive_data(data):
            if isinstance(event, h2.events.RequestReceived):
                headers = {name.decode(): value.decode() for name, value in event.headers}
                requests[event.stream_id] = (headers, bytearray())
                while headers[":path"] == "/read" and unread:
                    stream, size = unread.popitem()
                    state.acknowledge_received_data(size, stream)
            elif isinstance(event, h2.events.DataReceived):
                headers, body = requests[event.stream_id]
                body.extend(event.data)
                stream, size = event.stream_id, event.flow_controlled_length
                if headers[":path"] == "/unread":
                    unread[stream] = unread.get(stream, 0) + size
                else:
                    state.acknowledge_received_data(size, stream)
            elif isinstance(event, h2.events.StreamEnded):
                headers, body = requests.pop(event.stream_id)
                reply = answer(headers[":method"], headers[":path"], bytes(body))
                state.send_headers(
                    event.stream_id,
                    [
                        (":status", "200"),
                        ("content-length", str(len(reply))),
                        ("x-nonce", headers.get("x-nonce", "")),
                    ],
                )
                sent = b"" if headers[":method"] == "HEAD" else reply
                unsent[event.stream_id] = memoryview(sent)
            elif isinstance(event, h2.events.StreamReset):
                unsent.pop(event.stream_id, None)
        for stream in list(unsent):
            send_body(state, stream, unsent)
        connection.sendall(state.data_to_send())


def send_body(
    state: h2.connection.H2Connection, stream: int, unsent: dict[int, memoryview]
) -> None:
    """Send as much of a body as the flow control windows allow."""
    body = unsent[stream]
    while room := min(
        len(body), state.local_flow_control_window(stream), state.max_outbound_frame_size
    ):
        state.send_data(stream, bytes(body[:room]))
        body = body[room:]
    unsent[stream] = body
    if not body:
        state.end_stream(stream)
        del unsent[stream]


def serve(listener: socket.socket, context: ssl.SSLContext) -> None:
    """Accept connections for ever, a thread each."""
    while True:
        client, address = listener.accept()
        threading.Thread(target=handle, args=(context, client, address), daemon=True).start()


def handle(context: ssl.SSLContext, client: socket.socket, address: tuple[str, int]) -> None:
    """Serve one connection."""
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(OSError), context.wrap_socket(client, server_side=True) as connection:
        if connection.selected_alpn_protocol() == "h2":
            serve_http2(connection)
        else:
            Http1Handler(connection, address, None)  # type: ignore[arg-type]


def main() -> None:
    """Listen on a free port and print it."""
    certificate, key, *host = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2", "http/1.1"])
    family = socket.AF_INET6 if host and ":" in host[0] else socket.AF_INET
    listener = socket.create_server((host[0] if host else "127.0.0.1", 0), family=family)
    print(listener.getsockname()[1], flush=True)
    serve(listener, context)


if __name__ == "__main__":
    main()
