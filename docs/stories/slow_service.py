"""The invoices of a shop, from MariaDB: ``slow_service PORT DATABASE_PORT PASSWORD``."""

import http.server
import json
import os
import re
import sys
import threading
import time
from typing import Any

import pymysql

from docs.stories.system import server_tls

LINES = {"acme": 60, "birch": 3, "cedar": 2, "delta": 1}
"""How many lines the invoice of each customer has."""
NEW_VERSION_AFTER_S = float(os.environ.get("STORY_CHANGE_S", "60"))
_PATH = re.compile(r"/invoices/(\w+)/(\d+)(?:\?view=(\w+))?")
_ANSWER_S = 0.004
"""What one statement takes in a database that is a network away."""
_started = time.monotonic()
_own = threading.local()


def database() -> Any:
    """Return the connection of this thread."""
    if not hasattr(_own, "connection"):
        tls = {"ca": os.environ["STORY_CERTIFICATE"]}
        _own.connection = pymysql.connect(
            host="127.0.0.1",
            port=int(sys.argv[2]),
            user="app",
            password=sys.argv[3],
            database="shop",
            autocommit=True,
            ssl=tls,
        )
    return _own.connection


def ask(statement: str, *parameters: object) -> list[Any]:
    """Run one statement; return its rows."""
    with database().cursor() as cursor:
        time.sleep(_ANSWER_S)
        cursor.execute(statement, parameters)
        return [*cursor.fetchall()]


def invoice(customer: str, number: int, view: str | None) -> dict[str, Any]:
    """Return an invoice: with its lines if its ``view`` is "full"."""
    found: dict[str, Any] = {"customer": customer, "number": number}
    if view != "full":
        statement = "SELECT CAST(SUM(price) AS INT) FROM line WHERE customer = %s"
        return {**found, "total": ask(statement, customer)[0][0]}
    if time.monotonic() < _started + NEW_VERSION_AFTER_S:
        rows = ask("SELECT id, price FROM line WHERE customer = %s", customer)
    else:  # what came with the new version
        ids = ask("SELECT id FROM line WHERE customer = %s", customer)
        rows = [ask("SELECT id, price FROM line WHERE id = %s", each)[0] for (each,) in ids]
    return {**found, "lines": rows}


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers GET /invoices/CUSTOMER/NUMBER."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def do_GET(self) -> None:
        """Answer with the invoice."""
        match = _PATH.fullmatch(self.path)
        body = json.dumps(invoice(match[1], int(match[2]), match[3]) if match else {}).encode()
        self.send_response(200 if match else 404)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


def main() -> None:
    """Fill the table, and serve."""
    with database().cursor() as cursor:
        cursor.execute(
            "CREATE TABLE line (id INT AUTO_INCREMENT PRIMARY KEY, customer TEXT, price INT)"
        )
        rows = [(name, 100 + n) for name, count in LINES.items() for n in range(count)]
        cursor.executemany("INSERT INTO line (customer, price) VALUES (%s, %s)", rows)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
    server.socket = server_tls().wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
