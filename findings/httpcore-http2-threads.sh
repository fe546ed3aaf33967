#!/bin/sh
# A synchronous httpx client that speaks HTTP/2 fails when several threads share it.
#
# Version: httpx 0.28.1 with httpcore 1.0.9 and h2 4.4.1; the server is hypercorn 0.18.0.
# Behaviour: the client shares one HTTP/2 connection between threads. Some of their requests
# fail: HEADERS of two threads leave in another order than their stream identifiers, which RFC 9113
# section 5.1.1 forbids, so the server ends the connection, or h2 itself raises an error. The same
# client used by one thread has no failure. A capture shows such a server's GOAWAY frames.
# Output seen: 1 thread: 0 of 2000 requests failed
#              8 threads: some of 2000 requests failed (13 to 74 in four runs)
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check "httpx[http2]==0.28.1" httpcore==1.0.9 h2==4.4.1 hypercorn==0.18.0
openssl req -x509 -newkey rsa:2048 -nodes -keyout key.pem -out certificate.pem -days 2 \
    -subj /CN=localhost -addext subjectAltName=DNS:localhost 2>openssl.log
cat > served.py <<'PYTHON'
async def app(scope, receive, send):
    """Answers each request with 2,000 bytes."""
    if scope["type"] == "lifespan":
        while True:
            event = await receive()
            await send({"type": event["type"] + ".complete"})
            if event["type"] == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"x" * 2000})
PYTHON
cat > ask.py <<'PYTHON'
import socket
import ssl
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import httpx

REQUESTS, ROUNDS = 2000, 5
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
command = [sys.executable, "-m", "hypercorn", "--bind", f"127.0.0.1:{port}"]
command += ["--certfile", "certificate.pem", "--keyfile", "key.pem", "served:app"]
server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
url = f"https://localhost:{port}/"


def failures(threads):
    """Return how many of the requests of one client failed."""
    with httpx.Client(http2=True, verify=ssl.create_default_context(cafile="certificate.pem")) as client:

        def fails(_):
            try:
                return client.get(url).status_code != 200
            except (httpx.HTTPError, KeyError, RuntimeError):
                return True

        assert client.get(url).http_version == "HTTP/2"
        with ThreadPoolExecutor(threads) as pool:
            return sum(pool.map(fails, range(REQUESTS)))


try:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            break
        except ConnectionRefusedError:
            assert server.poll() is None
            time.sleep(0.1)
    alone = failures(1)
    print(f"1 thread: {alone} of {REQUESTS} requests failed")
    together = next((count for _ in range(ROUNDS) if (count := failures(8))), 0)
    print(f"8 threads: {together} of {REQUESTS} requests failed")
finally:
    server.terminate()
    server.wait()
assert alone == 0
assert together > 0
PYTHON
venv/bin/python ask.py
