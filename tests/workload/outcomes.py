"""Outcomes for tests of what changes over time."""

from sslsniff.statistics.outcome import Outcome

START_NS = 1_800_000_000 * 10**9

_PLAIN = Outcome(
    time_ns=START_NS,
    duration_ns=5_000_000,
    first_byte_ns=3_000_000,
    host="example.org",
    path="/reserve/{}",
    method="POST",
    status=200,
    protocol="http/2",
    comm="nginx",
    pid=7,
    request_bytes=1,
    response_bytes=10,
    missing_bytes=0,
    error=None,
    role="server",
)


def outcome(
    time_ns: int, duration_ns: int | None, raw_path: str | None = None, *, is_failed: bool = False
) -> Outcome:
    """Return an exchange of ``POST /reserve/{}``."""
    return _PLAIN._replace(
        time_ns=time_ns,
        duration_ns=duration_ns,
        status=503 if is_failed else 200,
        raw_path=raw_path,
    )
