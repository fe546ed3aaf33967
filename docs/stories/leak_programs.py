"""The servers and clients of the story of the token.

leak_programs server PORT
leak_programs backup|reports API METRICS
"""

import http.server
import itertools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from docs.stories.system import requests_session, server_tls

_CRASH_EACH = 5


class Handler(http.server.BaseHTTPRequestHandler):
    """Takes everything."""

    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(200)
        self.send_header("Content-Length", "3")
        self.end_headers()
        self.wfile.write(b"ok\n")

    do_GET = do_POST = do_PUT = _answer

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def serve(port: str) -> None:
    """Answer each request with "ok"."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    server.socket = server_tls().wrap_socket(server.socket, server_side=True)
    server.serve_forever()


def backup(api: str, metrics: str) -> None:
    """Store backups; report to the metrics how that went, and what a crash left in memory."""
    key = os.environ["BACKUP"]
    session = requests_session()
    for number in itertools.count(1):
        headers = {"Authorization": f"Bearer {key}"}
        session.put(f"{api}/backups/{number}", data=os.urandom(512), headers=headers)
        event: dict[str, Any] = {"program": "backup", "number": number, "ok": True}
        if number % _CRASH_EACH == 0:
            settings = {"API": api, "STORE_PASSPHRASE": key}
            event |= {"ok": False, "crash": {"signal": "SIGPIPE", "settings": settings}}
        session.post(f"{metrics}/events", json=event)
        time.sleep(1)


def reports(api: str, metrics: str) -> None:
    """Send figures, in a session of its own each time."""
    for number in itertools.count(1):
        figures: dict[str, Any] = {"program": "reports", "rows": number}
        login = {"user": "reports", "password": "correct-horse"}
        with requests_session() as session:
            session.post(f"{api}/login", data=login)
            session.post(f"{metrics}/events", json=figures)
        time.sleep(1.5)


if __name__ == "__main__":
    programs: dict[str, Callable[..., None]]
    programs = {"server": serve, "backup": backup, "reports": reports}
    programs[sys.argv[1]](*sys.argv[2:])
