"""Filters of a live capture: by duration and by size, and what the summary says of them."""

from pathlib import Path

from tests.live.checks import run_under
from tests.workload.curl import Request, curl, results
from tests.workload.servers import Certificate, Server

PIECES = 40
SLOW_MS = 2 * PIECES
"""The server waits 2 ms for each piece of /slow."""
SLOW = Request("/slow", "POST", bytes(PIECES * 16384))
LARGE = Request("/bytes/200000")
OTHERS = [Request("/hello"), Request("/bytes/1000"), Request("/echo", "POST", b"few")]


def test_by_duration(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    asked = [*OTHERS, SLOW, *OTHERS]
    command = curl(server.url, asked, certificate, tmp_path, "--http1.1")
    captured = run_under(tmp_path, *command, options=(f"~slow {SLOW_MS}ms",)).captured
    assert "/slow" in {each["request"]["target"] for each in captured.exchanges}
    assert all(each["duration_ms"] >= SLOW_MS for each in captured.exchanges)
    summary = captured.summary
    assert (summary["exchanges"], summary["shown"]) == (len(asked), len(captured.exchanges))


def test_by_size(server: Server, certificate: Certificate, tmp_path: Path) -> None:
    """Of one connection with a match all plaintext is counted; of one without, none."""
    asked = [*OTHERS, SLOW, LARGE]
    command = curl(server.url, asked, certificate, tmp_path, "--http1.1")
    ran = run_under(tmp_path, *command, options=("~size 100k",))
    assert len(results(ran.stdout.decode(), asked)) == len(asked)
    captured = ran.captured
    assert [each["request"]["target"] for each in captured.exchanges] == ["/slow", "/bytes/200000"]
    summary = captured.summary
    assert (summary["shown"], summary["exchanges"]) == (2, len(asked))
    assert (summary["shown_connections"], summary["connections"]) == (1, 1)
    assert summary["shown_bytes"] == summary["bytes"] > len(SLOW.body)

    command = curl(server.url, OTHERS, certificate, tmp_path, "--http2")
    nothing = run_under(tmp_path, *command, options=("~size 100k",)).captured.summary
    assert (nothing["shown"], nothing["shown_connections"], nothing["shown_bytes"]) == (0, 0, 0)
    assert nothing["bytes"] > 0
