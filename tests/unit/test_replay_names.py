"""Our own captures read back: who is who is what it was when they were taken."""

from pathlib import Path

from sslsniff.model import Process
from sslsniff.replay import ReplaySource
from tests.unit.captures import READ, WRITE, Step, Taker, replay

GET = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_ids_and_threads(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    taker.open()  # nothing passes on it
    passed = [taker.open(process=Process(pid, "curl", 0)) for pid in (11, 22)]
    steps: list[Step] = [(WRITE, GET), (READ, 100), (READ, 5_000_000)]
    for connection, tid in zip(reversed(passed), (13, 24), strict=True):
        taker.pass_steps(connection, steps, tid)
    taker.close()
    found = {seen.connection.id: seen.tids for seen in replay(path)}
    assert found == {passed[1].id: {13}, passed[0].id: {24}, "1234-1": set()}


def test_source_that_is_left(tmp_path: Path) -> None:
    path = tmp_path / "file.pcapng"
    taker = Taker(path)
    taker.take([(WRITE, GET)])
    taker.close()
    source = ReplaySource(path)
    assert next(iter(source))
    source.close()
    source.close()
    assert list(source) == []
    assert source.ended
