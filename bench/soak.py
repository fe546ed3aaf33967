"""``python -m bench.soak SECONDS``: nginx under wrk, Node.js, Python and Rust at once, all watched.

The figures go to ``soak.json``. Needs root; fails where a bar is missed.
"""

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import orjson

from bench import results
from bench.course import Course
from bench.loads import own_folder
from bench.nginx import running_nginx
from bench.rows import Row
from bench.sniffer import Running
from tests.workload.clients import python_client
from tests.workload.processes import PROGRAMS, run, say, started
from tests.workload.rust.fixtures import Fixture
from tests.workload.servers import Certificate, built_server, python_server

PATH = Path(__file__).with_name("soak.json")
_SAMPLES = 300
_PAUSE_S = 1.0
"""Between two rounds of a program's requests."""
_WRK = ("wrk", "-t1", "-c10", "-d10s")
_DELAY_MS = 20
_RUST = ("rustls-0-23-ring", "release")
_RUST_CONNECTIONS = ("1:4", "2:6")
_PYTHON_REQUESTS = 20
_BODY_BYTES = 1000  # told of each: what counts exchanges should not be the slowest


class _Load(NamedTuple):
    """What is watched, and ``make``, which makes exchanges and returns how many."""

    pids: list[int]
    make: Callable[[], int]


class _Told(threading.Thread):
    """Counts the whole ``exchanges`` of each load while sslsniff tells of them through ``pipe``."""

    def __init__(self, pipe: Path, names: dict[int, str]) -> None:
        super().__init__(daemon=True)
        self.pipe = pipe
        self.exchanges: Counter[str] = Counter()
        self.lost_bytes = -1
        self._names = names
        os.mkfifo(pipe)
        self.start()

    def run(self) -> None:
        """Read all that is told."""
        with self.pipe.open("rb") as lines:
            for told in map(orjson.loads, lines):
                if told["type"] == "exchange":
                    whole = told["error"] is None and not told["missing_bytes"]
                    self.exchanges[self._names[told["pid"]]] += whole
                elif told["type"] == "summary":
                    self.lost_bytes = told["lost_bytes"]


def measure(seconds: int) -> Iterator[Row]:
    """Make all loads at once for so long; each exchange must be seen, and memory stay as it is."""
    with ExitStack() as ending:
        folder, certificate = ending.enter_context(own_folder())
        loads = {
            "nginx": _nginx(ending, folder, certificate),
            "Node.js": _node(ending, certificate),
            "Python": _python(ending, certificate),
            "Rust": _rust(ending, certificate),
        }
        names = {pid: name for name, load in loads.items() for pid in load.pids}
        told = _Told(folder / "told", names)
        pids = [part for pid in names for part in ("--pid", str(pid))]
        sniffer = Running("--json", "--max-body", str(_BODY_BYTES), "-o", told.pipe, *pids)
        files = len(sniffer.files())
        with Course(sniffer, seconds / _SAMPLES) as course:
            made = _make_all(loads, seconds)
        more_files = len(sniffer.files()) - files
        most_mb = sniffer.memory_mb("VmHWM")
        sniffer.stop()
        told.join()
    what = f"{seconds:,} s of nginx, Node.js, Python and Rust"
    note = ", ".join(f"{name} {count:,}" for name, count in made.items())
    missing = sum(abs(made[name] - told.exchanges[name]) for name in loads)
    yield Row(f"{what}: exchanges", sum(made.values()), "", note=note)
    yield Row(f"{what}: exchanges not seen whole", missing, "", 0)
    yield Row(f"{what}: bytes lost", told.lost_bytes, "bytes", 0)
    yield Row(f"{what}: most memory", most_mb, "MB", course=tuple(course.samples))
    third, last = course.last_quarters()
    note = f"medians, from {third:.1f} to {last:.1f} MB"
    yield Row(f"{what}: grown between the last quarters", last - third, "MB", 0.5, note)
    yield Row(f"{what}: more open files at the end", more_files, "", 0)


def _make_all(loads: dict[str, _Load], seconds: int) -> Counter[str]:
    """Let each load make exchanges, all at once, until the time is over; return how many."""
    made: Counter[str] = Counter()
    failed: list[BaseException] = []
    end = time.monotonic() + seconds

    def repeat(name: str, load: _Load) -> None:
        try:
            while time.monotonic() < end:
                made[name] += load.make()
                time.sleep(_PAUSE_S)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=repeat, args=each) for each in loads.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return made


def _nginx(ending: ExitStack, folder: Path, certificate: Certificate) -> _Load:
    """Run nginx, which wrk asks again and again; what it logs is what it served."""
    log, pace = folder / "access.log", folder / "pace.lua"
    pace.write_text(f"function delay() return {_DELAY_MS} end\n")
    nginx = ending.enter_context(running_nginx(folder, certificate, str(log)))
    lines = ending.enter_context(log.open("rb"))

    def make() -> int:
        run(*_WRK, "-s", pace, nginx.url)
        return sum(1 for _ in lines)  # that are new

    return _Load(nginx.pids, make)


def _node(ending: ExitStack, certificate: Certificate) -> _Load:
    """Run a server on Node.js, and a new client again and again."""
    program = ("node", PROGRAMS / "node/node_http.js")
    server = ending.enter_context(
        started(*program, "server", certificate.certificate, certificate.key)
    )
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    client = (*program, "client", certificate.certificate, port)
    return _Load([server.pid], lambda: run(*client, stdin="go\n").count("\n"))


def _python(ending: ExitStack, certificate: Certificate) -> _Load:
    """Run a client in Python that keeps its connection."""
    server = ending.enter_context(python_server(certificate))
    client = ending.enter_context(python_client(server, certificate))

    def make() -> int:
        say(client, str(_PYTHON_REQUESTS))
        assert client.stdout is not None
        for count, line in enumerate(client.stdout):
            if line == "\n":
                return count
        raise RuntimeError("the Python client ended")

    return _Load([client.pid], make)


def _rust(ending: ExitStack, certificate: Certificate) -> _Load:
    """Run a server with rustls, and a new client again and again."""
    server = ending.enter_context(built_server(Fixture("server", *_RUST).path, certificate))
    client = Fixture("reqwest-client", *_RUST).path
    options = (str(server.port), certificate.certificate, *_RUST_CONNECTIONS)
    return _Load([server.pid], lambda: run(client, *options).count("\n"))


def main() -> int:
    return results.save_alone("soak", [*measure(int(sys.argv[1]))], PATH)


if __name__ == "__main__":
    sys.exit(main())
