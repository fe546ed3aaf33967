"""A TLS client through memory, whose thread talks by UDP between its TLS calls and the socket.

So does a resolver of names. It makes so many requests, and prints its own port.
"""

import socket
import ssl
import sys

_REQUEST = b"GET /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n"


class Names:
    """Asks by UDP, and answers: a datagram there and one back."""

    def __init__(self) -> None:
        self._server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._server.bind(("127.0.0.1", 0))
        self._client = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._client.connect(self._server.getsockname())

    def ask(self) -> None:
        """Send a question and receive the answer."""
        self._client.send(b"question")
        _, address = self._server.recvfrom(100)
        self._server.sendto(b"answer", address)
        self._client.recv(100)


def main() -> None:
    """Connect, and ask for names around each use of the socket."""
    port, certificate, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=certificate)
    tls = context.wrap_bio(received, to_send, server_hostname="localhost")
    names = Names()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(to_send.read())
                received.write(connection.recv(1 << 16))
        for _ in range(count):
            tls.write(_REQUEST)
            names.ask()
            connection.sendall(to_send.read())
            answer = b""
            while b"\r\n\r\n" not in answer:
                try:
                    answer += tls.read(1 << 16)
                except ssl.SSLWantReadError:
                    received.write(connection.recv(1 << 16))
                    names.ask()
        print(connection.getsockname()[1])


if __name__ == "__main__":
    main()
