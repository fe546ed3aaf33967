"""Both ends of a TLS connection that say goodbye, but free nothing.

    python leaking.py CERTIFICATE KEY NONCE

Waits for a line on standard input. Then a client asks, and the answer ends with the server's
close_notify, not by a length. Prints the answer's body, and waits for the end of standard input.
"""

import socket
import ssl
import sys
import threading

KEPT: list[ssl.SSLSocket] = []


def serve(listener: socket.socket, certificate: str, key: str) -> None:
    """Answer one request, and end only this direction."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    connection = context.wrap_socket(listener.accept()[0], server_side=True)
    KEPT.append(connection)
    nonce = connection.recv(4096).partition(b"x-nonce: ")[2].partition(b"\r\n")[0]
    connection.sendall(b"HTTP/1.0 200 OK\r\nx-nonce: " + nonce + b"\r\n\r\nuntil the end")
    connection.unwrap()  # SSL_shutdown; waits for the client's, which does not come


def main() -> None:
    """Connect and ask."""
    certificate, key, nonce = sys.argv[1:]
    sys.stdin.readline()
    listener = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve, args=(listener, certificate, key), daemon=True).start()
    context = ssl.create_default_context(cafile=certificate)
    address = listener.getsockname()
    connection = context.wrap_socket(socket.create_connection(address), server_hostname="localhost")
    KEPT.append(connection)
    connection.sendall(f"GET / HTTP/1.0\r\nx-nonce: {nonce}\r\n\r\n".encode())
    answer = b"".join(iter(lambda: connection.recv(4096), b""))
    print(answer.partition(b"\r\n\r\n")[2].decode(), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
