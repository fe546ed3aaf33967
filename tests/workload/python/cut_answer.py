"""Asks a TLS server for an answer of 5,507 bytes that is cut: CERTIFICATE KEY HOW [COMMAND].

HOW says how the server ends the connection: by ``fin`` alone, with ``notify``, by ``rst``, by its
``exit``; or the ``client`` ends it; or the client reads the answer ``late``, and only then shows
which socket is its: after the server closed by ``fin``. Or HOW is the port at which COMMAND serves,
and after a colon that of its upstream, which this program is then. Prints how much of the answer
the client received.
"""

import os
import select
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time

certificate, key, how, *command = sys.argv[1:]
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5507\r\n\r\n" + b"x" * 2900
REQUEST = b"GET /cut HTTP/1.1\r\nHost: localhost\r\n\r\n"


def serve(listener: socket.socket) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    tls = context.wrap_socket(listener.accept()[0], server_side=True)
    tls.recv(4096)
    tls.sendall(ANSWER)
    if how == "client":
        tls.recv(4096)
    elif how == "notify":
        tls.unwrap()
    elif how == "rst":
        time.sleep(0.2)  # a reset also discards what the client did not read
        tls.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif how == "exit":
        os._exit(0)
    tls.close()


def ask(port: int) -> None:
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    raw = socket.create_connection(("127.0.0.1", port))
    tls = context.wrap_socket(raw)
    tls.sendall(REQUEST)
    received = b""
    try:
        while data := tls.recv(65536):
            received += data
            if how == "client" and len(received) >= len(ANSWER):
                break
    except OSError:
        pass
    tls.close()
    print(len(received.partition(b"\r\n\r\n")[2]))


def ask_late(port: int) -> None:
    """Ask through memory; another thread sends, so that no call shows whose socket it uses."""
    context = ssl.create_default_context(cafile=certificate)
    context.check_hostname = False
    raw = socket.create_connection(("127.0.0.1", port))
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing)

    def send() -> None:
        sender = threading.Thread(target=raw.sendall, args=(outgoing.read(),))
        sender.start()
        sender.join()

    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            send()
            incoming.write(raw.recv(65536))
        else:
            break
    tls.write(REQUEST)
    send()
    closed = select.poll()
    closed.register(raw, select.POLLRDHUP)
    closed.poll()
    received = b""
    while data := raw.recv(65536):
        incoming.write(data)
        try:
            while plaintext := tls.read(65536):
                received += plaintext
        except ssl.SSLWantReadError:
            pass
    raw.close()
    print(len(received.partition(b"\r\n\r\n")[2]))


def serve_upstream(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)) as listener:
        connection = listener.accept()[0]
        connection.recv(4096)
        connection.sendall(ANSWER)
        connection.close()


def wait_for(port: int) -> None:
    for _ in range(500):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(0.02)
        else:
            return


if command:
    port, _, upstream = how.partition(":")
    if upstream:
        threading.Thread(target=serve_upstream, args=(int(upstream),), daemon=True).start()
    server = subprocess.Popen(command)
    wait_for(int(port))
    ask(int(port))
    server.terminate()
    server.wait()
else:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        child = os.fork()
        if not child:
            serve(listening)
            os._exit(0)
        (ask_late if how == "late" else ask)(listening.getsockname()[1])
        os.waitpid(child, 0)
