"""What the data types compute."""

import pytest

from sslsniff.core.model import Request
from sslsniff.decoders.messages import Headers

EXTENDED = [(":protocol", "websocket")]


@pytest.mark.parametrize(
    ("method", "target", "scheme", "authority", "headers", "url"),
    [
        ("GET", "/a?b", None, "h.test:8080", [], "http://h.test:8080/a?b"),
        ("GET", "/a", None, None, [("Host", "h.test")], "http://h.test/a"),
        ("GET", "http://o.test/a", "http", "o.test", [("Host", "h.test")], "http://o.test/a"),
        ("TRACE", "/", None, "h.test", [], "http://h.test/"),
        ("OPTIONS", "*", None, "h.test:8080", [], "*"),
        ("OPTIONS", "*", "https", "h.test", [], "*"),  # HTTP/2
        ("CONNECT", "in.test:80", None, "in.test:80", [], "in.test:80"),
        ("CONNECT", "/chat", "https", "h.test", EXTENDED, "https://h.test/chat"),  # RFC 8441
        ("CONNECT", None, "https", "h.test", EXTENDED, "https://h.test?"),
        ("GET", None, "https", "h.test", [], "https://h.test?"),
        (None, None, None, None, [], "http://??"),
    ],
)
def test_url(
    method: str | None,
    target: str | None,
    scheme: str | None,
    authority: str | None,
    headers: list[tuple[str, str]],
    url: str,
) -> None:
    request = Request(method, target, scheme, authority, Headers(headers), default_scheme="http")
    assert request.url == url
