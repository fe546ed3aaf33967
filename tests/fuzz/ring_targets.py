"""A fuzzing target for shared memory: whatever programs write there, sslsniff says so and ends."""

import contextlib
import io
import mmap
import subprocess
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["sslsniff.live", "sslsniff.kernel", "sslsniff.tracing"]):
    from sslsniff.kernel.memory.shared_ring import SharedRing
    from sslsniff.live.preload.preload_capture import PreloadCapture
    from sslsniff.live.preload.unseen_libraries import UnseenLibraries
    from sslsniff.tracing.flows import Flows
    from sslsniff.tracing.tracer import Tracer

from sslsniff.sinks.capture_writer import PcapSink
from sslsniff.sinks.json_lines import JsonSink

RING_BYTES = 1 << 16
PAGE = mmap.PAGESIZE
# It ends with this process, whose end libFuzzer makes so that nothing of Python's runs.
COMMAND = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
UNSEEN = UnseenLibraries(lambda _: None)


def damaged_ring(data: bytes) -> None:
    """Read a ring with ``data``: 8 bytes of the producer's position, then those of the ring."""
    ring = SharedRing(RING_BYTES, 1 << 20)
    with (
        Path(ring.path).open("r+b") as file,
        mmap.mmap(file.fileno(), 2 * PAGE + RING_BYTES) as memory,
    ):
        memory[PAGE : PAGE + 8] = data[:8].ljust(8, b"\0")
        memory[2 * PAGE : 2 * PAGE + len(data[8:])] = data[8:]
    notes: list[str] = []
    capture = PreloadCapture(
        ring,
        COMMAND.pid,
        ring_bytes=RING_BYTES,
        note=notes.append,
        unseen=UNSEEN,
    )
    sinks = [PcapSink(io.BytesIO()), JsonSink(io.BytesIO())]
    flows = Flows(capture.libraries, Tracer(sinks), capture.fast_path)
    with contextlib.closing(capture):
        for _ in range(3):
            for event in capture.poll(0):
                flows.handle(event)
        for event in capture.finish():
            flows.handle(event)
        assert not ring.waiting_bytes or not notes


TARGETS: dict[str, Callable[[bytes], None]] = {"damaged_ring": damaged_ring}
