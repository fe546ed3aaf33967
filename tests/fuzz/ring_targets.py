"""A fuzzing target for shared memory: whatever programs write there, sslsniff names them."""

import contextlib
import io
import itertools
import mmap
import os
import random
import socket
import struct
import subprocess
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import atheris

with atheris.instrument_imports(include=["sslsniff.capture", "sslsniff.kernel", "sslsniff.core"]):
    from sslsniff.core.events import never
    from sslsniff.core.exchanges.exchange_builder import ExchangeBuilder
    from sslsniff.core.flows import Flows
    from sslsniff.kernel.memory.ring_set import RingSet
    from sslsniff.preload.preload_capture import PreloadCapture
    from sslsniff.preload.unseen_libraries import UnseenLibraries

from sslsniff.forms.json.json_lines import JsonSink
from sslsniff.outputs.pcap.capture_writer import PcapSink
from tests.unit.kernel.memory.ring_writer import PAGE, SIZE, make_memory, send

PROGRAMS = 3
_EDIT = struct.Struct("<BIQ")
"""Which program, where in its ring, and a word."""
# It ends with this process, whose end libFuzzer makes so that nothing of Python's runs.
COMMAND = subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
UNSEEN = UnseenLibraries(lambda _: None)


class Program:
    """A process that has a ring, which this process writes to; ``is_wild``: it does so itself."""

    def __init__(self, rings: RingSet, *, is_wild: bool) -> None:
        self._rings = rings
        self._link, link = socket.socketpair()
        self.pid = os.fork()
        if not self.pid:
            self._link.close()
            _serve(link, SimpleNamespace(address=rings.address), is_wild)
        link.close()
        self.renew()

    def renew(self) -> None:
        """Let the process send another ring, as a program does that it executes."""
        self._link.send(b"r")
        _, [fd], _, _ = socket.recv_fds(self._link, 1, 1)
        self.memory = mmap.mmap(fd, 2 * PAGE + SIZE)
        os.close(fd)


def _serve(link: socket.socket, rings: SimpleNamespace, is_wild: bool) -> None:
    memory, chosen = None, random.Random(1)
    while True:
        link.setblocking(memory is None or not is_wild)
        with contextlib.suppress(BlockingIOError):
            if not link.recv(1):
                os._exit(0)
            fd = make_memory()
            memory = mmap.mmap(fd, 2 * PAGE + SIZE)
            send(cast("RingSet", rings), fd)
            socket.send_fds(link, [b"r"], [fd])
            os.close(fd)
        if is_wild and memory is not None:
            at = chosen.choice((0, PAGE, 2 * PAGE, 2 * PAGE + 8 * chosen.randrange(SIZE // 8)))
            word = chosen.getrandbits(chosen.choice((8, 17, 31, 32, 64)))
            struct.pack_into("<Q", memory, at, word)


class _Watch:
    """What is watched by all runs: rings are sent again only where they were damaged."""

    def __init__(self) -> None:
        self.rings = RingSet(1 << 22, 1 << 20)
        self.notes: list[str] = []
        self.capture = PreloadCapture(
            self.rings, COMMAND.pid, note=self.notes.append, unseen=UNSEEN
        )
        self.programs = [
            Program(self.rings, is_wild=number == PROGRAMS) for number in range(PROGRAMS + 1)
        ]


_watches: list[_Watch] = []
"""One that is polled, and one whose capture ends in each run: it waits for no thread from then on.
"""
_SHORTCOMINGS = ("not finished", "not captured", "they count as open", "lost of handshakes")
"""What the end of a capture says of counts that a program may have written."""


def damaged_ring(data: bytes) -> None:
    """Read rings with ``data``: how many edits, these, and 8 bytes of a producer's position.

    The rest are the bytes of a ring, to which the edits are made while it is read. The first byte
    says how the capture ends, too: it goes on, it shows all, or it skips what is left after some
    events.
    """
    if not _watches:
        _watches.extend((_Watch(), _Watch()))
    first, rest = (data or b"\0")[0], data[1:]
    edits = [rest[at : at + _EDIT.size] for at in range(0, first % 8 * 13, 13)]
    rest = rest[len(edits) * _EDIT.size :]
    how, shown = first >> 3 & 3, itertools.count(-(first >> 5))
    watch = _watches[how > 0]
    for program in watch.programs[:PROGRAMS]:
        program.memory[PAGE : PAGE + 8] = rest[:8].ljust(8, b"\0")
        program.memory[2 * PAGE : 2 * PAGE + len(rest[8:])] = rest[8:]
    sinks = [PcapSink(io.BytesIO()), JsonSink(io.BytesIO())]
    flows = Flows(watch.capture.libraries, ExchangeBuilder(sinks), watch.capture.fast_path)
    for edit in (*edits, b""):
        for event in watch.capture.poll(0) if edit or how < 2 else ():
            flows.handle(event)
        if len(edit) == _EDIT.size:
            number, at, word = _EDIT.unpack(edit)
            memory = watch.programs[number % PROGRAMS].memory
            struct.pack_into("<Q", memory, at % (len(memory) - 8), word)
    if how:
        is_drained = never if how == 1 else lambda: next(shown) >= 0
        for event in watch.capture.finish(is_drained):
            flows.handle(event)
        assert all(loss.bytes >= 0 for loss in watch.capture.counted_losses())
    flows.finish()
    notes = [note for note in watch.notes if not any(each in note for each in _SHORTCOMINGS)]
    for number, program in enumerate(watch.programs):
        if number < PROGRAMS or any(f"[{program.pid}]" in note for note in notes):
            program.renew()
    assert all("overwrote the memory" in note for note in notes), notes
    watch.notes.clear()
    assert watch.rings.refused == 0


TARGETS: dict[str, Callable[[bytes], None]] = {"damaged_ring": damaged_ring}
