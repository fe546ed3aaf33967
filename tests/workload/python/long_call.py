"""A TLS connection within a process, and one call on it that takes long to decode: HTTP/2 pings.

For each line on standard input the client writes so many bytes with one call; a line says that.
"""

import ssl
import sys

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
_PING = b"\0\0\x08\x06\0\0\0\0\0" + bytes(8)


def main() -> None:
    """Connect, then write as much as each line says."""
    certificate = sys.argv[1]
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, sys.argv[2])
    asking = ssl.create_default_context(cafile=certificate)
    asking.check_hostname = False
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = asking.wrap_bio(to_client, to_server)
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    for end in (client, server) * 3:
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    client.write(_PREFACE)
    print(flush=True)
    for line in sys.stdin:
        client.write(_PING * (int(line) // len(_PING)))
        to_server.read()
        print(flush=True)


if __name__ == "__main__":
    main()
