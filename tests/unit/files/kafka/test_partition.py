"""Where in a partition the next consumer has to begin."""

import pytest

from sslsniff.files.kafka import partition as module
from sslsniff.files.kafka.partition import Partition, begin_at
from sslsniff.files.kafka.plaintext import ReceivedConnection
from sslsniff.files.kafka.schema import Plaintext


def connection(offset: int, seen_ms: int = 0) -> ReceivedConnection:
    found = ReceivedConnection(1, offset, Plaintext())
    found.seen_ms = seen_ms
    return found


def test_without_open_connections_it_begins_where_this_one_ended() -> None:
    partition = Partition(3, stored=5, begin=5)
    assert partition.to_commit() is None
    partition.position = 9
    assert partition.to_commit() == (9, "9")


def test_it_begins_with_the_oldest_open_connection() -> None:
    partition = Partition(3, stored=0, begin=0)
    partition.position = 20
    partition.connections = {"a": connection(4), "b": connection(11)}
    assert partition.to_commit() == (20, "4")
    del partition.connections["a"]
    assert partition.to_commit() == (20, "11")


def test_it_does_not_begin_too_long_before() -> None:
    partition = Partition(3, stored=0, begin=0)
    partition.connections = {"a": connection(4)}
    partition.position = 4 + module.MOST_REPEATED + 7
    assert partition.to_commit() == (partition.position, "11")


def test_what_is_repeated_is_not_committed() -> None:
    partition = Partition(3, stored=10, begin=4)
    partition.position = 9
    assert partition.is_repeated
    assert partition.to_commit() is None
    partition.position = 10
    assert not partition.is_repeated


@pytest.mark.parametrize(
    ("committed", "metadata", "found"),
    [
        (-1001, None, (0, 0)),
        (7, "4", (7, 4)),
        (7, "", (7, 7)),
        (7, None, (7, 7)),
        (7, "written by others", (7, 7)),
        (7, "9", (7, 7)),
    ],
)
def test_what_was_committed(committed: int, metadata: str | None, found: tuple[int, int]) -> None:
    assert begin_at(committed, metadata) == found


def test_idle_connections() -> None:
    partition = Partition(3, stored=0, begin=0)
    partition.latest_ms = 10_000
    partition.connections = {"a": connection(1, 9_500), "b": connection(2, 8_999)}
    assert [key for key, _ in partition.idle(1_000)] == ["b"]
