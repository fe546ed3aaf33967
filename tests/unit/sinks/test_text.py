"""What reaches a terminal, and the small forms that sinks share."""

import pytest

from sslsniff.decoders.messages import Headers
from sslsniff.model import Address, Connection, Process, Request
from sslsniff.sinks.text import pieces


@pytest.mark.parametrize(
    ("count", "shown"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (10_485_760, "10.5 MB"), (10**15, "1000.0 TB")],
)
def test_sizes(count: int, shown: str) -> None:
    assert pieces.size(count) == shown


@pytest.mark.parametrize(
    ("target", "authority", "shown"),
    [
        ("/a?b", "h:1", "https://h:1/a?b"),
        ("/a", None, "https://from.host/a"),
        ("http://other/x", "h", "http://other/x"),
        (None, "h", "https://h?"),
    ],
)
def test_urls(target: str | None, authority: str | None, shown: str) -> None:
    request = Request("GET", target, None, authority, Headers([("Host", "from.host")]))
    assert pieces.url(request) == shown


def test_addresses() -> None:
    assert pieces.address(Address("::1", 443)) == "[::1]:443"
    assert pieces.address(None) == "?"


def test_near_end() -> None:
    connection = Connection("7-1", Process(7, "a\x1bb"), "openssl", None, True, 0)
    connection.local = Address("::1", 443)
    assert pieces.near_end(connection) == "a\\x1bb[7]"
    connection.process = Process(0, "")
    assert pieces.near_end(connection) == "[::1]:443"


def test_times() -> None:
    assert pieces.utc_time(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456Z"
    assert pieces.duration(1_234_567) == "1.2 ms"
    assert pieces.duration(2_500_000_000) == "2.50 s"
