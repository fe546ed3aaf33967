"""A server of one stream of events over TLS: one every 100 ms.

    python event_server.py CERTIFICATE KEY

Prints its port, serves one request, and ends the stream when standard input ends; then it prints
how many events it sent.
"""

import http.server
import ssl
import sys
import threading

INTERVAL_S = 0.1


class Events(http.server.BaseHTTPRequestHandler):
    """Sends events in chunks until it is told to stop."""

    protocol_version = "HTTP/1.1"
    stopped = threading.Event()

    def do_GET(self) -> None:
        """Answer with the stream."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        number = 0
        while not self.stopped.wait(INTERVAL_S):
            number += 1
            event = f"event: tick\nid: {number}\ndata: {{\ndata: {number}}}\n\n".encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")
        print(number, flush=True)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


def stop_with_input() -> None:
    """End the stream when standard input ends."""
    sys.stdin.read()
    Events.stopped.set()


def main() -> None:
    """Serve one request."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    with http.server.HTTPServer(("127.0.0.1", 0), Events) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        print(server.server_address[1], flush=True)
        waiting = threading.Thread(target=stop_with_input)
        waiting.start()
        server.handle_request()
        waiting.join()


if __name__ == "__main__":
    main()
