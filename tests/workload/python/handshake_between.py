"""A TLS client whose thread makes a handshake on another connection while it reads an answer.

By then the rest of the answer is in the library's memory. The client makes so many requests, each
but the first just before such a handshake, and prints its own port.
"""

import socket
import ssl
import sys

_REQUEST = b"GET /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"


def _read_answer(tls: ssl.SSLSocket, answer: bytes = b"") -> None:
    while b"\r\n\r\n" not in answer:
        answer += tls.recv(1)


def main() -> None:
    """Ask for the next answer before each is read."""
    port, certificate, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    context = ssl.create_default_context(cafile=certificate)

    def connect() -> ssl.SSLSocket:
        plain = socket.create_connection(("127.0.0.1", port))
        return context.wrap_socket(plain, server_hostname="localhost")

    with connect() as tls:
        tls.sendall(_REQUEST)
        for _ in range(count - 1):
            begin = tls.recv(1)
            tls.sendall(_REQUEST)
            connect().close()
            _read_answer(tls, begin)
        _read_answer(tls)
        print(tls.getsockname()[1])


if __name__ == "__main__":
    main()
