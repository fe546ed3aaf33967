"""CPU and memory that ``sslsniff read`` takes, beside tshark on the same capture file.

And how much sooner it has read a large one by two processes (``--jobs 2``).
"""

import functools
import os
import random
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench.rows import Row
from bench.sniffer import ENVIRONMENT, SSLSNIFF
from tests.workload.packets import Flow, small_exchanges, write_capture

_EXCHANGES = 30_000
_MANY_EXCHANGES = 300_000
_TINY_PACKETS = 82_000
_BODY_BYTES = 100_000_000
_PACKET_BYTES = 1448  # what an Ethernet packet carries beside its headers

_MOST_CPU = 0.8
_MOST_MEMORY = 0.25
_LEAST_SOONER = 1.6
_TIMES = 3

_Figure = TypeVar("_Figure", float, "_Spent")


class _Spent(NamedTuple):
    """What a program took: seconds of user CPU, and megabytes of memory at most."""

    cpu_s: float
    memory_mb: float


def measure() -> Iterator[Row]:
    """Read small exchanges, few and many, tiny packets of an unknown protocol, and a large body."""
    with tempfile.TemporaryDirectory(prefix="sslsniff-bench-") as name:
        capture = Path(name, "capture.pcap")
        read: list[str | Path] = [SSLSNIFF, "read", "--json", capture]
        tshark: list[str | Path] = [
            "tshark",
            "-n",
            "-r",
            capture,
            "-T",
            "fields",
            "-e",
            "http.host",
        ]
        for what, packets, times in (
            (f"{_EXCHANGES:,} small exchanges", small_exchanges(_EXCHANGES), _TIMES),
            (f"{_TINY_PACKETS:,} tiny packets of an unknown protocol", _tiny_packets(), _TIMES),
            (f"a body of {_BODY_BYTES // 1_000_000} MB", _large_body(), 1),
        ):
            write_capture(capture, packets)
            own, other = _medians(times, lambda: _spent(read), lambda: _spent(tshark))
            cpu = f"{own.cpu_s:.2f} s, tshark {other.cpu_s:.2f} s"
            memory = f"{own.memory_mb:.0f} MB, tshark {other.memory_mb:.0f} MB"
            yield Row(f"read, {what}: CPU", own.cpu_s / other.cpu_s, "times", _MOST_CPU, cpu)
            share = own.memory_mb / other.memory_mb
            yield Row(f"read, {what}: memory", share, "times", _MOST_MEMORY, memory)
        write_capture(capture, small_exchanges(_MANY_EXCHANGES))
        for form, options in (("text", ()), ("JSON lines", ("--json",))):
            one: list[str | Path] = [SSLSNIFF, "read", *options, capture]
            two = [*one, "--jobs", "2"]
            one_s, two_s = _medians(
                _TIMES, functools.partial(_elapsed_s, one), functools.partial(_elapsed_s, two)
            )
            what = f"read --jobs 2, {_MANY_EXCHANGES:,} small exchanges, {form}: sooner"
            note = f"{two_s:.1f} s, one process {one_s:.1f} s"
            yield Row(what, one_s / two_s, "times", note=note, least=_LEAST_SOONER)


def _medians(times: int, *measures: Callable[[], _Figure]) -> list[_Figure]:
    """Measure in turns, an odd number of times, as the machine is slower at times."""
    turns = [[measure() for measure in measures] for _ in range(times)]
    return [statistics.median_low(figures) for figures in zip(*turns, strict=True)]


def _spent(command: list[str | Path]) -> _Spent:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{command[0]} ended with {process.returncode}")
    return _Spent(used.ru_utime, used.ru_maxrss * 1024 / 1e6)


def _elapsed_s(command: list[str | Path]) -> float:
    began = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, env=ENVIRONMENT, check=True)
    return time.perf_counter() - began


def _tiny_packets() -> Iterator[bytes]:
    """Yield packets with a few bytes, such as a terminal sends."""
    bytes_of = random.Random(1)
    each = 1_000
    for number in range(_TINY_PACKETS // each):
        flow = Flow(20_000 + number, 4_000)
        yield from flow.opened()
        for n in range(each - 5):
            yield flow.packet(n % 2, bytes_of.randbytes(bytes_of.randint(1, 12)))
        yield from flow.closed()


def _large_body() -> Iterator[bytes]:
    flow = Flow(20_000, 80)
    yield from flow.opened()
    yield flow.packet(0, b"GET /large HTTP/1.1\r\nHost: example.org\r\n\r\n")
    yield flow.packet(1, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % _BODY_BYTES)
    piece = bytes(range(256)) * 6
    for start in range(0, _BODY_BYTES, _PACKET_BYTES):
        yield flow.packet(1, piece[: min(_PACKET_BYTES, _BODY_BYTES - start)])
    yield from flow.closed()
