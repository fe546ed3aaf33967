"""A TLS server of processes that never exec: itself, three children, a child of each of those.

    python prefork.py CERTIFICATE KEY CONNECTIONS

Prints its port and waits for a line on standard input. Then it forks, and each of its seven
processes answers a request on each of so many connections, with its process id, and ends.
"""

import os
import socket
import ssl
import sys


def serve(listener: socket.socket, context: ssl.SSLContext, connections: int) -> None:
    """Answer one request on each of so many connections."""
    for _ in range(connections):
        client, _ = listener.accept()
        with context.wrap_socket(client, server_side=True) as connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(4096)
            fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
            nonce = next(value for name, value in fields.items() if name.lower() == b"x-nonce")
            body = b"%d" % os.getpid()
            connection.sendall(
                b"HTTP/1.1 200 OK\r\nX-Nonce: %s\r\nContent-Length: %d\r\n"
                b"Connection: close\r\n\r\n%s" % (nonce, len(body), body)
            )


def main() -> None:
    """Fork and serve."""
    certificate, key, connections = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    sys.stdin.readline()
    for _ in range(3):
        if os.fork() == 0:
            os.fork()
            break
    serve(listener, context, int(connections))


if __name__ == "__main__":
    main()
