"""What reaches a terminal, and the small forms that sinks share."""

import pytest

from sslsniff.core.model import Address, Connection, Request
from sslsniff.core.process import Container, Process
from sslsniff.decoders.messages import Headers
from sslsniff.forms.text import pieces


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


@pytest.mark.parametrize(
    ("container", "inner", "shown"),
    [
        (None, None, "nginx[7]"),
        (None, 3, "nginx[7, 3]"),
        (Container("docker", "0f" * 32, "web"), 3, "nginx[7, 3 in web]"),
        (Container("docker", "0f" * 32, "web"), None, "nginx[7 in web]"),
        (Container("docker", "0f" * 32), 3, "nginx[7, 3 in 0f0f0f0f0f0f]"),
        (Container("cri-o", "0f" * 32, "app", "prod", "shop-1"), 3, "nginx[7, 3 in shop-1/app]"),
        (Container(unit="nginx.service"), None, "nginx[7]"),
    ],
)
def test_a_process_and_its_container(
    container: Container | None, inner: int | None, shown: str
) -> None:
    assert str(Process(7, "nginx", 0, container, inner)) == shown


def test_times() -> None:
    assert pieces.utc_time(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456Z"
    assert pieces.duration(1_234_567) == "1.2 ms"
    assert pieces.duration(2_500_000_000) == "2.50 s"
