"""Requests by python-mbedtls, which passes records to Mbed TLS through memory.

    python mbedtls_client.py PORT TRUSTED FOLDER PROTOCOL NONCE...

Posts as awscrt_client.py does; only HTTP/1.1 (PROTOCOL is 1), and bodies below 4 KB: its sockets
have no more room for records.
"""

import socket
import sys
from pathlib import Path

from mbedtls import tls, x509

HOST = "localhost"


def receive(connection: tls.TLSWrappedSocket) -> bytes:
    """Return the body of an answer."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(4096)
    head, _, body = data.partition(b"\r\n\r\n")
    fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
    size = int(fields[b"content-length"])
    parts = [body]
    while size > sum(map(len, parts)):
        parts.append(connection.recv(4096))
    return b"".join(parts)


def main() -> None:
    """Make the requests."""
    port, trusted, folder, _, *nonces = sys.argv[1:]
    store = tls.TrustStore()
    store.add(x509.CRT.from_PEM(Path(trusted).read_text()))
    context = tls.ClientContext(tls.TLSConfiguration(trust_store=store))
    with socket.create_connection(("127.0.0.1", int(port))) as plain:
        connection = context.wrap_socket(plain, server_hostname=HOST)
        connection.do_handshake()
        print(plain.getsockname()[1])
        for nonce in nonces:
            body = Path(folder, nonce).read_bytes()
            head = f"POST /echo HTTP/1.1\r\nHost: {HOST}\r\nx-nonce: {nonce}\r\n"
            connection.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            Path(folder, f"{nonce}.got").write_bytes(receive(connection))
        connection.close()


if __name__ == "__main__":
    main()
