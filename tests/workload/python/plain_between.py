"""A TLS client whose thread talks on a plain TCP connection while it reads an answer in pieces.

So does a proxy whose other side has no TLS. Most pieces are in the library's memory already. It
makes so many requests, and prints its own port.
"""

import socket
import ssl
import sys

_REQUEST = b"GET /bytes/9000 HTTP/1.1\r\nHost: localhost\r\n\r\n"
_ANSWER_BYTES = 9000


def main() -> None:
    """Ask and be answered on the plain connection after each piece."""
    port, certificate, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    listener = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()
    context = ssl.create_default_context(cafile=certificate)
    plain = socket.create_connection(("127.0.0.1", port))
    with context.wrap_socket(plain, server_hostname="localhost") as tls:
        for _ in range(count):
            tls.sendall(_REQUEST)
            answer = b""
            while len(answer.partition(b"\r\n\r\n")[2]) < _ANSWER_BYTES:
                answer += tls.recv(1000)
                near.sendall(b"question")
                far.sendall(far.recv(100))
                near.recv(100)
        print(tls.getsockname()[1])


if __name__ == "__main__":
    main()
