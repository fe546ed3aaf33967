"""Requests by the AWS Common Runtime, which has s2n-tls linked in.

    python awscrt_client.py PORT TRUSTED FOLDER PROTOCOL NONCE...

Posts to /echo the bytes of FOLDER/NONCE, and stores what it gets in FOLDER/NONCE.got: one request
after the other over one connection of HTTP/1.1 (PROTOCOL is 1) or HTTP/2 (2). Prints its own port.
"""

import io
import sys
import threading
from pathlib import Path

from awscrt import http
from awscrt import io as crt

HOST = "localhost"
SECONDS = 30


def own_port(remote: int) -> int:
    """Return the local port of this process's only connection to a port."""
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    inodes = {
        each.readlink().name.removeprefix("socket:[").rstrip("]")
        for each in Path("/proc/self/fd").iterdir()
        if each.is_symlink()
    }
    [port] = [
        int(local.split(":")[1], 16)
        for local, far, inode in ((row[1], row[2], row[9]) for row in map(str.split, lines))
        if int(far.split(":")[1], 16) == remote and inode in inodes
    ]
    return port


def connect(port: int, trusted: str, protocol: str) -> http.HttpClientConnectionBase:
    """Connect with TLS."""
    options = crt.TlsContextOptions()
    options.override_default_trust_store_from_path(None, trusted)
    options.alpn_list = ["h2"] if protocol == "2" else ["http/1.1"]
    tls = crt.ClientTlsContext(options).new_connection_options()
    tls.set_server_name(HOST)
    group = crt.EventLoopGroup(1)
    bootstrap = crt.ClientBootstrap(group, crt.DefaultHostResolver(group))
    kind = http.Http2ClientConnection if protocol == "2" else http.HttpClientConnection
    made = kind.new(host_name=HOST, port=port, bootstrap=bootstrap, tls_connection_options=tls)
    connection: http.HttpClientConnectionBase = made.result(SECONDS)
    return connection


def post(connection: http.HttpClientConnectionBase, nonce: str, body: bytes) -> bytes:
    """Make a request; return the answer's body."""
    names = [("host", HOST), ("x-nonce", nonce), ("content-length", str(len(body)))]
    request = http.HttpRequest("POST", "/echo", http.HttpHeaders(names), io.BytesIO(body))
    got = bytearray()
    lock = threading.Lock()

    def keep(http_stream: object, chunk: bytes) -> None:
        with lock:
            got.extend(chunk)

    stream = connection.request(request, on_body=keep)
    stream.activate()
    assert stream.completion_future.result(SECONDS) == 200
    return bytes(got)


def main() -> None:
    """Make the requests."""
    port, trusted, folder, protocol, *nonces = sys.argv[1:]
    connection = connect(int(port), trusted, protocol)
    print(own_port(int(port)))
    for nonce in nonces:
        got = post(connection, nonce, Path(folder, nonce).read_bytes())
        Path(folder, f"{nonce}.got").write_bytes(got)
    connection.close().result(SECONDS)


if __name__ == "__main__":
    main()
