"""One side of TLS handshakes that fail: ``server|client KIND PORT COUNT FOLDER``.

``KIND``: how they fail; ``server`` prints its port, which is PORT unless that is 0, and ends after
COUNT connections. FOLDER has the certificates of tests/workload/certificates.py.
"""

import contextlib
import socket
import ssl
import struct
import sys
from pathlib import Path

FOLDER = Path(sys.argv[5])
PATIENCE_S = 10
IMPATIENT_S = 0.2
NAMES = {"expired": "expired", "wrong_name": "wrong_name"}
RESET = struct.pack("ii", 1, 0)


def refuse_name(*_: object) -> int:
    """Refuse a name after a look into a file, whose end is not that of the connection."""
    (FOLDER / "good.pem").read_bytes()
    return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME


def server_context(kind: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    name = NAMES.get(kind, "good")
    context.load_cert_chain(FOLDER / f"{name}.pem", FOLDER / f"{name}.key")
    if kind == "no_shared_version":
        context.minimum_version = ssl.TLSVersion.TLSv1_3
    elif kind == "no_shared_cipher":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("ECDHE-ECDSA-AES256-CCM")  # which few other libraries have
    elif kind in ("client_certificate", "late_certificate", "untrusted_client"):
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(FOLDER / "authority.pem")
    elif kind == "unknown_name":
        context.sni_callback = refuse_name
    return context


def client_context(kind: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(
        FOLDER / ("stranger.pem" if kind == "untrusted" else "authority.pem")
    )
    if kind == "no_shared_version":
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    elif kind == "no_shared_cipher":
        context.set_ciphers("ECDHE-ECDSA-AES128-CCM")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
    elif kind == "untrusted_client":
        context.load_cert_chain(FOLDER / "foreign.pem", FOLDER / "foreign.key")
    return context


def answer(kind: str, connection: socket.socket, context: ssl.SSLContext) -> None:
    if kind in ("reset", "timeout", "plaintext"):
        hello = connection.recv(65536)
        if kind == "timeout":
            connection.settimeout(None)
            connection.recv(1)  # until the client goes
        elif hello.startswith(b"\x16"):
            if kind == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            else:
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        return
    tls = context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
    with tls:
        try:
            tls.do_handshake()
        except ssl.SSLError:
            if kind == "late_certificate":  # without a reset, which would overtake the alert
                tls.shutdown(socket.SHUT_WR)
                while socket.socket.recv(tls, 4096):
                    pass
            raise
        tls.recv(100)


def serve(kind: str, port: int, count: int) -> None:
    context = server_context(kind)
    with socket.create_server(("127.0.0.1", port), backlog=count) as listener:
        print(listener.getsockname()[1], flush=True)
        for _ in range(count):
            connection, _ = listener.accept()
            connection.settimeout(PATIENCE_S)
            with connection, contextlib.suppress(OSError):
                answer(kind, connection, context)


def connect(kind: str, port: int, count: int) -> None:
    context = client_context(kind)
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.settimeout(IMPATIENT_S if kind == "timeout" else PATIENCE_S)
        with connection, contextlib.suppress(OSError):
            if kind == "http_request":
                connection.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
                connection.recv(100)
            elif kind == "reset_by_client":
                connection.sendall(CLIENT_HELLO)
                connection.recv(1)  # or the reset overtakes the ClientHello
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            else:
                with context.wrap_socket(connection, server_hostname="localhost") as tls:
                    if kind == "late_certificate":  # the server has not looked at it yet
                        tls.sendall(b"not a protocol")
                    tls.recv(100)


def client_hello() -> bytes:
    """Return a real ClientHello."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = client_context("reset_by_client")
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return outgoing.read()


CLIENT_HELLO = client_hello()
{"server": serve, "client": connect}[sys.argv[1]](sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
