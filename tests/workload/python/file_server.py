"""Serves the files of a folder over TLS, and tells of each answer with a body on a line.

    python file_server.py CERTIFICATE KEY FOLDER

Prints its port first, then the path and the client's port of each GET.
"""

import http.server
import ssl
import sys
from functools import partial


class Handler(http.server.SimpleHTTPRequestHandler):
    """Also tells."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        super().do_GET()
        print(self.path, self.client_address[1], flush=True)

    def log_message(self, *_: object) -> None:
        """Say nothing on standard error."""


def main() -> None:
    """Serve until ended."""
    certificate, key, folder = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    handler = partial(Handler, directory=folder)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        print(server.server_port, flush=True)
        server.serve_forever()


if __name__ == "__main__":
    main()
