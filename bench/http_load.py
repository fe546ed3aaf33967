"""Runs h2load and wrk, and tells what they measured."""

import contextlib
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

CONNECTIONS = 10
_STREAMS = 10
_MANY = 10_000_000
_H2LOAD_RATE = re.compile(r"^finished in .*, ([0-9.]+) req/s", re.MULTILINE)
_H2LOAD_DONE = re.compile(r"(\d+) succeeded, 0 failed, 0 errored, 0 timeout")
_WRK_RATE = re.compile(r"^Requests/sec: +([0-9.]+)$", re.MULTILINE)
_OPTIONS = {"HTTP/1.1": ["--h1"], "HTTP/2": [f"-m{_STREAMS}"]}
PROTOCOLS = tuple(_OPTIONS)


class Served(NamedTuple):
    """What a server did: responses, responses a second, and how long the slowest 1 % took."""

    responses: int
    rate: float
    p99_ms: float


def paced(url: str, protocol: str, rate: int, seconds: int) -> Served:
    """Ask ``rate`` times a second over ``CONNECTIONS`` connections."""
    return _h2load(url, protocol, rate * seconds, "--rps", str(rate / CONNECTIONS))


def paced_command(url: str, protocol: str, rate: int, seconds: int, log: Path) -> list[str]:
    """Return the command that asks as ``paced`` does."""
    each = str(rate / CONNECTIONS)
    return _h2load_command(url, protocol, rate * seconds, log, "--rps", each)


@contextlib.contextmanager
def steady(url: str, protocol: str, rate: int, log: Path) -> Iterator[None]:
    """Ask as ``paced`` does, until the end; ``times_in(log)`` then says how long that took."""
    each = str(rate / CONNECTIONS)
    command = _h2load_command(url, protocol, _MANY, log, "--rps", each)
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"h2load ended: exit code {process.returncode}")
    finally:
        process.terminate()
        process.wait()


def times_in(log: Path) -> list[tuple[float, float]]:
    """Return when each request began, in seconds since the epoch, and its milliseconds."""
    columns = (line.split("\t") for line in log.read_text().splitlines())
    return [(int(began_us) / 1e6, int(took_us) / 1e3) for began_us, _, took_us in columns]


def slowest_percent(times_ms: list[float]) -> float:
    """Return the time that the slowest 1 % took at least (p99)."""
    return sorted(times_ms)[len(times_ms) * 99 // 100]


def saturated(url: str, protocol: str, count: int) -> Served:
    """Ask ``count`` times, as fast as it goes."""
    return _h2load(url, protocol, count)


def wrk_rate(url: str, seconds: int) -> float:
    """Ask by HTTP/1.1 as fast as it goes; return responses a second."""
    said = _run("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", url)
    rate = _WRK_RATE.search(said)
    if rate is None or "Non-2xx" in said or "Socket errors" in said:
        raise RuntimeError(said)
    return float(rate[1])


def _h2load(url: str, protocol: str, count: int, *options: str) -> Served:
    with tempfile.NamedTemporaryFile("r", prefix="sslsniff-bench-") as log:
        said = _run(*_h2load_command(url, protocol, count, Path(log.name), *options))
        p99_ms = slowest_percent([took_ms for _, took_ms in times_in(Path(log.name))])
    rate, done = _H2LOAD_RATE.search(said), _H2LOAD_DONE.search(said)
    if rate is None or done is None:
        raise RuntimeError(said)
    return Served(int(done[1]), float(rate[1]), p99_ms)


def _h2load_command(url: str, protocol: str, count: int, log: Path, *options: str) -> list[str]:
    return [
        *("h2load", "-t1", f"-c{CONNECTIONS}", f"-n{count}", f"--log-file={log}"),
        *(*_OPTIONS[protocol], *options, url),
    ]


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout
