"""Runs h2load and wrk, and tells what they measured."""

import re
import subprocess
import tempfile
from typing import NamedTuple

CONNECTIONS = 10
_STREAMS = 10
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
    each = str(rate / CONNECTIONS)
    return _h2load(url, protocol, rate * seconds, "--rps", each)


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
        said = _run(
            *("h2load", "-t1", f"-c{CONNECTIONS}", f"-n{count}", f"--log-file={log.name}"),
            *(*_OPTIONS[protocol], *options, url),
        )
        took_us = sorted(int(line.split("\t")[2]) for line in log)
    rate, done = _H2LOAD_RATE.search(said), _H2LOAD_DONE.search(said)
    if rate is None or done is None:
        raise RuntimeError(said)
    return Served(int(done[1]), float(rate[1]), took_us[len(took_us) * 99 // 100] / 1000)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stdout + done.stderr)
    return done.stdout
