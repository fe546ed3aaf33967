#!/bin/sh
# Each streamed call of OpenAI's current SDK for Python takes a new connection, and so a TLS handshake.
#
# Version: openai 3.57.0 and 2.0.0 with httpx 0.28.1.
# Behaviour: 3.57.0 ends a stream at the event [DONE], and closes the connection without reading the
# end of the chunked body that follows it, even if that came in the same packet. So the connection
# cannot be used again, as that of a call that is not streamed is. 2.0.0 reads the end, and uses it
# again. Who watches 3.57.0 sees answers without an end, and a handshake for each call.
# Output seen: openai 3.57.0: 5 calls, not streamed: 1 connection; streamed: 5
#              openai 2.0.0: 5 calls, not streamed: 1 connection; streamed: 1
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
cat > ask.py <<'PYTHON'
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import openai

CALLS = 5
MESSAGES = [{"role": "user", "content": "hi"}]
connections = 0


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self):
        global connections
        connections += 1
        super().setup()

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        choice = {"index": 0, "delta" if asked.get("stream") else "message": {"role": "assistant", "content": "hi"}}
        answer = json.dumps({"id": "1", "object": "x", "created": 1, "model": "m", "choices": [choice]})
        self.send_response(200)
        if asked.get("stream"):
            events = f"data: {answer}\n\ndata: [DONE]\n\n"
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            body = f"{len(events):x}\r\n{events}\r\n0\r\n\r\n"
        else:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            body = answer
        self.end_headers()
        self.wfile.write(body.encode())

    def handle(self):
        try:
            super().handle()
        except ConnectionResetError:
            pass

    def log_message(self, *_):
        pass


def used(client, stream):
    """Return how many connections the calls took, one after the other."""
    global connections
    connections = 0
    for _ in range(CALLS):
        answer = client.chat.completions.create(model="m", messages=MESSAGES, stream=stream)
        if stream:
            assert "".join(part.choices[0].delta.content for part in answer) == "hi"
        else:
            assert answer.choices[0].message.content == "hi"
        time.sleep(0.05)
    return connections


server = ThreadingHTTPServer(("127.0.0.1", 0), Model)
threading.Thread(target=server.serve_forever, daemon=True).start()
url = f"http://127.0.0.1:{server.server_port}/v1"
plain, streamed = (used(openai.OpenAI(api_key="none", base_url=url), stream) for stream in (False, True))
print(f"openai {openai.__version__}: {CALLS} calls, not streamed: {plain} connection; streamed: {streamed}")
assert (plain, streamed) == (1, int(sys.argv[1]))
PYTHON
python3 -m venv venv
venv/bin/pip install -q --disable-pip-version-check openai==3.57.0 httpx==0.28.1
venv/bin/python ask.py 5
venv/bin/pip install -q --disable-pip-version-check openai==2.0.0
venv/bin/python ask.py 1
