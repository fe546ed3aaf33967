"""From which CPUs the kernel's news of mapped files are read."""

import pytest

from sslsniff.kernel.mapping_events import parse_cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("0\n", [0]), ("0-3\n", [0, 1, 2, 3]), ("0,2-3,8\n", [0, 2, 3, 8])],
)
def test_cpus_that_are_offline_are_left_out(text: str, cpus: list[int]) -> None:
    assert parse_cpus(text) == cpus
