"""Tells the agent, which is another process, each second how a capture goes."""

import contextlib
import os
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from sslsniff.core.capture_figures import RunningCapture
from sslsniff.core.model import Chunk, Connection, Exchange
from sslsniff.core.sink import Sink

_EVERY_S = 1.0
_MEMORY = Path("/proc/self/statm")
_PAGE_BYTES = resource.getpagesize()


class StatusLines(Sink):
    """Writes a JSON object a second to the open file ``fd``, and one at the end.

    ``sinks``: where results go. Where nobody reads, lines are dropped.
    """

    wants_messages = False

    def __init__(self, fd: int, capture: RunningCapture, sinks: Sequence[Sink]) -> None:
        os.set_blocking(fd, False)
        self._fd = fd
        self._capture = capture
        self._sinks = sinks
        self._exchanges = self._connections = 0
        self._lost: dict[str, int] = {}
        self._next_s = 0.0

    def opened(self, connection: Connection, time_ns: int) -> None:
        """See ``Sink``."""
        self._connections += 1

    def exchange(self, exchange: Exchange) -> None:
        """See ``Sink``."""
        self._exchanges += 1

    def chunk(self, chunk: Chunk) -> None:
        """See ``Sink``: losses are counted."""
        if chunk.missing and chunk.cause is not None:
            cause = chunk.cause.value
            self._lost[cause] = self._lost.get(cause, 0) + chunk.missing

    def flush(self) -> None:
        """See ``Sink``."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + _EVERY_S
            self._write()

    def _write(self) -> None:
        figures = self._capture.figures()
        status: dict[str, Any] = {
            "exchanges": self._exchanges,
            "connections": self._connections,
            "left_out_connections": self._capture.left_out() or 0,
            "kept_share": figures.kept_share,
            "lost_bytes": self._lost,
            "probed_files": figures.files,
            "probes": figures.probes,
            "waiting_bytes": figures.waiting_bytes,
            "room_bytes": figures.room_bytes,
            "cpu_s": time.process_time(),
            "memory_bytes": int(_MEMORY.read_text().split()[1]) * _PAGE_BYTES,
            "deliveries": [each._asdict() for sink in self._sinks for each in sink.deliveries()],
        }
        with contextlib.suppress(OSError):
            os.write(self._fd, orjson.dumps(status) + b"\n")
