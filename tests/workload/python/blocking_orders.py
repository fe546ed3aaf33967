"""A service with a thread for each connection, which waits in its reads: prints its port.

    python blocking_orders.py CERTIFICATE KEY [PORT_OF_STOCK PORT_OF_DATABASE PASSWORD]

It answers each POST with its body. With the ports, it asks POST /stock with the same body before,
and PostgreSQL with it as a parameter; threads of its own do the same all the time.
"""

import contextlib
import http.client
import itertools
import queue
import socket
import ssl
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg

JOB = "job"
"""The bodies of the jobs' requests begin so."""
_JOBS = 4
_CONNECTIONS = 30


class Upstream:
    """Asks other services; threads share the connections to the database, one at a time."""

    def __init__(self, certificate: str, stock: str, database: str, password: str) -> None:
        self._trusted = ssl.create_default_context(cafile=certificate)
        self._stock = int(stock)
        self._own = threading.local()
        self._connections: queue.Queue[psycopg.Connection[tuple[str]]] = queue.Queue()
        where = f"host=127.0.0.1 port={database} user=app password={password} dbname=postgres"
        for _ in range(_CONNECTIONS):
            self._connections.put(psycopg.connect(f"{where} sslmode=require", autocommit=True))

    def ask(self, name: str) -> None:
        """Ask for what has a name."""
        own = self._own
        if not hasattr(own, "stock"):
            own.stock = http.client.HTTPSConnection("localhost", self._stock, context=self._trusted)
        own.stock.request("POST", "/stock", body=name)
        own.stock.getresponse().read()
        connection = self._connections.get()
        connection.execute("SELECT %s::text", (name,)).fetchall()
        self._connections.put(connection)

    def work(self, number: int) -> None:
        """Ask all the time."""
        for count in itertools.count():
            with contextlib.suppress(OSError, http.client.HTTPException):
                self.ask(f"{JOB}-{number}-{count}")
            time.sleep(0.01)


def serve(certificate: str, key: str, *others: str) -> None:
    """Serve until the process ends."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    upstream = Upstream(certificate, *others) if others else None

    class Orders(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if upstream is not None:
                upstream.ask(body.decode())
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        request_queue_size = 1000

        def finish_request(self, request: socket.socket, client_address: object) -> None:  # type: ignore[override]
            wrapped = context.wrap_socket(request, server_side=True)
            with contextlib.suppress(OSError):  # the client is gone
                Orders(wrapped, client_address, self)

    server = Server(("127.0.0.1", 0), Orders)
    print(server.server_address[1], flush=True)
    if upstream is not None:
        for number in range(_JOBS):
            threading.Thread(target=upstream.work, args=(number,), daemon=True).start()
    server.serve_forever()


if __name__ == "__main__":
    serve(*sys.argv[1:])
