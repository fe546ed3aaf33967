#!/bin/sh
# Zig's TLS client sends the server's name in the last bytes of its first message.
#
# Version: Zig 0.17.1 (ziglang 0.17.1 on PyPI), std.http.Client over std.crypto.tls.
# Behaviour: its ClientHello has key shares of some 1,500 bytes (one of them post-quantum,
# X25519MLKEM768), and the extension server_name comes after them, last of all. The message has more
# bytes than one packet of Ethernet carries (1,460), so the name is not in the first packet of the
# connection. What looks for names in first packets only, or keeps the first kilobyte, finds none.
# RFC 8446 section 4.2 allows any order.
# Output seen: ClientHello of 1609 bytes, the name begins at byte 1600
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check --no-cache-dir ziglang==0.17.1
cat > ask.zig <<'ZIG'
const std = @import("std");

pub fn main(start: std.process.Init) !void {
    var arguments = start.minimal.args.iterate();
    _ = arguments.next();
    var client: std.http.Client = .{ .allocator = start.gpa, .io = start.io };
    defer client.deinit();
    _ = client.fetch(.{ .location = .{ .url = arguments.next().? } }) catch return;
}
ZIG
export ZIG_GLOBAL_CACHE_DIR="$folder/cache" ZIG_LOCAL_CACHE_DIR="$folder/cache"
venv/bin/python -m ziglang build-exe ask.zig
cat > look.py <<'PYTHON'
import socket
import subprocess
import sys

with socket.create_server(("127.0.0.1", 0)) as server:
    client = subprocess.Popen(["./ask", f"https://localhost:{server.getsockname()[1]}/"])
    connection, _ = server.accept()
    with connection, connection.makefile("rb") as read:
        record = read.read(5)
        record += read.read(int.from_bytes(record[3:5], "big"))
    client.wait()
name_at = record.find(b"localhost")
print(f"ClientHello of {len(record)} bytes, the name begins at byte {name_at}")
sys.exit(not 1460 < name_at == len(record) - len("localhost"))
PYTHON
venv/bin/python look.py
