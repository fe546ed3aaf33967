"""An HTTPS proxy: takes CONNECT over TLS, then passes bytes on.

    python connect_proxy.py CERTIFICATE KEY

Prints its port, then for each tunnel the port of its client.
"""

import contextlib
import select
import socket
import ssl
import sys
import threading


def serve(context: ssl.SSLContext, client: socket.socket) -> None:
    """Serve one client: its CONNECT, and what comes after it."""
    with contextlib.suppress(OSError), context.wrap_socket(client, server_side=True) as tunnel:
        head = b""
        while b"\r\n\r\n" not in head:
            head += tunnel.recv(1)
        lines = head.decode().split("\r\n")
        host, port = lines[0].split(" ")[1].rsplit(":", 1)
        nonce = next(line for line in lines if line.lower().startswith("x-nonce:"))
        print(tunnel.getpeername()[1], flush=True)
        with socket.create_connection((host, int(port))) as upstream:
            tunnel.sendall(f"HTTP/1.1 200 Connection established\r\n{nonce}\r\n\r\n".encode())
            pass_on(tunnel, upstream)


def pass_on(tunnel: ssl.SSLSocket, upstream: socket.socket) -> None:
    """Pass bytes both ways until one side ends."""
    while True:
        ready = [tunnel] if tunnel.pending() else select.select([tunnel, upstream], [], [])[0]
        for source in ready:
            data = source.recv(65536)
            if not data:
                return
            (upstream if source is tunnel else tunnel).sendall(data)


def main() -> None:
    """Accept connections for ever, a thread each."""
    certificate, key = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        client, _ = listener.accept()
        threading.Thread(target=serve, args=(context, client), daemon=True).start()


if __name__ == "__main__":
    main()
