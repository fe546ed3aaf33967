"""All ways by which bytes pass through GnuTLS, tests/workload/c/gnutls_ways.c: each counts once."""

from collections import Counter
from pathlib import Path

import pytest

from tests import libraries
from tests.live.checks import connections, run_under
from tests.live.test_ways import message, seen
from tests.workload.processes import PROGRAMS, run
from tests.workload.servers import Certificate

pytestmark = pytest.mark.heavy

SIZES = (1, 100, 5000, 16384, 40000, 3 << 20)
LONGER = frozenset({"plain", "partial", "again"})
"""Those with the last size, too: it fills sockets, and is hundreds of records."""

OLDER = frozenset({"tls12", "renew", "beat"})
ENDS = ("client", "server")
EARLY_BYTES = 12000
WAYS = (
    *("plain", "tls12", "seq", "cork", "partial", "again", "same", "range"),
    *("early", "update", "renew", "packet", "dtls"),
)
ONLY_IN = {"gnutls-3.7.1": ("beat",), "gnutls-3.7.9": ("file", "beat")}
"""Debian's 3.8 has no heartbeats, and 3.7.1 does not send files."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("ways") / "gnutls_ways"
    options = ("-O1", "-Wall", "-Wextra", "-Werror", "-o", built)
    run("gcc", *options, PROGRAMS / "c/gnutls_ways.c", "-ldl")
    return built


def version(way: str) -> str:
    """Return the protocol of a way's connection."""
    return {"dtls": "DTLS 1.2"}.get(way, "TLS 1.2" if way in OLDER else "TLS 1.3")


def known(ways: tuple[str, ...], engine: str) -> Counter[tuple[str, str | None]]:
    """Return role and protocol of each end.

    Early data is sent before probes can know the protocol; to a caller, GnuTLS tells the session's.
    """
    early = None if engine == "probes" else "TLS 1.3"
    return Counter((end, version(way)) for way in ways for end in ENDS) + Counter(
        [("client", early), ("server", "TLS 1.3")]
    )


def written(way: str, end: str) -> str:
    """Return what an end writes on a connection."""
    sizes = SIZES if way in LONGER else SIZES[:-1]
    return "".join(message(way, end, number, size) for number, size in enumerate(sizes))


def passed(ways: tuple[str, ...]) -> Counter[tuple[str, str]]:
    """Return what is written and read by each end of each connection."""
    client = {way: written(way, "client") for way in ways}
    server = {way: written(way, "server") for way in ways}
    pairs = [(client[way], server[way]) for way in ways]
    if "early" in ways:  # then a resumed connection begins with early data of the client
        words = "early: early client 0 "
        early = (words * (EARLY_BYTES // len(words) + 1))[:EARLY_BYTES]
        pairs.append((early + client["early"], server["early"]))
    return Counter(pair for own, other in pairs for pair in ((own, other), (other, own)))


@pytest.mark.parametrize("series", libraries.GNUTLS)
def test_each_byte_counts_once(
    series: str, program: Path, certificate: Certificate, tmp_path: Path, engine: str
) -> None:
    library = libraries.library(series)
    ways = (*WAYS, *ONLY_IN.get(series, ("file",)))
    ends = (library.path, certificate.certificate, certificate.key)
    command = (*library.loader, program, *ends, *ways)
    options = ("--chunks", "--ring-size", "64M")
    captured = run_under(tmp_path, *command, options=options, engine=engine).captured
    assert captured.not_probed == []
    assert (captured.of("loss"), captured.summary["lost_bytes"]) == ([], 0)
    expected = passed(ways)
    assert connections(captured, library="gnutls", joined=False) == expected.total()
    assert connections(captured, "closed", library="gnutls") == expected.total()
    opened = [each for each in captured.of("connection") if each["event"] == "opened"]
    facts = Counter((each["role"], each["tls_version"]) for each in opened)
    assert facts == known(ways, engine)
    assert seen(captured) == expected
