"""``slow_path.py CERTIFICATE KEY REQUESTS``: a service, and clients; one path becomes slow.

Clients ask for ``/reserve/sku-0`` to ``sku-19`` in turn, some of them at once. From the middle on,
``/reserve/sku-17`` takes a second. Prints when the first slow request came, in nanoseconds.
"""

import http.client
import itertools
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PATHS = 20
_CLIENTS = 6
_SLOW = "/reserve/sku-17"
_SLOW_S = 1.0
_PAUSE_S = 0.005


def main() -> int:
    certificate, key, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    slow_ns: list[int] = []
    answered = itertools.count()

    class Service(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            if next(answered) >= count // 2 and self.path == _SLOW:
                slow_ns.append(time.time_ns())
                time.sleep(_SLOW_S)
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    numbers = iter(range(count))
    lock = threading.Lock()

    def ask() -> None:
        trusting = ssl.create_default_context(cafile=certificate)
        client = http.client.HTTPSConnection("localhost", server.server_port, context=trusting)
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                break
            client.request("GET", f"/reserve/sku-{number % PATHS}")
            client.getresponse().read()
            time.sleep(_PAUSE_S)
        client.close()

    clients = [threading.Thread(target=ask) for _ in range(_CLIENTS)]
    for each in clients:
        each.start()
    for each in clients:
        each.join()
    print(min(slow_ns))
    return 0


if __name__ == "__main__":
    sys.exit(main())
