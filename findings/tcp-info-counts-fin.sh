#!/bin/sh
# Linux counts a FIN as a byte in what TCP_INFO calls bytes received.
#
# Version: Linux 4.1 and newer, seen on 6.18 (net/ipv4/tcp_input.c: tcp_rcv_nxt_update adds all of
# the sequence numbers, and a FIN has one).
# Behaviour: tcpi_bytes_received of a socket whose peer closed is one more than what the peer sent:
# 1 where it sent nothing. Who tells "no answer" from "an answer" by it must look at the state, too.
# Output seen: before the FIN 5 bytes received, after it 6; of a peer that sends nothing 0, then 1
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cat > "$folder/count.py" <<'PYTHON'
import socket
import struct
import sys

BYTES_RECEIVED = 128  # struct tcp_info, include/uapi/linux/tcp.h


def received(connection: socket.socket) -> int:
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    return struct.unpack_from("<Q", info, BYTES_RECEIVED)[0]


def counts(sent: bytes) -> tuple[int, int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()
        with near, far:
            far.sendall(sent)
            if sent:
                assert near.recv(100) == sent
            before = received(near)
            far.shutdown(socket.SHUT_WR)
            assert near.recv(100) == b""  # the end was received
            return before, received(near)


some, none = counts(b"hello"), counts(b"")
print(f"before the FIN {some[0]} bytes received, after it {some[1]}; of a peer that sends nothing {none[0]}, then {none[1]}")
sys.exit((some, none) != ((5, 6), (0, 1)))
PYTHON
python3 "$folder/count.py"
