"""Commands of curl are run, and send what was captured."""

import http.server
import subprocess
import threading
from collections.abc import Iterator

import orjson
import pytest

from sslsniff.core.errors import OutputError
from sslsniff.core.model import Request
from sslsniff.decoders.messages import Header
from sslsniff.filters.filters import OPERATORS
from sslsniff.screen.saving import curl_command
from sslsniff.screen.widgets.expression_input import _MEANINGS
from tests.unit.exchanges import exchange, request, response
from tests.unit.screen.captured_lines import written

Got = tuple[str, str, dict[str, str], bytes]


@pytest.fixture
def got() -> Iterator[tuple[str, list[Got]]]:
    """Run a server; yield its authority, and what it got."""
    requests: list[Got] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def handle_one_request(self) -> None:
            self.raw_requestline = self.rfile.readline(65537)
            if not self.raw_requestline or not self.parse_request():
                self.close_connection = True
                return
            size = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            requests.append((self.command, self.path, headers, self.rfile.read(size)))
            self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            self.close_connection = True

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}", requests
        server.shutdown()


def command_of(asked: Request, authority: str) -> str:
    asked.scheme, asked.authority = "http", authority
    line = written(lambda sink: sink.exchange(exchange(asked, response())))
    return curl_command(orjson.loads(line))


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("method", "headers", "body"),
    [
        ("GET", [("x-quote", 'it\'s "$HOME" `id`')], b""),
        ("HEAD", [], b""),
        ("DELETE", [("x-empty", "")], b""),
        ("POST", [("content-type", "application/json")], b'{"a": "it\'s",\n\t"b": "@x"}'),
        ("POST", [], b"@/etc/passwd"),
        ("PUT", [("content-type", "x/y")], bytes(range(256))),
    ],
)
def test_curl_sends_the_same(
    method: str, headers: list[Header], body: bytes, got: tuple[str, list[Got]]
) -> None:
    authority, requests = got
    command = command_of(request(method, "/a?b=1&c=%20", headers, body), authority)
    subprocess.run(["sh", "-c", command], check=True, capture_output=True, timeout=20)
    [(sent_method, path, sent, data)] = requests
    assert (sent_method, path, data) == (method, "/a?b=1&c=%20", body)
    expected = {name: value for name, value in headers if name}
    assert {name: sent.get(name) for name in expected} == expected
    assert ("content-type" in sent) == ("content-type" in expected)


@pytest.mark.parametrize(
    ("asked", "fact"),
    [
        (request(headers=[("a", None)]), "a header of the request is not known"),
        (request(target="/\x1b[31m"), "the request has control characters"),
    ],
)
def test_what_cannot_be_sent_again(asked: Request, fact: str) -> None:
    with pytest.raises(OutputError, match=fact):
        command_of(asked, "example.org")


def test_each_operator_has_its_meaning() -> None:
    assert tuple(sorted(_MEANINGS)) == OPERATORS
