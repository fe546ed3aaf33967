"""All ways by which bytes pass through OpenSSL, tests/workload/c/ways.c: each byte counts once."""

from collections import Counter
from pathlib import Path

import pytest

from tests import libraries
from tests.live.checks import content, run_under
from tests.live.sniffer import Captured
from tests.workload.processes import PROGRAMS, run
from tests.workload.servers import Certificate

pytestmark = pytest.mark.heavy

WAYS = ("plain", "ex", "bio", "peek", "async", "again", "dtls")
NEWER = ("3.5", "3.6", "4.0")
PRELOAD = "--engine preload"
SIZES = (1, 100, 5000, 16384, 40000)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("ways") / "ways"
    options = ("-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", built)
    run("gcc", *options, PROGRAMS / "c/ways.c", "-ldl")
    return built


def message(way: str, end: str, number: int, size: int) -> str:
    words = f"{way} {end} {number} "
    return (words * (size // len(words) + 1))[:size]


def written(way: str, end: str) -> str:
    """Return what an end writes on its connection."""
    sizes = {"dtls": SIZES[:2], "again": (*SIZES, 100)}.get(way, SIZES)
    return "".join(message(way, end, number, size) for number, size in enumerate(sizes))


def passed(ways: tuple[str, ...]) -> Counter[tuple[str, str]]:
    """Return what is written and read by each end of each connection."""
    ends = [("client", "server"), ("server", "client")]
    return Counter((written(way, own), written(way, other)) for way in ways for own, other in ends)


def seen(captured: Captured) -> Counter[tuple[str, str]]:
    streams: dict[int, dict[str, str]] = {}
    for chunk in captured.of("chunk"):
        stream = streams.setdefault(chunk["connection"], {"write": "", "read": ""})
        stream[chunk["direction"]] += content(chunk["data"]).decode()
    return Counter((each["write"], each["read"]) for each in streams.values())


@pytest.mark.parametrize("how", ["--returns instructions", "--returns trampoline", PRELOAD])
@pytest.mark.parametrize("series", [*libraries.OPENSSL, "boringssl"])
def test_each_byte_counts_once(
    series: str, how: str, program: Path, certificate: Certificate, tmp_path: Path
) -> None:
    library = libraries.library(series)
    ways: tuple[str, ...] = (*WAYS, "ex2", "quic") if series in NEWER else WAYS
    ways = ("plain", "peek") if series == "boringssl" else ways
    shown = ways
    if how == PRELOAD:
        shown = tuple(way for way in ways if way != "bio")
    ends = (library.path, certificate.certificate, certificate.key)
    command = (*library.loader, program, *ends, *ways)
    captured = run_under(tmp_path, *command, options=["--chunks", *how.split()]).captured
    assert seen(captured) == passed(shown)
    assert captured.summary["lost_bytes"] == 0
    assert "open when the probes were placed" not in captured.stderr
    is_told = "BIOs of OpenSSL with a connection inside: " in captured.stderr
    assert is_told == (ways != shown)
