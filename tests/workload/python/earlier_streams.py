"""Speaks HTTP/2 with itself over TLS, in one thread, so that no read is under way: CERTIFICATE KEY.

Before a line of its standard input: requests on streams 1 to 7; heads and parts of the answers on
streams 1 and 3. After it: the rest of these, trailers on stream 1; the whole answer on stream 5;
stream 7 stays open; and a whole exchange on stream 9.
"""

import socket
import ssl
import sys
import threading

from h2.config import H2Configuration
from h2.connection import H2Connection

certificate, key = sys.argv[1:]
SERVER, CLIENT = H2Connection(H2Configuration(client_side=False)), H2Connection()
HEAD = [(":status", "200"), ("content-type", "text/plain"), ("x-number", "0")]


def connect() -> tuple[ssl.SSLSocket, ssl.SSLSocket]:
    """Return both ends of a connection: the server's, and the client's."""
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    own.load_cert_chain(certificate, key)
    trusting = ssl.create_default_context(cafile=certificate)
    for each in (own, trusting):
        each.set_alpn_protocols(["h2"])
    accepted: list[ssl.SSLSocket] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accept = threading.Thread(
            target=lambda: accepted.append(own.wrap_socket(listener.accept()[0], server_side=True))
        )
        accept.start()
        tcp = socket.create_connection(listener.getsockname())
        client = trusting.wrap_socket(tcp, server_hostname="localhost")
        accept.join()
    return accepted[0], client


server, client = connect()


def exchange_bytes() -> None:
    """Pass what each side has to send, until there is nothing more."""
    is_idle = False
    while not is_idle:
        is_idle = True
        for source, sends, target, receives in (
            (CLIENT, client, server, SERVER),
            (SERVER, server, client, CLIENT),
        ):
            if data := source.data_to_send():
                is_idle = False
                sends.sendall(data)
                receives.receive_data(target.recv(65536))


def ask(stream: int) -> None:
    head = [(":method", "GET"), (":scheme", "https"), (":authority", "localhost")]
    CLIENT.send_headers(stream, [*head, (":path", f"/{stream}")], end_stream=True)


def answer(stream: int) -> None:
    SERVER.send_headers(stream, [*HEAD[:2], ("x-number", str(stream))])


CLIENT.initiate_connection()
SERVER.initiate_connection()
for number in (1, 3, 5, 7):
    ask(number)
exchange_bytes()
for number in (1, 3, 7):
    answer(number)
    SERVER.send_data(number, b"first")
exchange_bytes()
print(flush=True)
input()
SERVER.send_data(1, b"last")
SERVER.send_headers(1, [("x-trailer", "done")], end_stream=True)
SERVER.send_data(3, b"the rest", end_stream=True)
answer(5)
SERVER.send_data(5, b"whole", end_stream=True)
exchange_bytes()
ask(9)
exchange_bytes()
answer(9)
SERVER.send_data(9, b"new", end_stream=True)
SERVER.send_data(7, b"more")
exchange_bytes()
print(flush=True)
input()
