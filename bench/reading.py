"""CPU and memory that ``sslsniff read`` takes, beside tshark on the same capture file.

And how much sooner it has read a large one by two processes (``--jobs 2``).
"""

import functools
import os
import random
import statistics
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple, TypeVar

from bench.rows import Row
from bench.sniffer import ENVIRONMENT, SSLSNIFF

_EXCHANGES = 30_000
_MANY_EXCHANGES = 300_000
_EXCHANGES_A_CONNECTION = 100
_TINY_PACKETS = 82_000
_BODY_BYTES = 100_000_000
_PACKET_BYTES = 1448  # what an Ethernet packet carries beside its headers

_CLIENT, _SERVER = b"\x0a\0\0\1", b"\x0a\0\0\2"
_SYN, _ACK, _FIN = 2, 16, 1
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


def small_exchanges(count: int) -> Iterator[bytes]:
    """Yield requests and responses, as a browser and a server send them, with their ACKs."""
    for number in range(count // _EXCHANGES_A_CONNECTION):
        flow = _Flow(20_000 + number, 80)
        yield from flow.opened()
        for n in range(_EXCHANGES_A_CONNECTION):
            request = f"GET /items/{n} HTTP/1.1\r\nHost: example.org\r\nAccept: */*\r\n\r\n"
            body = f'{{"item": {n}}}'
            response = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n\r\n{body}"
            yield flow.packet(0, request.encode())
            yield flow.packet(1, response.encode())
            yield flow.packet(0)
        yield from flow.closed()


def _tiny_packets() -> Iterator[bytes]:
    """Yield packets with a few bytes, such as a terminal sends."""
    bytes_of = random.Random(1)
    each = 1_000
    for number in range(_TINY_PACKETS // each):
        flow = _Flow(20_000 + number, 4_000)
        yield from flow.opened()
        for n in range(each - 5):
            yield flow.packet(n % 2, bytes_of.randbytes(bytes_of.randint(1, 12)))
        yield from flow.closed()


def _large_body() -> Iterator[bytes]:
    flow = _Flow(20_000, 80)
    yield from flow.opened()
    yield flow.packet(0, b"GET /large HTTP/1.1\r\nHost: example.org\r\n\r\n")
    yield flow.packet(1, b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % _BODY_BYTES)
    piece = bytes(range(256)) * 6
    for start in range(0, _BODY_BYTES, _PACKET_BYTES):
        yield flow.packet(1, piece[: min(_PACKET_BYTES, _BODY_BYTES - start)])
    yield from flow.closed()


class _Flow:
    """A TCP connection: makes its packets, Ethernet and IPv4 included."""

    def __init__(self, client_port: int, server_port: int) -> None:
        ports = struct.pack(">HH", client_port, server_port)
        self._ports = ports, ports[2:] + ports[:2]
        self._sent = [1_000, 2_000]

    def opened(self) -> Iterator[bytes]:
        yield self.packet(0, flags=_SYN)
        yield self.packet(1, flags=_SYN | _ACK)
        yield self.packet(0)

    def closed(self) -> Iterator[bytes]:
        yield self.packet(0, flags=_FIN | _ACK)
        yield self.packet(1, flags=_FIN | _ACK)

    def packet(self, side: int, data: bytes = b"", flags: int = _ACK) -> bytes:
        ips = (_CLIENT + _SERVER, _SERVER + _CLIENT)[side]
        acknowledged = self._sent[1 - side] if flags & _ACK else 0
        numbers = struct.pack(">II", self._sent[side], acknowledged)
        tcp = self._ports[side] + numbers + struct.pack(">BBHHH", 5 << 4, flags, 65_535, 0, 0)
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 40 + len(data), 0, 0, 64, 6, 0) + ips
        self._sent[side] += len(data) + bool(flags & (_SYN | _FIN))
        return bytes(12) + b"\x08\0" + ip + tcp + data


def write_capture(path: Path, packets: Iterable[bytes]) -> None:
    """Write a classic pcap file, a packet each 10 us."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, 1))
        for number, packet in enumerate(packets):
            seconds, rest = divmod(10 * number, 1_000_000)
            size = len(packet)
            file.write(struct.pack("<IIII", 1_700_000_000 + seconds, rest, size, size) + packet)
