"""As messages.c, in Python: the same lines, and the same answers.

The threads take turns in the interpreter, but not in OpenSSL.
"""

import socket
import ssl
import sys
import threading
import time


def write(connection: ssl.SSLSocket, count: int, size: int) -> None:
    data = bytes(size)
    for _ in range(count):
        connection.sendall(data)


def main(certificate: str, key: str) -> None:
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate, key)
    serving.num_tickets = 0
    asking = ssl.create_default_context(cafile=certificate)
    ends = socket.socketpair()
    reads = serving.wrap_socket(ends[1], server_side=True, do_handshake_on_connect=False)
    writes = asking.wrap_socket(ends[0], server_hostname="localhost", do_handshake_on_connect=False)
    accepting = threading.Thread(target=reads.do_handshake)
    accepting.start()
    writes.do_handshake()
    accepting.join()
    print("ready", flush=True)
    for line in sys.stdin:
        count, size = (int(number) for number in line.split()[:2])
        data = bytearray(size)
        calls, left = 0, count * size
        started = time.perf_counter()
        writer = threading.Thread(target=write, args=(writes, count, size))
        writer.start()
        while left:
            left -= reads.recv_into(data)
            calls += 1
        writer.join()
        print(f"{time.perf_counter() - started:.6f} {calls}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
