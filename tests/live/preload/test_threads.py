"""The preloaded library under many threads: each message once, no data race, killed processes."""

from collections import Counter
from pathlib import Path

import pytest

from tests.live.checks import assert_whole, run_under
from tests.live.preload.streams import streams
from tests.workload.processes import PROGRAMS, run
from tests.workload.servers import Certificate

ROOT = PROGRAMS.parents[1]
SOURCE = PROGRAMS / "c/in_memory.c"
OPTIONS = ("-O1", "-Wall", "-Wextra", "-Werror", "-pthread")
LIBRARIES = ("-lssl", "-lcrypto")
Streams = Counter[tuple[str, bytes, bytes]]
"""Role, and what an end wrote and read."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("in_memory") / "in_memory"
    run("gcc", *OPTIONS, "-o", built, SOURCE, *LIBRARIES)
    return built


def passed(threads: int, messages: int, size: int) -> Streams:
    """Return what both ends of each connection of tests/workload/c/in_memory.c write and read."""
    expected: Streams = Counter()
    for thread in range(threads):
        asked = said("t%d n%d ", thread, messages, size)
        answered = said("T%d N%d ", thread, messages, size)
        expected["client", asked, answered] += 1
        expected["server", answered, asked] += 1
    return expected


def said(form: str, thread: int, messages: int, size: int) -> bytes:
    texts = (form % (thread, number) for number in range(messages))
    return b"".join((text * (size // len(text) + 1))[:size].encode() for text in texts)


@pytest.mark.parametrize(("threads", "messages", "size"), [(1000, 20, 200), (50, 40, 16_000)])
def test_each_message_once(
    threads: int,
    messages: int,
    size: int,
    program: Path,
    certificate: Certificate,
    tmp_path: Path,
    engine: str,
) -> None:
    """All threads at once."""
    numbers = map(str, (threads, messages, size))
    command = (program, *numbers, certificate.certificate, certificate.key)
    options = ("--chunks", "--ring-size", "256M")
    captured = run_under(tmp_path, *command, options=options, engine=engine).captured
    assert streams(captured) == passed(threads, messages, size)
    assert_whole(captured)
