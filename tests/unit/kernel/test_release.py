"""What is told of a kernel by its version alone."""

import pytest

from sslsniff.kernel import release


@pytest.mark.parametrize(
    ("name", "is_safe"),
    [
        ("5.10.0-28-amd64", True),
        ("6.10.14", True),
        ("6.11.0-21-generic", False),
        ("6.11.11", False),
        ("6.12", False),
        ("6.12.0-55.el10.x86_64", False),
        ("6.12.13", False),
        ("6.12.14", True),
        ("6.12.48+deb13-amd64", True),
        ("6.13.2", False),
        ("6.13.3-arch1-1", True),
        ("6.14.0", True),
        ("7.0.1", True),
    ],
)
def test_return_probes_are_avoided_where_they_kill(name: str, is_safe: bool) -> None:
    assert release.has_safe_return_probes(name) is is_safe
