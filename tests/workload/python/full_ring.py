"""Fills sslsniff's ring before its connection's socket can be known; told to go twice.

Arguments: port, certificate, key. Prints "ready", and its port when the socket has been used.
"""

import socket
import ssl
import sys

CLOSES = 8
"""They leave less room than the addresses of a connection take."""
SIZES = {60_000: 80, 12_000: 8, 3_000: 8, 800: 8, 100: 8}
"""How many calls of how many bytes fill a ring of 4 MiB; the last ones need 312 bytes there."""

port, certificate, key = sys.argv[1:]


class Client:
    """The client's end of a connection through memory."""

    def __init__(self) -> None:
        context = ssl.create_default_context(cafile=certificate)
        self.incoming, self.outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.tls = context.wrap_bio(self.incoming, self.outgoing, server_hostname="localhost")

    def is_ready(self) -> bool:
        """Go on with the handshake."""
        try:
            self.tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True


def connected_in_memory() -> Client:
    client = Client()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server = context.wrap_bio(client.outgoing, client.incoming, server_side=True)
    while not client.is_ready():
        try:
            server.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client


def connected(sock: socket.socket) -> Client:
    client = Client()
    while not client.is_ready():
        sock.sendall(client.outgoing.read())
        client.incoming.write(sock.recv(1 << 16))
    sock.sendall(client.outgoing.read())
    return client


with socket.create_connection(("127.0.0.1", int(port))) as sock:
    client = connected(sock)
    others = [connected_in_memory() for _ in range(CLOSES)]
    print("ready", flush=True)
    sys.stdin.readline()
    for each in (client, *others):
        each.tls.write(b"x")
    for size, calls in SIZES.items():
        for _ in range(calls):
            others[0].tls.write(bytes(size))
    others.clear()
    del each  # each of these is an SSL_free
    client.tls.write(b"y")
    sock.sendall(client.outgoing.read())
    print(sock.getsockname()[1], flush=True)
    sys.stdin.readline()
    client.tls.write(b"z")
    sock.sendall(client.outgoing.read())
