"""Answers as a language model's API does (Anthropic's messages): ``agent_model PORT``."""

import http.server
import itertools
import json
import sys
import time

from docs.stories.system import server_tls

_STEPS: list[tuple[str, dict[str, object]] | None] = [
    ("search_tickets", {"text": "refund"}),
    ("read_ticket", {"number": 4711}),
    ("query_ledger", {"statement": "SELECT * FROM payments WHERE ticket = 4711"}),
    ("query_ledger", {"statement": "SELECT * FROM payments WHERE id = 4711"}),
    ("query_ledger", {"statement": "SELECT * FROM payment WHERE ticket_id = 4711"}),
    None,
]
_THINKS_S = 0.3
_numbers = itertools.count(1)


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers POST /v1/messages."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Call the next tool, or answer."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        parts = [part for each in asked["messages"] for part in each["content"]]
        done = sum(isinstance(part, dict) and part["type"] == "tool_result" for part in parts)
        step, number = _STEPS[done], next(_numbers)
        content: list[dict[str, object]] = [{"type": "text", "text": f"Step {done + 1}."}]
        if step is not None:
            tool = {"type": "tool_use", "id": f"toolu_{number}", "name": step[0], "input": step[1]}
            content.append(tool)
        usage = {
            "input_tokens": 1_000 + 3_000 * done,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 2_000,
            "output_tokens": 120,
        }
        answer = {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": asked["model"],
            "content": content,
            "stop_reason": "end_turn" if step is None else "tool_use",
            "stop_sequence": None,
            "usage": usage,
        }
        time.sleep(_THINKS_S)
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def main() -> None:
    """Serve."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.socket = server_tls().wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
