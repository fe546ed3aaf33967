"""What is lost and what is left of memory when much passes: bytes of both ends are compared."""

import contextlib
import hashlib
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from bench.loads import own_folder
from bench.rows import Row
from bench.sniffer import Running
from sslsniff.core.flows import Flows
from sslsniff.core.model import Chunk, Connection, Direction
from sslsniff.files.replay import ReplaySource
from tests.workload.load import EndOfLoad, Load, Receiver, parse_end
from tests.workload.processes import PROGRAMS, held

_PROGRAM = PROGRAMS / "c/load.c"
_LOADS = (
    ("100 MB in calls of 16 KiB", 6_400, 16 << 10),
    ("200,000 calls of 64 bytes", 200_000, 64),
    ("one call of 16 MiB", 1, 16 << 20),
)


class _Hash:
    """A ``flows.Listener``: the hash of all that passed on one connection."""

    def __init__(self) -> None:
        self.bytes = 0
        self.missing = 0
        self._hash = hashlib.sha256()

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Listener``."""

    def chunk(self, chunk: Chunk) -> None:
        """See ``Listener``."""
        self.bytes += len(chunk.data)
        self.missing += chunk.missing
        self._hash.update(chunk.data)

    def ended(self, connection: Connection, direction: Direction, time_ns: int) -> None:
        """See ``Listener``."""

    def handshake(self, handshake: object) -> None:
        """Ignore it."""

    def closed(self, connection: Connection, time_ns: int) -> None:
        """See ``Listener``."""

    def consumer(self, connection: Connection, direction: Direction) -> None:
        """See ``Listener``."""

    def consumed(self, count: int, time_ns: int) -> None:
        """See ``Listener``."""

    def tick(self, now_ns: int) -> None:
        """See ``Listener``."""

    def hexdigest(self) -> str:
        """Return the hash."""
        return self._hash.hexdigest()


def measure() -> Iterator[Row]:
    """Send loads through OpenSSL, unwatched and watched; read the captures back."""
    with own_folder() as (folder, certificate), _bystander() as stays:
        load = Load(folder / "load")
        subprocess.run(
            ["gcc", "-O2", "-o", load.program, _PROGRAM, "-lssl", "-lcrypto"], check=True
        )
        with load.receiver(certificate.certificate, certificate.key) as receiver:
            for what, calls, size in _LOADS:
                capture = folder / "capture.pcapng"
                yield from _one(load, receiver, stays, capture, what, calls, size)


def _one(
    load: Load, receiver: Receiver, stays: int, capture: Path, what: str, calls: int, size: int
) -> Iterator[Row]:
    sender = held(load.sender(receiver.port, calls, (calls, size)))
    unwatched_s, _ = _send(sender, receiver)
    sender = held(load.sender(receiver.port, calls, (calls, size)))
    sniffer = Running("--force", "--pcap", capture, "--pid", str(sender.pid), "--pid", str(stays))
    watched_s, sent = _send(sender, receiver)
    most_mb = sniffer.memory_mb("VmHWM")
    _, said = sniffer.stop()
    found = _read(capture)
    whole = (found.bytes, found.hexdigest()) == (sent.bytes, sent.sha256)
    note = "the hashes are equal" if whole else said.splitlines()[0]
    # Wrong bytes are as bad as none.
    lost = 0 if whole else sent.bytes - found.bytes or sent.bytes
    yield Row(f"{what}: bytes lost", lost, "bytes", 0, note)
    note = f"{calls / watched_s:,.0f} calls/s, {sent.bytes / watched_s / 1e6:,.1f} MB/s"
    yield Row(f"{what}: time", 1000 * watched_s, "ms", note=note)
    note = f"unwatched in all {1000 * unwatched_s:.0f} ms"
    yield Row(f"{what}: added a call", 1e6 * (watched_s - unwatched_s) / calls, "us", note=note)
    yield Row(f"{what}: resident memory", most_mb, "MB", 80, "the most of it")


def _send(sender: "subprocess.Popen[str]", receiver: Receiver) -> tuple[float, EndOfLoad]:
    """Let the sender go; return how long it takes until the receiver, never watched, has all."""
    started = time.perf_counter()
    out, _ = sender.communicate("go\n")
    got = receiver.next()
    took = time.perf_counter() - started
    sent = parse_end(out)
    if got.sha256 != sent.sha256:
        raise RuntimeError("what was received is not what was sent")
    return took, sent


@contextlib.contextmanager
def _bystander() -> Iterator[int]:
    """Run a process that is watched, too, so that sslsniff does not end with the other."""
    process = subprocess.Popen(["sleep", "600"])
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _read(capture: Path) -> _Hash:
    source = ReplaySource(capture)
    found = _Hash()
    flows = Flows(source.libraries, found)
    for event in source:
        flows.handle(event)
    return found
